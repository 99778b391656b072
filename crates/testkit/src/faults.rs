//! A store whose calls fail when a test says so, over any other one.
//!
//! Not for power cuts: what is done here is done.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use procyard_store::{Access, Dir, Entry, File};

/// A kind of call to a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is the method of its name")]
pub enum Operation {
    CreateDir,
    OpenDir,
    RemoveDir,
    CreateFile,
    OpenFile,
    Rename,
    RemoveFile,
    List,
    SyncDir,
    Read,
    Write,
    SetLen,
    Len,
    SyncFile,
    Lock,
}

impl Operation {
    /// Every kind.
    pub const ALL: [Self; 15] = [
        Self::CreateDir,
        Self::OpenDir,
        Self::RemoveDir,
        Self::CreateFile,
        Self::OpenFile,
        Self::Rename,
        Self::RemoveFile,
        Self::List,
        Self::SyncDir,
        Self::Read,
        Self::Write,
        Self::SetLen,
        Self::Len,
        Self::SyncFile,
        Self::Lock,
    ];

    /// Those that a full or read-only file system refuses.
    pub const CHANGING: [Self; 7] = [
        Self::CreateDir,
        Self::RemoveDir,
        Self::CreateFile,
        Self::Rename,
        Self::RemoveFile,
        Self::Write,
        Self::SetLen,
    ];
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// `EIO`.
    Io,
    /// `ENOSPC`.
    NoSpace,
    /// `EROFS`.
    ReadOnly,
    /// `EMFILE`.
    NoDescriptors,
    /// Half of the bytes. A read or vectored write says so, which is no error; of a write of all, half is written, and
    /// then it is `ENOSPC`. Calls without bytes do not fail.
    Short,
    /// The store, which is foreign code to whoever uses it, panics.
    Panic,
}

impl Failure {
    #[expect(clippy::panic, reason = "a test can ask for a store that panics")]
    fn error(self) -> io::Error {
        // The numbers of Linux, on every architecture.
        io::Error::from_raw_os_error(match self {
            Self::Io => 5,
            Self::NoSpace | Self::Short => 28,
            Self::ReadOnly => 30,
            Self::NoDescriptors => 24,
            Self::Panic => panic!("the store breaks down"),
        })
    }
}

/// A rule about which calls fail: of the calls that it is about it spares some, and then fails some.
#[derive(Debug, Clone)]
pub struct Fault {
    operations: Vec<Operation>,
    failure: Failure,
    spared: u64,
    times: u64,
}

impl Fault {
    /// Calls of these kinds fail with `EIO`, from now on and for ever.
    pub fn on(operations: &[Operation]) -> Self {
        Self { operations: operations.to_vec(), failure: Failure::Io, spared: 0, times: u64::MAX }
    }

    /// They fail so.
    pub fn with(self, failure: Failure) -> Self {
        Self { failure, ..self }
    }

    /// The first `spared` of them do not fail.
    pub fn after(self, spared: u64) -> Self {
        Self { spared, ..self }
    }

    /// No more than `times` of them fail.
    pub fn times(self, times: u64) -> Self {
        Self { times, ..self }
    }

    /// Whether this call fails.
    fn takes(&mut self, operation: Operation) -> bool {
        if !self.operations.contains(&operation) {
            return false;
        }
        let due = self.spared == 0 && self.times > 0;
        if due {
            self.times -= 1;
        }
        self.spared = self.spared.saturating_sub(1);
        due
    }
}

/// What fails, shared by a test and the store that it made faulty.
#[derive(Debug, Default)]
pub struct Faults {
    /// Held for a look-up, never during a call to the store below.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Fault>,
    room: Option<u64>,
    calls: BTreeMap<Operation, u64>,
    bytes_read: u64,
    bytes_written: u64,
    failed: u64,
}

impl Faults {
    /// Nothing fails yet.
    pub fn none() -> Arc<Self> {
        Arc::default()
    }

    /// Adds a rule. Of several that are about a call, the first that fails it counts.
    pub fn fail(&self, fault: Fault) {
        self.state().rules.push(fault);
    }

    /// Limits the bytes that can still be written: the write that comes to the limit is short, later ones are
    /// `ENOSPC`. Counts bytes handed to writes, so writing over old ones uses it up too.
    pub fn set_room(&self, bytes: u64) {
        self.state().room = Some(bytes);
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        let mut state = self.state();
        state.rules.clear();
        state.room = None;
    }

    /// How many calls were made, failed ones too.
    pub fn calls(&self) -> u64 {
        self.state().calls.values().sum()
    }

    /// How many calls of one kind were made, failed ones too.
    pub fn calls_of(&self, operation: Operation) -> u64 {
        self.state().calls.get(&operation).copied().unwrap_or(0)
    }

    /// How many bytes were read.
    pub fn bytes_read(&self) -> u64 {
        self.state().bytes_read
    }

    /// How many bytes were written.
    pub fn bytes_written(&self) -> u64 {
        self.state().bytes_written
    }

    /// How many calls a rule failed.
    pub fn failed(&self) -> u64 {
        self.state().failed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, operation: Operation) -> Option<Failure> {
        let mut state = self.state();
        *state.calls.entry(operation).or_default() += 1;
        let failing = state.rules.iter_mut().filter_map(|rule| rule.takes(operation).then_some(rule.failure));
        // Each rule counts the call, whether or not another one has failed it.
        let failing: Vec<Failure> = failing.collect();
        state.failed += u64::from(!failing.is_empty());
        failing.first().copied()
    }

    /// A call without bytes.
    fn check(&self, operation: Operation) -> io::Result<()> {
        match self.next(operation) {
            None | Some(Failure::Short) => Ok(()),
            Some(failure) => Err(failure.error()),
        }
    }

    /// How many of `wanted` bytes may be read.
    fn read(&self, wanted: usize) -> io::Result<usize> {
        match self.next(Operation::Read) {
            None => Ok(wanted),
            Some(Failure::Short) => Ok(wanted.div_ceil(2)),
            Some(failure) => Err(failure.error()),
        }
    }

    /// How many of `wanted` bytes may be written.
    fn write(&self, wanted: usize) -> io::Result<usize> {
        let wanted = match self.next(Operation::Write) {
            None => wanted,
            Some(Failure::Short) => wanted.div_ceil(2),
            Some(failure) => return Err(failure.error()),
        };
        let mut state = self.state();
        let taken = match state.room {
            None => wanted,
            Some(0) if wanted > 0 => return Err(Failure::NoSpace.error()),
            Some(room) => usize::try_from(room).map_or(wanted, |room| room.min(wanted)),
        };
        state.room = state.room.map(|room| room - taken as u64);
        state.bytes_written += taken as u64;
        Ok(taken)
    }
}

/// A directory of another store, with [`Faults`]; so is everything that is opened through it.
///
/// ```
/// use procyard_store::Dir;
/// use procyard_testkit::{Failure, Fault, Faults, FaultyDir, LosingStore, Operation};
///
/// # fn main() -> std::io::Result<()> {
/// let faults = Faults::none();
/// let dir = FaultyDir::over(LosingStore::new().root(), &faults);
/// let file = dir.create_file("a")?;
/// faults.fail(Fault::on(&[Operation::Write]).with(Failure::NoSpace).after(1).times(1));
/// file.write_all_at(b"this goes through", 0)?;
/// assert_eq!(file.write_all_at(b"this does not", 0).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
/// file.write_all_at(b"and this does again", 0)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FaultyDir {
    inner: Arc<dyn Dir>,
    faults: Arc<Faults>,
}

impl FaultyDir {
    /// `inner`, failing as `faults` say.
    pub fn over(inner: Arc<dyn Dir>, faults: &Arc<Faults>) -> Arc<dyn Dir> {
        Arc::new(Self { inner, faults: Arc::clone(faults) })
    }

    fn file(&self, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FaultyFile { inner, faults: Arc::clone(&self.faults) })
    }
}

impl Dir for FaultyDir {
    fn create_dir(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        self.faults.check(Operation::CreateDir)?;
        Ok(Self::over(self.inner.create_dir(name)?, &self.faults))
    }

    fn open_dir(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        self.faults.check(Operation::OpenDir)?;
        Ok(Self::over(self.inner.open_dir(name)?, &self.faults))
    }

    fn remove_dir(&self, name: &str) -> io::Result<()> {
        self.faults.check(Operation::RemoveDir)?;
        self.inner.remove_dir(name)
    }

    fn create_file(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.faults.check(Operation::CreateFile)?;
        Ok(self.file(self.inner.create_file(name)?))
    }

    fn open_file(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.faults.check(Operation::OpenFile)?;
        Ok(self.file(self.inner.open_file(name, access)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.faults.check(Operation::Rename)?;
        self.inner.rename(from, to)
    }

    fn remove_file(&self, name: &str) -> io::Result<()> {
        self.faults.check(Operation::RemoveFile)?;
        self.inner.remove_file(name)
    }

    fn list(&self) -> io::Result<Vec<Entry>> {
        self.faults.check(Operation::List)?;
        self.inner.list()
    }

    fn sync(&self) -> io::Result<()> {
        self.faults.check(Operation::SyncDir)?;
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
        let wanted = self.faults.read(buf.len())?;
        let read = self.inner.read_at(&mut buf[..wanted], offset)?;
        self.faults.state().bytes_read += read as u64;
        Ok(read)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let taken = self.faults.write(bytes.len())?;
        self.inner.write_all_at(&bytes[..taken], offset)?;
        if taken == bytes.len() { Ok(()) } else { Err(ErrorKind::StorageFull.into()) }
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let all: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        let taken = self.faults.write(all.len())?;
        self.inner.write_all_at(&all[..taken], offset)?;
        Ok(taken)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.check(Operation::SetLen)?;
        self.inner.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.faults.check(Operation::Len)?;
        self.inner.len()
    }

    fn sync(&self) -> io::Result<()> {
        self.faults.check(Operation::SyncFile)?;
        self.inner.sync()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.faults.check(Operation::Lock)?;
        self.inner.try_lock()
    }

    fn descriptor(&self) -> io::Result<Option<OwnedFd>> {
        self.inner.descriptor()
    }
}
