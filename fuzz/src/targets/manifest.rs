//! Manifests of any content: what loads is valid, and is written as it was read.

use procyard_manifest::Manifest;

pub(crate) fn manifest(data: &[u8]) {
    let Ok(manifest) = Manifest::from_json(data) else { return };
    manifest.check().expect("what loads is valid");
    let written = manifest.to_json().expect("what loads can be written");
    let again = Manifest::from_json(&written).expect("what was written loads");
    assert_eq!(again.to_json().expect("it can be written again"), written);
    for event in manifest.events() {
        assert!(!format!("{event:?}").is_empty());
    }
}
