//! The inbox: what an owner is to be told and has not acknowledged.
//!
//! Not for the news that travels with results: it is the same, and is not told with them once it is acknowledged here.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use procyard_api::http::{InboxNotification, NoArguments, NotificationPage, NotificationQuery};
use procyard_api::{Notification, NotificationKind};
use procyard_core::{NotificationId, Owner};
use procyard_journal::{Delivery, InboxEntry, NotificationKind as Recorded};
use procyard_tools::list_entry;
use tokio::time::Instant;

use super::call::Call;
use super::caller::invalid;
use super::problem::Problem;
use super::service::OpenSession;
use super::tool;

/// Notifications of a page where a call does not say.
const ENTRIES: u64 = 100;

pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let owner = call.caller.owner().ok_or_else(invalid)?;
    let query: NotificationQuery = call.query()?;
    let session = call.own_session().await?;
    let (after, limit) = (query.after.unwrap_or_default(), query.limit.unwrap_or(ENTRIES));
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let end = Instant::now() + Duration::from_millis(query.wait_ms.unwrap_or_default());
    // Before the first look, so that nothing comes in between.
    let mut inbox = session.inbox.subscribe();
    let page = loop {
        let page = session.journal(move |journal| journal.unacknowledged(owner, after, limit)).await?;
        // Looked at behind the inbox: what came because the loop is being closed is for nobody.
        call.caller.valid_owner(&call.service)?;
        if !page.entries.is_empty() {
            break page;
        }
        tokio::select! {
            biased;
            () = call.service.stop.cancelled() => break page,
            () = session.ending.cancelled() => break page,
            changed = inbox.changed() => if changed.is_err() { break page },
            () = tokio::time::sleep_until(end) => break page,
        }
    };
    let shown: Vec<NotificationId> = page.entries.iter().map(|entry| entry.record.id).collect();
    let notifications = page.entries.into_iter().map(|entry| shown_as(&session, owner, entry)).collect();
    if !shown.is_empty()
        && let Err(problem) = session.journal(move |journal| journal.delivered(owner, &shown)).await
    {
        // Shown again as if for the first time, which is better than not at all.
        tracing::warn!(error = %problem.into_error(), "notifications were not marked as shown");
    }
    tool::json(StatusCode::OK, &NotificationPage { notifications, more: page.more })
}

fn shown_as(session: &OpenSession, owner: Owner, entry: InboxEntry) -> InboxNotification {
    let InboxEntry { number, delivery, record } = entry;
    let snapshot = session.supervisor().snapshot(owner, &record.handle).ok();
    let (kind, quiet_ms, total_bytes) = match record.kind {
        Recorded::Completed => (NotificationKind::Completed, None, None),
        Recorded::Stalled { quiet_ms, total_bytes } => {
            (NotificationKind::Stalled, Some(quiet_ms), Some(total_bytes))
        }
    };
    InboxNotification {
        number,
        delivered: delivery != Delivery::Pending,
        notification: Notification {
            id: record.id,
            kind,
            process_id: record.handle,
            status: record.state,
            exit_code: record.exit_code,
            reason: record.reason,
            finished_at: record.finished_at.map(Into::into),
            description: snapshot.and_then(|snapshot| list_entry(&snapshot).description),
            quiet_ms,
            total_bytes,
        },
    }
}

pub(crate) async fn acknowledge(call: Call) -> Result<Response, Problem> {
    let owner = call.caller.owner().ok_or_else(invalid)?;
    let id = call.notification_id()?;
    let NoArguments {} = call.body()?;
    let session = call.own_session().await?;
    let marked = session.journal(move |journal| journal.acknowledge(owner, &[id])).await?;
    if marked.known == 0 {
        return Err(Problem::not_found("there is no such notification"));
    }
    session.supervisor().delivered(owner, &[id]);
    Ok(tool::nothing())
}
