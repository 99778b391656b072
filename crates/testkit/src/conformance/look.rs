//! How a case looks at a process: with deadlines, and with words for what it saw.
//!
//! Not for rules: those are beside this file.

use std::time::Duration;

use procyard_core::{LeaderEnd, WaitStatus};
use procyard_runner::{Output, Process, ProcessRequest, RunnerError, Signal, TreeProof};
use tokio::io::AsyncReadExt as _;

use super::{Act, Stage};

/// How long something that must happen may take: longer than anything on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long something that must not happen is given.
const BRIEF: Duration = Duration::from_millis(60);

/// What was seen instead of what the rule says.
#[derive(Debug)]
pub(super) struct Seen(pub(super) String);

pub(super) type Verdict<T = ()> = Result<T, Seen>;

/// Ends a case with what was seen unless a condition holds.
macro_rules! ensure {
    ($holds:expr, $($said:tt)+) => {
        if !$holds {
            return Err($crate::conformance::look::Seen(format!($($said)+)));
        }
    };
}
pub(super) use ensure;

/// Waits for what must happen.
pub(super) async fn within<T>(what: &str, future: impl Future<Output = T>) -> Verdict<T> {
    let happened = tokio::time::timeout(DEADLINE, future).await;
    happened.map_err(|_| Seen(format!("{what}: nothing within {} seconds", DEADLINE.as_secs())))
}

/// What comes of a future in a moment, if anything; then it is dropped.
pub(super) async fn briefly<T>(future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(BRIEF, future).await.ok()
}

/// Polls a future for so long and drops it.
pub(super) async fn abandoned<T>(future: impl Future<Output = T>, after: Duration) {
    let _ = tokio::time::timeout(after, future).await;
}

/// For how long futures are polled before they are dropped: not at all beyond once, and into the middle of what they do.
pub(super) const MOMENTS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_micros(100),
    Duration::from_micros(400),
    Duration::from_millis(1),
    Duration::from_millis(4),
];

/// Prepares and starts what must be possible.
pub(super) async fn begin(stage: &dyn Stage, request: ProcessRequest) -> Verdict<Box<dyn Process>> {
    let refused = |error: RunnerError| Seen(format!("a start that must succeed failed: {error:?}"));
    let prepared = within("prepare", stage.runner().prepare(request)).await?.map_err(refused)?;
    within("start", prepared.start()).await?.map_err(refused)
}

/// Why this cannot be started; that it can is not what the rule says.
pub(super) async fn refusal(stage: &dyn Stage, request: ProcessRequest) -> Verdict<RunnerError> {
    let prepared = match within("prepare", stage.runner().prepare(request)).await? {
        Ok(prepared) => prepared,
        Err(error) => return Ok(error),
    };
    match within("start", prepared.start()).await? {
        Ok(_) => Err(Seen("it was started".to_owned())),
        Err(error) => Ok(error),
    }
}

/// A process whose output is read.
pub(super) struct Live {
    pub(super) process: Box<dyn Process>,
    pub(super) stdout: Reader,
}

impl Live {
    pub(super) async fn begin(stage: &dyn Stage, request: ProcessRequest) -> Verdict<Self> {
        let mut process = begin(stage, request).await?;
        let stdout = Reader::new(process.take_stdout())?;
        Ok(Self { process, stdout })
    }

    /// Starts an act and waits until it says that it is ready.
    pub(super) async fn ready(stage: &dyn Stage, act: Act) -> Verdict<Self> {
        let mut live = Self::begin(stage, stage.request(&act)).await?;
        live.stdout.until("ready").await?;
        Ok(live)
    }

    pub(super) fn signal(&self, signal: Signal) -> impl Future<Output = Verdict<procyard_runner::Delivery>> {
        signalled(&*self.process, signal)
    }
}

/// Signals, which must succeed.
pub(super) async fn signalled(process: &dyn Process, signal: Signal) -> Verdict<procyard_runner::Delivery> {
    let delivered = within("signal", process.signal(signal)).await?;
    delivered.map_err(|error| Seen(format!("{signal:?} failed: {error:?}")))
}

/// How the leader ended.
pub(super) async fn end_of(process: &dyn Process) -> Verdict<Option<LeaderEnd>> {
    Ok(within("wait", process.wait()).await?.status.map(WaitStatus::end))
}

/// Waits until the tree is empty, by all accounts.
pub(super) async fn emptied(stage: &dyn Stage, process: &dyn Process) -> Verdict {
    let proof = within("emptied", process.emptied()).await?;
    ensure!(proof == TreeProof::Empty, "emptied said {proof:?}");
    let living = stage.living();
    ensure!(living == 0, "emptied said Empty while {living} lived");
    Ok(())
}

/// Waits until so many processes of the stage live.
pub(super) async fn living(stage: &dyn Stage, count: usize) -> Verdict {
    let reached = async {
        while stage.living() != count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let reached = within("", reached).await;
    reached.map_err(|_| Seen(format!("{} processes live, not {count}", stage.living())))
}

/// An output and what was read of it.
pub(super) struct Reader {
    end: Output,
    buffer: Vec<u8>,
    pub(super) seen: String,
}

impl Reader {
    pub(super) fn new(end: Option<Output>) -> Verdict<Self> {
        let end = end.ok_or_else(|| Seen("an output was not given".to_owned()))?;
        Ok(Self { end, buffer: vec![0; 16 * 1024], seen: String::new() })
    }

    /// Takes in some more; false at the end.
    async fn more(&mut self) -> Verdict<bool> {
        let read = self.end.read(&mut self.buffer).await;
        let count = read.map_err(|error| Seen(format!("reading an output failed: {error}")))?;
        self.seen.push_str(&String::from_utf8_lossy(&self.buffer[..count]));
        Ok(count > 0)
    }

    /// Reads until this was seen.
    pub(super) async fn until(&mut self, text: &str) -> Verdict {
        let found = async {
            while !self.seen.contains(text) {
                let more = self.more().await?;
                ensure!(more, "the output ended before {text:?}");
            }
            Ok(())
        };
        let found = within("reading", found).await.and_then(|found| found);
        found.map_err(|Seen(why)| Seen(format!("{why}; {text:?} was awaited, {} was read", self.shown())))
    }

    /// Reads to the end of file.
    pub(super) async fn rest(&mut self) -> Verdict<&str> {
        let ended = async {
            while self.more().await? {}
            Ok(())
        };
        let ended = within("the end of an output", ended).await.and_then(|ended| ended);
        ended.map_err(|Seen(why)| Seen(format!("{why}; {} was read", self.shown())))?;
        Ok(&self.seen)
    }

    /// Whether it ends in a moment.
    pub(super) async fn ends_briefly(&mut self) -> Verdict<bool> {
        let ended = async {
            while self.more().await? {}
            Ok(())
        };
        briefly(ended).await.map_or(Ok(false), |ended| ended.map(|()| true))
    }

    /// What was read, short enough for a message.
    fn shown(&self) -> String {
        let start: String = self.seen.chars().take(200).collect();
        format!("{start:?} ({} bytes)", self.seen.len())
    }
}
