//! A store whose writes fail on demand, over a real one.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use procyard_store::{Access, Dir, Entry, File};

/// What fails.
#[derive(Debug, Default)]
pub struct Faults {
    /// Bytes that can be written before the disk is full; negative: as many as one likes.
    room: AtomicI64,
    pub cutting_fails: AtomicBool,
    pub syncing_fails: AtomicBool,
    pub creating_fails: AtomicBool,
    /// Bytes that were read so far.
    pub read: AtomicU64,
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

    /// How many of `wanted` bytes may be written, which are then taken.
    fn take(&self, wanted: usize) -> io::Result<usize> {
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
        Faults::check(&self.faults.creating_fails)?;
        Ok(Self::over(self.inner.create_dir(name)?, &self.faults))
    }

    fn open_dir(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        Ok(Self::over(self.inner.open_dir(name)?, &self.faults))
    }

    fn remove_dir(&self, name: &str) -> io::Result<()> {
        self.inner.remove_dir(name)
    }

    fn create_file(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Faults::check(&self.faults.creating_fails)?;
        Ok(self.file(self.inner.create_file(name)?))
    }

    fn open_file(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        Ok(self.file(self.inner.open_file(name, access)?))
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
        let read = self.inner.read_at(buf, offset)?;
        self.faults.read.fetch_add(read as u64, Ordering::SeqCst);
        Ok(read)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let taken = self.faults.take(bytes.len())?;
        self.inner.write_all_at(&bytes[..taken], offset)?;
        if taken == bytes.len() { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let all: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        let taken = self.faults.take(all.len())?;
        self.inner.write_all_at(&all[..taken], offset)?;
        Ok(taken)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Faults::check(&self.faults.cutting_fails)?;
        self.inner.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn sync(&self) -> io::Result<()> {
        Faults::check(&self.faults.syncing_fails)?;
        self.inner.sync()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.inner.try_lock()
    }

    fn descriptor(&self) -> io::Result<Option<OwnedFd>> {
        self.inner.descriptor()
    }
}
