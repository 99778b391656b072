//! One JSON object a line: what was started, each run of output with its stream and time, how it ended.
//!
//! Not for bytes that are no text: a run that is not UTF-8 is base64.

use std::io::{Result, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use procyard_api::Time;
use procyard_manifest::Manifest;
use procyard_spool::{Gap, Page, Resize, Span};
use serde_json::{Value, json};

use super::Format;

pub(super) struct Jsonl;

impl Format for Jsonl {
    fn begin(&mut self, manifest: &Manifest, out: &mut dyn Write) -> Result<()> {
        let command = &manifest.command;
        line(
            out,
            &json!({
                "type": "process",
                "process_id": manifest.identity.handle,
                "command": command.line,
                "argv": command.argv,
                "workdir": command.workdir,
                "description": command.label,
                "created_at": Time::from(manifest.created_at),
                "started_at": manifest.started_at.map(Time::from),
                "tty": manifest.terminal.is_some(),
            }),
        )
    }

    fn page(&mut self, page: &Page, out: &mut dyn Write) -> Result<()> {
        // What is at one place comes in this order: what is missing before it, the terminal's new size, the bytes.
        let mut items: Vec<(usize, u8, Value)> =
            page.gaps.iter().map(|gap| (gap.offset, 0, missing(gap))).collect();
        items.extend(page.resizes.iter().map(|resize| (resize.offset, 1, resized(resize))));
        items.extend(page.spans.iter().map(|span| (span.offset, 2, output(page, span))));
        items.sort_by_key(|(offset, kind, _)| (*offset, *kind));
        items.iter().try_for_each(|(_, _, value)| line(out, value))
    }

    fn end(&mut self, manifest: &Manifest, total_bytes: u64, out: &mut dyn Write) -> Result<()> {
        let outcome = manifest.outcome.as_ref();
        line(
            out,
            &json!({
                "type": "end",
                "status": manifest.state,
                "reason": outcome.map(|outcome| outcome.reason),
                "exit_code": outcome.and_then(|outcome| outcome.exit_code),
                "signal": outcome.and_then(|outcome| outcome.signal),
                "finished_at": manifest.finished_at.map(Time::from),
                "total_bytes": total_bytes,
                "storage_degraded": manifest.storage_degraded,
            }),
        )
    }
}

fn line(out: &mut dyn Write, value: &Value) -> Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

fn missing(gap: &Gap) -> Value {
    json!({ "type": "gap", "from": gap.from, "until": gap.until })
}

fn resized(resize: &Resize) -> Value {
    json!({
        "type": "resize", "cursor": resize.cursor, "at": Time::from(resize.at), "rows": resize.rows, "cols": resize.cols
    })
}

fn output(page: &Page, span: &Span) -> Value {
    let bytes = &page.bytes[span.offset..span.offset + span.len];
    let mut value = json!({
        "type": "output", "cursor": span.cursor, "stream": span.stream, "at": Time::from(span.at)
    });
    match std::str::from_utf8(bytes) {
        Ok(text) => value["text"] = text.into(),
        Err(_) => value["base64"] = STANDARD.encode(bytes).into(),
    }
    value
}
