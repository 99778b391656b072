//! Metrics as Prometheus reads them (its text format 0.0.4).
//!
//! Labels are names of routes, statuses and states: nothing that a client chooses. Not for logs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use super::call::Call;
use super::diagnostics::{count, everybodys};

pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4";

#[derive(Default)]
pub(crate) struct Metrics {
    /// Guards the counts of answers by route and status; held to add one or to copy them.
    answers: Mutex<BTreeMap<(&'static str, u16), u64>>,
    connections: Arc<AtomicU64>,
    streams: Arc<AtomicU64>,
    attachments: Arc<AtomicU64>,
}

/// Something that counts as long as it is held.
pub(crate) struct Held(Arc<AtomicU64>);

impl Held {
    fn one_of(count: &Arc<AtomicU64>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// A request was answered.
    pub(crate) fn answered(&self, route: &'static str, status: StatusCode) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        *answers.entry((route, status.as_u16())).or_default() += 1;
    }

    /// A connection.
    pub(crate) fn connection(&self) -> Held {
        Held::one_of(&self.connections)
    }

    /// A stream of events.
    pub(crate) fn stream(&self) -> Held {
        Held::one_of(&self.streams)
    }

    /// An attached terminal.
    pub(crate) fn attachment(&self) -> Held {
        Held::one_of(&self.attachments)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        head(&mut text, "procyard_http_responses_total", "counter", "Answers by route and status.");
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for ((route, status), count) in answers {
            let _ = writeln!(
                text,
                "procyard_http_responses_total{{route=\"{route}\",status=\"{status}\"}} {count}"
            );
        }
        for (name, help, count) in [
            ("procyard_http_connections", "Open connections.", &self.connections),
            ("procyard_event_streams", "Streams of events under way.", &self.streams),
            ("procyard_attachments", "Attached terminals.", &self.attachments),
        ] {
            gauge(&mut text, name, help, count.load(Ordering::Relaxed));
        }
        text
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn gauge(text: &mut String, name: &str, help: &str, value: u64) {
    head(text, name, "gauge", help);
    let _ = writeln!(text, "{name} {value}");
}

pub(crate) fn metrics(call: &Call) -> Response {
    let service = &call.service;
    let mut text = service.metrics.text();
    gauge(&mut text, "procyard_sessions", "Open sessions.", service.sessions().len() as u64);
    let snapshots = everybodys(service);
    let counts = count(&snapshots);
    head(&mut text, "procyard_processes", "gauge", "Processes by state, retained ones included.");
    for (state, count) in &counts.states {
        let _ = writeln!(text, "procyard_processes{{state=\"{}\"}} {count}", state.as_str());
    }
    let printed = snapshots.iter().map(|snapshot| snapshot.total_bytes).sum();
    gauge(&mut text, "procyard_output_bytes", "Bytes that the known processes have printed.", printed);
    for (name, help, value) in [
        ("procyard_teardown_failed", "Trees that are not proven gone yet.", counts.teardown_failed),
        (
            "procyard_storage_degraded",
            "Processes whose output or record the disk refused.",
            counts.storage_degraded,
        ),
    ] {
        gauge(&mut text, name, help, value);
    }
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    response
}
