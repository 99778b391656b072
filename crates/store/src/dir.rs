//! The store port: what a durable format may ask of a directory and of a file, and nothing more.
//!
//! Not here: how it is done ([`FsDir`](crate::FsDir)), and recipes built from it ([`replace_file`](crate::replace_file)).

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// For reading alone.
    Read,
    /// For reading and writing.
    ReadWrite,
}

/// What a name in a directory stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// Anything else: a symbolic link, a socket, a device. None of them can be opened through this crate.
    Other,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name: one path component.
    pub name: String,
    /// What it stands for.
    pub kind: EntryKind,
}

/// A private directory.
///
/// A name is one path component of 1 to 255 bytes: no `/`, no NUL, not `.` or `..`; anything else is
/// `InvalidInput`. No symbolic link is followed. Every method blocks on the file system.
pub trait Dir: Send + Sync + Debug {
    /// Makes a directory with mode 0700 and opens it. `AlreadyExists` when the name is taken.
    fn create_dir(&self, name: &str) -> io::Result<Arc<dyn Dir>>;

    /// Opens a directory. `NotFound` when there is none; an error when the name is not a directory.
    fn open_dir(&self, name: &str) -> io::Result<Arc<dyn Dir>>;

    /// Removes an empty directory.
    fn remove_dir(&self, name: &str) -> io::Result<()>;

    /// Makes a file with mode 0600, open for reading and writing. `AlreadyExists` when the name is taken.
    fn create_file(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Opens a regular file. `NotFound` when there is none; `InvalidInput` when it is something else.
    fn open_file(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>>;

    /// Renames within the directory, replacing `to` atomically when it exists.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Those who hold it open can go on reading it.
    fn remove_file(&self, name: &str) -> io::Result<()>;

    /// Lists the directory, in no order. Names that are not UTF-8 are left out: nothing of ours has such a name.
    fn list(&self) -> io::Result<Vec<Entry>>;

    /// Makes the names in the directory durable (`fsync` of the directory): what was created, renamed and removed.
    fn sync(&self) -> io::Result<()>;
}

/// An open file, read and written at explicit offsets.
#[expect(clippy::len_without_is_empty, reason = "the length of a file costs a call and can fail")]
pub trait File: Send + Sync + Debug {
    /// Reads up to `buf.len()` bytes at `offset`; 0 at or beyond the end. May read short.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`. After an error any part of them may have been written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Writes the buffers one after another at `offset` in one call and says how many bytes were taken. May write
    /// short: a caller goes on with the rest. At most 1,024 buffers (`IOV_MAX` of Linux).
    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;

    /// Cuts the file, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Makes content and length durable (`fdatasync`).
    fn sync(&self) -> io::Result<()>;

    /// Takes an exclusive advisory lock (`flock`) without waiting: `false` when another open file holds it. It is
    /// held until the last descriptor of this open file is closed, inherited ones and [`descriptor`](Self::descriptor)
    /// included.
    fn try_lock(&self) -> io::Result<bool>;

    /// A duplicate of the descriptor, close-on-exec, sharing its lock; `None` for a store without descriptors.
    fn descriptor(&self) -> io::Result<Option<OwnedFd>>;
}
