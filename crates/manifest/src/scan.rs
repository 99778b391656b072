//! What a session's directory holds when its supervisor starts.
//!
//! Not for restoring: the scan says what is there, a supervisor decides what becomes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use procyard_store::{EntryKind, sweep_temporaries};

use crate::error::LoadError;
use crate::name::{Named, draft_name, manifest_name, read, spool_name};
use crate::record::Manifest;
use crate::store::ManifestStore;

/// What [`ManifestStore::scan`] found.
#[derive(Debug, Default)]
pub struct Scan {
    /// The manifests that load, oldest first.
    pub manifests: Vec<Manifest>,
    /// File names of manifests that do not load, and why. Neither they nor their spools are touched.
    pub corrupt: Vec<(String, LoadError)>,
    /// File names of manifests of a later format, and its version. Neither they nor their spools are touched.
    pub newer: Vec<(String, u64)>,
    /// Names of spools without a manifest, whose removal a crash interrupted: safe to remove.
    pub orphan_spools: Vec<String>,
    /// How many temporary files and stale drafts were removed.
    pub swept_temporaries: usize,
}

impl ManifestStore {
    /// Lists the directory, reads every manifest and sweeps what a crash left. Opens no spool.
    ///
    /// One bad entry is reported and hides no other. Blocks on the file system; costs one read for each manifest. Only
    /// the one writer of the directory may call it, before it saves anything.
    pub fn scan(&self) -> io::Result<Scan> {
        let mut scan = Scan { swept_temporaries: sweep_temporaries(self.dir())?, ..Scan::default() };
        let (mut manifests, mut drafts, mut spools) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        for entry in self.dir().list()? {
            match (read(&entry.name), entry.kind) {
                (Named::Manifest(handle), kind) => {
                    manifests.insert(handle, kind);
                }
                (Named::Draft(handle), EntryKind::File) => {
                    drafts.insert(handle);
                }
                (Named::Spool(handle), EntryKind::Dir) => {
                    spools.insert(handle);
                }
                (Named::Nameless, _) => {
                    let why = "its name is not a handle".to_owned();
                    scan.corrupt.push((entry.name, LoadError::Corrupt { why }));
                }
                _ => {}
            }
        }
        scan.orphan_spools =
            spools.iter().filter(|handle| !manifests.contains_key(handle)).map(spool_name).collect();
        for handle in drafts.iter().filter(|handle| !manifests.contains_key(handle)) {
            self.sweep(&draft_name(handle), &mut scan)?;
        }
        scan.manifests.reserve(manifests.len());
        for (handle, kind) in manifests {
            let name = manifest_name(&handle);
            let loaded = if kind == EntryKind::File {
                self.read_one(&name, &handle)
            } else {
                Err(LoadError::Corrupt { why: "it is not a regular file".to_owned() })
            };
            match loaded {
                Ok(manifest) if drafts.contains(&handle) => {
                    let draft_name = draft_name(&handle);
                    match self.read_one(&draft_name, &handle) {
                        Ok(draft) if draft.check_update(&manifest).is_ok() => scan.manifests.push(draft),
                        _ => {
                            self.sweep(&draft_name, &mut scan)?;
                            scan.manifests.push(manifest);
                        }
                    }
                }
                Ok(manifest) => scan.manifests.push(manifest),
                Err(LoadError::Newer { version }) => scan.newer.push((name, version)),
                Err(error) => scan.corrupt.push((name, error)),
            }
        }
        scan.manifests.sort_by_key(|manifest| (manifest.created_at, manifest.identity.handle));
        scan.corrupt.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(scan)
    }

    fn sweep(&self, name: &str, scan: &mut Scan) -> io::Result<()> {
        self.dir().remove_file(name)?;
        scan.swept_temporaries += 1;
        Ok(())
    }
}
