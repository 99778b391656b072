//! Progress of a call as notifications, where its client gave a token.
//!
//! Not for results: a report is lost without loss.

use std::sync::Arc;

use procyard_tools::{CallContext, Progress};
use rmcp::Peer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RoleServer;
use tokio::sync::mpsc;

/// Reports of progress that may wait for a slow client; more are dropped.
const REPORTS: usize = 4;

/// Sends reports of progress while a call runs.
pub(crate) struct Reports(Option<tokio::task::JoinHandle<()>>);

impl Reports {
    /// What sends the reports, and the context of a call that makes them, where the client gave a token.
    pub(crate) fn of(token: Option<ProgressToken>, peer: Peer<RoleServer>) -> (Self, CallContext) {
        let Some(token) = token else { return (Self(None), CallContext::default()) };
        let (sender, mut reports) = mpsc::channel::<(u64, String)>(REPORTS);
        let task = tokio::spawn(async move {
            while let Some((bytes, last_line)) = reports.recv().await {
                let mut report = ProgressNotificationParam::new(token.clone(), bytes as f64);
                report.message = Some(last_line);
                // A client that is gone needs no progress.
                if peer.notify_progress(report).await.is_err() {
                    return;
                }
            }
        });
        let context = CallContext { progress: Some(Arc::new(Sender(sender))), ..CallContext::default() };
        (Self(Some(task)), context)
    }

    /// Waits until what was reported is sent: no progress comes after the result.
    pub(crate) async fn end(self) {
        if let Some(task) = self.0 {
            // The call is over and has dropped its sender, so the task ends; one that failed has no more to say.
            let _ = task.await;
        }
    }
}

struct Sender(mpsc::Sender<(u64, String)>);

impl Progress for Sender {
    fn report(&self, bytes: u64, last_line: &str) {
        // A client that does not keep up misses reports, nothing else.
        let _ = self.0.try_send((bytes, last_line.to_owned()));
    }
}
