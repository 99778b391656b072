//! Whole small files: read with a bound, replaced atomically and durably, stale temporaries swept.
//!
//! Not here: what is in the files.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;

use crate::dir::{Access, Dir, EntryKind};

/// What the name of every temporary file begins with. A name of this kind that is there at start-up was left by a
/// crash, since one store has one writer.
pub const TEMPORARY_PREFIX: &str = ".tmp-";

/// How often a taken temporary name is tried anew; names are 64 random bits, so once is already rare.
const NAME_TRIES: usize = 8;

/// Reads a whole file of at most `max` bytes.
///
/// `FileTooLarge` when it is longer: it is then not read at all beyond the bound.
pub fn read_file(dir: &dyn Dir, name: &str, max: u64) -> io::Result<Vec<u8>> {
    let file = dir.open_file(name, Access::Read)?;
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, "a file is longer than it may be");
    let len = file.len()?;
    if len > max {
        return Err(too_large());
    }
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| too_large())?];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64)? {
            0 => break, // it became shorter meanwhile
            read => filled += read,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Replaces the content of `name` so that after a crash at any moment the old or the new content is there, whole:
/// temporary file, write, sync, rename, sync of the directory (rename(2), fsync(2)). Durable when it returns.
///
/// On an error before the rename the old content stays and the temporary file is removed; an error of the last
/// step leaves the new content visible and its durability unknown.
pub fn replace_file(dir: &dyn Dir, name: &str, bytes: &[u8]) -> io::Result<()> {
    place_file(dir, name, bytes)?;
    dir.sync()
}

/// As [`replace_file`] without its last step: the new content is on disk, and under this name once the directory is
/// synced. For several changes of names that one sync makes durable.
pub fn place_file(dir: &dyn Dir, name: &str, bytes: &[u8]) -> io::Result<()> {
    let (temporary, file) = create_temporary(dir)?;
    let written =
        file.write_all_at(bytes, 0).and_then(|()| file.sync()).and_then(|()| dir.rename(&temporary, name));
    if let Err(error) = written {
        // What cannot be removed now is swept at the next start; the first error is the one to report.
        let _ = dir.remove_file(&temporary);
        return Err(error);
    }
    Ok(())
}

fn create_temporary(dir: &dyn Dir) -> io::Result<(String, std::sync::Arc<dyn crate::File>)> {
    let mut tries = 0;
    loop {
        // The keys of `RandomState` come from the operating system, which is enough for names that must not clash.
        let random = RandomState::new().build_hasher().finish();
        let name = format!("{TEMPORARY_PREFIX}{random:016x}");
        match dir.create_file(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < NAME_TRIES => tries += 1,
            result => return result.map(|file| (name, file)),
        }
    }
}

/// Removes the temporary files that a crash left behind, and says how many there were.
///
/// Only the one writer of the directory may call it, while it replaces nothing.
pub fn sweep_temporaries(dir: &dyn Dir) -> io::Result<usize> {
    let mut swept = 0;
    for entry in dir.list()? {
        if entry.kind == EntryKind::File && entry.name.starts_with(TEMPORARY_PREFIX) {
            match dir.remove_file(&entry.name) {
                Ok(()) => swept += 1,
                // The replacement that it belonged to was finished, or somebody else swept it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    if swept > 0 {
        dir.sync()?;
    }
    Ok(swept)
}
