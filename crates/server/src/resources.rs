//! What processes have printed, as resources: `procyard://process/<handle>/output`.
//!
//! Not for changes of them: see `follow`. Not for reading on at a cursor: that is what `ProcessOutput` is for.

use procyard_api::ListEntry;
use procyard_core::{ErrorCode, Handle, PublicError};
use procyard_tools::{Excerpt, Toolbox};
use rmcp::ErrorData;
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, MetaObject, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};
use serde_json::{Value, json};

/// What the address of every resource begins and ends with.
const BEFORE: &str = "procyard://process/";
const BEHIND: &str = "/output";

const TEXT: &str = "text/plain";

/// Entries of a page of the list.
const ENTRIES: usize = 50;

/// The address of the output of a process.
pub(crate) fn uri(handle: &Handle) -> String {
    format!("{BEFORE}{}{BEHIND}", handle.reveal())
}

/// The process whose output an address means. One that does not parse is answered like one that does not exist.
pub(crate) fn handle_of(uri: &str) -> Result<Handle, ErrorData> {
    parse(uri).ok_or_else(|| missing(uri))
}

fn parse(uri: &str) -> Option<Handle> {
    uri.strip_prefix(BEFORE)?.strip_suffix(BEHIND)?.parse().ok()
}

/// The addresses among these that could be a resource's, at most `limit`. Whether there is such a process is not looked
/// at, so that the answer is the same for those of others.
pub(crate) fn well_formed(uris: &[String], limit: usize) -> Vec<String> {
    uris.iter().filter(|uri| parse(uri).is_some()).take(limit).cloned().collect()
}

/// A page of the list, newest process first.
pub(crate) fn list(toolbox: &Toolbox, page: Option<&str>) -> Result<ListResourcesResult, ErrorData> {
    let page = toolbox.processes(page, ENTRIES).map_err(|error| match error.field.as_deref() {
        Some(_) => unknown_cursor(),
        None => failed(&error),
    })?;
    let mut result = ListResourcesResult::with_all_items(page.processes.iter().map(resource).collect());
    result.next_cursor = page.next_page;
    Ok(result)
}

fn resource(entry: &ListEntry) -> Resource {
    let title = entry.description.as_deref().unwrap_or(&entry.command);
    let mut state = entry.status.as_str().to_owned();
    if let Some(code) = entry.exit_code {
        state = format!("{state} with code {code}");
    }
    Resource::new(uri(&entry.process_id), format!("output of {}", entry.process_id.reveal()))
        .with_title(title)
        .with_description(format!("what `{}` has printed; {state}", entry.command))
        .with_mime_type(TEXT)
        .with_size(entry.total_bytes)
}

/// The one template, for clients that know a handle.
pub(crate) fn templates() -> ListResourceTemplatesResult {
    let template = ResourceTemplate::new(format!("{BEFORE}{{process_id}}{BEHIND}"), "process output")
        .with_title("Output of a process")
        .with_description(
            "What a process has printed, as safe text: the beginning and the end, with one line between that says how many \
             bytes are left out and the cursor where they begin",
        )
        .with_mime_type(TEXT);
    ListResourceTemplatesResult::with_all_items(vec![template])
}

/// Reads a resource: a bounded part of the output, which says itself what is left out.
pub(crate) async fn read(toolbox: &Toolbox, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let handle = handle_of(uri)?;
    let excerpt = toolbox.excerpt(&handle).await.map_err(|error| match error.code {
        ErrorCode::NotFound => missing(uri),
        _ => failed(&error),
    })?;
    let meta = about(&excerpt);
    let contents = ResourceContents::TextResourceContents {
        uri: uri.to_owned(),
        mime_type: Some(TEXT.to_owned()),
        text: excerpt.text,
        meta: Some(meta),
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

/// What is known beside the text, under the names that the tools use.
fn about(excerpt: &Excerpt) -> MetaObject {
    let mut about = MetaObject::new();
    let mut tell = |name: &str, value: Value| {
        about.0.insert(format!("procyard/{name}"), value);
    };
    tell("status", json!(excerpt.snapshot.state));
    if let Some(code) = excerpt.snapshot.outcome.as_ref().and_then(|outcome| outcome.exit_code) {
        tell("exit_code", json!(code));
    }
    tell("next_cursor", json!(excerpt.next_cursor));
    tell("total_bytes", json!(excerpt.total_bytes));
    if let Some(omitted) = excerpt.omitted_bytes {
        tell("omitted_bytes", json!(omitted));
    }
    tell("gap", json!(excerpt.gap));
    tell("normalized", json!(excerpt.normalized));
    tell("binary", json!(excerpt.binary));
    about
}

/// The answer to a cursor that no list has given.
pub(crate) fn unknown_cursor() -> ErrorData {
    ErrorData::invalid_params("cursor: is not a `nextCursor` of an earlier list", None)
}

/// The answer for what does not exist, and for what belongs to somebody else.
pub(crate) fn missing(uri: &str) -> ErrorData {
    ErrorData::resource_not_found(
        "there is no such resource; resources/list has yours",
        Some(json!({ "uri": uri })),
    )
}

fn failed(error: &PublicError) -> ErrorData {
    ErrorData::internal_error(error.message.clone(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_one_handle_and_nothing_else() {
        let handle = Handle::from_bytes([7; 16]);
        assert_eq!(parse(&uri(&handle)), Some(handle));
        for wrong in [
            "",
            "procyard://process/",
            "procyard://process//output",
            "procyard://process/AAAAAAAAAAAAAAAAAAAAAA",
            "procyard://process/AAAAAAAAAAAAAAAAAAAAAA/output/",
            "procyard://process/AAAAAAAAAAAAAAAAAAAAAAA/output",
            "procyard://process/../AAAAAAAAAAAAAAAAAAAAAA/output",
            "file:///etc/passwd",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn subscriptions_are_limited_before_they_are_counted() {
        let known = uri(&Handle::from_bytes([1; 16]));
        let asked = vec!["file:///x".to_owned(), known.clone(), known.clone(), known.clone()];
        assert_eq!(well_formed(&asked, 2), [known.clone(), known]);
    }
}
