//! The concurrent cores of the supervisor, in every interleaving of a few threads.
//!
//! The cores are compiled into this program with loom's mutex in the place of the usual one. A wake-up that is lost is a
//! thread that waits for ever, which loom reports as a deadlock.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../src/claims.rs"]
mod claims;
#[path = "../../src/course.rs"]
#[expect(dead_code, reason = "the cores are whole, the models use parts of them")]
mod course;
#[path = "../../src/waiters.rs"]
mod waiters;

mod bell;
mod telling;
mod waking;

use procyard_supervisor::{Notice, NoticeKind};

mod sync {
    pub(super) use std::sync::PoisonError;

    pub(super) use loom::sync::{Mutex, MutexGuard};
}
