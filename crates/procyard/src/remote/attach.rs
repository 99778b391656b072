//! `procyard attach`: a person's terminal becomes that of a process, until it ends or the person leaves it.
//!
//! `keys` finds the keys that mean leaving, `screen` knows what has to be undone then. Not for processes without a
//! terminal alone: their output is shown and their input is given just the same.

mod keys;
mod screen;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use procyard_api::http::{AttachCommand, AttachQuery, AttachReport, ProcessDetails};
use procyard_client::{Attachment, Client, FromProcess};
use procyard_runner::TerminalSize;
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(crate) use keys::DetachKeys;

use self::keys::{Detector, Typed};
use self::screen::Screen;
use super::wait::code_of;
use crate::caught::{Caught, stop_on_signals};
use crate::cli::AttachOptions;
use crate::say::say;
use crate::terminal::{RawTerminal, read_input, size};

/// How much input is read at a time.
const INPUT_BYTES: usize = 16 * 1024;

/// Pieces of input that wait for a slow connection.
const PIECES: usize = 4;

/// Why an attachment is over.
enum Over {
    /// The process has ended.
    Ended,
    /// The person left it, or nobody sees it any more.
    Left,
    /// The service let go of it.
    Lost,
}

pub(crate) async fn attach(options: AttachOptions) -> ExitCode {
    let result = be_there(&options).await;
    options.remote.told(result)
}

async fn be_there(options: &AttachOptions) -> anyhow::Result<u8> {
    let client = options.remote.client()?;
    let handle = options.named.handle;
    let details = client.process(&handle).await?;
    let cursor = (options.replay || details.state.is_terminal()).then_some(details.retained_from);
    let mut attachment = client.attach(&handle, &AttachQuery { cursor }).await?;
    let stop = stop_on_signals()?;
    let mut resized = Caught::catch(SignalKind::window_change())?;
    if details.entry.tty {
        say(format_args!("attached; {} leaves the process as it is", options.detach_keys));
    }
    let raw = if details.entry.tty { RawTerminal::enter() } else { None };
    let mut screen = Screen::default();
    let over = {
        let here = here(&mut attachment, &details, options, &mut screen, &mut resized);
        tokio::select! {
            over = here => over,
            () = stop.cancelled() => Ok(Over::Left),
        }
    };
    if raw.is_some() {
        show(screen.undo().as_bytes())?;
    }
    drop(raw);
    match over? {
        Over::Ended => ended(&client, options).await,
        Over::Left => {
            attachment.detach().await;
            say("left; the process goes on");
            Ok(0)
        }
        Over::Lost => anyhow::bail!("the service let go of the process; look at it with `procyard ps`"),
    }
}

async fn ended(client: &Client, options: &AttachOptions) -> anyhow::Result<u8> {
    let process = client.process(&options.named.handle).await?;
    say(super::ps::state_in_words(&process));
    Ok(code_of(&process))
}

/// Passes everything on in both directions.
async fn here(
    attachment: &mut Attachment,
    details: &ProcessDetails,
    options: &AttachOptions,
    screen: &mut Screen,
    resized: &mut Caught,
) -> anyhow::Result<Over> {
    // Whoever reads next gets what comes after this is dropped.
    let over = CancellationToken::new();
    let _guard = over.clone().drop_guard();
    let mut input = typed(over);
    let mut detector = Detector::new(options.detach_keys.clone());
    let mut reading = true;
    if details.entry.tty {
        fit(attachment, details).await?;
    }
    loop {
        tokio::select! {
            message = attachment.next() => match message? {
                Some(FromProcess::Output(bytes)) => {
                    screen.see(&bytes);
                    if !tokio::task::spawn_blocking(move || show(&bytes)).await?? {
                        return Ok(Over::Left);
                    }
                }
                Some(FromProcess::Report(AttachReport::Ended { .. })) => return Ok(Over::Ended),
                Some(FromProcess::Report(AttachReport::Gap { from, until })) => {
                    say(format_args!("bytes {from} to {until} are no longer kept\r"));
                }
                Some(FromProcess::Report(AttachReport::Refused { error })) => say(format_args!("{}\r", error.message)),
                Some(_) => {}
                None => return Ok(Over::Lost),
            },
            piece = input.recv(), if reading => match piece {
                Some(piece) if details.entry.tty => {
                    let Typed { bytes, leave } = detector.take(&piece);
                    if !bytes.is_empty() {
                        attachment.send(bytes).await?;
                    }
                    if leave {
                        return Ok(Over::Left);
                    }
                }
                Some(piece) => attachment.send(piece).await?,
                None => {
                    reading = false;
                    attachment.command(AttachCommand::Eof).await?;
                }
            },
            () = resized.recv(), if details.entry.tty => {
                if let Some(TerminalSize { rows, cols }) = size() {
                    attachment.command(AttachCommand::Resize { rows, cols }).await?;
                }
            }
        }
    }
}

/// Gives the process this terminal's size. One that has it already would not paint itself anew, so it gets another one
/// first.
async fn fit(attachment: &mut Attachment, details: &ProcessDetails) -> anyhow::Result<()> {
    let Some(TerminalSize { rows, cols }) = size() else { return Ok(()) };
    if (details.rows, details.cols) == (Some(rows), Some(cols)) && cols > 1 {
        attachment.command(AttachCommand::Resize { rows, cols: cols - 1 }).await?;
    }
    Ok(attachment.command(AttachCommand::Resize { rows, cols }).await?)
}

/// What is typed, until its end. The reading thread ends with the program: a read cannot be cancelled.
fn typed(over: CancellationToken) -> mpsc::Receiver<Vec<u8>> {
    let (sender, typed) = mpsc::channel(PIECES);
    tokio::task::spawn_blocking(move || {
        while let Ok(piece) = read_input(INPUT_BYTES, &over) {
            if piece.is_empty() || sender.blocking_send(piece).is_err() {
                return;
            }
        }
    });
    typed
}

/// Writes to stdout; false when nobody reads it any more.
fn show(bytes: &[u8]) -> anyhow::Result<bool> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).context("output could not be written"),
    }
}
