//! `ProcessOutput` arguments, checked completely, as what is to be read and waited for.
//!
//! Not for reading: see `output`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use procyard_api::{Encoding, OutputArguments, StreamChoice, UntilChoice, WaitChoice};
use procyard_core::{Handle, Limits, PublicError, Stream};
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
        let limit = arguments.limit_bytes.unwrap_or(limits.inline_bytes);
        let look = Look {
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            encoding,
            collapse: arguments.collapse.unwrap_or(true),
        };
        let awaited = awaited(&arguments)?;
        Ok(Self { targets, several, look, streams: filter(arguments.stream.unwrap_or_default()), awaited })
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

fn filter(stream: StreamChoice) -> StreamFilter {
    match stream {
        StreamChoice::Both => StreamFilter::Both,
        StreamChoice::Stdout => StreamFilter::Only(Stream::Stdout),
        StreamChoice::Stderr => StreamFilter::Only(Stream::Stderr),
    }
}
