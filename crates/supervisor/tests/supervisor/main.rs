//! The supervisor on a scripted runner, through its public surface; one program, so that it is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed unwrap is a failed test")]

mod common;

mod attend;
mod close_loop;
mod drain;
mod ends;
mod fault_matrix;
mod fault_matrix_outside;
mod feeding;
mod idempotent;
mod input;
mod isolation;
mod lease;
mod leases;
mod life;
mod limits;
mod live;
mod model;
mod notices;
mod power_cut;
mod quota;
mod remove;
mod restore;
mod retain;
mod scale;
mod services;
mod sessions;
mod shutdown;
mod storage;
mod telling;
mod transfer;
mod wait;
