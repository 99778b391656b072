//! What the tests share: runners of each tier, and processes that record themselves.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use nix::sys::signal::Signal as Number;
use procyard_core::{ExecutionId, Origin};
use procyard_host::{HostOptions, HostRunner, TierChoice};
use procyard_runner::{CommandSpec, Process, ProcessRequest, Runner, RunnerError, Tier, TreeProof};

/// Longer than anything here takes on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Shell text by which a process appends its own `/proc/self/stat` line to the record, behind the device of the `/proc` that
/// showed it: the numbers are those of that `/proc`.
const RECORD: &str = r#"while read -r _ _ device _ at _; do [ "$at" != /proc ] || proc=$device; done </proc/self/mountinfo
    read -r line </proc/self/stat; echo "$proc $line" >>"$PIDS""#;
/// Shell text of a process that records itself and stays.
const STAY: &str = r#"eval "$RECORD"; exec sleep 1000"#;

/// A process as it recorded itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Recorded {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) start: u64,
}

impl Recorded {
    /// Also says whether it lives: a process whose first thread has ended while others run is a zombie by its state.
    fn parse(line: &str) -> Option<(Self, bool)> {
        let (pid, rest) = line.split_once(' ')?;
        let fields: Vec<_> = rest.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let recorded = Self {
            pid: pid.parse().ok()?,
            parent: fields.get(1)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        };
        let is_zombie = matches!(*fields.first()?, "Z" | "X");
        Some((recorded, !is_zombie || fields.get(17)?.parse::<u32>().ok()? > 1))
    }

    /// What can be recorded of a process that is gone, and of which only inner numbers are known.
    const GONE: Self = Self { pid: 0, parent: 0, start: 0 };

    /// The process that has this number now.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(line.trim_end()).map(|(recorded, _)| recorded)
    }

    /// Whether this process, and not a later one of its number, still lives.
    pub(crate) fn is_alive(&self) -> bool {
        std::fs::read_to_string(format!("/proc/{}/stat", self.pid))
            .ok()
            .and_then(|line| Self::parse(line.trim_end()))
            .is_some_and(|(now, lives)| lives && now.start == self.start)
    }

    /// Signals this process if it is still the one that was recorded.
    pub(crate) fn signal(&self, number: Number) {
        if self.is_alive() {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid), number);
        }
    }

    pub(crate) fn parent_now(&self) -> Self {
        Self::of(Self::of(self.pid).expect("it lives").parent).expect("its parent lives")
    }
}

/// A directory in which processes record themselves.
pub(crate) struct Scene {
    pub(crate) directory: tempfile::TempDir,
    /// Lines of the record whose processes were found while they lived.
    known: Mutex<HashMap<String, Recorded>>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("pids"), "").unwrap();
        Self { directory, known: Mutex::default() }
    }

    pub(crate) fn pids(&self) -> PathBuf {
        self.directory.path().join("pids")
    }

    /// A file of this content and mode. Written by a process of its own: a descriptor that is open here is inherited by
    /// whatever another test forks meanwhile, and what somebody has open for writing is not executed.
    #[expect(clippy::disallowed_methods, reason = "prepares a file")]
    pub(crate) fn file(&self, name: &str, content: &str, mode: u32) -> PathBuf {
        let path = self.directory.path().join(name);
        let written = std::process::Command::new("sh")
            .args(["-c", r#"printf %s "$1" >"$0" && chmod "$2" "$0""#])
            .arg(&path)
            .args([content, &format!("{mode:o}")])
            .status();
        assert!(written.unwrap().success());
        path
    }

    /// Environment that the shell texts of the tests use.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        environment(&self.pids())
    }

    pub(crate) fn request(&self, line: &str) -> ProcessRequest {
        request_at(line, &self.environment())
    }

    pub(crate) fn recorded(&self) -> Vec<Recorded> {
        let text = std::fs::read_to_string(self.pids()).unwrap_or_default();
        let mut known = self.known.lock().unwrap();
        let mut seen = None;
        let whole = text.lines().filter_map(|line| Some((line, line.split_once(' ')?)));
        whole
            .filter_map(|(line, (device, stat))| {
                let (inner, _) = Recorded::parse(stat)?;
                if let Some(found) = known.get(line) {
                    return Some(*found);
                }
                let found = outer(&self.pids(), device, inner, &mut seen);
                if let Some(found) = found {
                    known.insert(line.to_owned(), found);
                }
                Some(found.unwrap_or(Recorded::GONE))
            })
            .collect()
    }

    /// Waits until so many processes have recorded themselves.
    pub(crate) fn wait_for_records(&self, at_least: usize) -> Vec<Recorded> {
        eventually("processes record themselves", || {
            let text = std::fs::read_to_string(self.pids()).unwrap_or_default();
            (text.lines().count() >= at_least).then_some(())
        });
        self.recorded()
    }

    /// Fails unless every recorded process is gone, now.
    #[track_caller]
    pub(crate) fn assert_no_survivor(&self) {
        let recorded = self.recorded();
        assert!(!recorded.is_empty(), "a scene without processes proves nothing");
        let alive: Vec<_> = recorded.into_iter().filter(Recorded::is_alive).collect();
        assert!(alive.is_empty(), "survivors: {alive:?}");
    }
}

/// The device of the `/proc` that a process, or the thread of one, sees.
fn proc_device(process: &Path) -> Option<String> {
    let mounts = std::fs::read_to_string(process.join("mountinfo")).ok()?;
    let device = |line: &str| {
        let fields: Vec<_> = line.split(' ').collect();
        (fields.get(4) == Some(&"/proc")).then(|| fields[2].to_owned())
    };
    mounts.lines().filter_map(device).next_back()
}

/// A process that sees another `/proc` than ours.
pub(crate) struct Namespaced {
    device: String,
    /// Its number in each PID namespace, ours first.
    numbers: Vec<i32>,
    recorded: Recorded,
    /// The record that it knows of, where its environment can be read and says so.
    pids: Option<Vec<u8>>,
}

/// All processes that see another `/proc` than ours.
pub(crate) fn namespaced() -> Vec<Namespaced> {
    let ours = proc_device(Path::new("/proc/self"));
    let look = |process: PathBuf| {
        let status = std::fs::read_to_string(process.join("status")).ok()?;
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        let numbers: Vec<i32> = numbers.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect();
        if numbers.len() < 2 {
            return None;
        }
        // The first thread may have ended, and then has no mounts.
        let threads = std::fs::read_dir(process.join("task")).ok()?;
        let device = threads.flatten().find_map(|thread| proc_device(&thread.path()))?;
        let recorded = Recorded::of(numbers[0])?;
        (Some(&device) != ours.as_ref()).then_some(Namespaced {
            device,
            numbers,
            recorded,
            pids: pids_of(&process),
        })
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit())
        .filter_map(|entry| look(entry.path()))
        .collect()
}

fn pids_of(process: &Path) -> Option<Vec<u8>> {
    let environment = std::fs::read(process.join("environ")).ok()?;
    environment.split(|byte| *byte == 0).find_map(|variable| Some(variable.strip_prefix(b"PIDS=")?.to_vec()))
}

/// The process that recorded itself so in this record, in our numbers; `None` when it is gone. `seen` is looked up once.
fn outer(pids: &Path, device: &str, inner: Recorded, seen: &mut Option<Vec<Namespaced>>) -> Option<Recorded> {
    if Some(device) == proc_device(Path::new("/proc/self")).as_deref() {
        return Some(inner);
    }
    // A `/proc` of the tier shows the numbers of the namespace right below ours, also of a process further below.
    let is_it = |process: &&Namespaced| {
        // Devices are used again, so that in one tick of the clock there can be two such processes, of two scenes.
        let of_another =
            process.pids.as_deref().is_some_and(|theirs| theirs != pids.as_os_str().as_encoded_bytes());
        process.device == device
            && process.numbers[1] == inner.pid
            && process.recorded.start == inner.start
            && !of_another
    };
    seen.get_or_insert_with(namespaced).iter().find(is_it).map(|process| process.recorded)
}

/// What a program says of itself, as [`RECORD`] does.
pub(crate) fn own_record() -> String {
    let device = proc_device(Path::new("/proc/thread-self")).unwrap();
    format!("{device} {}", std::fs::read_to_string("/proc/self/stat").unwrap())
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Only after a failure is there anything left.
        for recorded in self.recorded() {
            recorded.signal(Number::SIGKILL);
        }
    }
}

pub(crate) fn environment(pids: &Path) -> Vec<(&'static str, String)> {
    let this = std::env::current_exe().unwrap();
    vec![
        ("PIDS", pids.to_str().unwrap().to_owned()),
        ("RECORD", RECORD.to_owned()),
        ("STAY", STAY.to_owned()),
        ("THIS", this.to_str().unwrap().to_owned()),
    ]
}

pub(crate) fn origin() -> Origin {
    Origin { execution: ExecutionId::from_random([7; 16]) }
}

pub(crate) fn request(command: CommandSpec) -> ProcessRequest {
    ProcessRequest::new(command, "/", origin())
}

pub(crate) fn request_at(line: &str, environment: &[(&'static str, String)]) -> ProcessRequest {
    let mut request = request(CommandSpec::Shell(line.to_owned()));
    for (name, value) in environment {
        request.environment.changes.insert((*name).into(), Some(value.into()));
    }
    request
}

pub(crate) async fn runner(tier: &Tier) -> HostRunner {
    let options = HostOptions { tier: TierChoice::Require(tier.clone()), ..HostOptions::default() };
    HostRunner::start(options).await.expect("the tier is offered")
}

pub(crate) async fn start(
    runner: &HostRunner,
    request: ProcessRequest,
) -> Result<Box<dyn Process>, RunnerError> {
    within(async { runner.prepare(request).await?.start().await }).await
}

/// Fails instead of waiting for ever.
#[track_caller]
pub(crate) fn within<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        tokio::time::timeout(DEADLINE, future)
            .await
            .unwrap_or_else(|_| panic!("nothing happened within {DEADLINE:?}, at {caller}"))
    }
}

/// Looks again and again until there is something, and fails at the deadline.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) async fn assert_emptied(process: &dyn Process) {
    assert_eq!(within(process.emptied()).await, TreeProof::Empty);
}

const ALL_TIERS: [Tier; 3] = [Tier::CGROUP, Tier::SUBREAPER, Tier::PIDNS];

pub(crate) fn tier_named(name: &str) -> Tier {
    ALL_TIERS.into_iter().find(|tier| tier.as_str() == name).unwrap()
}

/// The tiers that this machine and user have.
fn tiers() -> Vec<Tier> {
    let offered = |tier: &Tier| {
        block_on(async {
            let options = HostOptions { tier: TierChoice::Require(tier.clone()), ..HostOptions::default() };
            match HostRunner::start(options).await {
                Ok(runner) => {
                    runner.shutdown().await;
                    true
                }
                Err(_) => false,
            }
        })
    };
    ALL_TIERS.into_iter().filter(offered).collect()
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Found once.
pub(crate) static TIERS: std::sync::LazyLock<Vec<Tier>> = std::sync::LazyLock::new(tiers);

/// A trial of a tier, if there is that tier.
pub(crate) fn on_tier<F, T>(tier: &Tier, name: &str, test: T) -> Option<Trial>
where
    F: Future<Output = ()>,
    T: Fn() -> F + Send + 'static,
{
    let trial = || {
        Trial::test(format!("{tier}::{name}"), move || {
            block_on(test());
            Ok(())
        })
    };
    TIERS.contains(tier).then(trial)
}

/// One trial for each tier that there is.
pub(crate) fn on_each_tier<F, T>(name: &'static str, test: T) -> Vec<Trial>
where
    F: Future<Output = ()>,
    T: Fn(Tier) -> F + Copy + Send + 'static,
{
    let trial = |tier: &Tier| {
        let tier = tier.clone();
        Trial::test(format!("{tier}::{name}"), move || {
            block_on(test(tier));
            Ok(())
        })
    };
    TIERS.iter().map(trial).collect()
}
