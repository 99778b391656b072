//! What the concurrent cores are built from, under one name, so that their tests can put loom's in its place.

pub(super) use std::sync::{Mutex, MutexGuard, PoisonError};
