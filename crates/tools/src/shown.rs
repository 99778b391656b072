//! What the tools check and show, for other front ends over the same supervisor, so that all of them say the same.
//!
//! Not for calls: those go through a [`Toolbox`](crate::Toolbox).

use procyard_api::{LeftoversReport, LimitsReport, ListArguments, ListEntry, StreamChoice};
use procyard_core::PublicError;
use procyard_supervisor::{Snapshot, StreamFilter};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{arguments, bash, limits, list, question};

/// Parses the arguments of a call against the schema that its caller was shown: an unknown field, a wrong type or a value
/// out of range is an `invalid_arguments` that names the field. `null` is the same as absent.
pub fn parse_arguments<T: DeserializeOwned>(arguments: Value, schema: &Value) -> Result<T, PublicError> {
    arguments::parse(arguments, schema)
}

/// A process as `ProcessList` shows it.
pub fn list_entry(snapshot: &Snapshot) -> ListEntry {
    list::entry(snapshot)
}

/// The page of these processes, newest first, that `ProcessList` would show for these arguments, and the `page` of the
/// next one.
pub fn select_page(
    processes: Vec<Snapshot>,
    arguments: &ListArguments,
) -> Result<(Vec<Snapshot>, Option<String>), PublicError> {
    list::select(processes, arguments)
}

/// The streams that a choice is of, as reads take them.
pub fn stream_filter(choice: StreamChoice) -> StreamFilter {
    question::filter(choice)
}

/// The caps of a process, where some were asked for.
pub fn limits_report(snapshot: &Snapshot) -> Option<LimitsReport> {
    limits::report(snapshot)
}

/// The descendants that a process left behind, where there were any.
pub fn leftovers_report(snapshot: &Snapshot) -> Option<LeftoversReport> {
    snapshot.outcome.as_ref().and_then(bash::leftovers)
}
