//! The supervisor's side of its guardian: starting one, talking to it, knowing that it is gone.
//!
//! Not for single trees: see [`crate::process`].

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
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

use crate::aftermath::{Aftermath, Next, guardians};
use crate::enter::GUARDIAN_ARGUMENT;
use crate::sys::pidfd_signal;
use crate::wire::{
    FDS_MAX, FromGuardian, Hello, PROTOCOL, Received, ToGuardian, WantedTier, packet_pair, receive, send,
};
use crate::{HostError, HostOptions};

/// How long a guardian may take to answer; a sweep of what was left is part of that.
const HELLO_MAX: Duration = Duration::from_secs(30);
/// How long a wait for the guardian goes on before it is continued again: somebody may have stopped it.
const ATTENTION: Duration = Duration::from_secs(1);
/// How long a dead guardian's cgroups are swept where that proves nothing.
const SWEEP_MAX: Duration = Duration::from_secs(10);
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
    fn new(socket: OwnedFd, child: &Child) -> std::io::Result<Self> {
        // It is our child and not reaped, so the number is its own.
        let life = crate::sys::pidfd_open(child.id().cast_signed())?;
        Ok(Self {
            socket: crate::sys::watched(socket, Interest::READABLE | Interest::WRITABLE)?,
            life: crate::sys::watched(life, Interest::READABLE)?,
            alive: AtomicBool::new(true),
            orphans: Mutex::new(HashMap::new()),
        })
    }

    fn orphans(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<bool>>> {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    /// Starts a guardian. Blocks, in the context of a runtime.
    pub(crate) fn open(
        program: &Path,
        tier: WantedTier,
        options: &HostOptions,
    ) -> Result<Arc<Self>, HostError> {
        let null = File::options().read(true).write(true).open("/dev/null").map_err(HostError::Guardian)?;
        let (child, socket) = spawn(program)?;
        let met = greet(&socket, tier, options)
            .and_then(|hello| Ok((hello, Shared::new(socket, &child).map_err(HostError::Guardian)?)));
        let (hello, shared) = match met {
            Ok((hello, shared)) => (hello, Arc::new(shared)),
            Err(error) => {
                discard(child);
                return Err(error);
            }
        };
        let base = hello.base.clone().map(|path| PathBuf::from(OsString::from_vec(path)));
        let (ending, ended) = watch::channel(false);
        // Ends by itself when the guardian does and what it left; `close` waits for that.
        tokio::spawn(listen(Arc::clone(&shared), child, base, options.adopt_orphans, ending));
        Ok(Arc::new(Self { shared, hello, null, next_tree: AtomicU64::new(1), ended }))
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.shared.alive.load(Ordering::Acquire)
    }

    /// What contains its trees.
    pub(crate) fn tier(&self) -> Tier {
        match &self.hello {
            hello if hello.namespaced => Tier::PIDNS,
            hello if hello.base.is_some() => Tier::CGROUP,
            _ => Tier::SUBREAPER,
        }
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

    /// Whether it was proven that nothing of the tree is left: by the guardian, or after its death by who did its work.
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

/// Takes in what the guardian says until it is gone, then reaps it and sees to what it left.
async fn listen(
    shared: Arc<Shared>,
    mut child: Child,
    base: Option<PathBuf>,
    adopts: bool,
    ending: watch::Sender<bool>,
) {
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
    // Its end of the socket is closed before it ends: it still ends its trees, or it was killed.
    let _ = shared.life.readable().await;
    let guardian = child.id().cast_signed();
    let killed = {
        let mut guardians = guardians();
        guardians.living.remove(&guardian);
        // By itself it ends only when nothing is left.
        let killed = !child.wait().is_ok_and(|status| status.success());
        if killed {
            guardians.ended.insert(guardian);
        }
        killed
    };
    let proven = !killed || see_to(Aftermath::new(guardian, base, adopts), adopts).await;
    for (_, waiting) in shared.orphans().drain() {
        let _ = waiting.send(proven);
    }
    ending.send_replace(true);
}

/// Ends what a killed guardian left; tells whether all of it is proven gone. Without orphans that come to us nothing ever
/// is, and what cannot be ended soon is left to the sweep of the next guardian.
async fn see_to(mut aftermath: Aftermath, adopts: bool) -> bool {
    let began = Instant::now();
    loop {
        // Reading all of /proc takes a while; each step is bounded, so that a runtime can end between two.
        let stepping = tokio::task::spawn_blocking(move || {
            let next = aftermath.step();
            (aftermath, next)
        });
        let Ok((same, next)) = stepping.await else { return false };
        aftermath = same;
        match next {
            Next::Done => return adopts,
            _ if !adopts && began.elapsed() > SWEEP_MAX => return false,
            Next::Step => {}
            Next::Rest(rest) => tokio::time::sleep(rest).await,
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the guardian is the one program that this crate spawns this way"
)]
fn spawn(program: &Path) -> Result<(Child, OwnedFd), HostError> {
    let (ours, theirs) = packet_pair().map_err(|errno| HostError::Guardian(errno.into()))?;
    let loader = LOADER_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    let mut guardians = guardians();
    let child = Command::new(program)
        .arg0("procyard-guardian")
        .arg(GUARDIAN_ARGUMENT)
        .env_clear()
        .envs(loader)
        .stdin(theirs)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(HostError::Guardian)?;
    guardians.living.insert(child.id().cast_signed());
    Ok((child, ours))
}

/// Ends a guardian that has no tree yet, or a program that is none.
fn discard(mut child: Child) {
    let mut guardians = guardians();
    // It is our child and not reaped.
    let _ = child.kill();
    let _ = child.wait();
    guardians.living.remove(&child.id().cast_signed());
}

fn greet(socket: &OwnedFd, tier: WantedTier, options: &HostOptions) -> Result<Hello, HostError> {
    if options.held.len() > FDS_MAX {
        return Err(HostError::TooManyHeld(FDS_MAX));
    }
    let held: Vec<_> = options.held.iter().map(AsRawFd::as_raw_fd).collect();
    let try_pid_namespace = options.try_on_request;
    match send(socket.as_fd(), &ToGuardian::SetUp { protocol: PROTOCOL, tier, try_pid_namespace }, &held) {
        Ok(()) => hello(socket),
        // It has ended before it was spoken to.
        Err(Errno::EPIPE | Errno::ECONNRESET) => Err(HostError::NoAnswer),
        Err(errno) => Err(HostError::Guardian(errno.into())),
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
