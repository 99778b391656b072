//! A directory whose power is cut: what was not synced may be gone, torn, or zeros, name by name and file by file.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use procyard_store::{Access, Dir, Entry, EntryKind, File};

/// A change of names that the directory was not synced after.
#[derive(Debug, Clone)]
enum Change {
    Make(String, usize),
    Rename(String, String, usize),
    Remove(String),
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Change::Make(name, node) => {
                names.insert(name.clone(), *node);
            }
            Change::Rename(from, to, node) => {
                if names.get(from) == Some(node) {
                    names.remove(from);
                }
                names.insert(to.clone(), *node);
            }
            Change::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Node {
    now: Vec<u8>,
    synced: Vec<u8>,
}

#[derive(Debug, Default)]
struct Disk {
    nodes: Vec<Node>,
    now: BTreeMap<String, usize>,
    synced: BTreeMap<String, usize>,
    pending: Vec<Change>,
    /// How many more calls there is power for.
    left: u32,
}

impl Disk {
    fn spend(&mut self) -> io::Result<()> {
        self.left = self.left.checked_sub(1).ok_or_else(|| io::Error::other("the power is gone"))?;
        Ok(())
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.pending.push(change);
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        self.now.get(name).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct LosingDir(Arc<Mutex<Disk>>);

impl LosingDir {
    /// An empty directory with power for this many calls.
    pub(crate) fn with_power(calls: u32) -> Self {
        Self(Arc::new(Mutex::new(Disk { left: calls, ..Disk::default() })))
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is there when the power comes back; `choose` picks one of so many possibilities, again and again.
    pub(crate) fn after_the_cut(&self, mut choose: impl FnMut(usize) -> usize) -> Self {
        let disk = self.disk();
        let mut names = disk.synced.clone();
        let mut pending = disk.pending.clone();
        while !pending.is_empty() {
            // Any of them may have reached the disk, in any order.
            let change = pending.remove(choose(pending.len()));
            if choose(2) == 0 {
                change.apply(&mut names);
            }
        }
        let nodes = disk.nodes.iter().map(|node| {
            let content = match choose(4) {
                0 => node.synced.clone(),
                1 => node.now.clone(),
                _ if node.now == node.synced => node.synced.clone(),
                2 => node.now[..choose(node.now.len() + 1)].to_vec(),
                _ => vec![0; node.now.len()],
            };
            Node { now: content.clone(), synced: content }
        });
        let nodes = nodes.collect();
        Self(Arc::new(Mutex::new(Disk {
            nodes,
            now: names.clone(),
            synced: names,
            pending: Vec::new(),
            left: u32::MAX,
        })))
    }
}

impl Dir for LosingDir {
    fn create_dir(&self, _: &str) -> io::Result<Arc<dyn Dir>> {
        Err(ErrorKind::Unsupported.into())
    }

    fn open_dir(&self, _: &str) -> io::Result<Arc<dyn Dir>> {
        Err(ErrorKind::Unsupported.into())
    }

    fn remove_dir(&self, _: &str) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn create_file(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut disk = self.disk();
        disk.spend()?;
        if disk.now.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let node = disk.nodes.len();
        disk.nodes.push(Node::default());
        disk.change(Change::Make(name.to_owned(), node));
        Ok(Arc::new(LosingFile { dir: self.clone(), node }))
    }

    fn open_file(&self, name: &str, _: Access) -> io::Result<Arc<dyn File>> {
        let node = self.disk().find(name)?;
        Ok(Arc::new(LosingFile { dir: self.clone(), node }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.spend()?;
        let node = disk.find(from)?;
        disk.change(Change::Rename(from.to_owned(), to.to_owned(), node));
        Ok(())
    }

    fn remove_file(&self, name: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.spend()?;
        disk.find(name)?;
        disk.change(Change::Remove(name.to_owned()));
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<Entry>> {
        let disk = self.disk();
        Ok(disk.now.keys().map(|name| Entry { name: name.clone(), kind: EntryKind::File }).collect())
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.disk();
        disk.spend()?;
        disk.synced = disk.now.clone();
        disk.pending.clear();
        Ok(())
    }
}

#[derive(Debug)]
struct LosingFile {
    dir: LosingDir,
    node: usize,
}

impl File for LosingFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let disk = self.dir.disk();
        let content = &disk.nodes[self.node].now;
        let start = usize::try_from(offset).map_or(content.len(), |offset| offset.min(content.len()));
        let read = buf.len().min(content.len() - start);
        buf[..read].copy_from_slice(&content[start..start + read]);
        Ok(read)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut disk = self.dir.disk();
        disk.spend()?;
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let content = &mut disk.nodes[self.node].now;
        content.resize(content.len().max(start + bytes.len()), 0);
        content[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let bytes: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        self.write_all_at(&bytes, offset).map(|()| bytes.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut disk = self.dir.disk();
        disk.spend()?;
        disk.nodes[self.node].now.resize(usize::try_from(len).map_err(io::Error::other)?, 0);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.dir.disk().nodes[self.node].now.len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.dir.disk();
        disk.spend()?;
        let node = &mut disk.nodes[self.node];
        node.synced = node.now.clone();
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        Ok(true)
    }

    fn descriptor(&self) -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }
}
