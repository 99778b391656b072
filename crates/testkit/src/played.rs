//! A process while its script is played: its tree as numbers, its streams as in-memory pipes.
//!
//! Not for containment: nothing here can escape, since nothing is really there.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use procyard_core::{SIGINT, SIGKILL, SIGTERM, SignalNumber, WaitStatus};
use procyard_runner::{
    Delivery, ExitStatus, Input, Output, Process, RunnerError, RunnerErrorKind, Signal, StreamMode,
    TerminalSize, TreeProof,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::{mpsc, watch};

use crate::script::{Reaction, Script, SignalFault, Step};

/// Bytes that a pipe of a scripted process holds.
const PIPE: usize = 64 * 1024;

/// Steps that a test may queue ahead.
const DRIVE: usize = 64;

/// The tree as numbers.
#[derive(Debug, Clone, Copy)]
struct Tree {
    /// How the leader ended, once it has.
    end: Option<ExitStatus>,
    leftover: u32,
    provable: bool,
    closed: bool,
    healed: bool,
}

impl Tree {
    fn survivors(&self) -> u32 {
        self.leftover + u32::from(self.end.is_none())
    }

    fn proof(&self) -> TreeProof {
        match self.survivors() {
            0 if self.provable => TreeProof::Empty,
            0 => TreeProof::Unknown,
            count => TreeProof::Survivors(count),
        }
    }
}

/// A scripted process from the outside: what a test drives and looks at.
#[derive(Clone)]
pub struct Played {
    script: Arc<Script>,
    tree: watch::Sender<Tree>,
    drive: mpsc::Sender<Step>,
    /// Guards the list of signals; held for a push or a copy.
    signals: Arc<Mutex<Vec<Signal>>>,
    /// Guards the list of sizes; held for a push or a copy.
    sizes: Arc<Mutex<Vec<TerminalSize>>>,
    size: watch::Sender<TerminalSize>,
}

impl Played {
    /// Prints to standard output, after what was queued before. Once the leader has ended, those that outlived it
    /// print, or an outsider, if they hold the output.
    pub async fn stdout(&self, bytes: impl AsRef<[u8]>) {
        // A process that has ended prints nothing more.
        let _ = self.drive.send(Step::Stdout(bytes.as_ref().to_vec())).await;
    }

    /// Prints to standard error, after what was queued before.
    pub async fn stderr(&self, bytes: impl AsRef<[u8]>) {
        let _ = self.drive.send(Step::Stderr(bytes.as_ref().to_vec())).await;
    }

    /// Exits, after what was queued before.
    pub async fn exit(&self, code: u8) {
        let _ = self.drive.send(Step::End(Some(WaitStatus::exited(code)))).await;
    }

    /// Dies of a signal that nobody here sent, after what was queued before; a number that is none counts as SIGKILL.
    pub async fn die_of(&self, signal: u8) {
        let signal = SignalNumber::new(signal).unwrap_or(SIGKILL);
        let _ = self.drive.send(Step::End(Some(WaitStatus::signalled(signal)))).await;
    }

    /// Resolves when the leader has ended, however.
    pub async fn ended(&self) {
        let mut tree = self.tree.subscribe();
        // The sender lives in this process.
        let _ = tree.wait_for(|tree| tree.end.is_some()).await;
    }

    /// From now on signals are delivered at once, whatever the script said.
    pub fn heal_signals(&self) {
        self.tree.send_modify(|tree| tree.healed = true);
    }

    /// Ends all descendants that outlived the leader.
    pub fn end_leftovers(&self) {
        self.tree.send_modify(|tree| tree.leftover = 0);
    }

    /// Lets the tree be proven empty.
    pub fn prove(&self) {
        self.tree.send_modify(|tree| tree.provable = true);
    }

    /// The signals that were delivered, in order.
    pub fn signals(&self) -> Vec<Signal> {
        self.signals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The sizes that its terminal was given.
    pub fn sizes(&self) -> Vec<TerminalSize> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many members of the tree live.
    pub fn survivors(&self) -> u32 {
        self.tree.borrow().survivors()
    }

    /// Whether the process was closed or dropped by whoever held it.
    pub fn is_closed(&self) -> bool {
        self.tree.borrow().closed
    }

    fn end_leader(&self, status: Option<WaitStatus>) {
        self.tree.send_if_modified(|tree| {
            let first = tree.end.is_none();
            if first {
                tree.end = Some(ExitStatus { status });
                if !self.script.accompanied {
                    tree.leftover = self.script.leftovers();
                }
            }
            first
        });
    }

    fn react(&self, reaction: Reaction, signal: SignalNumber) {
        match reaction {
            Reaction::Die => self.end_leader(Some(WaitStatus::signalled(signal))),
            Reaction::Exit(code) => self.end_leader(Some(WaitStatus::exited(code))),
            Reaction::Ignore => {}
        }
    }

    fn kill_all(&self) {
        self.tree.send_modify(|tree| {
            tree.end.get_or_insert(ExitStatus { status: Some(WaitStatus::signalled(SIGKILL)) });
            tree.leftover = 0;
        });
    }

    fn deliver(&self, signal: Signal) -> Delivery {
        let tree = *self.tree.borrow();
        let delivery = Delivery { leader_alive: tree.end.is_none(), processes: tree.survivors() };
        self.signals.lock().unwrap_or_else(PoisonError::into_inner).push(signal);
        match signal {
            Signal::Interrupt => {
                if delivery.leader_alive {
                    self.react(self.script.on_interrupt, SIGINT);
                }
            }
            Signal::Terminate => {
                if delivery.leader_alive {
                    self.react(self.script.on_terminate, SIGTERM);
                }
                let gone = self.script.leftover.is_some_and(|left| left.on_terminate != Reaction::Ignore);
                if gone {
                    self.end_leftovers();
                }
            }
            Signal::Kill => self.kill_all(),
        }
        delivery
    }
}

/// A scripted process as a runner gives it.
pub(crate) struct ScriptedProcess {
    played: Played,
    mode: StreamMode,
    stdout: Option<DuplexStream>,
    stderr: Option<DuplexStream>,
    stdin: Option<DuplexStream>,
}

impl ScriptedProcess {
    /// Begins to play, with a terminal of this size or pipes. Must be called within a runtime.
    pub(crate) fn play(script: Script, terminal: Option<TerminalSize>, takes_input: bool) -> (Self, Played) {
        let mode = if terminal.is_some() { StreamMode::Terminal } else { StreamMode::Pipes };
        let leftover = if script.accompanied { script.leftovers() } else { 0 };
        let tree = Tree { end: None, leftover, provable: !script.unprovable, closed: false, healed: false };
        let (drive, driven) = mpsc::channel(DRIVE);
        let played = Played {
            script: Arc::new(script),
            tree: watch::Sender::new(tree),
            drive,
            signals: Arc::default(),
            sizes: Arc::default(),
            size: watch::Sender::new(terminal.unwrap_or_default()),
        };
        let (out, stdout) = tokio::io::duplex(PIPE);
        let (err, stderr) = tokio::io::duplex(PIPE);
        let (stdin, input) = tokio::io::duplex(PIPE);
        let stage = Stage {
            played: played.clone(),
            out: Some(out),
            err: (mode == StreamMode::Pipes).then_some(err),
            input: takes_input.then_some(input),
        };
        tokio::spawn(stage.play(driven));
        let process = Self {
            played: played.clone(),
            mode,
            stdout: Some(stdout),
            stderr: (mode == StreamMode::Pipes).then_some(stderr),
            stdin: takes_input.then_some(stdin),
        };
        (process, played)
    }
}

impl Drop for ScriptedProcess {
    fn drop(&mut self) {
        self.played.kill_all();
        self.played.tree.send_modify(|tree| tree.closed = true);
    }
}

#[async_trait]
impl Process for ScriptedProcess {
    fn stream_mode(&self) -> StreamMode {
        self.mode
    }

    fn take_stdout(&mut self) -> Option<Output> {
        self.stdout.take().map(|stream| Box::new(stream) as Output)
    }

    fn take_stderr(&mut self) -> Option<Output> {
        self.stderr.take().map(|stream| Box::new(stream) as Output)
    }

    fn take_stdin(&mut self) -> Option<Input> {
        self.stdin.take().map(|stream| Box::new(stream) as Input)
    }

    fn admit_input(&self, data: &[u8], eof: bool) -> Result<(), RunnerError> {
        self.would_admit_input(data, eof)
    }

    fn would_admit_input(&self, data: &[u8], _eof: bool) -> Result<(), RunnerError> {
        let longest = self.played.script.longest_line.unwrap_or(usize::MAX);
        if data.split(|byte| *byte == b'\n').all(|line| line.len() <= longest) {
            return Ok(());
        }
        Err(RunnerError::new(RunnerErrorKind::InvalidRequest("data"), "a line is too long for the terminal"))
    }

    async fn wait(&self) -> ExitStatus {
        let mut tree = self.played.tree.subscribe();
        // The sender lives in this process.
        let end = tree.wait_for(|tree| tree.end.is_some()).await.ok().and_then(|tree| tree.end);
        end.unwrap_or(ExitStatus { status: None })
    }

    #[expect(clippy::panic, reason = "a script can ask for a runner that panics")]
    async fn signal(&self, signal: Signal) -> Result<Delivery, RunnerError> {
        let healed = self.played.tree.borrow().healed;
        match self.played.script.signal_fault.filter(|_| !healed) {
            Some(SignalFault::Panic) => panic!("the script asks for this"),
            Some(SignalFault::Hang) => std::future::pending().await,
            Some(SignalFault::Fail) => {
                return Err(RunnerError::new(RunnerErrorKind::Gone, "the scripted signal failed"));
            }
            Some(SignalFault::Slow(pause)) => tokio::time::sleep(pause).await,
            None => {}
        }
        Ok(self.played.deliver(signal))
    }

    async fn tree(&self) -> TreeProof {
        self.played.tree.borrow().proof()
    }

    async fn emptied(&self) -> TreeProof {
        let mut tree = self.played.tree.subscribe();
        let settled = tree.wait_for(|tree| !matches!(tree.proof(), TreeProof::Survivors(_))).await;
        settled.map_or(TreeProof::Unknown, |tree| tree.proof())
    }

    fn memory_kills(&self) -> u32 {
        self.played.script.memory_kills
    }

    async fn resize(&self, size: TerminalSize) -> Result<(), RunnerError> {
        size.check()?;
        if self.mode != StreamMode::Terminal {
            let kind = RunnerErrorKind::InvalidRequest("rows");
            return Err(RunnerError::new(kind, "the process has no terminal"));
        }
        self.played.sizes.lock().unwrap_or_else(PoisonError::into_inner).push(size);
        self.played.size.send_replace(size);
        Ok(())
    }

    async fn close(&self) -> TreeProof {
        self.played.kill_all();
        self.played.tree.send_modify(|tree| tree.closed = true);
        self.tree().await
    }
}

/// The inside of a process: plays its steps until the leader ends.
struct Stage {
    played: Played,
    out: Option<DuplexStream>,
    err: Option<DuplexStream>,
    input: Option<DuplexStream>,
}

impl Stage {
    async fn play(mut self, mut driven: mpsc::Receiver<Step>) {
        let mut tree = self.played.tree.subscribe();
        let steps = self.played.script.steps.clone();
        {
            let played = async {
                for step in steps {
                    self.act(step).await;
                }
                while let Some(step) = driven.recv().await {
                    self.act(step).await;
                }
            };
            tokio::select! {
                biased;
                _ = tree.wait_for(|tree| tree.end.is_some()) => {}
                () = played => {}
            }
        }
        if let Some(holds_output) = self.played.script.outsider {
            let _ = tokio::time::timeout(holds_output, self.go_on_printing(&mut driven)).await;
            return;
        }
        let Some(leftover) = self.played.script.leftover else { return };
        if !leftover.hold_output {
            self.out = None;
            self.err = None;
        }
        let played = self.played.clone();
        let leaving = async {
            match leftover.end_after {
                Some(after) => tokio::time::sleep(after).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = tree.wait_for(|tree| tree.leftover == 0) => {}
            () = leaving => played.end_leftovers(),
            () = self.go_on_printing(&mut driven) => {}
        }
    }

    /// Prints what comes after the leader's end, until nobody wants to know.
    async fn go_on_printing(&mut self, driven: &mut mpsc::Receiver<Step>) {
        while let Some(step) = driven.recv().await {
            if let Step::Stdout(_) | Step::Stderr(_) = step {
                self.act(step).await;
            }
        }
        std::future::pending::<()>().await;
    }

    async fn act(&mut self, step: Step) {
        match step {
            // Nobody reads any more: a real process would get SIGPIPE, this one goes on.
            Step::Stdout(bytes) => drop(write(self.out.as_mut(), &bytes).await),
            // A terminal has one output.
            Step::Stderr(bytes) => drop(write(self.err.as_mut().or(self.out.as_mut()), &bytes).await),
            Step::Pause(pause) => tokio::time::sleep(pause).await,
            Step::EchoInput => self.echo().await,
            Step::CountLines => self.count_lines().await,
            Step::TellSize => self.tell_size().await,
            Step::End(end) => {
                self.played.end_leader(end);
                // The end is noticed by whoever plays.
                std::future::pending::<()>().await;
            }
        }
    }

    async fn echo(&mut self) {
        let mut buffer = [0; 1024];
        while let Some(input) = self.input.as_mut() {
            match input.read(&mut buffer).await {
                Ok(0) | Err(_) => self.input = None,
                Ok(count) => drop(write(self.out.as_mut(), &buffer[..count]).await),
            }
        }
    }
}

impl Stage {
    async fn count_lines(&mut self) {
        let (mut buffer, mut length) = ([0; 1024], 0_usize);
        while let Some(input) = self.input.as_mut() {
            let count = input.read(&mut buffer).await.unwrap_or(0);
            if count == 0 {
                self.input = None;
            }
            for byte in &buffer[..count] {
                if *byte == b'\n' {
                    let _ = write(self.out.as_mut(), format!("{length}\n").as_bytes()).await;
                    length = 0;
                } else {
                    length += 1;
                }
            }
        }
    }

    async fn tell_size(&mut self) {
        let mut size = self.played.size.subscribe();
        loop {
            let TerminalSize { rows, cols } = *size.borrow_and_update();
            let _ = write(self.out.as_mut(), format!("size {rows} {cols}\n").as_bytes()).await;
            // The sender lives in this process.
            let _ = size.changed().await;
        }
    }
}

async fn write(stream: Option<&mut DuplexStream>, bytes: &[u8]) -> std::io::Result<()> {
    match stream {
        Some(stream) => stream.write_all(bytes).await,
        None => Ok(()),
    }
}

/// How long a test waits for something that must happen, on the clock of the runtime.
pub const DEADLINE: Duration = Duration::from_secs(60);
