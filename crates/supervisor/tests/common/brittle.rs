//! A directory whose writes fail when a test says so, over a real one.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use procyard_store::{Access, Dir, Entry, File, FsDir};

/// What fails, from now on and until the count is used up.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// How many writes to files fail: the disk is full.
    pub(crate) writes: AtomicU32,
    /// How many writes go through before that.
    pub(crate) spared: AtomicU32,
    /// How many syncs of the root directory fail.
    pub(crate) syncs: AtomicU32,
    /// How many directories inside the root were opened.
    pub(crate) opened: AtomicU32,
}

impl Faults {
    pub(crate) fn fail_writes(&self, count: u32) {
        self.writes.store(count, Ordering::SeqCst);
    }

    pub(crate) fn fail_syncs(&self, count: u32) {
        self.syncs.store(count, Ordering::SeqCst);
    }

    /// The next write goes through, the one after it fails.
    pub(crate) fn fail_second_write(&self) {
        self.spared.store(1, Ordering::SeqCst);
        self.fail_writes(1);
    }

    /// The disk is full after so many writes.
    pub(crate) fn fail_after(&self, writes: u32) {
        self.spared.store(writes, Ordering::SeqCst);
        self.fail_writes(u32::MAX);
    }

    fn write_fails(&self) -> bool {
        !Self::take(&self.spared) && Self::take(&self.writes)
    }

    fn take(count: &AtomicU32) -> bool {
        count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }
}

#[derive(Debug)]
pub(crate) struct BrittleDir {
    inner: Arc<dyn Dir>,
    faults: Arc<Faults>,
}

#[derive(Debug)]
struct BrittleFile {
    inner: Arc<dyn File>,
    faults: Arc<Faults>,
}

impl BrittleDir {
    pub(crate) fn open(path: &std::path::Path, faults: Arc<Faults>) -> Arc<dyn Dir> {
        Arc::new(Self { inner: FsDir::open(path).unwrap(), faults })
    }

    fn wrap(&self, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(BrittleFile { inner, faults: Arc::clone(&self.faults) })
    }

    fn wrap_dir(&self, inner: Arc<dyn Dir>) -> Arc<dyn Dir> {
        Arc::new(Self { inner, faults: Arc::clone(&self.faults) })
    }
}

impl Dir for BrittleDir {
    fn create_dir(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        self.inner.create_dir(name).map(|dir| self.wrap_dir(dir))
    }
    fn open_dir(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        self.faults.opened.fetch_add(1, Ordering::SeqCst);
        self.inner.open_dir(name).map(|dir| self.wrap_dir(dir))
    }
    fn remove_dir(&self, name: &str) -> io::Result<()> {
        self.inner.remove_dir(name)
    }
    fn create_file(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.inner.create_file(name).map(|file| self.wrap(file))
    }
    fn open_file(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.inner.open_file(name, access).map(|file| self.wrap(file))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn remove_file(&self, name: &str) -> io::Result<()> {
        self.inner.remove_file(name)
    }
    fn list(&self) -> io::Result<Vec<Entry>> {
        self.inner.list()
    }
    fn sync(&self) -> io::Result<()> {
        if Faults::take(&self.faults.syncs) {
            return Err(io::ErrorKind::Other.into());
        }
        self.inner.sync()
    }
}

impl File for BrittleFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buf, offset)
    }
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.faults.write_fails() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.inner.write_all_at(bytes, offset)
    }
    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        if self.faults.write_fails() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.inner.write_vectored_at(bufs, offset)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
    fn try_lock(&self) -> io::Result<bool> {
        self.inner.try_lock()
    }
    fn descriptor(&self) -> io::Result<Option<OwnedFd>> {
        self.inner.descriptor()
    }
}
