//! The real store: `openat` and its relatives (openat(2)) on a directory descriptor.
//!
//! Not here: any policy about what is stored or when it is synced.

use std::fs::{DirBuilder, TryLockError};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;
use std::sync::Arc;

use nix::dir::{self, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat, mkdirat};
use nix::sys::uio::pwritev;
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};

use crate::dir::{Access, Dir, Entry, EntryKind, File};
use crate::name::check_name;

/// Far above what any directory of ours holds; listing a directory that somebody fills without end still ends.
const MOST_ENTRIES: usize = 1 << 20;

/// A directory of the file system, held open by its descriptor: renaming or replacing what its path names does not
/// move it.
#[derive(Debug)]
pub struct FsDir {
    descriptor: OwnedFd,
}

impl FsDir {
    /// Opens an existing directory. The path itself is trusted configuration: links in it are followed, unlike
    /// everything below it.
    pub fn open(path: &Path) -> io::Result<Arc<dyn Dir>> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let descriptor = open(path, flags, Mode::empty())?;
        Ok(Arc::new(Self { descriptor }))
    }

    /// Opens a directory, making it and its missing parents first. What it makes has mode 0700; what exists keeps
    /// its mode.
    ///
    /// The names of what it makes are durable when it returns, and the name of the directory itself in any case, since
    /// whoever made it before may have died too soon; except in a directory that may not be read, which nobody can sync.
    pub fn create_all(path: &Path) -> io::Result<Arc<dyn Dir>> {
        let missing = |above: &&Path| !above.as_os_str().is_empty() && !above.is_dir();
        let made = path.ancestors().take_while(missing).count();
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        for above in path.ancestors().skip(1).take(made.max(1)) {
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            match Self::open(above).and_then(|above| above.sync()) {
                Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
                _ => {}
            }
        }
        Self::open(path)
    }

    fn open_regular(&self, name: &str, flags: OFlag, mode: Mode) -> io::Result<Arc<dyn File>> {
        check_name(name)?;
        // O_NONBLOCK does nothing to a regular file, and keeps a planted FIFO from blocking the open.
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let descriptor = openat(&self.descriptor, name, flags, mode)?;
        if kind(fstat(&descriptor)?.st_mode) != EntryKind::File {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Arc::new(FsFile { file: descriptor.into() }))
    }
}

impl Dir for FsDir {
    fn create_dir(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        check_name(name)?;
        mkdirat(&self.descriptor, name, Mode::S_IRWXU)?;
        self.open_dir(name)
    }

    fn open_dir(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        check_name(name)?;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let descriptor = openat(&self.descriptor, name, flags, Mode::empty())?;
        Ok(Arc::new(Self { descriptor }))
    }

    fn remove_dir(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        Ok(unlinkat(&self.descriptor, name, UnlinkatFlags::RemoveDir)?)
    }

    fn create_file(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL;
        self.open_regular(name, flags, Mode::S_IRUSR | Mode::S_IWUSR)
    }

    fn open_file(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let flags = match access {
            Access::Read => OFlag::O_RDONLY,
            Access::ReadWrite => OFlag::O_RDWR,
        };
        self.open_regular(name, flags, Mode::empty())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        Ok(renameat(&self.descriptor, from, &self.descriptor, to)?)
    }

    fn remove_file(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        Ok(unlinkat(&self.descriptor, name, UnlinkatFlags::NoRemoveDir)?)
    }

    fn list(&self) -> io::Result<Vec<Entry>> {
        // A fresh open file description: the position of a shared one would be moved by concurrent listings.
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut directory = dir::Dir::openat(&self.descriptor, ".", flags, Mode::empty())?;
        let mut entries = Vec::new();
        for entry in directory.iter() {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name == "." || name == ".." {
                continue;
            }
            if entries.len() == MOST_ENTRIES {
                return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "a directory has too many entries"));
            }
            let kind = match entry.file_type() {
                Some(Type::File) => EntryKind::File,
                Some(Type::Directory) => EntryKind::Dir,
                Some(_) => EntryKind::Other,
                None => match fstatat(&self.descriptor, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
                    Ok(status) => kind(status.st_mode),
                    Err(Errno::ENOENT) => continue,
                    Err(error) => return Err(error.into()),
                },
            };
            entries.push(Entry { name: name.to_owned(), kind });
        }
        Ok(entries)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(fsync(self.descriptor.as_fd())?)
    }
}

fn kind(mode: nix::libc::mode_t) -> EntryKind {
    match SFlag::from_bits_truncate(mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFREG => EntryKind::File,
        SFlag::S_IFDIR => EntryKind::Dir,
        _ => EntryKind::Other,
    }
}

/// A regular file of the file system.
#[derive(Debug)]
struct FsFile {
    file: std::fs::File,
}

impl File for FsFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(buf, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let offset = i64::try_from(offset)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "an offset beyond what files have"))?;
        loop {
            match pwritev(&self.file, bufs, offset) {
                Err(Errno::EINTR) => {}
                result => return Ok(result?),
            }
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn descriptor(&self) -> io::Result<Option<OwnedFd>> {
        Ok(Some(self.file.as_fd().try_clone_to_owned()?))
    }
}
