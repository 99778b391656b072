//! `procyard attach`: a person's terminal becomes that of a process, until it ends or the person leaves it.
//!
//! Nothing of the person's terminal is changed before everything that can be refused has been asked. `keys` finds the keys
//! that mean leaving, `paint` shows what the process shows already, `screen` knows what has to be undone at the end. Not for
//! processes without a terminal: `procyard logs -f` and `procyard send` are for those.

mod keys;
mod paint;
mod screen;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use procyard_api::http::{AttachCommand, AttachQuery, AttachReport, ProcessDetails};
use procyard_api::{OutputArguments, Screen as Shown, View};
use procyard_client::{Attachment, Client, ClientError, FromProcess};
use procyard_core::{ErrorCode, Handle};
use procyard_runner::TerminalSize;
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use keys::DetachKeys;

use self::keys::{Detector, Typed};
use self::screen::Screen;
use super::ended::why_it_ends;
use super::wait::code_of;
use crate::caught::{Caught, stop_on_signals};
use crate::cli::AttachOptions;
use crate::exit;
use crate::problem::{refused, told};
use crate::terminal::{RawTerminal, read_input, size};

/// How much input is read at a time.
const INPUT_BYTES: usize = 16 * 1024;

/// Pieces of input that wait for a slow connection.
const PIECES: usize = 4;

/// How long a program has to notice the size that it gets only to paint itself anew.
const NOTICE: Duration = Duration::from_millis(100);

/// Why an attachment is over.
enum Over {
    /// The process has ended.
    Ended,
    /// The person left it.
    Left,
    /// Nobody sees it any more.
    Unseen,
    /// The service let go of it.
    Lost(Option<ClientError>),
}

/// The person's terminal while it is the process's; as it was when this is dropped, on every path.
struct Borrowed {
    raw: Option<RawTerminal>,
    screen: Screen,
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if self.raw.is_some() {
            // Where it cannot be written, nobody sees it.
            let _ = show(self.screen.undo().as_bytes());
        }
    }
}

pub(crate) async fn attach(options: AttachOptions) -> ExitCode {
    let result = be_there(&options).await;
    options.remote.told(result)
}

async fn be_there(options: &AttachOptions) -> anyhow::Result<u8> {
    let (client, handle, voice) = (options.remote.client()?, options.named.handle, options.remote.voice());
    let details = client.process(&handle).await?;
    if !details.entry.tty {
        let named = handle.reveal();
        return Err(refused(
            ErrorCode::PtyUnavailable,
            format!(
                "this process has no terminal; follow it with `procyard logs -f {named}`, write to it with `procyard send {named}`"
            ),
        ));
    }
    let live = !details.state.is_terminal();
    let (shown, cursor) = if options.replay || !live {
        (None, Some(details.retained_from))
    } else {
        shown(&client, &handle).await?
    };
    let mut attachment = client.attach(&handle, &AttachQuery { cursor }).await?;
    let stop = stop_on_signals()?;
    let mut quit = Caught::catch(SignalKind::quit())?;
    let mut resized = Caught::catch(SignalKind::window_change())?;
    if live {
        voice.note(format_args!("attached; {} leaves the process as it is", options.detach_keys));
    }
    // The output of one that has ended is shown, and nothing is typed to it.
    let raw = if live { RawTerminal::enter() } else { None };
    let mut borrowed = Borrowed { raw, screen: Screen::default() };
    let over = {
        let here = here(&mut attachment, &details, shown, options, &mut borrowed.screen, &mut resized);
        tokio::select! {
            over = here => over,
            () = stop.cancelled() => Ok(Over::Left),
            () = quit.recv() => Ok(Over::Left),
        }
    };
    drop(borrowed);
    match over? {
        Over::Ended => {
            let process = client.process(&handle).await?;
            voice.note(super::ps::state_in_words(&process));
            Ok(code_of(&process))
        }
        Over::Left => {
            attachment.detach().await;
            voice.note("left; the process goes on");
            Ok(0)
        }
        Over::Unseen => Ok(exit::BROKEN_PIPE),
        Over::Lost(error) => {
            let why = why_it_ends(&client, error).await;
            Err(why.context("the service let go of the process"))
        }
    }
}

/// What the process's terminal shows, and where the output goes on behind that.
async fn shown(client: &Client, handle: &Handle) -> anyhow::Result<(Option<Shown>, Option<u64>)> {
    let look =
        OutputArguments { process_id: Some(*handle), view: Some(View::Screen), ..OutputArguments::default() };
    let result = client.output(handle, &look).await?;
    Ok((result.screen, Some(result.next_cursor)))
}

/// Passes everything on in both directions.
async fn here(
    attachment: &mut Attachment,
    details: &ProcessDetails,
    shown: Option<Shown>,
    options: &AttachOptions,
    screen: &mut Screen,
    resized: &mut Caught,
) -> anyhow::Result<Over> {
    if let Some(shown) = &shown {
        let painted = paint::painted(shown, size().unwrap_or_default());
        screen.see(&painted);
        if !show(&painted)? {
            return Ok(Over::Unseen);
        }
    }
    // Whoever reads next gets what comes after this is dropped.
    let over = CancellationToken::new();
    let _guard = over.clone().drop_guard();
    let mut reading = !details.state.is_terminal();
    let mut input = if reading { typed(over) } else { mpsc::channel(1).1 };
    let mut detector = Detector::new(options.detach_keys.clone());
    let begun = if reading { begin_to_fit(attachment, details).await } else { Ok(None) };
    let (mut to_fit, mut unsent) = match begun {
        Ok(to_fit) => (to_fit, None),
        Err(error) => {
            reading = false;
            (None, Some(error))
        }
    };
    // Once something could not be sent, what the service sent before it let go is still to come, and says why.
    loop {
        let due = to_fit.unwrap_or_else(Instant::now);
        let done = tokio::select! {
            message = attachment.next() => match message {
                Ok(Some(FromProcess::Output(bytes))) => {
                    screen.see(&bytes);
                    if !tokio::task::spawn_blocking(move || show(&bytes)).await?? {
                        return Ok(Over::Unseen);
                    }
                    Ok(())
                }
                Ok(Some(FromProcess::Report(report))) => match report {
                    AttachReport::Ended { .. } => return Ok(Over::Ended),
                    AttachReport::Gap { from, until } => {
                        options.remote.voice().note(format_args!("bytes {from} to {until} are no longer kept\r"));
                        Ok(())
                    }
                    AttachReport::Refused { error } => {
                        options.remote.voice().note(format_args!("{}\r", told(&error).message));
                        Ok(())
                    }
                },
                Ok(Some(_)) => Ok(()),
                Ok(None) => return Ok(Over::Lost(unsent)),
                Err(error) => return Ok(Over::Lost(Some(error))),
            },
            piece = input.recv(), if reading => if let Some(piece) = piece {
                let Typed { bytes, leave } = detector.take(&piece);
                let sent = if bytes.is_empty() { Ok(()) } else { attachment.send(bytes).await };
                if leave {
                    return Ok(Over::Left);
                }
                sent
            } else {
                reading = false;
                attachment.command(AttachCommand::Eof).await
            },
            () = resized.recv(), if unsent.is_none() && !details.state.is_terminal() => {
                to_fit = None;
                fit(attachment).await
            }
            () = tokio::time::sleep_until(due), if to_fit.is_some() => {
                to_fit = None;
                fit(attachment).await
            }
        };
        if let Err(error) = done {
            (reading, to_fit, unsent) = (false, None, Some(error));
        }
    }
}

/// Begins to give the process this terminal's size. One that has it already would not paint itself anew, so it gets another
/// one first, and the right one when it has had time to notice: then.
async fn begin_to_fit(
    attachment: &mut Attachment,
    details: &ProcessDetails,
) -> Result<Option<Instant>, ClientError> {
    let Some(TerminalSize { rows, cols }) = size() else { return Ok(None) };
    if (details.rows, details.cols) == (Some(rows), Some(cols)) && cols > 1 {
        attachment.command(AttachCommand::Resize { rows, cols: cols - 1 }).await?;
        return Ok(Some(Instant::now() + NOTICE));
    }
    fit(attachment).await?;
    Ok(None)
}

/// Gives the process this terminal's size.
async fn fit(attachment: &mut Attachment) -> Result<(), ClientError> {
    match size() {
        Some(TerminalSize { rows, cols }) => attachment.command(AttachCommand::Resize { rows, cols }).await,
        None => Ok(()),
    }
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
