//! Durable, versioned records of supervised processes, and the session directory that holds them.
//!
//! For a supervisor of any kind that must know, after its own sudden death, what it had started and how that ended, and for
//! programs that look at what it left. It has three parts:
//!
//! - [`Manifest`]: the record of one process, with the rules of what is valid ([`Manifest::check`]) and what may follow what
//!   ([`Manifest::check_update`]); both are pure;
//! - [`ManifestStore`]: manifests on disk, replaced atomically, never backward, scanned at start-up;
//! - [`SessionRoot`]: the private directory of a session, anchored and locked, so that two supervisors never share one.
//!
//! The files are documented byte by byte (`docs/manifest-format.md` in the repository), and are JSON that a person can read.
//!
//! # Recording a life
//!
//! ```
//! use std::time::Duration;
//! use procyard_core::*;
//! use procyard_manifest::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let place = tempfile::tempdir()?;
//! # let data = place.path();
//! # let mut seed = 5;
//! # let mut random = |bytes: &mut [u8; 16]| { seed += 1; *bytes = [seed; 16]; true };
//! let session = SessionId::from_random([1; 16]);
//! let ceilings = Ceilings { spool_bytes: 64 << 20, spool_bytes_total: 2 << 30 };
//! let settings = AnchorSettings { provider: "example".to_owned(), ceilings };
//! let root = SessionRoot::open_or_create(data, session, settings.clone(), Duration::from_secs(5))?;
//! let store = root.manifests();
//!
//! // Admitted: everything that may ever be announced has its id before anything happens.
//! let identity = Identity {
//!     handle: Handle::generate(&mut random, |_| false)?,
//!     owner: Owner { session, loop_id: LoopId::from_random([2; 16]) },
//!     origin: Origin { execution: ExecutionId::from_random([4; 16]) },
//! };
//! let command = CommandRecord::argv(&["cargo", "test"], "/work").labelled("tests");
//! let now = Timestamp::from_unix_micros(1_700_000_000_000_000);
//! let ids = StableIds::generate(&mut random)?;
//! let mut manifest = Manifest::new(identity, command, AccessRecord::BroadWrite, ids, now);
//! store.create(&manifest)?;
//!
//! // Running: need not wait for the disk, since after a power cut it is as lost as a starting one.
//! manifest.state = State::Running;
//! manifest.started_at = Some(now);
//! store.save_with(&manifest, Durability::Written)?;
//!
//! // Ended: durable when this returns, and only then to be announced.
//! let outcome = Outcome::diagnosed(Reason::Failed, "out of memory");
//! manifest.finish(State::Failed, outcome, now);
//! store.save(&manifest)?;
//! assert_eq!(manifest.events().len(), 2, "started and completed, each under its id");
//!
//! manifest.state = State::Running;
//! assert!(store.save(&manifest).is_err(), "nothing goes back");
//! # Ok(())
//! # }
//! ```
//!
//! # After a restart
//!
//! ```
//! # use std::time::Duration;
//! # use procyard_core::*;
//! # use procyard_manifest::*;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let place = tempfile::tempdir()?;
//! # let data = place.path();
//! # let ceilings = Ceilings { spool_bytes: 64 << 20, spool_bytes_total: 2 << 30 };
//! # let settings = AnchorSettings { provider: "example".to_owned(), ceilings };
//! # drop(SessionRoot::open_or_create(data, SessionId::from_random([1; 16]), settings.clone(), Duration::ZERO)?);
//! for session in SessionRoot::list_sessions(data)? {
//!     let root = SessionRoot::open(data, session, settings.clone(), Duration::ZERO)?;
//!     let scan = root.manifests().scan()?;
//!     for manifest in &scan.manifests {
//!         // What is not terminal was running when its supervisor died: say that it is lost. No PID tells otherwise.
//!         println!("{:?} {}", manifest.identity.handle, manifest.state);
//!     }
//!     for (name, why) in &scan.corrupt {
//!         println!("{name} is left as it is: {why}");
//!     }
//! }
//! # Ok(())
//! # }
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
//! different errors ([`LoadError`]). What does not load is never overwritten, and hides nothing else. Nothing that a manifest
//! says of an operating-system process can be read back through this crate.
//!
//! | save | after the death of the process | after a power cut |
//! |---|---|---|
//! | [`ManifestStore::create`], [`ManifestStore::save`] | the new record, once it returned; old or new, whole, before | the same |
//! | [`ManifestStore::save_with`] [`Durability::Written`] | the same | the last synced record or any written since, whole |
//!
//! Every call that touches the disk blocks. A synced save costs two waits for the disk, a written one none; a load reads one
//! file, a scan one for each process (10,000 in far less than a second). What was last saved is kept in memory, so that a
//! save reads nothing.
//!
//! Not here: output (spools), published events (the journal), and what to do about a process that a crash left
//! behind (the supervisor).

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
    AccessRecord, COMMAND_MAX, CommandRecord, IdempotencyRecord, KEY_MAX, LABEL_MAX, Manifest, Markers,
    PATHS_MAX, SpoolBounds, StableIds, StdinRecord, StopRecord, TEARDOWN_MAX, TRANSFERS_MAX, TerminalRecord,
    Transfer, VERSION, WORD_MAX, WORKDIR_MAX,
};
pub use scan::Scan;
pub use session::SessionRoot;
pub use store::{Durability, ManifestStore};
