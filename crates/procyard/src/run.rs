//! `procyard run`: one command, supervised here; its output passed on as it comes, then one line that says how it ended.
//!
//! Not for keeping records: its session is removed when it is over.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use procyard_core::{ExecutionId, Handle, LeaderEnd, Origin, State, Stream, WaitStatus};
use procyard_manifest::SessionRoot;
use procyard_runner::{CommandSpec, ProcessRequest, Runner as _, StdinMode};
use procyard_supervisor::{
    CommandRecord, Lease, Pace, Page, ReadFrom, ReadRequest, Snapshot, StartOptions, StreamFilter, Target,
    Until, WaitMode,
};
use tokio::sync::watch;

use crate::cli::RunOptions;
use crate::session::Session;
use crate::terminal::RawTerminal;
use crate::{exit, summary, terminal};

/// How much is read and passed on at a time.
const PAGE_BYTES: usize = 256 * 1024;

/// How far the command may run ahead of a slow reader of our output.
const AHEAD_BYTES: u64 = 4 * 1024 * 1024;

/// How long one wait for output lasts before it is renewed; output, the end and signals wake it at once.
const WAIT: Duration = Duration::from_secs(3600);

/// Runs the command and gives its exit code.
pub(crate) async fn run(options: RunOptions) -> ExitCode {
    match supervise(options).await {
        Ok(code) => code.into(),
        Err(error) => exit::fault(&error),
    }
}

async fn supervise(options: RunOptions) -> anyhow::Result<u8> {
    let data_dir = options.data.resolve()?;
    let session = Session::open(&data_dir, None, None).await?;
    let place = SessionRoot::path_of(&data_dir, session.owner.session);
    let outcome = attend(&session, &options).await;
    let survivors = session.close().await;
    // Nobody can ask for it any more. What cannot be removed is removed with other ended sessions.
    let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(place)).await;
    if let Ok(Err(error)) = removed {
        tracing::warn!(%error, "the session of this run could not be removed");
    }
    if survivors > 0 {
        eprintln!("procyard: some processes could not be proven gone");
    }
    outcome
}

async fn attend(session: &Session, options: &RunOptions) -> anyhow::Result<u8> {
    let workdir = workdir(options)?;
    let (command, record) = command(options, &workdir);
    let size = if options.tty { Some(terminal::size()) } else { None };
    let stdin = if options.no_stdin && !options.tty { StdinMode::Null } else { StdinMode::Open };
    let origin = Origin { execution: ExecutionId::from_random(*uuid::Uuid::new_v4().as_bytes()) };
    let deadline = options.timeout.map(Duration::from_secs);
    let request =
        ProcessRequest { terminal: size, stdin, deadline, ..ProcessRequest::new(command, workdir, origin) };
    let prepared = session.runner.prepare(request).await?;
    let (consumed, pace) = watch::channel(0);
    let start = StartOptions {
        deadline,
        terminal: size,
        stdin,
        pace: Some(Pace { consumed: pace, ahead: AHEAD_BYTES }),
        ..StartOptions::new(record)
    };
    // Signals are caught from here on, so that none falls between the start and its supervision.
    let signals = terminal::Signals::catch()?;
    let handle =
        session.supervisor.start(session.owner, origin, prepared, Lease::none(), start).await?.handle();
    let raw = if options.tty { RawTerminal::enter() } else { None };
    let attended = {
        let output = pass_output_on(session, handle, &consumed);
        tokio::pin!(output);
        let input = terminal::pass_input_on(session, handle, stdin);
        tokio::pin!(input);
        let obeyed = signals.obey(session, handle, options.tty);
        tokio::pin!(obeyed);
        let mut taking = true;
        loop {
            tokio::select! {
                snapshot = &mut output => break snapshot,
                () = &mut input, if taking => taking = false,
                () = &mut obeyed => {}
            }
        }
    };
    drop(raw);
    let ended = attended?;
    summary::tell(&ended.snapshot, options.json);
    Ok(match ended.reader_gone {
        true => exit::signalled(procyard_core::SignalNumber::new(13).unwrap_or(procyard_core::SIGTERM)),
        false => code_of(&ended.snapshot),
    })
}

/// How the command ended, and whether nobody read its output any more.
struct Ended {
    snapshot: Snapshot,
    reader_gone: bool,
}

/// Passes every byte on, in order, each stream to its own descriptor, until the process is terminal and all is told.
async fn pass_output_on(
    session: &Session,
    handle: Handle,
    consumed: &watch::Sender<u64>,
) -> anyhow::Result<Ended> {
    let mut cursor = 0;
    loop {
        let request = ReadRequest {
            from: ReadFrom::Cursor(cursor),
            max_bytes: PAGE_BYTES,
            streams: StreamFilter::Both,
        };
        let (page, snapshot) = session.supervisor.read(session.owner, &handle, request).await?;
        let (next, total) = (page.next_cursor, page.total_bytes);
        if next > cursor {
            if page.gap {
                eprintln!(
                    "procyard: {} bytes of output could not be kept",
                    page.start_cursor.saturating_sub(cursor)
                );
            }
            cursor = next;
            let written = tokio::task::spawn_blocking(move || write_page(&page)).await?;
            consumed.send_replace(cursor);
            if let Err(error) = written {
                return reader_gone(session, handle, &error).await;
            }
            continue;
        }
        if snapshot.state.is_terminal() && cursor >= total {
            return Ok(Ended { snapshot, reader_gone: false });
        }
        let target = Target { handle, cursor, probe: None };
        session.supervisor.wait(session.owner, WaitMode::Any, Until::Probe, vec![target], WAIT).await?;
    }
}

/// Nobody reads any more: the command is ended, as a broken pipe would have ended it.
async fn reader_gone(session: &Session, handle: Handle, error: &std::io::Error) -> anyhow::Result<Ended> {
    if error.kind() != std::io::ErrorKind::BrokenPipe {
        eprintln!("procyard: output could not be written: {error}");
    }
    let stop = procyard_supervisor::StopRequest { kind: procyard_core::StopKind::Terminate, grace: None };
    let snapshot = session.supervisor.stop(session.owner, &handle, stop).await?;
    Ok(Ended { snapshot, reader_gone: true })
}

/// Writes a page, each span to the descriptor of its stream. Blocking, for as long as the reader takes.
fn write_page(page: &Page) -> std::io::Result<()> {
    let (mut stdout, mut stderr) = (std::io::stdout().lock(), std::io::stderr().lock());
    for span in &page.spans {
        let bytes = &page.bytes[span.offset..span.offset + span.len];
        match span.stream {
            Stream::Stdout | Stream::Terminal => stdout.write_all(bytes)?,
            Stream::Stderr => stderr.write_all(bytes)?,
        }
    }
    stdout.flush()
}

fn workdir(options: &RunOptions) -> anyhow::Result<PathBuf> {
    match &options.workdir {
        Some(named) => std::path::absolute(named).context("the working directory's path is not usable"),
        None => std::env::current_dir().context("the current directory is gone; name one with --workdir"),
    }
}

fn command(options: &RunOptions, workdir: &std::path::Path) -> (CommandSpec, CommandRecord) {
    let workdir = workdir.to_string_lossy();
    match &options.line {
        Some(line) => (CommandSpec::Shell(line.clone()), CommandRecord::line(line, &workdir)),
        None => (CommandSpec::Argv(options.argv.clone()), CommandRecord::argv(&options.argv, &workdir)),
    }
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
