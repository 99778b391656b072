//! The store port over the model: directories and open files.
//!
//! Not here: what a power cut leaves.

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use procyard_store::{Access, Dir, Entry, EntryKind, File, check_name};

use super::content::Content;
use super::names::Names;
use super::{LosingStore, Node, NodeId, Step};

/// `EIO` of Linux.
const EIO: i32 = 5;

/// A directory of a [`LosingStore`].
#[derive(Debug)]
pub(super) struct LosingDir {
    store: LosingStore,
    node: NodeId,
    /// For the words of a step.
    path: String,
}

impl LosingDir {
    pub(super) fn root(store: LosingStore) -> Arc<dyn Dir> {
        Arc::new(Self { store, node: 0, path: String::new() })
    }

    fn below(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.path) }
    }

    fn dir(&self, name: &str, node: NodeId) -> Arc<dyn Dir> {
        Arc::new(Self { store: self.store.clone(), node, path: self.below(name) })
    }

    fn file(&self, name: &str, node: NodeId, access: Access) -> Arc<dyn File> {
        let path = self.below(name);
        let locked = AtomicBool::new(false);
        Arc::new(LosingFile { store: self.store.clone(), node, access, path, locked })
    }

    fn find(&self, name: &str) -> io::Result<NodeId> {
        check_name(name)?;
        let mut disk = self.store.disk();
        disk.check_power()?;
        disk.names(self.node)?.find(name).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn make(&self, name: &str, node: Node) -> io::Result<NodeId> {
        check_name(name)?;
        let mut disk = self.store.disk();
        disk.check_power()?;
        let names = disk.names(self.node)?;
        if names.find(name).is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if names.removed {
            return Err(ErrorKind::NotFound.into());
        }
        let step = disk.step(|| format!("make {}", self.below(name)))?;
        let id = disk.add(node);
        disk.names(self.node)?.make(name, id);
        step.end().map(|()| id)
    }
}

impl Dir for LosingDir {
    fn create_dir(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        let id = self.make(name, Node::Dir(Names::default()))?;
        Ok(self.dir(name, id))
    }

    fn open_dir(&self, name: &str) -> io::Result<Arc<dyn Dir>> {
        let id = self.find(name)?;
        if !self.store.disk().is_dir(id) {
            return Err(ErrorKind::NotADirectory.into());
        }
        Ok(self.dir(name, id))
    }

    fn remove_dir(&self, name: &str) -> io::Result<()> {
        let id = self.find(name)?;
        let mut disk = self.store.disk();
        if !disk.names(id)?.entries().is_empty() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        let step = disk.step(|| format!("remove {}", self.below(name)))?;
        disk.names(id)?.removed = true;
        disk.names(self.node)?.remove(id);
        step.end()
    }

    fn create_file(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let id = self.make(name, Node::File(Content::default()))?;
        Ok(self.file(name, id, Access::ReadWrite))
    }

    fn open_file(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let id = self.find(name)?;
        if self.store.disk().is_dir(id) {
            return Err(ErrorKind::InvalidInput.into());
        }
        Ok(self.file(name, id, access))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(to)?;
        let id = self.find(from)?;
        let mut disk = self.store.disk();
        let replaced = disk.names(self.node)?.find(to);
        if replaced == Some(id) {
            return Ok(());
        }
        if let Some(replaced) = replaced {
            match (disk.is_dir(id), disk.is_dir(replaced)) {
                (false, true) => return Err(ErrorKind::IsADirectory.into()),
                (true, false) => return Err(ErrorKind::NotADirectory.into()),
                (true, true) if !disk.names(replaced)?.entries().is_empty() => {
                    return Err(ErrorKind::DirectoryNotEmpty.into());
                }
                (true, true) => disk.names(replaced)?.removed = true,
                (false, false) => {}
            }
        }
        let step = disk.step(|| format!("rename {} to {to}", self.below(from)))?;
        disk.names(self.node)?.rename(to, id);
        step.end()
    }

    fn remove_file(&self, name: &str) -> io::Result<()> {
        let id = self.find(name)?;
        let mut disk = self.store.disk();
        if disk.is_dir(id) {
            return Err(ErrorKind::IsADirectory.into());
        }
        let step = disk.step(|| format!("remove {}", self.below(name)))?;
        disk.names(self.node)?.remove(id);
        step.end()
    }

    fn list(&self) -> io::Result<Vec<Entry>> {
        let mut disk = self.store.disk();
        disk.check_power()?;
        let entries: Vec<_> =
            disk.names(self.node)?.entries().iter().map(|(name, id)| (name.clone(), *id)).collect();
        let kind = |id| if disk.is_dir(id) { EntryKind::Dir } else { EntryKind::File };
        Ok(entries.into_iter().map(|(name, id)| Entry { name, kind: kind(id) }).collect())
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.store.disk();
        let step = disk.step(|| format!("sync {}/", self.path))?;
        if step == Step::Done {
            disk.names(self.node)?.sync();
        }
        step.end()
    }
}

/// An open file of a [`LosingStore`].
#[derive(Debug)]
struct LosingFile {
    store: LosingStore,
    node: NodeId,
    access: Access,
    path: String,
    /// Whether the lock is held by this open file.
    locked: AtomicBool,
}

impl LosingFile {
    fn check_writable(&self) -> io::Result<()> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::Read => Err(ErrorKind::PermissionDenied.into()),
        }
    }

    fn write(&self, bytes: Vec<u8>, offset: u64) -> io::Result<usize> {
        self.check_writable()?;
        let (at, len) = (position(offset)?, bytes.len());
        let mut disk = self.store.disk();
        let step = disk.step(|| format!("write {len} bytes at {offset} of {}", self.path))?;
        if len > 0 {
            disk.content(self.node)?.write(bytes, at);
        }
        step.end().map(|()| len)
    }
}

fn position(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| ErrorKind::InvalidInput.into())
}

impl File for LosingFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut disk = self.store.disk();
        disk.check_power()?;
        let content = disk.content(self.node)?.bytes();
        let start = position(offset)?.min(content.len());
        let read = buf.len().min(content.len() - start);
        buf[..read].copy_from_slice(&content[start..start + read]);
        Ok(read)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write(bytes.to_vec(), offset).map(drop)
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        self.write(bufs.iter().flat_map(|buf| buf.iter().copied()).collect(), offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        let to = position(len)?;
        let mut disk = self.store.disk();
        let step = disk.step(|| format!("set the length of {} to {len}", self.path))?;
        disk.content(self.node)?.set_len(to);
        step.end()
    }

    fn len(&self) -> io::Result<u64> {
        let mut disk = self.store.disk();
        disk.check_power()?;
        Ok(disk.content(self.node)?.bytes().len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.store.disk();
        let step = disk.step(|| format!("sync {}", self.path))?;
        if step == Step::Done && disk.failing_syncs > 0 {
            disk.failing_syncs -= 1;
            disk.content(self.node)?.give_up();
            return Err(io::Error::from_raw_os_error(EIO));
        }
        if step == Step::Done {
            disk.content(self.node)?.sync();
        }
        step.end()
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut disk = self.store.disk();
        disk.check_power()?;
        if self.locked.load(Ordering::SeqCst) {
            return Ok(true);
        }
        let taken = disk.locked.insert(self.node);
        self.locked.store(taken, Ordering::SeqCst);
        Ok(taken)
    }

    fn descriptor(&self) -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }
}

impl Drop for LosingFile {
    fn drop(&mut self) {
        if self.locked.load(Ordering::SeqCst) {
            self.store.disk().locked.remove(&self.node);
        }
    }
}
