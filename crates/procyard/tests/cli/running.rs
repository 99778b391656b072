//! A program that a test started: its streams, its signals, its end; ended with the test.

use std::io::{Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::scene::{DEADLINE, eventually};

/// A program that runs. Its output is collected unless a test takes the stream.
pub(crate) struct Running {
    child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

/// How a program ended, and what it said on the streams that were not taken.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Ended {
    #[track_caller]
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("ended by a signal: {self:?}"))
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// The last line on stderr, which says how a run ended.
    pub(crate) fn summary(&self) -> String {
        self.stderr().lines().last().unwrap_or_default().to_owned()
    }
}

impl Running {
    /// Starts it with pipes for the three streams, whatever the command says of the input.
    #[track_caller]
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self::spawn_as_is(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Starts it with the streams that the command names.
    #[track_caller]
    #[expect(clippy::disallowed_methods, reason = "what is tested is the program itself, from outside")]
    pub(crate) fn spawn_as_is(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Self { child, stdin, stdout, stderr }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Sends a signal to the program alone. It is not waited for yet, so the number is its own.
    #[track_caller]
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// The stream, for the test to read or to leave alone.
    pub(crate) fn take_stdout(&mut self) -> ChildStdout {
        self.stdout.take().expect("it is there once")
    }

    /// The same, of what it says beside.
    pub(crate) fn take_stderr(&mut self) -> ChildStderr {
        self.stderr.take().expect("it is there once")
    }

    #[track_caller]
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("its input is open");
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    /// Closes its input and waits for its end, while its output is collected.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Ended {
        drop(self.stdin.take());
        self.wait_with_input_open()
    }

    /// Waits for its end with its input as it is.
    #[track_caller]
    pub(crate) fn wait_with_input_open(mut self) -> Ended {
        let (stdout, stderr) = (collect(self.stdout.take()), collect(self.stderr.take()));
        let status = self.end();
        let collected =
            |stream: mpsc::Receiver<Vec<u8>>| stream.recv_timeout(DEADLINE).expect("its streams end with it");
        Ended { status, stdout: collected(stdout), stderr: collected(stderr) }
    }

    /// Waits for its end, with the streams that the test has taken in the test's hands.
    #[track_caller]
    pub(crate) fn end(&mut self) -> ExitStatus {
        eventually("the program ends", || self.child.try_wait().unwrap())
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// The most memory that it has had in use, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        self.memory("VmHWM:")
    }

    /// The memory that it has in use now, in bytes.
    pub(crate) fn resident_memory(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// The descriptors that it has open now.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    fn memory(&self, of: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(of)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Without effect on one that has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, collected) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    collected
}

/// Reads exactly so many bytes, or fails at the deadline.
#[track_caller]
pub(crate) fn read_exactly<R: Read + Send + 'static>(mut stream: R, count: usize) -> (R, Vec<u8>) {
    within(move || {
        let mut bytes = vec![0; count];
        stream.read_exact(&mut bytes).unwrap();
        (stream, bytes)
    })
}

/// Reads until the stream has said `wanted`, or fails at the deadline.
#[track_caller]
pub(crate) fn read_until<R: Read + Send + 'static>(mut stream: R, wanted: &'static str) -> R {
    within(move || {
        let mut seen = Vec::new();
        let mut byte = [0];
        while !seen.ends_with(wanted.as_bytes()) {
            assert!(stream.read(&mut byte).unwrap() > 0, "{:?}", String::from_utf8_lossy(&seen));
            seen.push(byte[0]);
        }
        stream
    })
}

/// Does something that may block for ever, and fails at the deadline.
#[track_caller]
pub(crate) fn within<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        let _ = sender.send(work());
    });
    match done.recv_timeout(DEADLINE) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("nothing happened within {DEADLINE:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it sends before it ends"),
        },
    }
}

/// A pause of a reader that is slow on purpose.
pub(crate) fn dawdle() {
    std::thread::sleep(Duration::from_millis(5));
}
