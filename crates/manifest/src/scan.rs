//! What a session's directory holds when its supervisor starts.
//!
//! Not for restoring: the scan says what is there, a supervisor decides what becomes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use procyard_core::Handle;
use procyard_store::{EntryKind, sweep_temporaries};

use crate::error::LoadError;
use crate::name::{Named, draft_name, manifest_name, read, spool_name};
use crate::record::Manifest;
use crate::store::{Draft, ManifestStore};

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
    /// What it reports is durable, drafts apart: a process that died between the last two steps of a save left a manifest
    /// that is seen and that a power cut could take back, after somebody had acted on it.
    ///
    /// One bad entry is reported and hides no other. Blocks on the file system; costs one read for each manifest. Only
    /// the one writer of the directory may call it, before it saves anything.
    pub fn scan(&self) -> io::Result<Scan> {
        let mut scan = Scan { swept_temporaries: sweep_temporaries(self.dir())?, ..Scan::default() };
        self.dir().sync()?;
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
            self.sweep(&draft_name(handle), &mut scan.swept_temporaries)?;
        }
        scan.manifests.reserve(manifests.len());
        for (handle, kind) in manifests {
            let name = manifest_name(&handle);
            match self.scan_one(&name, &handle, kind, drafts.contains(&handle), &mut scan.swept_temporaries) {
                Ok(manifest) => scan.manifests.push(manifest),
                Err(LoadError::Newer { version }) => scan.newer.push((name, version)),
                Err(error) => scan.corrupt.push((name, error)),
            }
        }
        scan.manifests.sort_by_key(|manifest| (manifest.created_at, manifest.identity.handle));
        scan.corrupt.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(scan)
    }

    fn scan_one(
        &self,
        name: &str,
        handle: &Handle,
        kind: EntryKind,
        has_draft: bool,
        swept: &mut usize,
    ) -> Result<Manifest, LoadError> {
        if kind != EntryKind::File {
            return Err(LoadError::Corrupt { why: "it is not a regular file".to_owned() });
        }
        let manifest = self.read_one(name, handle)?;
        if !has_draft {
            return Ok(manifest);
        }
        match self.draft_after(&manifest)? {
            Draft::None => Ok(manifest),
            Draft::Follows(later) => Ok(*later),
            Draft::Stale => {
                self.sweep(&draft_name(handle), swept).map_err(LoadError::Io)?;
                Ok(manifest)
            }
        }
    }

    /// Removes what a crash left; somebody else may have been faster.
    fn sweep(&self, name: &str, swept: &mut usize) -> io::Result<()> {
        match self.dir().remove_file(name) {
            Ok(()) => *swept += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
