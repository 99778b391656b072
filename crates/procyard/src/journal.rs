//! The services of a session over its journal: lifecycle events to the outbox, notices to the inbox.
//!
//! Not for telling owners: what an owner was not told yet is derived by the supervisor from its records, and the inbox
//! is the durable record of what was due, for readers that come later.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use async_trait::async_trait;
use procyard_core::{LifecycleEvent, Owner, SessionId, Timestamp};
use procyard_journal::{Journal, JournalError, NotificationKind, NotificationRecord, PRUNE_MAX};
use procyard_manifest::SessionRoot;
use procyard_supervisor::{
    CompletionNotifier, LifecyclePublisher, Notice, NoticeKind, ServiceError, Services,
};

const FILE: &str = "journal.sqlite3";

/// How long what happened is kept. Far longer than anything is published again: that ends with the next restore.
const KEEP: Duration = Duration::from_secs(30 * 24 * 3600);

/// How many of the oldest rows give way when the journal has reached its ceiling.
const GIVE_WAY: usize = 1000;

/// Opens the journal of a session whose lock is held, and removes what is too old.
pub(crate) async fn open_journal(data_dir: &Path, session: SessionId) -> anyhow::Result<Journal> {
    let file = SessionRoot::path_of(data_dir, session).join(FILE);
    tokio::task::spawn_blocking(move || {
        let journal = Journal::open(&file)?;
        let old = SystemTime::now()
            .checked_sub(KEEP)
            .map_or(Timestamp::from_unix_micros(0), Timestamp::from_system_time);
        journal.prune(old, false, PRUNE_MAX)?;
        Ok::<_, JournalError>(journal)
    })
    .await
    .context("opening the journal failed")?
    .with_context(|| format!("the journal of session {session} cannot be opened"))
}

/// Services that record everything in this journal.
pub(crate) fn services_over(journal: &Journal) -> Services {
    let recorder = Arc::new(Recorder(journal.clone()));
    Services::new(Arc::<Recorder>::clone(&recorder), recorder)
}

/// Closes a journal that its supervisor has done with.
pub(crate) async fn close_journal(journal: Journal) {
    if let Err(error) = tokio::task::spawn_blocking(move || journal.close()).await {
        tracing::warn!(%error, "the journal did not close in order; nothing of it is lost");
    }
}

struct Recorder(Journal);

impl Recorder {
    /// Writes on a blocking thread. Cancelling the future does not cancel the write, which may be repeated.
    async fn record(
        &self,
        write: impl FnOnce(&Journal) -> Result<(), JournalError> + Send + 'static,
    ) -> Result<(), ServiceError> {
        let journal = self.0.clone();
        let recorded = tokio::task::spawn_blocking(move || {
            let recorded = write(&journal);
            if matches!(recorded, Err(JournalError::Ceiling)) {
                make_room(&journal);
            }
            recorded
        });
        match recorded.await {
            Ok(Ok(())) => Ok(()),
            // It would be refused for ever, and everything behind it would wait as long.
            Ok(Err(error)) if error.is_final() => {
                tracing::error!(%error, "the journal refuses a record for good; it is left out");
                Ok(())
            }
            Ok(Err(error)) => {
                Err(ServiceError::from(Box::<dyn std::error::Error + Send + Sync>::from(error)))
            }
            Err(error) => Err(ServiceError::from(Box::<dyn std::error::Error + Send + Sync>::from(error))),
        }
    }
}

/// The oldest rows give way; what did not fit is written when it is asked for again.
fn make_room(journal: &Journal) {
    match journal.prune(Timestamp::from_unix_micros(i64::MAX), false, GIVE_WAY) {
        Ok(pruned) => tracing::warn!(
            events = pruned.events,
            notifications = pruned.notifications,
            "the journal is at its ceiling; its oldest entries gave way"
        ),
        Err(error) => tracing::warn!(%error, "the journal is at its ceiling and cannot be pruned"),
    }
}

#[async_trait]
impl LifecyclePublisher for Recorder {
    async fn publish(&self, event: &LifecycleEvent) -> Result<(), ServiceError> {
        let event = event.clone();
        self.record(move |journal| journal.append(&event).map(drop)).await
    }
}

#[async_trait]
impl CompletionNotifier for Recorder {
    async fn notify(&self, owner: Owner, notice: &Notice) -> Result<(), ServiceError> {
        let record = record_of(notice);
        self.record(move |journal| journal.put(owner, &record).map(drop)).await
    }
}

fn record_of(notice: &Notice) -> NotificationRecord {
    NotificationRecord {
        id: notice.id,
        handle: notice.handle,
        kind: match notice.kind {
            NoticeKind::Completed => NotificationKind::Completed,
            NoticeKind::Stalled { quiet, total_bytes } => NotificationKind::Stalled {
                quiet_ms: u64::try_from(quiet.as_millis()).unwrap_or(u64::MAX),
                total_bytes,
            },
        },
        state: notice.state,
        reason: notice.reason,
        exit_code: notice.exit_code,
        started_at: notice.started_at,
        finished_at: notice.finished_at,
    }
}
