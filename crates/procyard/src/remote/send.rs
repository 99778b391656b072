//! `procyard send`: input to a process, as much as there is and no faster than it is read.
//!
//! Not for conversations: `procyard attach` is at its terminal.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use procyard_api::{DataEncoding, InputArguments, StdinState};
use procyard_client::{Client, ClientError};
use procyard_core::{Effects, ErrorCode, Handle, PublicError, State};
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, sleep};

use super::give_json;
use crate::cli::SendOptions;
use crate::problem::{refused, told_by};

/// How much is given in one call: a part of what the service keeps for a process that does not read, so that one that reads
/// slowly makes room for the next piece before anybody loses patience.
const PIECE: usize = 64 * 1024;

/// How long the first look for room waits; each after it waits twice as long, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_millis(500);

pub(crate) async fn send(options: SendOptions) -> ExitCode {
    let result = give(&options).await;
    options.remote.told(result.map(|()| 0))
}

async fn give(options: &SendOptions) -> anyhow::Result<()> {
    let handle = options.named.handle;
    let mut last = InputArguments {
        keys: (!options.keys.is_empty()).then(|| options.keys.clone()),
        eof: options.eof,
        ..InputArguments::to(handle)
    };
    let mut given = Given::of(options)?;
    let mut rest = match options.text.as_deref() {
        Some("-") => {
            // Before anything is read that nobody could be given.
            let stdin = given.look().await?;
            if stdin != StdinState::Open {
                return Err(given.closed(stdin));
            }
            given.standard_input().await?;
            Vec::new()
        }
        Some(text) => text.as_bytes().to_vec(),
        None => Vec::new(),
    };
    if options.newline {
        rest.push(b'\n');
    }
    let from_text = options.text.as_deref() != Some("-");
    if from_text && rest.is_empty() && last.keys.is_none() && !last.eof {
        let message = "there is nothing to send; give a text, --key or --eof";
        return Err(refused(ErrorCode::InvalidArguments, message));
    }
    // What follows the text goes with the end of it, so that both are taken or neither.
    let end = rest.len() - rest.len() % PIECE;
    for piece in rest[..end].chunks(PIECE) {
        given.piece(&with_data(InputArguments::to(handle), piece)).await?;
    }
    last = with_data(last, &rest[end..]);
    if last.data.is_some() || last.keys.is_some() || last.eof {
        given.piece(&last).await?;
    }
    given.tell(options)
}

/// What was given so far.
struct Given {
    client: Client,
    handle: Handle,
    patience: Duration,
    accepted: u64,
    /// What the process had not taken at the last look.
    pending: u64,
    status: Option<State>,
}

impl Given {
    fn of(options: &SendOptions) -> anyhow::Result<Self> {
        let (client, handle) = (options.remote.client()?, options.named.handle);
        Ok(Self { client, handle, patience: options.timeout, accepted: 0, pending: 0, status: None })
    }

    /// How the process stands, and whether it takes input.
    async fn look(&mut self) -> Result<StdinState, ClientError> {
        let process = self.client.process(&self.handle).await?;
        (self.pending, self.status) = (process.pending_input_bytes, Some(process.entry.status));
        Ok(process.entry.stdin)
    }

    /// Why nothing is read for a process that takes no input.
    fn closed(&self, stdin: StdinState) -> anyhow::Error {
        let ended = self.status.filter(|status| status.is_terminal());
        let why = match (ended, stdin) {
            (_, StdinState::None) => "it was started without standard input".to_owned(),
            (Some(status), _) => format!("it has ended ({status})"),
            (None, _) => "it has closed its input, or end of file was sent".to_owned(),
        };
        refused(ErrorCode::StdinClosed, format!("nothing was sent: the process takes no input, {why}"))
    }

    /// Everything that comes on standard input, as it comes.
    async fn standard_input(&mut self) -> anyhow::Result<()> {
        let (mut stdin, mut piece) = (tokio::io::stdin(), vec![0; PIECE]);
        loop {
            let read = stdin.read(&mut piece).await.context("standard input could not be read")?;
            if read == 0 {
                return Ok(());
            }
            self.piece(&with_data(InputArguments::to(self.handle), &piece[..read])).await?;
        }
    }

    /// Gives one piece; where there is no room for it, as soon as there is.
    async fn piece(&mut self, arguments: &InputArguments) -> anyhow::Result<()> {
        // What it prints is not asked for.
        let arguments = InputArguments { limit_bytes: Some(1), ..arguments.clone() };
        let (mut pause, mut unread_since) = (FIRST_PAUSE, Instant::now());
        loop {
            match self.client.input(&arguments).await {
                Ok(result) => {
                    self.accepted += result.accepted_bytes;
                    (self.pending, self.status) = (result.pending_bytes, Some(result.output.status));
                    return Ok(());
                }
                Err(error) if is_full(&error) => {
                    let before = self.pending;
                    self.look().await.map_err(|error| self.broken_off(&error, Fate::NotTaken))?;
                    if self.pending != before {
                        unread_since = Instant::now();
                    } else if unread_since.elapsed() >= self.patience {
                        return Err(self.broken_off(&error, Fate::NotTaken));
                    }
                    sleep(pause).await;
                    pause = (pause * 2).min(LAST_PAUSE);
                }
                Err(error) => {
                    let fate = Fate::of(&arguments, &error);
                    return Err(self.broken_off(&error, fate));
                }
            }
        }
    }

    /// Why it ends here, and after how much.
    fn broken_off(&self, error: &ClientError, fate: Fate) -> anyhow::Error {
        let why = told_by(error);
        let (told, effects) = match (self.accepted, fate) {
            (0, Fate::NotTaken) => ("nothing was sent".to_owned(), Effects::None),
            (1, Fate::NotTaken) => ("only the first byte was sent".to_owned(), Effects::Started),
            (accepted, Fate::NotTaken) => {
                (format!("only the first {accepted} bytes were sent"), Effects::Started)
            }
            (0, Fate::Unknown { bytes: None }) => {
                ("it is not known what was sent".to_owned(), Effects::Unknown)
            }
            (0, Fate::Unknown { bytes: Some(most) }) => {
                (format!("it is not known whether anything was sent, at most {most} bytes"), Effects::Unknown)
            }
            (accepted, Fate::Unknown { bytes }) => {
                let most = bytes.map(|bytes| format!(", and at most {}", accepted + bytes));
                let told =
                    format!("at least the first {accepted} bytes were sent{}", most.unwrap_or_default());
                (told, Effects::Unknown)
            }
        };
        anyhow::Error::new(PublicError { effects, ..why }).context(told)
    }

    fn tell(&self, options: &SendOptions) -> anyhow::Result<()> {
        if !options.remote.json {
            return Ok(());
        }
        let told = serde_json::json!({
            "accepted_bytes": self.accepted, "pending_bytes": self.pending, "status": self.status,
        });
        give_json(&told).map(drop)
    }
}

/// What became of a piece that was not answered as it should have been. It is taken whole or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The process was not given any of it.
    NotTaken,
    /// It may have been given it, which is so many bytes; of keys only the service knows how many.
    Unknown { bytes: Option<u64> },
}

impl Fate {
    fn of(arguments: &InputArguments, error: &ClientError) -> Self {
        let not_taken = match error {
            ClientError::Refused { error, .. } => error.effects == Effects::None,
            ClientError::Unreachable { .. } | ClientError::Stranger { .. } | ClientError::Invalid(_) => true,
            _ => false,
        };
        if not_taken {
            return Self::NotTaken;
        }
        let data = arguments.data.as_deref().unwrap_or_default();
        let bytes = match arguments.data_encoding {
            Some(DataEncoding::Base64) => STANDARD.decode(data).map_or(0, |data| data.len()),
            _ => data.len(),
        };
        // That of the end of input alone there are none says nothing.
        let counted = arguments.keys.is_none() && bytes > 0;
        Self::Unknown { bytes: u64::try_from(bytes).ok().filter(|_| counted) }
    }
}

/// Whether there was no room, and there may be later.
fn is_full(error: &ClientError) -> bool {
    error.refusal().is_some_and(|refusal| refusal.code == ErrorCode::InputBackpressure)
}

fn with_data(arguments: InputArguments, data: &[u8]) -> InputArguments {
    let (text, encoding) = match std::str::from_utf8(data) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (STANDARD.encode(data), Some(DataEncoding::Base64)),
    };
    InputArguments { data: (!data.is_empty()).then_some(text), data_encoding: encoding, ..arguments }
}
