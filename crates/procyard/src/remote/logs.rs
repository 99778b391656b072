//! `procyard logs`: the output of a process, byte for byte.
//!
//! Not for safe text: that is what `procyard export` and the tools give.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use procyard_api::http::LogsQuery;
use procyard_client::{Client, ClientError};

use super::ended::why_it_ends;
use crate::cli::LogsOptions;
use crate::exit;

pub(crate) async fn logs(options: LogsOptions) -> ExitCode {
    let result = pass_on(&options).await;
    options.remote.told(result)
}

async fn pass_on(options: &LogsOptions) -> anyhow::Result<u8> {
    let client = options.remote.client()?;
    let query = LogsQuery {
        stream: options.stream.map(Into::into),
        tail_lines: options.tail.filter(|lines| *lines > 0),
        // No lines is no tail: it begins where the output ends now.
        cursor: match options.tail {
            Some(0) => Some(client.process(&options.named.handle).await?.entry.total_bytes),
            _ => None,
        },
        follow: options.follow.then_some(true),
        ..LogsQuery::default()
    };
    let mut logs = client.logs(&options.named.handle, &query).await?;
    loop {
        let bytes = match logs.next().await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return over(options, &client).await,
            Err(error) => return Err(cut_off(&client, Some(error)).await),
        };
        // A slow reader slows the service's reading, and the process not at all.
        let written = tokio::task::spawn_blocking(move || {
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(&bytes).and_then(|()| stdout.flush())
        });
        match written.await? {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(exit::BROKEN_PIPE),
            Err(error) => return Err(error).context("output could not be written"),
        }
    }
}

/// The output has ended. What was followed has only ended when its process has.
async fn over(options: &LogsOptions, client: &Client) -> anyhow::Result<u8> {
    if !options.follow {
        return Ok(0);
    }
    match client.process(&options.named.handle).await {
        Ok(process) if process.state.is_terminal() => Ok(0),
        Ok(_) => Err(cut_off(client, None).await),
        Err(error) => Err(cut_off(client, Some(error)).await),
    }
}

async fn cut_off(client: &Client, error: Option<ClientError>) -> anyhow::Error {
    why_it_ends(client, error).await.context("the output breaks off here")
}
