//! Processes: start, look, read, write, stop.
//!
//! Not for streams of them: logs, events and attachments have files of their own.

use procyard_api::http::{ProcessDetails, ProcessPage, ProcessQuery, ResizeBody, StartReply};
use procyard_api::{
    BashArguments, InputArguments, InputResult, OutputArguments, OutputResult, StopArguments, StopResult,
};
use procyard_core::Handle;
use serde_json::Value;

use crate::client::Ask;
use crate::path::{of_process, with_query, without_process};
use crate::{Client, ClientError};

impl Client {
    /// Starts a command for this token's loop: in the background, or, as `background: false` is by default, with an answer when
    /// it has ended. With a key the same request gives the same process again, so that a
    /// broken connection can be followed by the same request.
    pub async fn start(&self, command: &BashArguments, key: Option<&str>) -> Result<StartReply, ClientError> {
        let ask = Ask::post("/v1/processes", &body_of_start(command)?)?;
        self.ask(match key {
            Some(key) => ask.header("idempotency-key", key),
            None => ask,
        })
        .await
    }

    /// Processes, newest first: the loop's own; of the administrator, all.
    pub async fn processes(&self, query: &ProcessQuery) -> Result<ProcessPage, ClientError> {
        self.look("/v1/processes", query).await
    }

    /// One process.
    pub async fn process(&self, handle: &Handle) -> Result<ProcessDetails, ClientError> {
        self.ask(Ask::get(of_process(handle, ""))).await
    }

    /// Output as safe text, by cursor; waits where the arguments say so. Of one process: the one in `handle`.
    pub async fn output(
        &self,
        handle: &Handle,
        arguments: &OutputArguments,
    ) -> Result<OutputResult, ClientError> {
        let query = without_process(arguments)?;
        self.ask(Ask::get(with_query(&of_process(handle, "/output"), &query)?)).await
    }

    /// Gives input.
    pub async fn input(&self, arguments: &InputArguments) -> Result<InputResult, ClientError> {
        let path = of_process(&arguments.process_id, "/input");
        self.ask(Ask::post(path, &without_process(arguments)?)?).await
    }

    /// Gives the terminal another size.
    pub async fn resize(&self, handle: &Handle, size: ResizeBody) -> Result<(), ClientError> {
        self.bytes(Ask::post(of_process(handle, "/resize"), &size)?).await.map(drop)
    }

    /// Stops a process with everything it started; resolves when that is proven, or cannot be.
    pub async fn stop(&self, arguments: &StopArguments) -> Result<StopResult, ClientError> {
        let path = of_process(&arguments.process_id, "/stop");
        self.ask(Ask::post(path, &without_process(arguments)?)?).await
    }

    /// Removes a completed process with its output.
    pub async fn remove_process(&self, handle: &Handle) -> Result<(), ClientError> {
        self.remove(of_process(handle, "")).await
    }
}

/// The arguments as the service is to understand them: where they do not say, it starts in the background, and false is what
/// they do not say.
fn body_of_start(command: &BashArguments) -> Result<Value, ClientError> {
    let body = serde_json::to_value(command);
    let mut body = body.map_err(|_| ClientError::Invalid("it cannot be written as JSON"))?;
    body["background"] = command.background.into();
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_in_the_foreground_is_asked_for_as_one() {
        for background in [false, true] {
            let command = BashArguments { background, ..BashArguments::default() };
            assert_eq!(body_of_start(&command).unwrap()["background"], background);
        }
    }
}
