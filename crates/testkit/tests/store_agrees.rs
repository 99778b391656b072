//! With power, the losing store does what the file system does: any sequence of calls, on both.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;

use procyard_store::{Access, Dir, EntryKind, File, FsDir};
use procyard_testkit::{Faults, FaultyDir, LosingStore, Loss};
use proptest::prelude::*;
use proptest::sample::select;

const NAMES: [&str; 5] = ["a", "b", "c", "..", "x/y"];

/// A call, in the root or in the directory `d` below it.
#[derive(Debug, Clone)]
enum Call {
    CreateDir(&'static str),
    OpenDir(&'static str),
    RemoveDir(&'static str),
    CreateFile(&'static str),
    OpenFile(&'static str, Access),
    Rename(&'static str, &'static str),
    RemoveFile(&'static str),
    SyncDir,
    Write(u64, usize),
    SetLen(u64),
    Read(u64, usize),
    SyncFile,
    TryLock,
    /// Changes the directory that is worked in, to one that was opened.
    Enter,
    Leave,
}

fn call() -> impl Strategy<Value = Call> {
    let name = || select(NAMES.to_vec());
    prop_oneof![
        1 => name().prop_map(Call::CreateDir),
        1 => name().prop_map(Call::OpenDir),
        1 => name().prop_map(Call::RemoveDir),
        4 => name().prop_map(Call::CreateFile),
        2 => (name(), any::<bool>()).prop_map(|(name, write)| {
            Call::OpenFile(name, if write { Access::ReadWrite } else { Access::Read })
        }),
        3 => (name(), name()).prop_map(|(from, to)| Call::Rename(from, to)),
        2 => name().prop_map(Call::RemoveFile),
        1 => Just(Call::SyncDir),
        4 => (0..2000_u64, 0..1500_usize).prop_map(|(at, len)| Call::Write(at, len)),
        2 => (0..3000_u64).prop_map(Call::SetLen),
        3 => (0..3000_u64, 0..4000_usize).prop_map(|(at, len)| Call::Read(at, len)),
        1 => Just(Call::SyncFile),
        1 => Just(Call::TryLock),
        1 => Just(Call::Enter),
        1 => Just(Call::Leave),
    ]
}

/// What is open of one store.
struct Scene {
    root: Arc<dyn Dir>,
    dir: Arc<dyn Dir>,
    opened: Option<Arc<dyn Dir>>,
    file: Option<Arc<dyn File>>,
    written: u8,
}

/// What a call came to, as far as both stores must agree.
type Came = Result<Vec<u8>, Option<ErrorKind>>;

impl Scene {
    fn new(root: Arc<dyn Dir>) -> Self {
        Self { dir: Arc::clone(&root), root, opened: None, file: None, written: 0 }
    }

    fn play(&mut self, call: &Call) -> Came {
        let came = self.try_play(call);
        // Systems differ in the words for what is no file or no directory.
        let agreed = [ErrorKind::NotFound, ErrorKind::AlreadyExists, ErrorKind::DirectoryNotEmpty];
        came.map_err(|error| Some(error.kind()).filter(|kind| agreed.contains(kind)))
    }

    fn try_play(&mut self, call: &Call) -> io::Result<Vec<u8>> {
        let none = || io::Error::from(ErrorKind::Unsupported);
        match *call {
            Call::CreateDir(name) => self.opened = Some(self.dir.create_dir(name)?),
            Call::OpenDir(name) => self.opened = Some(self.dir.open_dir(name)?),
            Call::RemoveDir(name) => self.dir.remove_dir(name)?,
            Call::CreateFile(name) => {
                self.file = None;
                self.file = Some(self.dir.create_file(name)?);
            }
            Call::OpenFile(name, access) => {
                self.file = None;
                self.file = Some(self.dir.open_file(name, access)?);
            }
            Call::Rename(from, to) => self.dir.rename(from, to)?,
            Call::RemoveFile(name) => self.dir.remove_file(name)?,
            Call::SyncDir => self.dir.sync()?,
            Call::Write(at, len) => {
                self.written = self.written.wrapping_add(1);
                let bytes = vec![self.written; len];
                let (one, other) = bytes.split_at(len / 2);
                let file = self.file.as_ref().ok_or_else(none)?;
                let taken = file.write_vectored_at(&[IoSlice::new(one), IoSlice::new(other)], at)?;
                file.write_all_at(&bytes[taken..], at + taken as u64)?;
            }
            Call::SetLen(len) => self.file.as_ref().ok_or_else(none)?.set_len(len)?,
            Call::Read(at, len) => {
                let mut bytes = vec![0; len];
                let file = self.file.as_ref().ok_or_else(none)?;
                let read = file.read_at(&mut bytes, at)?;
                bytes.truncate(read);
                bytes.extend(file.len()?.to_le_bytes());
                return Ok(bytes);
            }
            Call::SyncFile => self.file.as_ref().ok_or_else(none)?.sync()?,
            Call::TryLock => return Ok(vec![u8::from(self.file.as_ref().ok_or_else(none)?.try_lock()?)]),
            Call::Enter => {
                if let Some(opened) = &self.opened {
                    self.dir = Arc::clone(opened);
                }
            }
            Call::Leave => self.dir = Arc::clone(&self.root),
        }
        Ok(Vec::new())
    }
}

/// Everything below a directory, by path.
fn everything(dir: &dyn Dir, path: &str, found: &mut BTreeMap<String, Option<Vec<u8>>>) {
    for entry in dir.list().unwrap() {
        let path = format!("{path}/{}", entry.name);
        if entry.kind == EntryKind::Dir {
            everything(&*dir.open_dir(&entry.name).unwrap(), &path, found);
            found.insert(path, None);
        } else {
            let bytes = procyard_store::read_file(dir, &entry.name, 1 << 20).unwrap();
            found.insert(path, Some(bytes));
        }
    }
}

fn tree(dir: &dyn Dir) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    everything(dir, "", &mut found);
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_calls_come_to_the_same_on_both(calls in prop::collection::vec(call(), 1..80)) {
        let place = tempfile::tempdir().unwrap();
        let real = FsDir::open(place.path()).unwrap();
        let losing = LosingStore::new();
        let mut scenes = [
            Scene::new(Arc::clone(&real)),
            Scene::new(FaultyDir::over(losing.root(), &Faults::none())),
        ];
        for call in &calls {
            let [on_disk, in_memory] = scenes.each_mut().map(|scene| scene.play(call));
            prop_assert_eq!(on_disk, in_memory, "{:?}", call);
        }
        prop_assert_eq!(tree(&*real), tree(&*losing.root()));
        // A cut that takes nothing changes nothing; what is synced name by name survives one that takes everything.
        prop_assert_eq!(tree(&*losing.after_cut(Loss::Nothing).root()), tree(&*losing.root()));
        losing.root().sync().unwrap();
        for (path, bytes) in tree(&*losing.root()) {
            let mut dir = losing.root();
            let mut parts: Vec<&str> = path.split('/').skip(1).collect();
            let name = parts.pop().unwrap();
            for part in parts {
                dir = dir.open_dir(part).unwrap();
            }
            match bytes {
                Some(_) => dir.open_file(name, Access::Read).unwrap().sync().unwrap(),
                None => dir.open_dir(name).unwrap().sync().unwrap(),
            }
        }
        for loss in [Loss::Everything, Loss::Names, Loss::Contents, Loss::Random(7)] {
            prop_assert_eq!(tree(&*losing.after_cut(loss).root()), tree(&*losing.root()));
        }
    }
}
