//! `ProcessOutput` arguments, checked completely, as what is to be read and waited for.
//!
//! Not for reading: see `output`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use procyard_api::{Encoding, OutputArguments, StreamChoice, UntilChoice, View, WaitChoice};
use procyard_core::{ErrorCode, Handle, Limits, PublicError, Stream};
use procyard_supervisor::{StreamFilter, WaitMode};

use crate::output::millis;
use crate::page::{Look, Tail};
use crate::pattern::Pattern;

/// The longest wait when a call does not say.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where the page of a process begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    Cursor(u64),
    Tail(Tail),
}

/// What a call waits for.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub(crate) mode: WaitMode,
    pub(crate) until: UntilChoice,
    pub(crate) pattern: Option<Arc<Pattern>>,
    pub(crate) timeout: Duration,
    pub(crate) quiet: Duration,
}

/// A read that passed every check.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) targets: Vec<(Handle, Begin)>,
    /// The answer is a list.
    pub(crate) several: bool,
    pub(crate) look: Look,
    pub(crate) streams: StreamFilter,
    /// What the terminals show, and not what was printed.
    pub(crate) screen: bool,
    /// `None`: it does not wait.
    pub(crate) awaited: Option<Awaited>,
}

impl Question {
    /// Checks the arguments.
    pub(crate) fn new(arguments: OutputArguments, limits: &Limits) -> Result<Self, PublicError> {
        let tail = tail(&arguments)?;
        let (targets, several) = targets(&arguments, tail)?;
        let encoding = arguments.encoding.unwrap_or_default();
        if encoding == Encoding::Base64 && arguments.collapse == Some(true) {
            return Err(PublicError::argument("collapse", "is for safe_text; base64 gives the exact bytes"));
        }
        let screen = arguments.view == Some(View::Screen);
        if screen {
            refuse_beside_screen(&arguments)?;
        }
        let limit = arguments.limit_bytes.unwrap_or(limits.inline_bytes);
        let look = Look {
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            encoding,
            collapse: arguments.collapse.unwrap_or(true),
        };
        let awaited = awaited(&arguments)?;
        let streams = filter(arguments.stream.unwrap_or_default());
        Ok(Self { targets, several, look, streams, screen, awaited })
    }
}

impl Question {
    /// An error of one process, under the name that its cursor has in this question.
    pub(crate) fn named(&self, error: PublicError) -> PublicError {
        let ahead = self.several && error.code == ErrorCode::CursorAhead;
        if ahead { error.field("cursors") } else { error }
    }
}

/// A screen is no part of the stream.
fn refuse_beside_screen(arguments: &OutputArguments) -> Result<(), PublicError> {
    let given = [
        ("tail_bytes", arguments.tail_bytes.is_some()),
        ("tail_lines", arguments.tail_lines.is_some()),
        ("encoding", arguments.encoding.is_some_and(|encoding| encoding != Encoding::SafeText)),
        ("stream", arguments.stream.is_some_and(|stream| stream != StreamChoice::Both)),
        ("collapse", arguments.collapse.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some((field, _)) => Err(PublicError::argument(field, "does not go with view: screen")),
        None => Ok(()),
    }
}

fn tail(arguments: &OutputArguments) -> Result<Option<Tail>, PublicError> {
    let tail = match (arguments.tail_bytes, arguments.tail_lines) {
        (Some(_), Some(_)) => {
            return Err(PublicError::argument("tail_lines", "give `tail_bytes` or `tail_lines`, not both"));
        }
        (Some(bytes), None) => ("tail_bytes", Tail::Bytes(bytes)),
        (None, Some(lines)) => ("tail_lines", Tail::Lines(lines)),
        (None, None) => return Ok(None),
    };
    if arguments.cursor.is_some() || arguments.cursors.is_some() {
        return Err(PublicError::argument(tail.0, "give a cursor or a tail, not both"));
    }
    Ok(Some(tail.1))
}

fn targets(
    arguments: &OutputArguments,
    tail: Option<Tail>,
) -> Result<(Vec<(Handle, Begin)>, bool), PublicError> {
    let begin = |cursor: u64| tail.map_or(Begin::Cursor(cursor), Begin::Tail);
    match (arguments.process_id, &arguments.process_ids) {
        (Some(handle), None) => {
            if arguments.cursors.is_some() {
                return Err(PublicError::argument("cursors", "goes with `process_ids`; use `cursor`"));
            }
            Ok((vec![(handle, begin(arguments.cursor.unwrap_or(0)))], false))
        }
        (None, Some(handles)) => {
            let distinct: BTreeSet<&Handle> = handles.iter().collect();
            if distinct.len() < handles.len() {
                return Err(PublicError::argument("process_ids", "must be different from each other"));
            }
            if arguments.cursor.is_some() {
                return Err(PublicError::argument("cursor", "goes with `process_id`; use `cursors`"));
            }
            let none = std::collections::BTreeMap::new();
            let cursors = arguments.cursors.as_ref().unwrap_or(&none);
            if cursors.keys().any(|handle| !distinct.contains(handle)) {
                return Err(PublicError::argument("cursors", "names a process that is not in `process_ids`"));
            }
            let targets = handles
                .iter()
                .map(|handle| (*handle, begin(cursors.get(handle).copied().unwrap_or(0))))
                .collect();
            Ok((targets, true))
        }
        (Some(_), Some(_)) => {
            Err(PublicError::argument("process_ids", "give `process_id` or `process_ids`, not both"))
        }
        (None, None) => Err(PublicError::argument("process_id", "give `process_id` or `process_ids`")),
    }
}

fn awaited(arguments: &OutputArguments) -> Result<Option<Awaited>, PublicError> {
    let until = arguments.until.unwrap_or_default();
    let pattern = match (&arguments.pattern, until) {
        (Some(pattern), UntilChoice::Match) => Some(Arc::new(Pattern::compile(pattern)?)),
        (Some(_), _) => return Err(PublicError::argument("pattern", "needs until: match")),
        (None, UntilChoice::Match) => {
            return Err(PublicError::argument("pattern", "is missing for until: match"));
        }
        (None, _) => None,
    };
    let mode = match arguments.wait.unwrap_or_default() {
        WaitChoice::Any => WaitMode::Any,
        WaitChoice::All => WaitMode::All,
        WaitChoice::Poll => {
            let waiting = [
                ("until", arguments.until.is_some()),
                ("timeout_ms", arguments.timeout_ms.is_some()),
                ("quiet_ms", arguments.quiet_ms.is_some()),
            ];
            return match waiting.into_iter().find(|(_, given)| *given) {
                Some((field, _)) => Err(PublicError::argument(field, "needs wait: any or all")),
                None => Ok(None),
            };
        }
    };
    Ok(Some(Awaited {
        mode,
        until,
        pattern,
        timeout: arguments.timeout_ms.map_or(TIMEOUT, Duration::from_millis),
        quiet: millis(arguments.quiet_ms),
    }))
}

/// The streams that a choice is of.
pub(crate) fn filter(stream: StreamChoice) -> StreamFilter {
    match stream {
        StreamChoice::Both => StreamFilter::Both,
        StreamChoice::Stdout => StreamFilter::Only(Stream::Stdout),
        StreamChoice::Stderr => StreamFilter::Only(Stream::Stderr),
    }
}

#[cfg(test)]
mod tests {
    use procyard_core::LimitSettings;
    use serde_json::json;

    use super::*;

    const A: &str = "AAECAwQFBgcICQoLDA0ODw";
    const B: &str = "BBECAwQFBgcICQoLDA0ODw";

    fn question(arguments: serde_json::Value) -> Result<Question, PublicError> {
        let limits = LimitSettings::default().resolve().unwrap();
        Question::new(serde_json::from_value(arguments).unwrap(), &limits)
    }

    #[test]
    fn arguments_that_do_not_go_together_are_refused_by_name() {
        for (arguments, field) in [
            (json!({}), "process_id"),
            (json!({"process_id": A, "process_ids": [A]}), "process_ids"),
            (json!({"process_ids": [A, A]}), "process_ids"),
            (json!({"process_id": A, "cursor": 0, "tail_bytes": 5}), "tail_bytes"),
            (json!({"process_ids": [A], "cursors": {A: 0}, "tail_lines": 5}), "tail_lines"),
            (json!({"process_id": A, "tail_bytes": 5, "tail_lines": 5}), "tail_lines"),
            (json!({"process_id": A, "cursors": {A: 0}}), "cursors"),
            (json!({"process_ids": [A], "cursor": 0}), "cursor"),
            (json!({"process_ids": [A], "cursors": {B: 0}}), "cursors"),
            (json!({"process_id": A, "encoding": "base64", "collapse": true}), "collapse"),
            (json!({"process_id": A, "view": "screen", "tail_lines": 5}), "tail_lines"),
            (json!({"process_id": A, "view": "screen", "tail_bytes": 5}), "tail_bytes"),
            (json!({"process_id": A, "view": "screen", "encoding": "base64"}), "encoding"),
            (json!({"process_id": A, "view": "screen", "stream": "stdout"}), "stream"),
            (json!({"process_id": A, "view": "screen", "collapse": false}), "collapse"),
            (json!({"process_id": A, "until": "exit"}), "until"),
            (json!({"process_id": A, "timeout_ms": 5}), "timeout_ms"),
            (json!({"process_id": A, "wait": "poll", "quiet_ms": 5}), "quiet_ms"),
            (json!({"process_id": A, "wait": "any", "until": "match"}), "pattern"),
            (json!({"process_id": A, "wait": "any", "pattern": "x"}), "pattern"),
            (json!({"process_id": A, "wait": "any", "until": "match", "pattern": "("}), "pattern"),
        ] {
            let error = question(arguments).expect_err("refused");
            assert_eq!(error.field.as_deref(), Some(field), "{error}");
        }
    }

    #[test]
    fn each_process_begins_where_its_cursor_says() {
        let several = question(json!({"process_ids": [A, B], "cursors": {B: 7}})).unwrap();
        let begins: Vec<Begin> = several.targets.iter().map(|(_, begin)| *begin).collect();
        assert_eq!(begins, [Begin::Cursor(0), Begin::Cursor(7)]);
        assert!(several.several && several.awaited.is_none());
        let tail = question(json!({"process_id": A, "tail_lines": 3})).unwrap();
        assert_eq!(tail.targets[0].1, Begin::Tail(Tail::Lines(3)));
    }

    #[test]
    fn a_wait_has_its_defaults() {
        let question = question(json!({"process_id": A, "wait": "any"})).unwrap();
        let awaited = question.awaited.unwrap();
        assert_eq!(
            (awaited.until, awaited.timeout, awaited.quiet),
            (UntilChoice::Output, TIMEOUT, Duration::ZERO)
        );
        assert_eq!((question.look.limit, question.look.collapse), (32 << 10, true));
    }
}
