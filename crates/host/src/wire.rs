//! The messages between supervisor, guardian and shims, and how they travel with descriptors.
//!
//! Every message is one packet of a `SOCK_SEQPACKET` socket, so that borders are kept and the end of the other side is
//! an end of file. Both sides are the same build: there is no compatibility to keep, only [`PROTOCOL`] to compare
//! where a guardian program is named by path.
//!
//! Not for waiting: callers poll.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, recvmsg,
    sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::controllers::Means;
use crate::limits::Bounds;

/// Changes whenever a message does.
pub(crate) const PROTOCOL: u32 = 4;
/// No packet is longer; start bodies travel in a memory file instead.
pub(crate) const MESSAGE_MAX: usize = 4096;
/// The most descriptors that one packet takes (`SCM_MAX_FD` is 253).
pub(crate) const FDS_MAX: usize = 64;

/// Which containment is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WantedTier {
    Strongest,
    Cgroup,
    Subreaper,
    PidNamespace,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToGuardian {
    /// The first message; its descriptors are held until the last tree is gone.
    SetUp { protocol: u32, tier: WantedTier, try_pid_namespace: bool },
    /// Starts a tree. Descriptors: start body, stdin, stdout, stderr, control socket.
    Start { tree: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromGuardian {
    Hello(Hello),
    /// Cannot contain anything, or not as wanted.
    Refused {
        reason: String,
    },
    /// The shim of this tree died; what it left is ended, `proven` says whether that is certain.
    Orphaned {
        tree: u64,
        proven: bool,
    },
}

/// What a guardian offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The cgroup directory in which trees get leaves, if they do.
    pub(crate) base: Option<Vec<u8>>,
    /// Why they do not, where that was not asked for.
    pub(crate) no_cgroup: Option<String>,
    /// Whether trees get a PID namespace.
    pub(crate) namespaced: bool,
    /// Whether they could, and why not; `None` where it was not tried.
    pub(crate) pid_namespace: Option<Result<(), String>>,
    /// Whether `/proc/<pid>/task/<tid>/children` exists.
    pub(crate) proc_children: bool,
    /// Whether a child can be forked straight into a cgroup.
    pub(crate) clone_into_cgroup: bool,
    /// How memory and processes are limited.
    pub(crate) means: Means,
}

/// What is executed, and how. Travels in a memory file: arguments may be longer than any packet.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartBody {
    /// The program as the caller named it: looked for in `path` unless it has a slash.
    pub(crate) program: Vec<u8>,
    pub(crate) argv: Vec<Vec<u8>>,
    /// `NAME=value`.
    pub(crate) env: Vec<Vec<u8>>,
    /// The child's own `PATH`.
    pub(crate) path: Vec<u8>,
    pub(crate) workdir: Vec<u8>,
    /// Whether standard input is to be the controlling terminal.
    pub(crate) terminal: bool,
    pub(crate) umask: Option<u32>,
    pub(crate) bounds: Bounds,
}

/// Where a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// Before there was a leader.
    SetUp,
    /// In shim or leader: the PID namespace.
    Namespace,
    /// In the leader, around the command: cgroup, session, streams.
    Prepare,
    Workdir,
    Exec,
    Niceness,
    OomScore,
    /// In shim or leader: what the controllers of cgroups limit.
    Limits,
    Privileges,
}

impl Stage {
    pub(crate) const fn to_byte(self) -> u8 {
        match self {
            Stage::SetUp => 0,
            Stage::Prepare => 1,
            Stage::Workdir => 2,
            Stage::Exec => 3,
            Stage::Niceness => 4,
            Stage::OomScore => 5,
            Stage::Limits => 6,
            Stage::Privileges => 7,
            Stage::Namespace => 8,
        }
    }

    pub(crate) const fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Stage::SetUp,
            2 => Stage::Workdir,
            3 => Stage::Exec,
            4 => Stage::Niceness,
            5 => Stage::OomScore,
            6 => Stage::Limits,
            7 => Stage::Privileges,
            8 => Stage::Namespace,
            _ => Stage::Prepare,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WantedSignal {
    Interrupt,
    Terminate,
    Kill,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToShim {
    Signal { request: u64, signal: WantedSignal },
    Tree { request: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FromShim {
    Started,
    Failed {
        stage: Stage,
        errno: i32,
    },
    /// So many members were killed because the memory limit was reached. Comes before the end of the leader or of the
    /// tree that it explains.
    MemoryKills {
        count: u32,
    },
    /// The leader ended with this raw wait status.
    Exited {
        status: i32,
    },
    Delivered {
        request: u64,
        leader_alive: bool,
        processes: u32,
    },
    /// `None` where it cannot be told; never 0.
    Living {
        request: u64,
        processes: Option<u32>,
    },
    /// The tree is proven empty. Nothing follows.
    Empty,
}

/// A pair of connected packet sockets, close-on-exec.
pub(crate) fn packet_pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
    )
}

/// Sends one message. Never blocks: `EAGAIN` when the other side is behind.
pub(crate) fn send<T: Serialize>(socket: BorrowedFd<'_>, message: &T, fds: &[RawFd]) -> Result<(), Errno> {
    let bytes = postcard::to_stdvec(message).map_err(|_| Errno::EMSGSIZE)?;
    send_bytes(socket, &bytes, fds)
}

fn send_bytes(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[RawFd]) -> Result<(), Errno> {
    if bytes.len() > MESSAGE_MAX || fds.len() > FDS_MAX {
        return Err(Errno::EMSGSIZE);
    }
    let rights = [ControlMessage::ScmRights(fds)];
    let rights = if fds.is_empty() { &rights[..0] } else { &rights[..] };
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    loop {
        match sendmsg::<UnixAddr>(socket.as_raw_fd(), &[IoSlice::new(bytes)], rights, flags, None) {
            Err(Errno::EINTR) => {}
            sent => return sent.map(drop),
        }
    }
}

/// What was received.
pub(crate) enum Received<T> {
    Message(T, Vec<OwnedFd>),
    /// The other side is gone, or speaks something else.
    End,
    /// Nothing is there yet.
    Nothing,
}

/// Receives one message and its descriptors. Never blocks.
pub(crate) fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> Received<T> {
    let mut bytes = [0; MESSAGE_MAX];
    let mut rights = nix::cmsg_space!([RawFd; FDS_MAX]);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    let (length, fds) = loop {
        let mut slices = [IoSliceMut::new(&mut bytes)];
        match recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut slices, Some(&mut rights), flags) {
            // The other side ended before it had read everything; what it had sent comes after this.
            Err(Errno::EINTR | Errno::ECONNRESET) => {}
            Err(Errno::EAGAIN) => return Received::Nothing,
            Err(_) => return Received::End,
            Ok(message) => {
                let mut fds = Vec::new();
                for control in message.cmsgs().into_iter().flatten() {
                    if let ControlMessageOwned::ScmRights(received) = control {
                        // The kernel made these for this message alone.
                        fds.extend(received.into_iter().map(crate::sys::own_received));
                    }
                }
                break (message.bytes, fds);
            }
        }
    };
    match postcard::from_bytes(&bytes[..length]) {
        Ok(message) if length > 0 => Received::Message(message, fds),
        _ => Received::End,
    }
}

/// Messages that the other side has no room for yet, in order. Their number is bounded by what the other side asked
/// for.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: VecDeque<Vec<u8>>,
}

impl Outbox {
    /// Sends now or later; a message to a side that is gone is dropped.
    pub(crate) fn send<T: Serialize>(&mut self, socket: BorrowedFd<'_>, message: &T) {
        if let Ok(bytes) = postcard::to_stdvec(message) {
            self.waiting.push_back(bytes);
            self.flush(socket);
        }
    }

    /// Sends what there is room for.
    pub(crate) fn flush(&mut self, socket: BorrowedFd<'_>) {
        while let Some(bytes) = self.waiting.front() {
            match send_bytes(socket, bytes, &[]) {
                Err(Errno::EAGAIN | Errno::ENOBUFS) => return,
                Err(_) => return self.waiting.clear(),
                Ok(()) => drop(self.waiting.pop_front()),
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether the other side is so far behind that nothing more should be read from it.
    pub(crate) fn is_long(&self) -> bool {
        self.waiting.len() >= 64
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_message_arrives_with_its_descriptors_and_an_end_is_an_end() {
        let (ours, theirs) = packet_pair().unwrap();
        assert!(matches!(receive::<ToShim>(theirs.as_fd()), Received::Nothing));
        let (read, _write) = nix::unistd::pipe().unwrap();
        send(ours.as_fd(), &ToGuardian::Start { tree: 7 }, &[read.as_raw_fd()]).unwrap();
        match receive(theirs.as_fd()) {
            Received::Message(ToGuardian::Start { tree: 7 }, fds) => assert_eq!(fds.len(), 1),
            _ => panic!("another message"),
        }
        drop(ours);
        assert!(matches!(receive::<ToShim>(theirs.as_fd()), Received::End));
    }

    #[test]
    fn what_was_sent_before_an_end_arrives_also_when_the_sender_left_something_unread() {
        let (ours, theirs) = packet_pair().unwrap();
        send(ours.as_fd(), &ToShim::Tree { request: 1 }, &[]).unwrap();
        send(theirs.as_fd(), &FromShim::Empty, &[]).unwrap();
        drop(theirs);
        assert!(matches!(receive(ours.as_fd()), Received::Message(FromShim::Empty, _)));
        assert!(matches!(receive::<FromShim>(ours.as_fd()), Received::End));
    }

    #[test]
    fn a_message_of_another_kind_is_an_end() {
        let (ours, theirs) = packet_pair().unwrap();
        send(ours.as_fd(), &255_u8, &[]).unwrap();
        assert!(matches!(receive::<ToShim>(theirs.as_fd()), Received::End));
    }

    #[test]
    fn an_outbox_keeps_order_when_the_other_side_is_behind() {
        let (ours, theirs) = packet_pair().unwrap();
        let mut outbox = Outbox::default();
        for request in 0..4000 {
            outbox.send(ours.as_fd(), &FromShim::Living { request, processes: Some(1) });
        }
        assert!(outbox.is_long(), "the socket takes fewer");
        for expected in 0..4000 {
            match receive(theirs.as_fd()) {
                Received::Message(FromShim::Living { request, .. }, _) => assert_eq!(request, expected),
                _ => panic!("a message is missing"),
            }
            outbox.flush(ours.as_fd());
        }
        assert!(outbox.is_empty());
    }
}
