//! Durable, versioned records of supervised processes, and the session directory that holds them.
//!
//! - [`Manifest`]: the record of one process, with the rules of what is valid and what may follow what;
//! - [`ManifestStore`]: manifests on disk, replaced atomically, scanned at start-up;
//! - [`SessionRoot`]: the private directory of a session, anchored and locked.
//!
//! ```
//! use procyard_core::*;
//! use procyard_manifest::{AccessRecord, CommandRecord, LoadError, Manifest, StableIds};
//!
//! let owner = Owner { session: SessionId::from_random([1; 16]), loop_id: LoopId::from_random([2; 16]) };
//! let identity = Identity {
//!     handle: Handle::from_bytes([3; 16]),
//!     owner,
//!     origin: Origin { execution: ExecutionId::from_random([4; 16]) },
//! };
//! let mut seed = 5;
//! let ids = StableIds::generate(|bytes| { seed += 1; *bytes = [seed; 16]; true }).unwrap();
//! let command = CommandRecord::argv(&["cargo", "test"], "/work").labelled("tests");
//! let admitted = Timestamp::from_unix_micros(1_700_000_000_000_000);
//! let manifest = Manifest::new(identity, command, AccessRecord::BroadWrite, ids, admitted);
//!
//! let file = manifest.to_json().unwrap();
//! assert_eq!(Manifest::from_json(&file).unwrap(), manifest);
//! assert!(matches!(Manifest::from_json(&file[1..]), Err(LoadError::Corrupt { .. })));
//! ```
//!
//! # On disk
//!
//! ```text
//! <data>/sessions/<session-id>/
//!   anchor.json                 whose directory it is; checked before anything else
//!   lock                        held by the one supervisor of the session
//!   <handle>.manifest.json      one for each process
//!   <handle>.draft.json         a later state of it that did not wait for the disk
//!   <handle>.spool/             the output of the process
//! ```
//!
//! Files say their version first and carry a checksum, so that damage, a later version and absence are three
//! different errors. Nothing that a manifest says of an operating-system process can be read back through this crate.
//!
//! Not here: output (spools), published events (the journal), and what to do about a process that a crash left
//! behind (the supervisor). Every call that touches the disk blocks.

mod anchor;
mod check;
mod error;
mod events;
mod format;
mod name;
mod record;
mod scan;
mod sealed;
mod session;
mod store;

pub use anchor::{AnchorSettings, Ceilings};
pub use error::{LoadError, ManifestError, SessionError};
pub use format::MANIFEST_MAX;
pub use name::{manifest_name, spool_name};
pub use record::{
    AccessRecord, COMMAND_MAX, CommandRecord, IdempotencyRecord, LABEL_MAX, Manifest, Markers, PATHS_MAX,
    SpoolBounds, StableIds, StdinRecord, StopRecord, TEARDOWN_MAX, TRANSFERS_MAX, TerminalRecord, Transfer,
    VERSION, WORD_MAX, WORKDIR_MAX,
};
pub use scan::Scan;
pub use session::SessionRoot;
pub use store::{Durability, ManifestStore};
