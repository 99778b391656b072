//! The kinds of commands that load is made of, each with what it prints and how it ends.
//!
//! Not for asking a service to run them: see `jobs`.

use std::fmt::Write as _;

use procyard_api::BashArguments;
use procyard_core::State;

/// What a client does with one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `true`, and a wait for its end.
    Nothing,
    /// Started and left alone: its end comes as a notification.
    Unwatched,
    /// Lines on standard output.
    Lines,
    /// Lines on both streams.
    Both,
    /// Some MiB.
    Flood,
    /// `cat` with input in pieces, then end of file.
    Input,
    /// A question in a terminal, answered.
    Terminal,
    /// Stays; is asked to end.
    Stopped,
    /// Stays, with a descendant that wants to escape; is killed.
    Killed,
    /// Stays; its deadline ends it.
    TimedOut,
    /// The call waits for the end.
    Foreground,
    /// Prints now and then, while its log and its events are followed.
    Followed,
}

/// Pieces of input that `Kind::Input` is given.
pub(crate) const PIECES: usize = 4;

/// One command of a kind: what to start, and what becomes of it.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    pub(crate) kind: Kind,
    pub(crate) arguments: BashArguments,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) end: (State, Option<u8>),
}

impl Kind {
    pub(crate) const ALL: [Self; 12] = [
        Self::Nothing,
        Self::Unwatched,
        Self::Lines,
        Self::Both,
        Self::Flood,
        Self::Input,
        Self::Terminal,
        Self::Stopped,
        Self::Killed,
        Self::TimedOut,
        Self::Foreground,
        Self::Followed,
    ];

    /// The kinds in turn.
    pub(crate) fn of(number: usize) -> Self {
        Self::ALL[number % Self::ALL.len()]
    }

    /// The command of this kind with this number, by which its output differs from that of others.
    pub(crate) fn command(self, number: usize) -> Command {
        let exited = |line: String, stdout: String| (line, stdout, String::new(), (State::Exited, Some(0)));
        let (line, stdout, stderr, end) = match self {
            Self::Nothing => exited("true".to_owned(), String::new()),
            Self::Unwatched => exited(format!("echo {number}"), format!("{number}\n")),
            Self::Lines => exited(format!("seq {number} {}", number + 3000), lines(number, 3000)),
            Self::Flood => exited(format!("seq {number} {}", number + 400_000), lines(number, 400_000)),
            Self::Both => {
                let line = format!(
                    "for i in $(seq 100); do echo out {number} $i; echo err {number} $i >&2; done; exit 7"
                );
                let of = |stream| {
                    (1..=100).fold(String::new(), |told, i| told + &format!("{stream} {number} {i}\n"))
                };
                (line, of("out"), of("err"), (State::Exited, Some(7)))
            }
            Self::Input => {
                exited("cat".to_owned(), (0..PIECES).map(|piece| piece_of(number, piece)).collect())
            }
            Self::Terminal => {
                let line = "stty -echo; echo ready; read -r line; echo \"got $line\"".to_owned();
                exited(line, format!("ready\r\ngot {number}\r\n"))
            }
            Self::Stopped => stays(format!("echo {number}; exec sleep 1000"), number, State::Terminated),
            Self::Killed => {
                let line =
                    format!("(setsid sleep 1000 &); echo {number}; trap '' TERM; sleep 1000; sleep 1000");
                stays(line, number, State::Killed)
            }
            Self::TimedOut => stays(format!("echo {number}; exec sleep 1000"), number, State::TimedOut),
            Self::Foreground => {
                let printed = format!("{number}\n");
                (
                    format!("sleep 0.1; echo {number}; exit 3"),
                    printed,
                    String::new(),
                    (State::Exited, Some(3)),
                )
            }
            Self::Followed => {
                let line = format!("for i in $(seq 20); do echo {number} $i; sleep 0.02; done");
                exited(
                    line,
                    (1..=20).fold(String::new(), |mut text, i| {
                        let _ = writeln!(text, "{number} {i}");
                        text
                    }),
                )
            }
        };
        let arguments = BashArguments {
            command: Some(line),
            background: self != Self::Foreground,
            stdin: self == Self::Input,
            tty: self == Self::Terminal,
            timeout: (self == Self::TimedOut).then_some(1),
            ..BashArguments::default()
        };
        Command { kind: self, arguments, stdout: stdout.into(), stderr: stderr.into(), end }
    }
}

fn stays(line: String, number: usize, state: State) -> (String, String, String, (State, Option<u8>)) {
    (line, format!("{number}\n"), String::new(), (state, None))
}

fn lines(from: usize, more: usize) -> String {
    (from..=from + more).fold(String::with_capacity(8 * more), |mut text, line| {
        let _ = writeln!(text, "{line}");
        text
    })
}

/// A piece of input.
pub(crate) fn piece_of(number: usize, piece: usize) -> String {
    format!("{number} {piece} {}\n", "äöü".repeat(500))
}
