//! The few file operations that durable formats need, as a small trait and the real thing.
//!
//! For code that keeps files whose loss matters, and wants to show that it does that right. A [`Dir`] is a private directory
//! held open by a descriptor; everything below it is reached relative to that descriptor, one validated name at a time, and
//! no symbolic link is followed, so that nobody who renames or plants something redirects a write. Directories are made with
//! mode 0700 and files with 0600. A [`File`] is read and written at explicit offsets, so it has no shared position and any
//! number of threads can use it. [`FsDir`] is the real store; another implementation of the two traits can refuse
//! writes, or lose what was not synced, and so show that a format survives it.
//!
//! # Replacing a file
//!
//! ```
//! use procyard_store::{FsDir, read_file, replace_file, sweep_temporaries};
//!
//! # fn main() -> std::io::Result<()> {
//! # let place = tempfile::tempdir()?;
//! let sessions = FsDir::create_all(&place.path().join("sessions"))?;
//! let session = sessions.create_dir("one")?;
//! sessions.sync()?; // a name is durable once its directory is synced
//! replace_file(&*session, "state.json", b"{}")?; // atomic and durable when it returns
//! assert_eq!(read_file(&*session, "state.json", 4096)?, b"{}");
//! assert!(read_file(&*session, "state.json", 1).is_err(), "never more than was asked for");
//!
//! // At the next start: what a crash left of replacements.
//! assert_eq!(sweep_temporaries(&*session)?, 0);
//! # Ok(())
//! # }
//! ```
//!
//! # One holder
//!
//! ```
//! use procyard_store::{Access, FsDir};
//!
//! # fn main() -> std::io::Result<()> {
//! # let place = tempfile::tempdir()?;
//! let dir = FsDir::open(place.path())?;
//! let lock = dir.create_file("lock")?;
//! assert!(lock.try_lock()?);
//! assert!(!dir.open_file("lock", Access::ReadWrite)?.try_lock()?, "it is held");
//! // A duplicate of the descriptor, given to a child, keeps it locked after this process is gone.
//! let for_a_child = lock.descriptor()?;
//! # drop(for_a_child);
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//!
//! | call | after the death of the process | after a power cut |
//! |---|---|---|
//! | [`File::write_all_at`], [`File::write_vectored_at`], [`File::set_len`] | there | unknown, in any part, until [`File::sync`] |
//! | [`Dir::create_file`], [`Dir::create_dir`], [`Dir::rename`], [`Dir::remove_file`] | there | done or not, until [`Dir::sync`] of that directory |
//! | [`replace_file`] | old or new content, whole | the new content, once it returned |
//!
//! These are the promises of a local file system that honours `fsync(2)`. Every call blocks on the file system and none is
//! retried; `EINTR` is the only error that is handled here.
//!
//! This crate is not a virtual file system: it has no paths below a directory, no metadata, no buffering and no formats. It
//! is for Unix, where a directory can be held by a descriptor.

#[cfg(not(unix))]
compile_error!("procyard-store holds directories by descriptor and needs a Unix system");

mod dir;
mod fs;
mod name;
mod replace;

pub use dir::{Access, Dir, Entry, EntryKind, File};
pub use fs::FsDir;
pub use name::check_name;
pub use replace::{TEMPORARY_PREFIX, place_file, read_file, replace_file, sweep_temporaries};
