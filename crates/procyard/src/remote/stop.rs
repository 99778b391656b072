//! `procyard stop`: ends a process with everything it started.
//!
//! Not for how a stop escalates: the service does that.

use std::fmt::Write as _;
use std::process::ExitCode;

use procyard_api::{StopArguments, StopMode};

use super::print_json;
use crate::cli::StopOptions;
use crate::exit;
use crate::say::say;

pub(crate) async fn stop(options: StopOptions) -> ExitCode {
    let result = end(&options).await;
    options.remote.told(result)
}

async fn end(options: &StopOptions) -> anyhow::Result<u8> {
    let client = options.remote.client()?;
    let mode: StopMode = options.mode.into();
    let arguments = StopArguments {
        process_id: options.named.handle,
        mode: Some(mode),
        grace_ms: options.grace.map(|seconds| seconds * 1000),
    };
    let result = client.stop(&arguments).await?;
    if options.remote.json {
        print_json(&result)?;
    } else {
        let mut text = result.status.as_str().replace('_', " ");
        if let Some(code) = result.exit_code {
            // Writing to a text does not fail.
            let _ = write!(text, " {code}");
        }
        if result.escalated {
            text.push_str("; some of it had to be killed");
        }
        if result.status.is_terminal() && !result.tree_exited {
            text.push_str("; not all of it is proven gone");
        }
        say(text);
    }
    // One that was interrupted may go on.
    let as_asked = mode == StopMode::Interrupt || result.tree_exited;
    Ok(if as_asked { 0 } else { exit::FAULT })
}
