//! A client that starts commands, does with each what its kind says, and checks every answer.
//!
//! Not for a service that goes away meanwhile: see `rounds`.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use procyard_api::http::{EventStreamQuery, LogsQuery, ProcessQuery};
use procyard_api::{
    InputArguments, Notification, OutputArguments, OutputResult, StopArguments, StopMode, StreamChoice,
    UntilChoice, WaitChoice,
};
use procyard_client::{Client, ClientError, StreamEvent};
use procyard_core::{Handle, State};

use crate::commands::{Command, Kind, PIECES, piece_of};
use crate::service::Loop;
use crate::tally::Tally;

/// Each so many starts are sent a second time with the same key.
const REPEATED: usize = 10;

pub(crate) struct Worker {
    pub(crate) of: Loop,
    pub(crate) tally: Arc<Tally>,
    /// Guards the news that came with results; held to add some.
    pub(crate) told: Mutex<Vec<Notification>>,
    /// Guards the news that were taken out of the inbox; held to add some.
    pub(crate) seen: Mutex<Vec<Notification>>,
    /// Guards what was started here; held to add one.
    pub(crate) known: Mutex<HashSet<Handle>>,
}

/// A command that was started.
pub(crate) struct Done {
    pub(crate) handle: Handle,
    pub(crate) command: Command,
}

impl Worker {
    pub(crate) fn new(of: Loop, tally: &Arc<Tally>) -> Self {
        Self {
            of,
            tally: Arc::clone(tally),
            told: Mutex::default(),
            seen: Mutex::default(),
            known: Mutex::default(),
        }
    }

    fn client(&self) -> &Client {
        &self.of.client
    }

    /// Starts a command of this kind, and sees it to its end and what it recorded. One that is unwatched may still run.
    pub(crate) async fn carry_out(&self, kind: Kind, number: usize) -> Done {
        let command = kind.command(number);
        let handle = self.start(&command, number).await;
        match kind {
            Kind::Unwatched => return Done { handle, command },
            Kind::Nothing | Kind::Lines | Kind::Both | Kind::Flood | Kind::TimedOut | Kind::Foreground => {}
            Kind::Input => self.give_input(handle, number).await,
            Kind::Terminal => {
                self.wait(handle, UntilChoice::Match, Some("ready")).await;
                let line = InputArguments { data: Some(format!("{number}\n")), ..InputArguments::to(handle) };
                self.give(&line).await;
            }
            Kind::Stopped | Kind::Killed => {
                self.wait(handle, UntilChoice::Output, None).await;
                self.stop(handle, kind).await;
            }
            Kind::Followed => self.follow(handle, &command).await,
        }
        self.wait(handle, UntilChoice::Exit, None).await;
        let done = Done { handle, command };
        self.verify(&done).await;
        done
    }

    async fn start(&self, command: &Command, number: usize) -> Handle {
        let key = format!("number {number}");
        let what = if command.kind == Kind::Foreground { "run for 0.1 s" } else { "start" };
        let start = || self.client().start(&command.arguments, Some(&key));
        let started = self.tally.call(what, start).await;
        let handle = started.result.process_id;
        self.known.lock().unwrap().insert(handle);
        if command.kind == Kind::Foreground {
            assert!(started.process.state.is_terminal(), "{started:?}");
        }
        self.told.lock().unwrap().extend(started.result.notifications);
        if number.is_multiple_of(REPEATED) {
            let again = self.tally.call("start again", start).await;
            assert_eq!(again.result.process_id, handle, "a key names one process");
            self.told.lock().unwrap().extend(again.result.notifications);
        }
        handle
    }

    async fn wait(&self, handle: Handle, until: UntilChoice, pattern: Option<&str>) -> OutputResult {
        let arguments = OutputArguments {
            wait: Some(WaitChoice::Any),
            until: Some(until),
            pattern: pattern.map(str::to_owned),
            timeout_ms: Some(60_000),
            limit_bytes: Some(64),
            ..OutputArguments::default()
        };
        let answer = self.tally.call("wait", || self.client().output(&handle, &arguments)).await;
        if until == UntilChoice::Exit {
            assert!(answer.status.is_terminal(), "a wait of a minute is not long enough: {answer:?}");
        }
        self.told.lock().unwrap().extend(answer.notifications.iter().cloned());
        answer
    }

    async fn give(&self, input: &InputArguments) {
        let answer = self.tally.call("input", || self.client().input(input)).await;
        self.told.lock().unwrap().extend(answer.output.notifications);
    }

    async fn give_input(&self, handle: Handle, number: usize) {
        for piece in 0..PIECES {
            let data = Some(piece_of(number, piece));
            self.give(&InputArguments { data, eof: piece + 1 == PIECES, ..InputArguments::to(handle) }).await;
        }
    }

    async fn stop(&self, handle: Handle, kind: Kind) {
        let mode = if kind == Kind::Killed { StopMode::Kill } else { StopMode::Terminate };
        let arguments = StopArguments { process_id: handle, mode: Some(mode), grace_ms: None };
        let what = if kind == Kind::Killed { "stop, kill" } else { "stop, terminate" };
        let stopped = self.tally.call(what, || self.client().stop(&arguments)).await;
        assert!(stopped.tree_exited, "{stopped:?}");
        self.told.lock().unwrap().extend(stopped.notifications);
    }

    /// Follows the log and the events of a process to their ends.
    async fn follow(&self, handle: Handle, command: &Command) {
        let query = LogsQuery { follow: Some(true), ..LogsQuery::default() };
        let log = async {
            let mut log =
                self.tally.call("logs -f, first byte", || self.client().logs(&handle, &query)).await;
            let mut bytes = Vec::new();
            while let Some(more) = log.next().await.unwrap() {
                bytes.extend_from_slice(&more);
            }
            bytes
        };
        let events = async {
            let query = EventStreamQuery::default();
            let stream =
                self.tally.call("event stream", || self.client().event_stream(Some(&handle), &query));
            let mut stream = stream.await;
            let mut ends = 0;
            while let Some(event) = stream.next().await.unwrap() {
                match event {
                    StreamEvent::Record(record) => ends += usize::from(record.kind.is_end()),
                    StreamEvent::Output(_) => {}
                    other => panic!("{other:?}"),
                }
            }
            ends
        };
        let (log, ends) = tokio::join!(log, events);
        assert!(log == command.stdout, "{} followed bytes of {}", log.len(), command.stdout.len());
        assert_eq!(ends, 1, "the stream of a process ends with it");
    }

    /// Checks the whole record of a process that has ended.
    pub(crate) async fn verify(&self, done: &Done) {
        let Done { handle, command } = done;
        let found = self.tally.call("look", || self.client().process(handle)).await;
        let total = command.stdout.len() + command.stderr.len();
        let ended = (found.state, found.entry.exit_code);
        assert_eq!((ended, found.entry.total_bytes), (command.end, total as u64), "{found:?}");
        assert!(found.tree_exited && !found.storage_degraded && !found.teardown_failed, "{found:?}");
        if command.stderr.is_empty() {
            self.verify_log(done, StreamChoice::Both, &command.stdout).await;
        } else {
            self.verify_log(done, StreamChoice::Stdout, &command.stdout).await;
            self.verify_log(done, StreamChoice::Stderr, &command.stderr).await;
        }
    }

    async fn verify_log(&self, done: &Done, stream: StreamChoice, expected: &[u8]) {
        let query = LogsQuery { stream: Some(stream), ..LogsQuery::default() };
        let what = if done.command.kind == Kind::Flood { "logs, 2.7 MB" } else { "logs" };
        let read = self.tally.call(what, || self.log(&done.handle, &query)).await;
        let kind = done.command.kind;
        assert!(read == expected, "{kind:?}: {} bytes of {}, or other ones", read.len(), expected.len());
    }

    async fn log(&self, handle: &Handle, query: &LogsQuery) -> Result<Vec<u8>, ClientError> {
        let mut log = self.client().logs(handle, query).await?;
        let mut bytes = Vec::new();
        while let Some(more) = log.next().await? {
            bytes.extend_from_slice(&more);
        }
        Ok(bytes)
    }

    /// All processes of the loop, a page at a time.
    pub(crate) async fn list(&self) -> HashSet<Handle> {
        let mut query = ProcessQuery { limit: Some(100), ..ProcessQuery::default() };
        let mut found = HashSet::new();
        loop {
            let page = self.tally.call("list", || self.client().processes(&query)).await;
            found.extend(page.processes.iter().map(|process| process.entry.process_id));
            query.page = page.next_page;
            if query.page.is_none() {
                return found;
            }
        }
    }

    /// Waits until this has ended, without asking for it: by the list.
    pub(crate) async fn ended(&self, handles: &HashSet<Handle>) {
        let deadline = tokio::time::Instant::now() + crate::service::PATIENCE;
        let query = ProcessQuery { limit: Some(100), state: Some(State::Running), ..ProcessQuery::default() };
        loop {
            let running = self.tally.call("list", || self.client().processes(&query)).await;
            if !running.processes.iter().any(|process| handles.contains(&process.entry.process_id)) {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "all that was started ends");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}
