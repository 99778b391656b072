//! The supervisor's side of its guardian: starting one, talking to it, knowing that it is gone.
//!
//! Not for single trees: see [`crate::process`].

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{Shutdown, shutdown};
use procyard_runner::Tier;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{oneshot, watch};

use crate::HostError;
use crate::enter::GUARDIAN_ARGUMENT;
use crate::sys::pidfd_signal;
use crate::wire::{
    FDS_MAX, FromGuardian, Hello, PROTOCOL, Received, ToGuardian, WantedTier, packet_pair, receive, send,
};

/// How long a guardian may take to answer; a sweep of what was left is part of that.
const HELLO_MAX: Duration = Duration::from_secs(30);
/// How long a wait for the guardian goes on before it is continued again: somebody may have stopped it.
const ATTENTION: Duration = Duration::from_secs(1);
/// Kept for the guardian, whose environment is otherwise empty: without them a program may not load.
const LOADER_VARIABLES: [&str; 2] = ["LD_LIBRARY_PATH", "LLVM_PROFILE_FILE"];

/// A running guardian. Dropping the last reference tells it to end every tree and itself.
#[derive(Debug)]
pub(crate) struct Link {
    shared: Arc<Shared>,
    pub(crate) hello: Hello,
    /// The standard input of commands that have none.
    pub(crate) null: File,
    /// Never 0, which probes use.
    next_tree: AtomicU64,
    /// True once the guardian is gone and reaped.
    ended: watch::Receiver<bool>,
}

#[derive(Debug)]
struct Shared {
    socket: AsyncFd<OwnedFd>,
    /// A pidfd of the guardian, readable when it has ended.
    life: AsyncFd<OwnedFd>,
    alive: AtomicBool,
    /// Who wants to know that what a dead shim left is ended. Never held across an await.
    orphans: Mutex<HashMap<u64, oneshot::Sender<bool>>>,
}

impl Shared {
    fn orphans(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<bool>>> {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    /// Starts a guardian. Blocks, in the context of a runtime.
    pub(crate) fn open(program: &Path, tier: WantedTier, held: &[OwnedFd]) -> Result<Arc<Self>, HostError> {
        let (socket, hello, child) = spawn(program, tier, held)?;
        // It is our child and not reaped, so the number is its own.
        let life = crate::sys::pidfd_open(child.id().cast_signed())
            .map_err(Into::into)
            .and_then(|life| crate::sys::watched(life, Interest::READABLE))
            .map_err(HostError::Guardian)?;
        let socket = crate::sys::watched(socket, Interest::READABLE | Interest::WRITABLE)
            .map_err(HostError::Guardian)?;
        let null = File::options().read(true).write(true).open("/dev/null").map_err(HostError::Guardian)?;
        let (alive, orphans) = (AtomicBool::new(true), Mutex::new(HashMap::new()));
        let shared = Arc::new(Shared { socket, life, alive, orphans });
        let (ending, ended) = watch::channel(false);
        // Ends by itself when the guardian does; `closed` waits for that.
        tokio::spawn(listen(Arc::clone(&shared), child, ending));
        Ok(Arc::new(Self { shared, hello, null, next_tree: AtomicU64::new(1), ended }))
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.shared.alive.load(Ordering::Acquire)
    }

    /// What contains its trees.
    pub(crate) fn tier(&self) -> Tier {
        if self.hello.cgroup { Tier::CGROUP } else { Tier::SUBREAPER }
    }

    /// Hands a start over; `EPIPE` when there is no guardian any more, and then it was not handed over.
    pub(crate) async fn start(&self, tree: u64, fds: &[RawFd]) -> Result<(), Errno> {
        let message = ToGuardian::Start { tree };
        let sent = self
            .shared
            .socket
            .async_io(Interest::WRITABLE, |socket| Ok(send(socket.as_fd(), &message, fds)?))
            .await;
        let errno = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
        sent.map_err(errno).inspect_err(|errno| {
            if *errno == Errno::EPIPE {
                self.shared.alive.store(false, Ordering::Release);
            }
        })
    }

    /// Gives a new tree its number, and will know when what its dead shim left is ended.
    pub(crate) fn orphan_notice(self: &Arc<Self>) -> OrphanNotice {
        let tree = self.next_tree.fetch_add(1, Ordering::Relaxed);
        let (sender, proven) = oneshot::channel();
        if self.is_alive() {
            self.shared.orphans().insert(tree, sender);
        }
        OrphanNotice { link: Arc::clone(self), tree, proven }
    }

    /// Tells the guardian to end every tree and itself, and waits for that. Cancellation safe.
    pub(crate) async fn close(&self) {
        self.tell_to_end();
        let mut ended = self.ended.clone();
        let _ = self.attended(ended.wait_for(|ended| *ended)).await;
    }

    /// Waits for something that may need the guardian, which is continued meanwhile in case that somebody stopped it.
    pub(crate) async fn attended<T>(&self, awaited: impl Future<Output = T>) -> T {
        let mut awaited = std::pin::pin!(awaited);
        loop {
            self.continue_guardian();
            if let Ok(found) = tokio::time::timeout(ATTENTION, &mut awaited).await {
                return found;
            }
        }
    }

    fn continue_guardian(&self) {
        let _ = pidfd_signal(self.shared.life.get_ref().as_fd(), libc::SIGCONT);
    }

    fn tell_to_end(&self) {
        self.continue_guardian();
        let _ = shutdown(self.shared.socket.as_raw_fd(), Shutdown::Write);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.tell_to_end();
    }
}

/// Given up by dropping.
#[derive(Debug)]
pub(crate) struct OrphanNotice {
    link: Arc<Link>,
    tree: u64,
    proven: oneshot::Receiver<bool>,
}

impl OrphanNotice {
    /// The tree's number.
    pub(crate) fn tree(&self) -> u64 {
        self.tree
    }

    /// Who tells.
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Whether the guardian proved that nothing of the tree is left; false when there is no guardian to tell.
    pub(crate) async fn proven(mut self) -> bool {
        let link = Arc::clone(&self.link);
        link.attended(&mut self.proven).await.unwrap_or(false)
    }
}

impl Drop for OrphanNotice {
    fn drop(&mut self) {
        self.link.shared.orphans().remove(&self.tree);
    }
}

/// Takes in what the guardian says until it is gone, then reaps it.
async fn listen(shared: Arc<Shared>, mut child: Child, ending: watch::Sender<bool>) {
    loop {
        let received = shared
            .socket
            .async_io(Interest::READABLE, |socket| match receive::<FromGuardian>(socket.as_fd()) {
                Received::Message(message, _) => Ok(Some(message)),
                Received::End => Ok(None),
                Received::Nothing => Err(std::io::ErrorKind::WouldBlock.into()),
            })
            .await;
        match received {
            Ok(Some(FromGuardian::Orphaned { tree, proven })) => {
                if let Some(waiting) = shared.orphans().remove(&tree) {
                    let _ = waiting.send(proven);
                }
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => break,
        }
    }
    shared.alive.store(false, Ordering::Release);
    shared.orphans().clear();
    // Its end of the socket is closed before it ends: it still ends its trees, or it was killed.
    let _ = shared.life.readable().await;
    let _ = child.wait();
    ending.send_replace(true);
}

#[expect(
    clippy::disallowed_methods,
    reason = "the guardian is the one program that this crate spawns this way"
)]
fn spawn(program: &Path, tier: WantedTier, held: &[OwnedFd]) -> Result<(OwnedFd, Hello, Child), HostError> {
    if held.len() > FDS_MAX {
        return Err(HostError::TooManyHeld(FDS_MAX));
    }
    let (ours, theirs) = packet_pair().map_err(|errno| HostError::Guardian(errno.into()))?;
    let loader = LOADER_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    let mut child = Command::new(program)
        .arg0("procyard-guardian")
        .arg(GUARDIAN_ARGUMENT)
        .env_clear()
        .envs(loader)
        .stdin(theirs)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(HostError::Guardian)?;
    let held: Vec<_> = held.iter().map(AsRawFd::as_raw_fd).collect();
    let answer = match send(ours.as_fd(), &ToGuardian::SetUp { protocol: PROTOCOL, tier }, &held) {
        Ok(()) => hello(&ours),
        // It has ended before it was spoken to.
        Err(Errno::EPIPE | Errno::ECONNRESET) => Err(HostError::NoAnswer),
        Err(errno) => Err(HostError::Guardian(errno.into())),
    };
    match answer {
        Ok(hello) => Ok((ours, hello, child)),
        Err(error) => {
            drop(ours);
            // It is our child and not reaped; a program that is no guardian must not stay.
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}

fn hello(socket: &OwnedFd) -> Result<Hello, HostError> {
    let deadline = Instant::now() + HELLO_MAX;
    loop {
        match receive(socket.as_fd()) {
            Received::Message(FromGuardian::Hello(hello), _) => return Ok(hello),
            Received::Message(FromGuardian::Refused { reason }, _) => {
                return Err(HostError::LifetimeEnforcementUnavailable(reason));
            }
            Received::Message(FromGuardian::Orphaned { .. }, _) | Received::End => {
                return Err(HostError::NoAnswer);
            }
            Received::Nothing => {}
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(HostError::NoAnswer);
        }
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let _ = poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)], timeout);
    }
}
