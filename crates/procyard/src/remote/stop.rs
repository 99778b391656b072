//! `procyard stop`: ends a process with everything it started.
//!
//! Not for how a stop escalates: the service does that.

use std::fmt::Write as _;
use std::process::ExitCode;

use procyard_api::{StopArguments, StopMode};
use procyard_core::{Effects, ErrorCode, PublicError};

use super::give_json;
use crate::cli::StopOptions;
use crate::say::say;

pub(crate) async fn stop(options: StopOptions) -> ExitCode {
    let result = end(&options).await;
    options.remote.told(result.map(|()| 0))
}

async fn end(options: &StopOptions) -> anyhow::Result<()> {
    let client = options.remote.client()?;
    let mode: StopMode = options.mode.into();
    let arguments = StopArguments {
        process_id: options.named.handle,
        mode: Some(mode),
        grace_ms: options.grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX)),
    };
    let result = client.stop(&arguments).await?;
    if options.remote.json {
        give_json(&result)?;
    } else {
        let mut text = result.status.as_str().replace('_', " ");
        if let Some(code) = result.exit_code {
            // Writing to a text does not fail.
            let _ = write!(text, " {code}");
        }
        if result.escalated {
            text.push_str("; some of it had to be killed");
        }
        say(text);
    }
    // One that was interrupted may go on.
    if mode == StopMode::Interrupt || result.tree_exited {
        return Ok(());
    }
    let unproven = "not all of it is proven gone; that is tried again for as long as the service runs";
    Err(PublicError::new(ErrorCode::TeardownFailed, unproven).effects(Effects::Started).into())
}
