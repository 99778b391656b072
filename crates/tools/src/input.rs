//! `ProcessInput`: writes to a process, and waits for its answer where it is asked to.
//!
//! Not for queueing or for the order among callers: the supervisor has one writer per process.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use procyard_api::{DataEncoding, Encoding, InputArguments, InputResult, OutputResult, View};
use procyard_core::{Effects, ErrorCode, PublicError};
use procyard_runner::TerminalSize;
use procyard_supervisor::{
    InputRequest, Snapshot, StdinClosed, StreamFilter, SupervisorError, Target, Telling, Until, WaitMode,
};
use procyard_text::shorten;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ground::ground_before;
use crate::keys;
use crate::output::{look_at, millis, output_probe, result};
use crate::page::{Look, forward};
use crate::render;
use crate::reply::Answer;
use crate::screen::terminal;
use crate::source::Supervised;
use crate::toolbox::Toolbox;

/// Bytes of one input, data and keys together.
const INPUT_MAX: usize = 1 << 20;

/// Carries a call out. Once the input is accepted, dropping the future does not take it back.
///
/// `told` is cancelled as soon as the input was accepted or refused.
pub(crate) async fn input(
    toolbox: &Toolbox,
    arguments: InputArguments,
    telling: &mut Telling,
    told: &CancellationToken,
) -> Result<Answer, PublicError> {
    // Before anything happens: whether every key and every byte can be.
    let mut request = request(&arguments, false)?;
    let (supervisor, owner, handle) = (toolbox.supervisor(), toolbox.owner(), arguments.process_id);
    let snapshot = supervisor.snapshot(owner, &handle).map_err(|error| error.public())?;
    if arguments.keys.is_some() && snapshot.terminal.is_none() {
        let message = "keys need a terminal; start it with tty: true, or send `data`";
        return Err(PublicError::new(ErrorCode::PtyUnavailable, message).field("keys"));
    }
    let screen = arguments.view == Some(View::Screen);
    if screen {
        terminal(&snapshot)?;
    }
    if arguments.cursor.is_some_and(|cursor| cursor > snapshot.total_bytes) {
        return Err(SupervisorError::CursorAhead { total_bytes: snapshot.total_bytes }.public());
    }
    let source = Supervised { supervisor, owner, handle, streams: StreamFilter::Both };
    let keys = arguments.keys.iter().flatten();
    if keys.into_iter().any(|key| keys::has_application_form(key))
        && toolbox.screens().application_keys(&source, snapshot).await
    {
        request = self::request(&arguments, true)?;
    }
    let patience = millis(arguments.yield_time_ms);
    // Before anything is written: what was written and is then not waited for would be repeated by its caller.
    let place = (!patience.is_zero()).then(|| supervisor.reserve_wait()).transpose();
    let place = place.map_err(|error| error.public())?;
    telling.outcome(handle);
    let accepted = supervisor.input(owner, &handle, request).await;
    told.cancel();
    let accepted = accepted.map_err(|error| match error {
        SupervisorError::StdinClosed(StdinClosed::Ended(_)) => {
            ended(supervisor.snapshot(owner, &handle), error)
        }
        other => other.public(),
    })?;

    let limit = arguments.limit_bytes.unwrap_or(supervisor.limits().inline_bytes);
    let look = Look {
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
        encoding: Encoding::SafeText,
        collapse: true,
    };
    let written = |error: PublicError| error.effects(Effects::Started);
    // What was incomplete then was shown to nobody, and its rest alone would be no text.
    let before =
        if screen { accepted.cursor_before } else { ground_before(&source, accepted.cursor_before).await };
    if let Some(mut place) = place {
        let end = Instant::now() + patience;
        let probe = if screen { None } else { output_probe(StreamFilter::Both, &look) };
        let target = Target { handle, cursor: before, probe };
        let waited = place
            .wait(owner, WaitMode::Any, Until::Probe, vec![target], patience)
            .await
            .map_err(|error| written(error.public()))?;
        let quiet = millis(arguments.quiet_ms);
        if !quiet.is_zero() && waited.iter().all(|target| target.satisfied) {
            let within = end.saturating_duration_since(Instant::now());
            place.quiet(owner, &handle, quiet, within).await.map_err(|error| written(error.public()))?;
        }
    }
    let (screen, shown) = if screen {
        look_at(toolbox, &source, look.limit).await.map_err(written)?
    } else {
        let cursor = arguments.cursor.unwrap_or(before);
        (None, forward(&source, cursor, &look).await.map_err(written)?)
    };
    let pending_bytes = shown.snapshot.pending_input;
    let output = OutputResult { screen, ..result(shown) };
    let told = if output.status.is_terminal() { vec![handle] } else { Vec::new() };
    let text = render::process_output(&output, Encoding::SafeText);
    let result = InputResult { accepted_bytes: accepted.accepted_bytes, pending_bytes, output };
    Ok(Answer::new(&result, text)?.telling(told))
}

/// Input that came too late is told how the process has ended.
fn ended(snapshot: Result<Snapshot, SupervisorError>, error: SupervisorError) -> PublicError {
    let public = error.public();
    match snapshot.ok().and_then(|snapshot| Some((snapshot.state, snapshot.outcome?))) {
        Some((state, outcome)) => {
            let how = render::ending(state, outcome.exit_code, outcome.signal);
            PublicError {
                message: format!("the process has ended ({how}); it takes no more input"),
                ..public
            }
        }
        None => public,
    }
}

/// Checks the arguments and puts the bytes together; `application`: with the application form of the cursor keys.
fn request(arguments: &InputArguments, application: bool) -> Result<InputRequest, PublicError> {
    let size = match (arguments.rows, arguments.cols) {
        (Some(rows), Some(cols)) => Some(TerminalSize { rows, cols }),
        (None, None) => None,
        (Some(_), None) => return Err(PublicError::argument("cols", "is missing: a size has rows and cols")),
        (None, Some(_)) => return Err(PublicError::argument("rows", "is missing: a size has rows and cols")),
    };
    if arguments.data_encoding.is_some() && arguments.data.is_none() {
        return Err(PublicError::argument("data_encoding", "needs `data`"));
    }
    if arguments.view == Some(View::Screen) && arguments.cursor.is_some() {
        return Err(PublicError::argument("cursor", "does not go with view: screen"));
    }
    if arguments.quiet_ms.is_some() && arguments.yield_time_ms.is_none() {
        return Err(PublicError::argument("quiet_ms", "needs yield_time_ms"));
    }
    let empty = arguments.data.as_deref().is_none_or(str::is_empty)
        && arguments.keys.as_ref().is_none_or(Vec::is_empty);
    if empty && !arguments.eof && size.is_none() {
        return Err(PublicError::argument(
            "data",
            "give at least one of data, keys, eof, rows and cols; to read only, use ProcessOutput",
        ));
    }
    let mut data = match (&arguments.data, arguments.data_encoding.unwrap_or_default()) {
        (None, _) => Vec::new(),
        (Some(text), DataEncoding::Utf8) => text.clone().into_bytes(),
        (Some(text), DataEncoding::Base64) => STANDARD
            .decode(text)
            .map_err(|_| PublicError::argument("data", "is not standard base64 with padding"))?,
    };
    for key in arguments.keys.iter().flatten() {
        let bytes = keys::bytes_of(key, application).ok_or_else(|| {
            let message = format!(
                "there is no key `{}`; keys are enter tab esc space backspace up down left right home end pgup pgdn \
                 delete ctrl-a … ctrl-z f1 … f12",
                shorten(key, 40)
            );
            PublicError::argument("keys", message)
        })?;
        data.extend_from_slice(bytes);
    }
    if data.len() > INPUT_MAX {
        let message =
            format!("must have at most {INPUT_MAX} bytes together with the keys, has {}", data.len());
        return Err(PublicError::argument("data", message));
    }
    Ok(InputRequest { size, data, eof: arguments.eof })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(mut arguments: serde_json::Value) -> Result<InputRequest, PublicError> {
        arguments["process_id"] = json!("AAECAwQFBgcICQoLDA0ODw");
        request(&serde_json::from_value(arguments).unwrap(), false)
    }

    #[test]
    fn input_is_size_then_data_then_keys_then_end_of_file() {
        let request =
            parse(json!({"eof": true, "keys": ["up", "ctrl-c"], "data": "é", "rows": 40, "cols": 90}))
                .unwrap();
        assert_eq!(request.size, Some(TerminalSize { rows: 40, cols: 90 }));
        assert_eq!(request.data, "é\x1b[A\x03".as_bytes());
        assert!(request.eof);
    }

    #[test]
    fn data_can_be_any_bytes() {
        assert_eq!(parse(json!({"data": "/wA=", "data_encoding": "base64"})).unwrap().data, b"\xff\0");
    }

    #[test]
    fn bad_input_is_refused_by_name() {
        for (arguments, field) in [
            (json!({}), "data"),
            (json!({"data": ""}), "data"),
            (json!({"data": "", "keys": []}), "data"),
            (json!({"rows": 4}), "cols"),
            (json!({"cols": 4}), "rows"),
            (json!({"data": "x", "cursor": 0, "view": "screen"}), "cursor"),
            (json!({"data": "x", "quiet_ms": 5}), "quiet_ms"),
            (json!({"eof": true, "data_encoding": "base64"}), "data_encoding"),
            (json!({"data": "%", "data_encoding": "base64"}), "data"),
            (json!({"keys": ["hyper"]}), "keys"),
            (json!({"data": "x".repeat(INPUT_MAX + 1)}), "data"),
            (json!({"data": "x".repeat(INPUT_MAX), "keys": ["up"]}), "data"),
        ] {
            assert_eq!(parse(arguments.clone()).unwrap_err().field.as_deref(), Some(field), "{field}");
        }
    }
}
