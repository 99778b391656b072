//! Manifests on disk: created once, replaced whole, checked against what is stored.
//!
//! Not for deciding what a process is: the store refuses what may not follow, and keeps the rest.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use procyard_core::{Handle, SessionId};
use procyard_store::{Dir, TEMPORARY_PREFIX, place_file, read_file, replace_file};

use crate::error::{LoadError, ManifestError};
use crate::format::MANIFEST_MAX;
use crate::name::{draft_name, manifest_name};
use crate::record::Manifest;

/// Saves of one handle take turns; those of different handles go side by side unless they share a stripe.
const STRIPES: usize = 64;

/// What a save waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The manifest is on disk when the call returns: it survives a power cut. Two waits for the disk.
    #[default]
    Synced,
    /// The manifest survives the death of this process, and a power cut may bring the last synced one back. No wait
    /// for the disk. Meant for `running`, which a restore treats as `starting`, and for markers, whose loss means that
    /// something is published once more under the same ID. The step into a terminal state is always synced.
    Written,
}

/// The manifests of one session. Clones share everything.
///
/// Every call blocks on the file system. The store is the only writer of its directory; the lock of a
/// [`SessionRoot`](crate::SessionRoot) sees to that. What was last saved of each handle is kept in memory, so a save
/// reads nothing; [`ManifestStore::load`] and [`ManifestStore::scan`] always read the disk.
///
/// ```
/// use procyard_core::*;
/// use procyard_manifest::{AccessRecord, CommandRecord, Manifest, ManifestStore, StableIds};
/// use procyard_store::FsDir;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let mut seed = 0;
/// # let mut random = |bytes: &mut [u8; 16]| { seed += 1; *bytes = [seed; 16]; true };
/// let store = ManifestStore::new(FsDir::open(place.path())?);
/// let owner = Owner { session: SessionId::from_random([1; 16]), loop_id: LoopId::from_random([2; 16]) };
/// let origin = Origin { execution: ExecutionId::from_random([3; 16]) };
/// let handle = Handle::generate(&mut random, |_| false)?;
/// let command = CommandRecord::line("make -j8", "/home/me/project");
/// let ids = StableIds::generate(&mut random)?;
/// let now = Timestamp::from_system_time(std::time::SystemTime::now());
///
/// let identity = Identity { handle, owner, origin };
/// let mut manifest = Manifest::new(identity, command, AccessRecord::BroadWrite, ids, now);
/// store.create(&manifest)?;
/// manifest.state = State::Running;
/// manifest.started_at = Some(now);
/// store.save(&manifest)?;
/// assert_eq!(store.load(&handle)?, manifest);
///
/// manifest.state = State::Starting;
/// assert!(store.save(&manifest).is_err(), "nothing goes back");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ManifestStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    dir: Arc<dyn Dir>,
    session: Option<SessionId>,
    /// What is stored, by handle. A stripe is held over the write of a save, never by a reader.
    stripes: [Mutex<HashMap<Handle, Stored>>; STRIPES],
}

/// What is on disk for one handle.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) manifest: Manifest,
    /// Whether a draft lies beside the manifest.
    draft: bool,
}

/// What lies beside a manifest.
pub(crate) enum Draft {
    None,
    /// It is torn, or older than the manifest.
    Stale,
    /// It is whole and later.
    Follows(Box<Manifest>),
}

impl ManifestStore {
    /// The manifests in `dir`.
    pub fn new(dir: Arc<dyn Dir>) -> Self {
        Self::over(dir, None)
    }

    /// The manifests in `dir`, of which none may belong to another session.
    pub(crate) fn over(dir: Arc<dyn Dir>, session: Option<SessionId>) -> Self {
        let stripes = std::array::from_fn(|_| Mutex::default());
        Self { shared: Arc::new(Shared { dir, session, stripes }) }
    }

    pub(crate) fn dir(&self) -> &dyn Dir {
        &*self.shared.dir
    }

    /// Saves the first manifest of a process, durably. Refuses when there is one already, in whatever condition.
    pub fn create(&self, manifest: &Manifest) -> Result<(), ManifestError> {
        let bytes = self.encode(manifest)?;
        let handle = manifest.identity.handle;
        let mut stripe = self.stripe(&handle);
        let taken = stripe.contains_key(&handle)
            || match self.dir().open_file(&manifest_name(&handle), procyard_store::Access::Read) {
                Ok(_) => true,
                Err(error) => error.kind() != io::ErrorKind::NotFound,
            };
        if taken {
            return Err(ManifestError::AlreadyExists);
        }
        replace_file(self.dir(), &manifest_name(&handle), &bytes).map_err(ManifestError::Io)?;
        stripe.insert(handle, Stored { manifest: manifest.clone(), draft: false });
        Ok(())
    }

    /// Saves a later manifest of a process, durably: temporary file, sync, rename, sync of the directory.
    ///
    /// Validates it by itself and against the stored one; a manifest that does not load is never overwritten, one
    /// that was removed does not come back.
    pub fn save(&self, manifest: &Manifest) -> Result<(), ManifestError> {
        self.save_with(manifest, Durability::Synced)
    }

    /// As [`ManifestStore::save`], waiting for what `durability` says.
    ///
    /// A written manifest goes into a *draft* beside the last synced one, since a rename whose content was not
    /// synced may, after a power cut, leave a file without content. A draft is believed when its checksum is right and
    /// it may follow the manifest; the next synced save removes it.
    pub fn save_with(&self, manifest: &Manifest, durability: Durability) -> Result<(), ManifestError> {
        let bytes = self.encode(manifest)?;
        let handle = manifest.identity.handle;
        let mut stripe = self.stripe(&handle);
        let stored = match stripe.remove(&handle) {
            Some(stored) => stored,
            None => self.read(&handle)?,
        };
        if let Err(refusal) = manifest.check_update(&stored.manifest) {
            stripe.insert(handle, stored);
            return Err(refusal);
        }
        // After a failed write the entry stays out of the map: the next save finds out what is on disk.
        let ends = manifest.state.is_terminal() && !stored.manifest.state.is_terminal();
        let draft = durability == Durability::Written && !ends;
        if draft {
            write_draft(self.dir(), &draft_name(&handle), &bytes).map_err(ManifestError::Io)?;
        } else {
            self.save_synced(manifest, &bytes, &stored).map_err(ManifestError::Io)?;
        }
        stripe.insert(handle, Stored { manifest: manifest.clone(), draft });
        Ok(())
    }

    /// Replaces a manifest and removes its draft, with one sync for both names: a draft of before that came back after
    /// a power cut could pass for a later one.
    fn save_synced(&self, manifest: &Manifest, bytes: &[u8], stored: &Stored) -> io::Result<()> {
        let handle = &manifest.identity.handle;
        place_file(self.dir(), &manifest_name(handle), bytes)?;
        if stored.draft {
            match self.dir().remove_file(&draft_name(handle)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // One that may not follow what was just saved is not believed, and can stay.
                Err(_) if stored.manifest.check_update(manifest).is_err() => {}
                removed => removed?,
            }
        }
        self.dir().sync()
    }

    /// Reads a manifest from the disk and checks it.
    pub fn load(&self, handle: &Handle) -> Result<Manifest, LoadError> {
        self.read(handle).map(|stored| stored.manifest)
    }

    /// Removes a manifest, durably, whether or not it loads; one that is missing is removed already. The spool of the
    /// process is removed after that: a crash between leaves an orphan that [`ManifestStore::scan`] reports.
    pub fn remove(&self, handle: &Handle) -> io::Result<()> {
        let mut stripe = self.stripe(handle);
        stripe.remove(handle);
        for name in [manifest_name(handle), draft_name(handle)] {
            match self.dir().remove_file(&name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.dir().sync()
    }

    fn encode(&self, manifest: &Manifest) -> Result<Vec<u8>, ManifestError> {
        if self.shared.session.is_some_and(|session| manifest.identity.owner.session != session) {
            return Err(ManifestError::Invalid { field: "owner", problem: "is of another session" });
        }
        manifest.to_json()
    }

    fn stripe(&self, handle: &Handle) -> MutexGuard<'_, HashMap<Handle, Stored>> {
        // Handles are random, so any of their bytes spreads them evenly.
        let stripe = usize::from(handle.as_bytes()[0]) % STRIPES;
        self.shared.stripes[stripe].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, handle: &Handle) -> Result<Stored, LoadError> {
        let manifest = self.read_one(&manifest_name(handle), handle)?;
        Ok(match self.draft_after(&manifest)? {
            Draft::None => Stored { manifest, draft: false },
            Draft::Stale => Stored { manifest, draft: true },
            Draft::Follows(later) => Stored { manifest: *later, draft: true },
        })
    }

    /// What lies beside `manifest`. One of a later version, or one that cannot be read, may be what counts: then
    /// nobody can say what does.
    pub(crate) fn draft_after(&self, manifest: &Manifest) -> Result<Draft, LoadError> {
        let handle = &manifest.identity.handle;
        match self.read_one(&draft_name(handle), handle) {
            Ok(draft) if draft.check_update(manifest).is_ok() => Ok(Draft::Follows(Box::new(draft))),
            Ok(_) | Err(LoadError::Corrupt { .. }) => Ok(Draft::Stale),
            Err(LoadError::Missing) => Ok(Draft::None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn read_one(&self, name: &str, handle: &Handle) -> Result<Manifest, LoadError> {
        let bytes = read_file(self.dir(), name, MANIFEST_MAX).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => LoadError::Missing,
            io::ErrorKind::FileTooLarge => LoadError::Corrupt { why: "it is too long".to_owned() },
            io::ErrorKind::InvalidInput => LoadError::Corrupt { why: "it is not a regular file".to_owned() },
            _ => LoadError::Io(error),
        })?;
        let manifest = Manifest::decode(bytes)?;
        let foreign = self.shared.session.is_some_and(|session| session != manifest.identity.owner.session);
        if foreign || manifest.identity.handle != *handle {
            let whose = if foreign { "another session" } else { "another process" };
            return Err(LoadError::Corrupt { why: format!("it belongs to {whose}") });
        }
        Ok(manifest)
    }
}

/// Replaces a draft so that the death of this process leaves the old or the new one, without waiting for the disk.
fn write_draft(dir: &dyn Dir, name: &str, bytes: &[u8]) -> io::Result<()> {
    // One writer at a time: whoever calls holds the stripe of the handle, so a file of this name is a leftover.
    let temporary = format!("{TEMPORARY_PREFIX}{name}");
    let file = match dir.create_file(&temporary) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            dir.remove_file(&temporary)?;
            dir.create_file(&temporary)?
        }
        file => file?,
    };
    let written = file.write_all_at(bytes, 0).and_then(|()| dir.rename(&temporary, name));
    if written.is_err() {
        // What cannot be removed now is swept at the next start; the first error is the one to report.
        let _ = dir.remove_file(&temporary);
    }
    written
}
