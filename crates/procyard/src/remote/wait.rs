//! `procyard wait`: until a process has ended, with its exit code.
//!
//! Not for output.

use std::process::ExitCode;
use std::time::Duration;

use procyard_api::http::ProcessDetails;
use procyard_api::{OutputArguments, UntilChoice, WaitChoice};
use procyard_client::{Client, ClientError};
use procyard_core::{Handle, State};
use tokio::time::{Instant, sleep, timeout_at};

use super::give_json;
use super::ps::state_in_words;
use crate::cli::WaitOptions;
use crate::exit;
use crate::say::say;
use crate::summary::millis_in_words;

/// What the service gets, beyond the time that is waited, to say that it is over.
const SLACK: Duration = Duration::from_secs(2);

/// The longest wait of one call.
const CALL_MAX: Duration = Duration::from_secs(600);

pub(crate) async fn wait(options: WaitOptions) -> ExitCode {
    let result = until_ended(&options).await;
    options.remote.told(result)
}

async fn until_ended(options: &WaitOptions) -> anyhow::Result<u8> {
    let client = options.remote.client()?;
    let handle = options.named.handle;
    // A deadline that the clock cannot tell is none.
    let deadline = options.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let asked = client.process(&handle);
        let process = match deadline.and_then(|deadline| deadline.checked_add(SLACK)) {
            None => asked.await?,
            Some(bound) => {
                let Ok(answered) = timeout_at(bound, asked).await else {
                    options.remote.voice().note("the service did not answer in time");
                    return Ok(exit::TIMED_OUT);
                };
                answered?
            }
        };
        if process.state.is_terminal() {
            tell(options, &process)?;
            return Ok(code_of(&process));
        }
        let left = deadline.map_or(CALL_MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            tell(options, &process)?;
            return Ok(exit::TIMED_OUT);
        }
        let within = left.min(CALL_MAX);
        match timeout_at(Instant::now() + within + SLACK, wait_once(&client, &handle, within)).await {
            Ok(Ok(())) | Err(_) => {}
            // All places to wait are taken: there is time to wait for one.
            Ok(Err(ClientError::Refused { retry_after: Some(after), .. })) => sleep(after.min(within)).await,
            Ok(Err(error)) => return Err(error.into()),
        }
    }
}

/// Waits for the end, at most so long.
async fn wait_once(client: &Client, handle: &Handle, within: Duration) -> Result<(), ClientError> {
    let arguments = OutputArguments {
        process_id: Some(*handle),
        // What was printed is not asked for.
        tail_bytes: Some(1),
        limit_bytes: Some(1),
        wait: Some(WaitChoice::Any),
        until: Some(UntilChoice::Exit),
        timeout_ms: Some(u64::try_from(within.as_millis().max(1)).unwrap_or(u64::MAX)),
        ..OutputArguments::default()
    };
    client.output(handle, &arguments).await?;
    Ok(())
}

fn tell(options: &WaitOptions, process: &ProcessDetails) -> anyhow::Result<()> {
    if options.remote.json {
        return give_json(process).map(drop);
    }
    let state = state_in_words(process);
    if process.state.is_terminal() {
        let ran = process.duration_ms.map(|millis| format!(" after {}", millis_in_words(millis)));
        say(format_args!("{state}{}", ran.unwrap_or_default()));
    } else {
        say(format_args!("still {state} when the wait was over"));
    }
    Ok(())
}

/// The code of an end, as `procyard run` gives it.
pub(super) fn code_of(process: &ProcessDetails) -> u8 {
    match (process.state, process.entry.exit_code, process.signal) {
        (State::TimedOut, ..) => exit::TIMED_OUT,
        (_, Some(code), _) => code,
        (_, None, Some(signal)) => exit::signalled(signal),
        _ => exit::FAULT,
    }
}
