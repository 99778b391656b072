//! The rules that every other layer of procyard follows: who a process is, what states it may pass through, what it
//! may take, what may be said about it, and in which words things go wrong.
//!
//! For whoever supervises processes for somebody else, in whatever way, and wants the meaning without the machinery: the
//! types carry the rules, and a supervisor that is written anew on top of them says the same things on the wire.
//! Everything here is pure: no I/O, no clock, no runtime, no global state. Time and randomness are handed in, whoever shares
//! a value guards it, and nothing blocks.
//!
//! - [`Handle`], [`Owner`], [`Identity`]: capability, authority, provenance;
//! - [`State`], [`Causes`], [`Outcome`]: the life of a process, and which cause owns its end;
//! - [`Limits`], [`QuotaLedger`]: bounds, and what is taken of them;
//! - [`WorkspaceAccess`], [`LeaseTable`]: what of a workspace a process may write, and who may hold it with whom;
//! - [`ErrorCode`], [`PublicError`]: the closed taxonomy of errors;
//! - [`LifecycleEvent`]: the closed matrix of events.
//!
//! # Naming
//!
//! ```
//! use procyard_core::{GenerateError, Handle};
//!
//! # let os_random = |bytes: &mut [u8; 16]| { *bytes = [7; 16]; true };
//! // 128 random bits from a source that is handed in; tried again a few times if it is taken, which does not happen.
//! let handle = Handle::generate(os_random, |_| false)?;
//! assert_eq!(handle.reveal().len(), 22);
//! assert_eq!(format!("{handle:?}").chars().count(), 5, "logs see four characters of it");
//! assert_eq!(Handle::generate(|_| false, |_| false), Err(GenerateError::Random));
//! # Ok::<(), GenerateError>(())
//! ```
//!
//! # Deciding how it ended
//!
//! ```
//! use procyard_core::{Causes, LeaderEnd, Requester, State, StopKind, WaitStatus};
//!
//! // A build was told to terminate and chose to exit 0 on SIGTERM: it was terminated, not "exited 0".
//! let mut causes = Causes::default();
//! causes.delivered(StopKind::Terminate, Requester::Owner);
//! let verdict = causes.decide(WaitStatus::exited(0).end());
//! let state = State::Running.advance(verdict.state.into()).unwrap();
//! assert_eq!(state, State::Terminated);
//! assert!(state.advance(State::Exited).is_err(), "nothing follows a terminal state");
//! # assert_eq!(LeaderEnd::Code(0), WaitStatus::exited(0).end());
//! ```
//!
//! # Bounding what it takes
//!
//! ```
//! use procyard_core::{ErrorCode, LimitSettings, LoopId, Owner, QuotaLedger, QuotaRequest, SessionId};
//!
//! let limits = LimitSettings { spool_bytes_total: 100, ..Default::default() }.resolve()?;
//! assert_eq!(limits.spool_bytes, 100, "a default gives way to a smaller explicit value");
//! let owner = Owner { session: SessionId::from_random([1; 16]), loop_id: LoopId::from_random([2; 16]) };
//! let mut ledger = QuotaLedger::new(&limits);
//! let request = QuotaRequest { window_bytes: 10, spool_bytes: 60 };
//! let running = ledger.reserve(owner, request).unwrap();
//! assert_eq!(ledger.reserve(owner, request).unwrap_err().code(), ErrorCode::OutputQuotaExceeded);
//! let kept = ledger.retain(running, 25); // it ended, and its output takes so much
//! assert_eq!(ledger.usage().retained_bytes, 25);
//! ledger.forget(kept);
//! assert!(ledger.usage().is_zero());
//! # Ok::<(), procyard_core::InvalidSetting>(())
//! ```
//!
//! Not for supervising anything: there is no process, file or timer in this crate.

mod access;
mod cause;
mod effective;
mod error;
mod handle;
mod identity;
mod lease;
mod ledger;
mod lifecycle;
mod limits;
mod outcome;
mod signal;
mod state;
mod stream;
#[cfg(test)]
mod testing;
mod time;

pub use access::WorkspaceAccess;
pub use cause::{Causes, Requester, StopKind, Verdict};
pub use effective::{EffectiveLimits, Enforcement, NOT_ENFORCED_MAX};
pub use error::{Effects, ErrorCode, PublicError};
pub use handle::{GENERATE_RETRIES, GenerateError, HANDLE_TEXT_LEN, Handle, ParseHandleError};
pub use identity::{
    EventId, ExecutionId, IdError, Identity, LoopId, NotificationId, Origin, Owner, SessionId,
};
pub use lease::{Lease, LeaseConflict, LeaseHolder, LeaseKind, LeaseTable};
pub use ledger::{QuotaLedger, QuotaRequest, Refusal, Reservation, Retained, Usage, Waiter};
pub use lifecycle::{EventKind, LifecycleEvent, MatrixError, Reason, matrix_admits};
pub use limits::{InvalidSetting, LimitSettings, Limits};
pub use outcome::{DIAGNOSTIC_MAX, LeftoverAction, Leftovers, Outcome, SUPERVISION_LOST, cut};
pub use signal::{LeaderEnd, SIGINT, SIGKILL, SIGTERM, SignalNumber, WaitStatus};
pub use state::{InvalidTransition, State, TerminalState};
pub use stream::Stream;
pub use time::Timestamp;
