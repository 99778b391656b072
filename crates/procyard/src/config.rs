//! Configuration: what is set, by whom, and what follows for the crates that this program puts together.
//!
//! `keys` is the one table of what there is; `kind` and `level` say what a value may be, `nearest` what a misspelt name was
//! meant to be; `sources` brings defaults, file,
//! environment and flags together; `effect` turns the result into the settings of the inner crates; `show` prints it;
//! `page` writes the page of the documentation.
//!
//! Not for where sessions are kept, which only the command line and the environment say: the file may be shared.

mod effect;
mod file;
mod keys;
mod kind;
mod level;
mod mistake;
mod nearest;
#[cfg(test)]
mod page;
mod show;
mod sources;

pub(crate) use keys::{Config, Log};
pub(crate) use kind::LogFormat;
pub(crate) use mistake::Mistake;
pub(crate) use nearest::nearest;
pub(crate) use show::show;
pub(crate) use sources::{ConfigOptions, Effective, Flag};
