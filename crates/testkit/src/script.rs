//! What a scripted process does, and how it reacts to signals.
//!
//! Not for timing by the wall clock: pauses run on the runtime's clock, which a test can pause.

use std::time::Duration;

use procyard_core::{SignalNumber, WaitStatus};
use procyard_runner::SpawnFailure;

/// One step of a script.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Pause(Duration),
    /// Copies standard input to standard output until end of file.
    EchoInput,
    /// Prints the length of each line of standard input until end of file.
    CountLines,
    /// Prints the size of the terminal, now and after each change, for ever.
    TellSize,
    /// The leader ends. `None`: nobody can say how.
    End(Option<WaitStatus>),
}

/// What a member of the tree does on SIGTERM or SIGINT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// It dies of the signal.
    Die,
    /// It exits with this code.
    Exit(u8),
    /// It goes on.
    Ignore,
}

/// Descendants that outlive the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leftover {
    /// How many.
    pub count: u32,
    /// What they do on SIGTERM.
    pub on_terminate: Reaction,
    /// When they end by themselves, after the leader.
    pub end_after: Option<Duration>,
    /// Whether they hold the output open.
    pub hold_output: bool,
}

/// What goes wrong before a process is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartFault {
    /// The program is not found.
    NotFound,
    /// The execution fails like this.
    Spawn(SpawnFailure),
    /// The start takes this long, and succeeds.
    Slow(Duration),
    /// The start never returns.
    Hang,
    /// The runner panics.
    Panic,
}

/// What goes wrong with signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalFault {
    /// They are delivered this much later.
    Slow(Duration),
    /// They fail.
    Fail,
    /// Their delivery never returns.
    Hang,
    /// The runner panics.
    Panic,
}

/// A process to play.
///
/// ```
/// use procyard_testkit::{Reaction, Script};
///
/// let server = Script::new().stdout("listening\n").on_terminate(Reaction::Exit(0));
/// let crash = Script::new().stderr("oh\n").die_of(11);
/// # let _ = (server, crash);
/// ```
#[derive(Debug, Clone)]
pub struct Script {
    pub(crate) steps: Vec<Step>,
    pub(crate) on_terminate: Reaction,
    pub(crate) on_interrupt: Reaction,
    pub(crate) leftover: Option<Leftover>,
    pub(crate) accompanied: bool,
    pub(crate) outsider: Option<Duration>,
    pub(crate) start_fault: Option<StartFault>,
    pub(crate) signal_fault: Option<SignalFault>,
    pub(crate) unprovable: bool,
    pub(crate) longest_line: Option<usize>,
    pub(crate) memory_kills: u32,
}

impl Default for Script {
    fn default() -> Self {
        Self::new()
    }
}

impl Script {
    /// Runs until it is stopped or driven, dies of signals, leaves nothing behind.
    pub const fn new() -> Self {
        Self {
            steps: Vec::new(),
            on_terminate: Reaction::Die,
            on_interrupt: Reaction::Die,
            leftover: None,
            accompanied: false,
            outsider: None,
            start_fault: None,
            signal_fault: None,
            unprovable: false,
            longest_line: None,
            memory_kills: 0,
        }
    }

    /// How many outlive the leader.
    pub(crate) fn leftovers(&self) -> u32 {
        self.leftover.map_or(0, |leftover| leftover.count)
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Prints to standard output.
    pub fn stdout(self, bytes: impl AsRef<[u8]>) -> Self {
        self.step(Step::Stdout(bytes.as_ref().to_vec()))
    }

    /// Prints to standard error.
    pub fn stderr(self, bytes: impl AsRef<[u8]>) -> Self {
        self.step(Step::Stderr(bytes.as_ref().to_vec()))
    }

    /// Does nothing for a while.
    pub fn pause(self, duration: Duration) -> Self {
        self.step(Step::Pause(duration))
    }

    /// Copies standard input to standard output until end of file.
    pub fn echo_input(self) -> Self {
        self.step(Step::EchoInput)
    }

    /// Prints the length of each line of standard input, in bytes, until end of file.
    pub fn count_lines(self) -> Self {
        self.step(Step::CountLines)
    }

    /// Prints `size ROWS COLS` of the terminal, now and after each change, for ever.
    pub fn tell_size(self) -> Self {
        self.step(Step::TellSize)
    }

    /// Exits.
    pub fn exit(self, code: u8) -> Self {
        self.step(Step::End(Some(WaitStatus::exited(code))))
    }

    /// Dies of a signal that nobody here sent; a number that is none counts as SIGKILL.
    pub fn die_of(self, signal: u8) -> Self {
        let signal = SignalNumber::new(signal).unwrap_or(procyard_core::SIGKILL);
        self.step(Step::End(Some(WaitStatus::signalled(signal))))
    }

    /// Ends without anybody knowing how.
    pub fn lose_status(self) -> Self {
        self.step(Step::End(None))
    }

    /// What the leader does on SIGTERM.
    pub const fn on_terminate(mut self, reaction: Reaction) -> Self {
        self.on_terminate = reaction;
        self
    }

    /// What the leader does on SIGINT.
    pub const fn on_interrupt(mut self, reaction: Reaction) -> Self {
        self.on_interrupt = reaction;
        self
    }

    /// What outlives the leader.
    pub const fn leaves(mut self, leftover: Leftover) -> Self {
        self.leftover = Some(leftover);
        self
    }

    /// What outlives the leader is there from the start, and counted.
    pub const fn accompanied(mut self) -> Self {
        self.accompanied = true;
        self
    }

    /// Somebody who is not of its tree holds its output open for so long after its leader's end, and prints what
    /// [`Played`](crate::Played) is told to print.
    pub const fn outsider(mut self, holds_output: Duration) -> Self {
        self.outsider = Some(holds_output);
        self
    }

    /// What goes wrong before it is up.
    pub const fn start_fault(mut self, fault: StartFault) -> Self {
        self.start_fault = Some(fault);
        self
    }

    /// What goes wrong with signals.
    pub const fn signal_fault(mut self, fault: SignalFault) -> Self {
        self.signal_fault = Some(fault);
        self
    }

    /// The tree cannot be proven empty until [`Played::prove`](crate::Played::prove).
    pub const fn unprovable(mut self) -> Self {
        self.unprovable = true;
        self
    }

    /// Refuses input with a longer line than this, as a terminal does that would cut it.
    pub const fn longest_line(mut self, bytes: usize) -> Self {
        self.longest_line = Some(bytes);
        self
    }

    /// So many of its processes are killed because the memory limit is reached, as far as its runner can tell.
    pub const fn memory_kills(mut self, count: u32) -> Self {
        self.memory_kills = count;
        self
    }
}
