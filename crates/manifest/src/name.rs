//! The names of a process's files in its session directory.
//!
//! Not for paths: names are opened relative to a directory that is already open.

use procyard_core::Handle;

const MANIFEST: &str = ".manifest.json";
const DRAFT: &str = ".draft.json";
const SPOOL: &str = ".spool";

/// The directory with a process's output: `<handle>.spool`.
pub fn spool_name(handle: &Handle) -> String {
    format!("{}{SPOOL}", handle.reveal())
}

/// The manifest of a process: `<handle>.manifest.json`.
pub fn manifest_name(handle: &Handle) -> String {
    format!("{}{MANIFEST}", handle.reveal())
}

/// A later manifest of a process that did not wait for the disk: `<handle>.draft.json`.
pub(crate) fn draft_name(handle: &Handle) -> String {
    format!("{}{DRAFT}", handle.reveal())
}

/// What a name stands for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Manifest(Handle),
    Draft(Handle),
    Spool(Handle),
    /// It ends like a manifest and names no process.
    Nameless,
    Other,
}

pub(crate) fn read(name: &str) -> Named {
    if let Some(handle) = name.strip_suffix(MANIFEST) {
        return handle.parse().map_or(Named::Nameless, Named::Manifest);
    }
    for (suffix, named) in [(DRAFT, Named::Draft as fn(Handle) -> Named), (SPOOL, Named::Spool)] {
        if let Some(Ok(handle)) = name.strip_suffix(suffix).map(str::parse) {
            return named(handle);
        }
    }
    Named::Other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_as_what_it_was_made_for() {
        let handle = Handle::from_bytes([0xfb; 16]);
        assert_eq!(read(&manifest_name(&handle)), Named::Manifest(handle));
        assert_eq!(read(&draft_name(&handle)), Named::Draft(handle));
        assert_eq!(read(&spool_name(&handle)), Named::Spool(handle));
        assert_eq!(read("x.manifest.json"), Named::Nameless);
        for other in ["anchor.json", "lock", "journal.sqlite3", "x.spool", "x.draft.json", ""] {
            assert_eq!(read(other), Named::Other, "{other:?}");
        }
    }
}
