//! Who may hold a workspace at the same time as whom.
//!
//! | holds ↓ asks → | reading process | writing process | structured write | checkpoint |
//! |---|---|---|---|---|
//! | reading process | yes | yes | yes | yes |
//! | writing process | yes | yes | unless its paths overlap | no |
//! | structured write | yes | unless its paths overlap | unless their paths overlap | no |
//! | checkpoint | yes | no | no | no |
//!
//! Two paths overlap when they are the same or one is above the other, component by component; broad write access
//! overlaps everything.
//!
//! Not for waiting: a refused holder is told at once, whoever wraps the table may ask again. Not for enforcing
//! either: a lease coordinates those who ask.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::{ErrorCode, WorkspaceAccess};

/// Who asks for a workspace, and for how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseHolder {
    /// A process, for its whole life. Processes never exclude each other.
    Process(WorkspaceAccess),
    /// A short write by an editing tool to these absolute, normalised paths.
    StructuredWrite {
        /// The paths.
        paths: Vec<PathBuf>,
    },
    /// A snapshot of the workspace, or its restoration.
    Checkpoint,
}

/// The kind of a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeaseKind {
    /// See [`LeaseHolder::Process`].
    Process,
    /// See [`LeaseHolder::StructuredWrite`].
    StructuredWrite,
    /// See [`LeaseHolder::Checkpoint`].
    Checkpoint,
}

/// A lease that was granted. Not `Clone`: giving it back is once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a lease that is dropped is never given back; hand it to `release`"]
pub struct Lease {
    number: u64,
}

/// A lease that was refused: somebody holds what it needs. The message does not say who.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the workspace is busy; try again when what runs there has ended")]
pub struct LeaseConflict {
    /// What kind of holder is in the way.
    pub with: LeaseKind,
}

impl LeaseConflict {
    /// The code that a refused caller gets.
    pub const fn code(&self) -> ErrorCode {
        ErrorCode::WorkspaceBusy
    }
}

impl LeaseHolder {
    /// The kind.
    pub const fn kind(&self) -> LeaseKind {
        match self {
            LeaseHolder::Process(_) => LeaseKind::Process,
            LeaseHolder::StructuredWrite { .. } => LeaseKind::StructuredWrite,
            LeaseHolder::Checkpoint => LeaseKind::Checkpoint,
        }
    }

    /// Whether the two cannot hold the workspace at the same time. Symmetric.
    ///
    /// ```
    /// use procyard_core::{LeaseHolder, WorkspaceAccess};
    ///
    /// let tests = LeaseHolder::Process(WorkspaceAccess::ScopedWrite { paths: vec!["/w/target".into()] });
    /// let edit = |path: &str| LeaseHolder::StructuredWrite { paths: vec![path.into()] };
    /// assert!(tests.excludes(&edit("/w/target/debug/log")) && tests.excludes(&edit("/w")));
    /// assert!(!tests.excludes(&edit("/w/src/lib.rs")) && !tests.excludes(&edit("/w/target-2")));
    /// assert!(!tests.excludes(&tests), "processes coexist");
    /// ```
    pub fn excludes(&self, other: &LeaseHolder) -> bool {
        use LeaseHolder::{Checkpoint, Process, StructuredWrite};
        match (self, other) {
            (Process(_), Process(_)) => false,
            (Process(access), StructuredWrite { paths }) | (StructuredWrite { paths }, Process(access)) => {
                match access {
                    WorkspaceAccess::ReadOnly => false,
                    WorkspaceAccess::ScopedWrite { paths: scope } => any_overlap(scope, paths),
                    WorkspaceAccess::BroadWrite => true,
                }
            }
            (StructuredWrite { paths: ours }, StructuredWrite { paths: theirs }) => any_overlap(ours, theirs),
            (Checkpoint, Process(access)) | (Process(access), Checkpoint) => access.is_writable(),
            (Checkpoint, Checkpoint | StructuredWrite { .. }) | (StructuredWrite { .. }, Checkpoint) => true,
        }
    }
}

fn any_overlap(some: &[PathBuf], others: &[PathBuf]) -> bool {
    some.iter().any(|one| others.iter().any(|other| overlap(one, other)))
}

/// Whether one path is the other, above it or below it. What cannot be compared by its text, because it is relative
/// or has a `..`, overlaps everything.
fn overlap(one: &Path, other: &Path) -> bool {
    let comparable =
        |path: &Path| path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
    !comparable(one) || !comparable(other) || one.starts_with(other) || other.starts_with(one)
}

/// The leases of one workspace. Pure: whoever shares it guards it.
///
/// Asking costs one comparison for each lease held.
///
/// ```
/// use procyard_core::{LeaseHolder, LeaseKind, LeaseTable, WorkspaceAccess};
///
/// let mut table = LeaseTable::default();
/// let build = table.acquire(&LeaseHolder::Process(WorkspaceAccess::BroadWrite)).unwrap();
/// let refused = table.acquire(&LeaseHolder::Checkpoint).unwrap_err();
/// assert_eq!(refused.with, LeaseKind::Process);
/// table.release(build);
/// let snapshot = table.acquire(&LeaseHolder::Checkpoint).unwrap();
/// # table.release(snapshot);
/// # assert!(table.is_empty());
/// ```
#[derive(Debug, Default)]
pub struct LeaseTable {
    held: BTreeMap<u64, LeaseHolder>,
    next: u64,
}

impl LeaseTable {
    /// Grants a lease, or says what is in the way: the oldest lease that excludes it. A refusal changes nothing.
    pub fn acquire(&mut self, holder: &LeaseHolder) -> Result<Lease, LeaseConflict> {
        if let Some(other) = self.held.values().find(|other| other.excludes(holder)) {
            return Err(LeaseConflict { with: other.kind() });
        }
        let number = self.next;
        self.next += 1;
        self.held.insert(number, holder.clone());
        Ok(Lease { number })
    }

    /// Gives a lease back.
    pub fn release(&mut self, lease: Lease) {
        self.held.remove(&lease.number);
    }

    /// Whether nobody holds anything.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// How many leases are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(paths: &[&str]) -> LeaseHolder {
        LeaseHolder::Process(WorkspaceAccess::ScopedWrite {
            paths: paths.iter().map(PathBuf::from).collect(),
        })
    }

    fn edit(paths: &[&str]) -> LeaseHolder {
        LeaseHolder::StructuredWrite { paths: paths.iter().map(PathBuf::from).collect() }
    }

    #[test]
    fn paths_are_compared_by_component_and_what_cannot_be_compared_overlaps() {
        for (one, other, expected) in [
            ("/w/a", "/w/a", true),
            ("/w/a", "/w/a/b/c", true),
            ("/w/a/b/c", "/w/a", true),
            ("/", "/w", true),
            ("/w/a", "/w/ab", false),
            ("/w/a", "/w/b", false),
            ("/w/a/", "/w//a/.", true),
            ("/w/a/../b", "/x", true),
            ("a", "/x", true),
            ("", "/x", true),
        ] {
            assert_eq!(overlap(Path::new(one), Path::new(other)), expected, "{one} {other}");
            assert_eq!(overlap(Path::new(other), Path::new(one)), expected, "{other} {one}");
        }
    }

    #[test]
    fn the_table_of_who_excludes_whom_is_the_documented_one() {
        let reader = LeaseHolder::Process(WorkspaceAccess::ReadOnly);
        let broad = LeaseHolder::Process(WorkspaceAccess::BroadWrite);
        let (scoped, inside, outside) = (process(&["/w/a"]), edit(&["/x", "/w/a/b"]), edit(&["/w/c"]));
        let checkpoint = LeaseHolder::Checkpoint;
        for (one, others) in [
            (&reader, &[][..]),
            (&broad, &[&inside, &outside, &checkpoint][..]),
            (&scoped, &[&inside, &checkpoint]),
            (&inside, &[&broad, &scoped, &inside, &checkpoint]),
            (&outside, &[&broad, &outside, &checkpoint]),
            (&checkpoint, &[&broad, &scoped, &inside, &outside, &checkpoint]),
        ] {
            for other in [&reader, &broad, &scoped, &inside, &outside, &checkpoint] {
                assert_eq!(one.excludes(other), others.contains(&other), "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn a_refusal_names_a_kind_and_nobody() {
        let mut table = LeaseTable::default();
        let lease = table.acquire(&process(&["/home/me/secret"])).unwrap();
        let refused = table.acquire(&LeaseHolder::Checkpoint).unwrap_err();
        assert_eq!((refused.with, refused.code()), (LeaseKind::Process, ErrorCode::WorkspaceBusy));
        assert!(!refused.to_string().contains("secret"));
        table.release(lease);
        assert!(table.is_empty());
    }
}
