//! `procyard run`: one command, supervised here; its output passed on as it comes, then one line that says how it ended.
//!
//! Not for keeping records: its session is removed when it is over.

use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use procyard_core::{ExecutionId, Handle, LeaderEnd, Origin, State, StopKind, WaitStatus};
use procyard_runner::{CommandSpec, ProcessRequest, StdinMode};
use procyard_supervisor::{
    CommandRecord, Lease, Pace, ReadFrom, ReadRequest, Snapshot, StartOptions, StopRequest, StreamFilter,
    Target, Until, WaitMode,
};
use procyard_tools::{CommandLines, words};
use tokio::sync::watch;

use crate::cli::RunOptions;
use crate::config::{Config, Effective};
use crate::limits::unenforced;
use crate::pages::write_page;
use crate::problem::without_number;
use crate::say::{Voice, say};
use crate::session::{Keep, Session, Which};
use crate::terminal::{RawTerminal, Signals};
use crate::{exit, log, summary, terminal};

/// How much is read and passed on at a time.
const PAGE_BYTES: usize = 256 * 1024;

/// How far the command may run ahead of a slow reader of our output.
const AHEAD_BYTES: u64 = 4 * 1024 * 1024;

/// How long one wait for output lasts before it is renewed; output, the end and signals wake it at once.
const WAIT: Duration = Duration::from_secs(3600);

/// How long a reader may read nothing, once a person wanted the end and the command has ended.
const READER_PATIENCE: Duration = Duration::from_secs(3);

/// Runs the command and gives its exit code.
pub(crate) async fn run(options: RunOptions) -> ExitCode {
    let voice = Voice::of(options.json);
    match supervise(options, voice).await {
        Ok(code) => code.into(),
        Err(error) => exit::fault_as(&error, voice),
    }
}

async fn supervise(options: RunOptions, voice: Voice) -> anyhow::Result<u8> {
    // Caught before anything is made, so that a signal meanwhile leaves nothing behind either.
    let signals = Signals::catch()?;
    let configured = options.config.load(options.limits.flags())?;
    log::start(&voice.logs(&configured.config.log))?;
    let data_dir = options.data.resolve()?;
    let host = options.limits.of_runner(&configured.config);
    let session = Session::open(&data_dir, Which::New, None, Keep::Nothing, &configured, host).await?;
    let outcome = attend(&session, &options, &configured, signals, voice).await;
    let (root, closed) = session.close().await;
    // Nobody can ask for it any more. What cannot be removed is removed with other ended sessions.
    let removed = tokio::task::spawn_blocking(move || root.remove(&data_dir)).await;
    if let Ok(Err(error)) = removed {
        tracing::warn!(%error, "the session of this run could not be removed");
    }
    if !closed.failed.is_empty() {
        voice.note("some processes could not be proven gone");
    }
    outcome
}

async fn attend(
    session: &Session,
    options: &RunOptions,
    configured: &Effective,
    signals: Signals,
    voice: Voice,
) -> anyhow::Result<u8> {
    let config = &configured.config;
    let runner = session.runners().resolve(session.owner)?;
    let workdir = workdir(options)?;
    let (command, record) = command(options, config, &workdir)?;
    let size = if options.tty { Some(terminal::size().unwrap_or_default()) } else { None };
    let stdin = if options.no_stdin && !options.tty { StdinMode::Null } else { StdinMode::Open };
    let origin = Origin { execution: ExecutionId::from_random(*uuid::Uuid::new_v4().as_bytes()) };
    let deadline = options.timeout;
    let limits = options.limits.of_each(config);
    if !options.json {
        unenforced(config, &session.runner.report()).into_iter().for_each(say);
    }
    let request = ProcessRequest {
        environment: config.environment(),
        terminal: size,
        stdin,
        deadline,
        limits: limits.clone(),
        ..ProcessRequest::new(command, workdir, origin)
    };
    let prepared = runner.prepare(request).await?;
    let (consumed, pace) = watch::channel(0);
    let start = StartOptions {
        deadline,
        terminal: size,
        stdin,
        limits,
        pace: Some(Pace { consumed: pace.clone(), ahead: AHEAD_BYTES }),
        ..StartOptions::new(record)
    };
    let handle =
        session.supervisor.start(session.owner, origin, prepared, Lease::none(), start).await?.handle();
    let raw = if options.tty { RawTerminal::enter() } else { None };
    let run = Run { session, handle, voice };
    let (told, told_to_end) = watch::channel(false);
    let attended = {
        let output = run.pass_output_on(&consumed);
        tokio::pin!(output);
        let input = run.pass_input_on(stdin);
        tokio::pin!(input);
        let obeyed = run.obey(signals, options.tty, told);
        tokio::pin!(obeyed);
        let given_up = run.give_up(told_to_end, pace);
        tokio::pin!(given_up);
        let mut taking = true;
        loop {
            tokio::select! {
                ended = &mut output => break ended,
                ended = &mut given_up => break ended,
                () = &mut input, if taking => taking = false,
                () = &mut obeyed => {}
            }
        }
    };
    drop(raw);
    let ended = attended?;
    // A reader that has seen enough, such as head(1), means no failure that anybody needs to be told of: as with any other
    // writer to a pipe, the code says it.
    if voice == Voice::Json || !matches!(ended.output, Passed::NobodyReads) {
        summary::tell(&ended.snapshot, voice);
    }
    Ok(match ended.output {
        Passed::NobodyReads => exit::BROKEN_PIPE,
        Passed::Failed => exit::FAULT,
        Passed::On => code_of(&ended.snapshot),
    })
}

/// One command and the session that was made for it.
pub(crate) struct Run<'s> {
    pub(crate) session: &'s Session,
    pub(crate) handle: Handle,
    pub(crate) voice: Voice,
}

/// How the command ended, and what became of its output.
struct Ended {
    snapshot: Snapshot,
    output: Passed,
}

/// What became of the output.
enum Passed {
    /// It was passed on, or given up because a person wanted the end.
    On,
    /// Its reader went away.
    NobodyReads,
    /// It could not be written.
    Failed,
}

impl Run<'_> {
    /// Passes every byte on, in order, each stream to its own descriptor, until the process is terminal and all is told.
    async fn pass_output_on(&self, consumed: &watch::Sender<u64>) -> anyhow::Result<Ended> {
        let (supervisor, owner, handle) = (&self.session.supervisor, self.session.owner, self.handle);
        let mut cursor = 0;
        loop {
            let request = ReadRequest {
                from: ReadFrom::Cursor(cursor),
                max_bytes: PAGE_BYTES,
                streams: StreamFilter::Both,
            };
            let (page, snapshot) = supervisor.read(owner, &handle, request).await?;
            let (next, total) = (page.next_cursor, page.total_bytes);
            if next > cursor {
                if page.gap {
                    let missing: u64 = page.gaps.iter().map(|gap| gap.until - gap.from).sum();
                    self.voice.note(format_args!("{missing} bytes of output could not be kept"));
                }
                cursor = next;
                let write = move || write_page(&page, std::io::stdout().as_fd(), std::io::stderr().as_fd());
                let written = tokio::task::spawn_blocking(write).await?;
                consumed.send_replace(cursor);
                if let Err(error) = written {
                    return self.end_unread(&error).await;
                }
                continue;
            }
            if snapshot.state.is_terminal() && cursor >= total {
                return Ok(Ended { snapshot, output: Passed::On });
            }
            let target = Target { handle, cursor, probe: None };
            supervisor.wait(owner, WaitMode::Any, Until::Probe, vec![target], WAIT).await?;
        }
    }

    /// Nobody reads any more, or nothing can be written: the command is ended, as a broken pipe would have ended it.
    async fn end_unread(&self, error: &std::io::Error) -> anyhow::Result<Ended> {
        let output = if error.kind() == std::io::ErrorKind::BrokenPipe {
            Passed::NobodyReads
        } else {
            self.voice
                .note(format_args!("output could not be written: {}", without_number(&error.to_string())));
            Passed::Failed
        };
        let stop = StopRequest { kind: StopKind::Terminate, grace: None };
        let snapshot = self.session.supervisor.stop(self.session.owner, &self.handle, stop).await?;
        Ok(Ended { snapshot, output })
    }

    /// Once a person wanted the end and the command has ended, its unread output is kept for a reader that reads on;
    /// one that reads nothing for a while keeps nobody.
    async fn give_up(
        &self,
        mut told_to_end: watch::Receiver<bool>,
        mut consumed: watch::Receiver<u64>,
    ) -> anyhow::Result<Ended> {
        if told_to_end.wait_for(|told| *told).await.is_err() {
            return std::future::pending().await;
        }
        let (supervisor, owner) = (&self.session.supervisor, self.session.owner);
        loop {
            let target = Target { handle: self.handle, cursor: 0, probe: None };
            supervisor.wait(owner, WaitMode::Any, Until::Exit, vec![target], WAIT).await?;
            let snapshot = supervisor.snapshot(owner, &self.handle)?;
            if snapshot.state.is_terminal()
                && tokio::time::timeout(READER_PATIENCE, consumed.changed()).await.is_err()
            {
                let left = snapshot.total_bytes.saturating_sub(*consumed.borrow());
                self.voice
                    .note(format_args!("about {left} bytes of output were not passed on: nobody read them"));
                return Ok(Ended { snapshot, output: Passed::On });
            }
        }
    }
}

fn workdir(options: &RunOptions) -> anyhow::Result<PathBuf> {
    match &options.workdir {
        Some(named) => std::path::absolute(named).context("the working directory's path is not usable"),
        None => std::env::current_dir().context("the current directory is gone; name one with --workdir"),
    }
}

fn command(
    options: &RunOptions,
    config: &Config,
    workdir: &std::path::Path,
) -> anyhow::Result<(CommandSpec, CommandRecord)> {
    let workdir = workdir.to_string_lossy();
    let argv = match (&options.line, config.command_lines()) {
        (Some(line), CommandLines::Shell) => {
            return Ok((CommandSpec::Shell(line.clone()), CommandRecord::line(line, &workdir)));
        }
        (Some(line), CommandLines::Words) => {
            words(line).map_err(|refused| anyhow::anyhow!("the command line {refused}"))?
        }
        (None, _) => options.argv.clone(),
    };
    let record = CommandRecord::argv(&argv, &workdir);
    Ok((CommandSpec::Argv(argv), record))
}

fn code_of(snapshot: &Snapshot) -> u8 {
    let outcome = snapshot.outcome.as_ref();
    if snapshot.state == State::TimedOut {
        return exit::TIMED_OUT;
    }
    match outcome.and_then(|outcome| outcome.wait_status).map(WaitStatus::end) {
        Some(LeaderEnd::Code(code)) => code,
        Some(LeaderEnd::Signal(signal)) => exit::signalled(signal),
        Some(LeaderEnd::Unknown) | None => exit::FAULT,
    }
}
