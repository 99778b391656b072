//! A client of a service that goes away and comes back: it asks again until it has its answer, and knows afterwards what it
//! started and what it was told.
//!
//! Not for ending the service: see `restart`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use procyard_api::http::{EventRecord, LogsQuery};
use procyard_api::{BashArguments, OutputArguments, StopArguments, UntilChoice, WaitChoice};
use procyard_client::{ClientError, CutOff};
use procyard_core::{ErrorCode, Handle, State};
use tokio::time::Instant;

use crate::request::{Broken, get, more};
use crate::service::{Loop, PATIENCE};
use crate::survivors::RECORD;

/// Commands that a client has under way at the same time.
const AT_ONCE: usize = 3;

/// Commands that are left running, for the service's end to find.
const LEFT: usize = 2;

/// What a client knows of one command.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) number: usize,
    pub(crate) handle: Handle,
    pub(crate) arguments: BashArguments,
    /// All that it prints, if it comes to that.
    pub(crate) prints: String,
    /// How it ended, where it was waited for.
    pub(crate) end: Option<State>,
}

impl Job {
    pub(crate) fn key(&self) -> String {
        format!("number {}", self.number)
    }
}

/// What all clients share.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) next: AtomicUsize,
    /// Nothing more is started.
    pub(crate) enough: AtomicBool,
    /// Guards what clients were told while there was no service, and how often; held to count one.
    pub(crate) told: Mutex<BTreeMap<String, usize>>,
}

pub(crate) struct Persistent {
    pub(crate) of: Loop,
    pub(crate) socket: PathBuf,
    pub(crate) shared: Arc<Shared>,
}

/// The command with this number: what to start, what it prints, and whether it stays.
fn command(number: usize) -> (BashArguments, String, bool) {
    let lines =
        |from: usize, to: usize| (from..=to).fold(String::new(), |told, line| told + &format!("{line}\n"));
    let (line, prints, stays) = match number % 5 {
        0 => ("true".to_owned(), String::new(), false),
        1 => (format!("seq {number} {}", number + 2000), lines(number, number + 2000), false),
        2 => (
            format!("for i in $(seq 30); do echo $i {number}; sleep 0.02; done"),
            (1..=30).fold(String::new(), |told, i| told + &format!("{i} {number}\n")),
            false,
        ),
        3 => (format!("sleep 0.2; echo {number}; exit 5"), format!("{number}\n"), false),
        _ => (
            format!(
                "(setsid sh -c '{}; exec sleep 1000' &); echo {number}; exec sleep 1000",
                RECORD.replace("read -r line", "read line")
            ),
            format!("{number}\n"),
            true,
        ),
    };
    let command = Some(format!("{RECORD}; echo {number} >>ran; {line}"));
    (BashArguments { command, background: true, ..BashArguments::default() }, prints, stays)
}

impl Persistent {
    /// Asks until there is an answer. While there is no service, or it is on its way out, that must be what it is told.
    pub(crate) async fn insist<T, F: Future<Output = Result<T, ClientError>>>(
        &self,
        mut call: impl FnMut() -> F,
    ) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let error = match call().await {
                Ok(answer) => return answer,
                Err(error) => error,
            };
            let excused = match &error {
                ClientError::Unreachable { .. }
                | ClientError::Broken(_)
                | ClientError::CutOff(CutOff::ShuttingDown) => true,
                ClientError::Refused { status, error, .. } => {
                    *status == 429 || (*status == 503 && error.code == ErrorCode::SupervisorShuttingDown)
                }
                _ => false,
            };
            assert!(excused, "{error:?}");
            assert!(Instant::now() < deadline, "{error:?}");
            let told = match error {
                ClientError::Unreachable { .. } => "no service answers".to_owned(),
                other => other.to_string(),
            };
            *self.shared.told.lock().unwrap().entry(told).or_default() += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Starts commands until it is enough, and ends what was left. All that it started.
    pub(crate) async fn work(&self) -> Vec<Job> {
        let jobs = join_all((0..AT_ONCE).map(|_| async {
            let (mut jobs, mut left) = (Vec::new(), Vec::new());
            while !self.shared.enough.load(Ordering::Relaxed) {
                let (job, stays) = self.one().await;
                if stays {
                    left.push(job);
                } else {
                    jobs.push(job);
                }
                if left.len() > LEFT {
                    jobs.push(self.ended(left.remove(0)).await);
                }
            }
            jobs.extend(join_all(left.into_iter().map(|job| self.ended(job))).await);
            jobs
        }))
        .await;
        jobs.into_iter().flatten().collect()
    }

    async fn one(&self) -> (Job, bool) {
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (arguments, prints, stays) = command(number);
        let key = format!("number {number}");
        let started = self.insist(|| self.of.client.start(&arguments, Some(&key))).await;
        let handle = started.result.process_id;
        let mut job = Job { number, handle, arguments, prints, end: None };
        if !stays {
            let until = OutputArguments {
                wait: Some(WaitChoice::Any),
                until: Some(UntilChoice::Exit),
                timeout_ms: Some(60_000),
                limit_bytes: Some(64),
                ..OutputArguments::default()
            };
            job.end = Some(self.insist(|| self.of.client.output(&handle, &until)).await.status);
            self.verify(&job).await;
        }
        (job, stays)
    }

    async fn ended(&self, job: Job) -> Job {
        let stop = StopArguments { process_id: job.handle, mode: None, grace_ms: None };
        let end = self.insist(|| self.of.client.stop(&stop)).await;
        let job = Job { end: Some(end.status), ..job };
        self.verify(&job).await;
        job
    }

    /// What is on record of a job: all that it printed, or, where the service ended it, the beginning of that.
    pub(crate) async fn verify(&self, job: &Job) {
        let found = self.insist(|| self.of.client.process(&job.handle)).await;
        assert_eq!(Some(found.state), job.end, "{job:?}");
        let printed = self.insist(|| self.log(&job.handle)).await;
        match found.state {
            State::Exited => assert!(printed == job.prints.as_bytes(), "{} bytes of {job:?}", printed.len()),
            State::LostOnRestore | State::Terminated | State::Killed => {
                assert!(job.prints.as_bytes().starts_with(&printed), "{} bytes of {job:?}", printed.len());
            }
            other => panic!("{other:?}: {job:?}"),
        }
        assert_eq!(printed.len() as u64, found.entry.total_bytes, "{job:?}");
    }

    async fn log(&self, handle: &Handle) -> Result<Vec<u8>, ClientError> {
        let mut log = self.of.client.logs(handle, &LogsQuery::default()).await?;
        let mut bytes = Vec::new();
        while let Some(more) = log.next().await? {
            bytes.extend_from_slice(&more);
        }
        Ok(bytes)
    }

    /// Follows the events of the loop for ever, as an event source does it: connected again behind the last `id` that came.
    pub(crate) async fn follow(&self, records: Arc<Mutex<Vec<EventRecord>>>) {
        loop {
            // Broken off is how it usually ends.
            let _ = self.follow_once(&records).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn follow_once(&self, records: &Mutex<Vec<EventRecord>>) -> Result<(), Broken> {
        let last = records.lock().unwrap().last().map_or(0, |record| record.seq).to_string();
        let path = "/v1/events/stream?output=false";
        let mut answer = get(&self.socket, &self.of.token, path, &[("last-event-id", &last)]).await?;
        if answer.status() != 200 {
            return Err("refused".into());
        }
        let mut text = String::new();
        while let Some(bytes) = more(answer.body_mut()).await? {
            text.push_str(std::str::from_utf8(&bytes)?);
            while let Some(end) = text.find("\n\n") {
                let event: String = text.drain(..end + 2).collect();
                let field =
                    |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                // Only records have an `id`.
                if let (Some(id), Some(data)) = (field("id:"), field("data:")) {
                    let record: EventRecord = serde_json::from_str(data)?;
                    assert_eq!(id.parse::<u64>()?, record.seq);
                    records.lock().unwrap().push(record);
                }
            }
        }
        Ok(())
    }
}
