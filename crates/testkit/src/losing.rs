//! A store in memory whose power can be cut: what was not synced is then lost, kept, torn or reordered.
//!
//! Not for speed or space, and not for errors while the power is on: those are [`FaultyDir`](crate::FaultyDir)'s.

mod content;
mod cuts;
mod names;
mod port;

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use procyard_store::Dir;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

pub use cuts::{Cut, Cuts, PowerCuts};

use content::Content;
use names::Names;
use port::LosingDir;

/// A store in memory that loses at a power cut what was not synced. Clones are the same store.
///
/// Every call that changes something is a *step*: the making, renaming and removing of names, a write, a change of
/// length, a sync. Power lasts for as many steps as [`cut_after`](Self::cut_after) says. The step at which it goes may
/// still reach the disk, as far as [`Loss`] lets it, and fails; every later call fails and does nothing.
/// [`after_cut`](Self::after_cut) is the store that is found when the power comes back. [`PowerCuts`] does all this at
/// every step of a scene.
///
/// What is modelled, all of which POSIX allows, though no single file system does all of it:
///
/// - the sync of a file makes its content and length durable, and neither its name nor anything else;
/// - the sync of a directory makes the names in it durable, and neither the content behind them, nor the names in the
///   directories below it, nor its own name in the directory above it;
/// - of the unsynced changes of names in one directory any subset survives, in any order; but a file has one name at a
///   time, a rename survives whole or not at all, and what became of a file earlier does not undo what became of it later;
/// - of the unsynced content of one file each sector of 512 bytes survives as it was at some moment since the last
///   sync, independently of the others; the length is one that the file had, or one on the way to it; what was never
///   written within that length reads as zeros;
/// - names and contents survive independently: a new name can lead to an empty file, and a file that was written over
///   can be found under its old name;
/// - the failed sync of a file ([`fail_file_syncs`](Self::fail_file_syncs)) gives its unsynced changes up, as Linux
///   does: they are read until the power goes, and no later sync makes them durable.
///
/// Not modelled: a sector that is torn inside, what was synced and rots, a disk that reports a sync that it has not
/// done, times, modes and owners.
///
/// ```
/// use procyard_store::{Access, Dir};
/// use procyard_testkit::{LosingStore, Loss};
///
/// # fn main() -> std::io::Result<()> {
/// let store = LosingStore::new();
/// let root = store.root();
/// let file = root.create_file("notes")?;
/// file.write_all_at(b"kept", 0)?;
/// file.sync()?;
/// root.sync()?; // without it, the name could be lost
/// file.write_all_at(b" lost", 4)?;
///
/// let found = store.after_cut(Loss::Everything).root().open_file("notes", Access::Read)?;
/// assert_eq!(found.len()?, 4);
/// let found = store.after_cut(Loss::Nothing).root().open_file("notes", Access::Read)?;
/// assert_eq!(found.len()?, 9);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct LosingStore {
    disk: Arc<Mutex<Disk>>,
}

/// What a power cut takes of what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// All of it.
    Everything,
    /// None of it, as at the sudden death of a process.
    Nothing,
    /// The changes of content; the changes of names survive.
    Contents,
    /// The changes of names; the changes of content survive.
    Names,
    /// What chance takes. The same seed takes the same of the same changes.
    Random(u64),
}

impl Loss {
    /// The four that are not left to chance.
    pub const FIXED: [Self; 4] = [Self::Everything, Self::Nothing, Self::Contents, Self::Names];
}

impl LosingStore {
    /// An empty store with power.
    pub fn new() -> Self {
        Self::default()
    }

    /// Its directory.
    pub fn root(&self) -> Arc<dyn Dir> {
        LosingDir::root(self.clone())
    }

    /// The steps that were taken, the one at which the power went too.
    pub fn steps(&self) -> u64 {
        self.disk().steps
    }

    /// Lets the power last for so many further steps. After a cut it is back, and nothing was lost: as when a process
    /// died at that step and the machine did not.
    pub fn cut_after(&self, steps: u64) {
        self.disk().power = Power::Left(steps);
    }

    /// Whether there is power still.
    pub fn has_power(&self) -> bool {
        !matches!(self.disk().power, Power::Gone { .. })
    }

    /// The step at which the power went, in words.
    pub fn last_step(&self) -> Option<String> {
        match &self.disk().power {
            Power::Gone { at } => Some(at.clone()),
            Power::Endless | Power::Left(_) => None,
        }
    }

    /// Lets the next `count` syncs of files fail with `EIO`, and gives up what they were to make durable.
    pub fn fail_file_syncs(&self, count: u64) {
        self.disk().failing_syncs = count;
    }

    /// The store as it is found when the power comes back, with power. This one is left as it is, so that one cut can
    /// be looked at with several losses.
    pub fn after_cut(&self, loss: Loss) -> Self {
        let disk = self.disk();
        let seed = if let Loss::Random(seed) = loss { seed } else { 0 };
        let mut random = StdRng::seed_from_u64(seed);
        let survive = |node: &Node| match (node, loss) {
            (Node::Dir(names), Loss::Everything | Loss::Names) => Node::Dir(names.durable()),
            (Node::Dir(names), Loss::Nothing | Loss::Contents) => Node::Dir(names.current()),
            (Node::Dir(names), Loss::Random(_)) => Node::Dir(names.at_random(&mut random)),
            (Node::File(content), Loss::Everything | Loss::Contents) => Node::File(content.durable()),
            (Node::File(content), Loss::Nothing | Loss::Names) => Node::File(content.current()),
            (Node::File(content), Loss::Random(_)) => Node::File(content.at_random(&mut random)),
        };
        let nodes = disk.nodes.iter().map(survive).collect();
        Self { disk: Arc::new(Mutex::new(Disk { nodes, ..Disk::default() })) }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names a file or directory for ever; the root is the first.
type NodeId = usize;

#[derive(Debug)]
struct Disk {
    nodes: Vec<Node>,
    steps: u64,
    power: Power,
    failing_syncs: u64,
    /// Files whose lock is held.
    locked: HashSet<NodeId>,
}

#[derive(Debug)]
enum Node {
    File(Content),
    Dir(Names),
}

#[derive(Debug)]
enum Power {
    Endless,
    /// For so many more steps.
    Left(u64),
    Gone {
        at: String,
    },
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            nodes: vec![Node::Dir(Names::default())],
            steps: 0,
            power: Power::Endless,
            failing_syncs: 0,
            locked: HashSet::new(),
        }
    }
}

/// Whether the power outlasts a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Done,
    /// The power goes while it is under way: it may reach the disk, and fails.
    Cut,
}

impl Step {
    fn end(self) -> io::Result<()> {
        match self {
            Self::Done => Ok(()),
            Self::Cut => Err(no_power()),
        }
    }
}

fn no_power() -> io::Error {
    io::Error::other("the power is gone")
}

impl Disk {
    fn check_power(&self) -> io::Result<()> {
        if let Power::Gone { .. } = self.power { Err(no_power()) } else { Ok(()) }
    }

    /// Counts a step that is about to be taken.
    fn step(&mut self, what: impl FnOnce() -> String) -> io::Result<Step> {
        self.check_power()?;
        self.steps += 1;
        match &mut self.power {
            Power::Endless | Power::Gone { .. } => Ok(Step::Done),
            Power::Left(0) => {
                self.power = Power::Gone { at: what() };
                Ok(Step::Cut)
            }
            Power::Left(left) => {
                *left -= 1;
                Ok(Step::Done)
            }
        }
    }

    fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn names(&mut self, of: NodeId) -> io::Result<&mut Names> {
        match self.nodes.get_mut(of) {
            Some(Node::Dir(names)) => Ok(names),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn content(&mut self, of: NodeId) -> io::Result<&mut Content> {
        match self.nodes.get_mut(of) {
            Some(Node::File(content)) => Ok(content),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn is_dir(&self, id: NodeId) -> bool {
        matches!(self.nodes.get(id), Some(Node::Dir(_)))
    }
}
