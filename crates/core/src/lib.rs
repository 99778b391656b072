//! The rules that every other layer of procyard follows: who a process is, what states it may pass through, what it
//! may take, what may be said about it, and in which words things go wrong.
//!
//! Everything here is pure: no I/O, no clock, no runtime. Time and randomness are handed in. A supervisor that
//! is written anew can take this crate and keep the same meaning on the wire.
//!
//! - [`Handle`], [`Owner`], [`Identity`]: capability, authority, provenance;
//! - [`State`], [`Causes`], [`Outcome`]: the life of a process, and which cause owns its end;
//! - [`Limits`], [`QuotaLedger`]: bounds, and what is taken of them;
//! - [`WorkspaceAccess`], [`LeaseTable`]: what of a workspace a process may write, and who may hold it with whom;
//! - [`ErrorCode`], [`PublicError`]: the closed taxonomy of errors;
//! - [`LifecycleEvent`]: the closed matrix of events.
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
