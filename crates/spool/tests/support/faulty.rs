//! A store whose writes fail on demand and whose calls are counted, over a real one.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use procyard_store::{Access, Dir, Entry, File};

/// What fails, and what was asked for.
#[derive(Debug, Default)]
pub struct Faults {
    /// Bytes that can be written before the disk is full; negative: as many as one likes.
    room: AtomicI64,
    pub cutting_fails: AtomicBool,
    pub syncing_fails: AtomicBool,
    pub creating_fails: AtomicBool,
    /// Calls of directories and files, of any kind.
    calls: AtomicU64,
    /// Those that read.
    reads: AtomicU64,
    /// Bytes that were written.
    written: AtomicU64,
}

impl Faults {
    pub fn none() -> Arc<Self> {
        let faults = Self::default();
        faults.set_room(-1);
        Arc::new(faults)
    }

    pub fn set_room(&self, bytes: i64) {
        self.room.store(bytes, Ordering::SeqCst);
    }

    /// Calls of the store so far, and bytes that they wrote.
    pub fn asked(&self) -> (u64, u64) {
        (self.calls.load(Ordering::SeqCst), self.written.load(Ordering::SeqCst))
    }

    /// Calls that read a file.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::SeqCst)
    }

    fn count(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
    }

    /// How many of `wanted` bytes may be written, which are then taken.
    fn take(&self, wanted: usize) -> io::Result<usize> {
        let taken = self.take_room(wanted)?;
        self.written.fetch_add(taken as u64, Ordering::SeqCst);
        Ok(taken)
    }

    fn take_room(&self, wanted: usize) -> io::Result<usize> {
        let room = self.room.load(Ordering::SeqCst);
        let Ok(room) = usize::try_from(room) else { return Ok(wanted) };
        if room == 0 && wanted > 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = room.min(wanted);
        self.set_room(i64::try_from(room - taken).unwrap());
        Ok(taken)
    }

    fn check(flag: &AtomicBool) -> io::Result<()> {
        if flag.load(Ordering::SeqCst) { Err(io::Error::other("injected")) } else { Ok(()) }
    }
}

#[derive(Debug)]
pub struct FaultyDir {
    inner: Arc<dyn Dir>,
    faults: Arc<Faults>,
}

impl FaultyDir {
    pub fn over(inner: Arc<dyn Dir>, faults: &Arc<Faults>) -> Arc<dyn Dir> {
        Arc::new(Self { inner, faults: Arc::clone(faults) })
    }

    fn file(&self, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FaultyFile { inner, faults: Arc::clone(&self.faults) })
    }
}

impl Dir for FaultyDir {
    fn create_dir(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        self.faults.count();
        Faults::check(&self.faults.creating_fails)?;
        Ok(Self::over(self.inner.create_dir(name)?, &self.faults))
    }

    fn open_dir(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        self.faults.count();
        Ok(Self::over(self.inner.open_dir(name)?, &self.faults))
    }

    fn remove_dir(&self, name: &str) -> io::Result<()> {
        self.faults.count();
        self.inner.remove_dir(name)
    }

    fn create_file(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.faults.count();
        Faults::check(&self.faults.creating_fails)?;
        Ok(self.file(self.inner.create_file(name)?))
    }

    fn open_file(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.faults.count();
        Ok(self.file(self.inner.open_file(name, access)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.faults.count();
        self.inner.rename(from, to)
    }

    fn remove_file(&self, name: &str) -> io::Result<()> {
        self.faults.count();
        self.inner.remove_file(name)
    }

    fn list(&self) -> io::Result<Vec<Entry>> {
        self.faults.count();
        self.inner.list()
    }

    fn sync(&self) -> io::Result<()> {
        self.faults.count();
        Faults::check(&self.faults.syncing_fails)?;
        self.inner.sync()
    }
}

#[derive(Debug)]
struct FaultyFile {
    inner: Arc<dyn File>,
    faults: Arc<Faults>,
}

impl File for FaultyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.faults.count();
        self.faults.reads.fetch_add(1, Ordering::SeqCst);
        self.inner.read_at(buf, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.faults.count();
        let taken = self.faults.take(bytes.len())?;
        self.inner.write_all_at(&bytes[..taken], offset)?;
        if taken == bytes.len() { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        self.faults.count();
        let all: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        let taken = self.faults.take(all.len())?;
        self.inner.write_all_at(&all[..taken], offset)?;
        Ok(taken)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.count();
        Faults::check(&self.faults.cutting_fails)?;
        self.inner.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.faults.count();
        self.inner.len()
    }

    fn sync(&self) -> io::Result<()> {
        self.faults.count();
        Faults::check(&self.faults.syncing_fails)?;
        self.inner.sync()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.faults.count();
        self.inner.try_lock()
    }

    fn descriptor(&self) -> io::Result<Option<OwnedFd>> {
        self.faults.count();
        self.inner.descriptor()
    }
}
