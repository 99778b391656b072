//! `procyard send`: input to a process.
//!
//! Not for conversations: `procyard attach` is at its terminal.

use std::io::Read as _;
use std::process::ExitCode;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use procyard_api::{DataEncoding, InputArguments};
use procyard_core::{ErrorCode, Handle};

use super::give_json;
use crate::cli::SendOptions;
use crate::problem::refused;

/// The most that one call takes.
const DATA_MAX: u64 = 1 << 20;

/// How much is given in one call, so that a pipe in the process's way is not flooded at once.
const PIECE: usize = 256 * 1024;

pub(crate) async fn send(options: SendOptions) -> ExitCode {
    let result = give(&options).await;
    options.remote.told(result.map(|()| 0))
}

async fn give(options: &SendOptions) -> anyhow::Result<()> {
    let client = options.remote.client()?;
    let handle = options.named.handle;
    let mut data = match options.text.as_deref() {
        Some("-") => {
            // Before anything is read that nobody could be given.
            client.process(&handle).await?;
            tokio::task::spawn_blocking(read_stdin).await??
        }
        Some(text) => text.as_bytes().to_vec(),
        None => Vec::new(),
    };
    if options.newline {
        data.push(b'\n');
    }
    let nothing = data.is_empty() && options.keys.is_empty() && !options.eof;
    if nothing {
        let message = "there is nothing to send; give a text, --key or --eof";
        return Err(refused(ErrorCode::InvalidArguments, message));
    }
    let mut pieces: Vec<_> = data.chunks(PIECE).map(|piece| of_data(handle, piece)).collect();
    if !options.keys.is_empty() || options.eof {
        let keys = (!options.keys.is_empty()).then(|| options.keys.clone());
        pieces.push(InputArguments { keys, eof: options.eof, ..of_data(handle, &[]) });
    }
    let (mut accepted, mut last) = (0, None);
    for piece in pieces {
        let result = client.input(&piece).await.with_context(|| told(accepted))?;
        accepted += result.accepted_bytes;
        last = Some(result);
    }
    match last {
        Some(result) if options.remote.json => give_json(&serde_json::json!({
            "accepted_bytes": accepted, "pending_bytes": result.pending_bytes, "status": result.output.status,
        }))
        .map(drop),
        _ => Ok(()),
    }
}

fn told(accepted: u64) -> String {
    if accepted == 0 { "nothing was sent".to_owned() } else { format!("only {accepted} bytes were sent") }
}

fn of_data(handle: Handle, data: &[u8]) -> InputArguments {
    let (text, encoding) = match std::str::from_utf8(data) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (STANDARD.encode(data), Some(DataEncoding::Base64)),
    };
    InputArguments {
        data: (!data.is_empty()).then_some(text),
        data_encoding: encoding,
        // What it prints is not asked for.
        limit_bytes: Some(1),
        ..InputArguments::to(handle)
    }
}

fn read_stdin() -> anyhow::Result<Vec<u8>> {
    let mut data = Vec::new();
    std::io::stdin()
        .lock()
        .take(DATA_MAX + 1)
        .read_to_end(&mut data)
        .context("standard input could not be read")?;
    if data.len() as u64 > DATA_MAX {
        return Err(refused(ErrorCode::TooLarge, format!("at most {DATA_MAX} bytes can be sent at once")));
    }
    Ok(data)
}
