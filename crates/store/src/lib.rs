//! The few file operations that durable formats need, as a small trait and the real thing.
//!
//! A [`Dir`] is a private directory held open by a descriptor; everything below it is reached relative to that
//! descriptor, one validated name at a time, and no symbolic link is followed. Directories are made with mode 0700
//! and files with 0600. A [`File`] is read and written at explicit offsets, so it has no shared position and any
//! number of threads can use it. [`FsDir`] is the real store; another implementation of the two traits can refuse
//! writes, or lose what was not synced, and so show that a format survives it.
//!
//! Every call blocks on the file system. This crate is not a virtual file system: it has no paths below a
//! directory, no metadata, no buffering and no formats. It is for Unix, where a directory can be held by a descriptor.
//!
//! ```
//! use procyard_store::{FsDir, read_file, replace_file};
//!
//! # fn main() -> std::io::Result<()> {
//! # let place = tempfile::tempdir()?;
//! let sessions = FsDir::create_all(&place.path().join("sessions"))?;
//! let session = sessions.create_dir("one")?;
//! replace_file(&*session, "anchor.json", b"{}")?; // atomic and durable when it returns
//! assert_eq!(read_file(&*session, "anchor.json", 4096)?, b"{}");
//! # Ok(())
//! # }
//! ```

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
