//! The services of a session over its journal: lifecycle events to the outbox, notices to the inbox.
//!
//! Not for telling owners: what an owner was not told yet is derived by the supervisor from its records, and the inbox
//! is the durable record of what was due, for readers that come later.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use async_trait::async_trait;
use procyard_core::{Handle, LifecycleEvent, Owner, SessionId, Timestamp};
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

    async fn moved(&self, process: Handle, from: Owner, to: Owner) -> Result<(), ServiceError> {
        self.record(move |journal| journal.transfer(process, from, to).map(drop)).await
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

#[cfg(test)]
mod tests {
    use procyard_core::{EventId, EventKind, ExecutionId, Identity, LoopId, Origin, State};
    use procyard_journal::{EventFilter, JournalOptions};

    use super::*;

    fn event(number: u32) -> LifecycleEvent {
        let mut id = [1; 16];
        id[..4].copy_from_slice(&number.to_be_bytes());
        let owner = Owner { session: SessionId::from_random([2; 16]), loop_id: LoopId::from_random([3; 16]) };
        let origin = Origin { execution: ExecutionId::from_random([4; 16]) };
        LifecycleEvent {
            id: EventId::from_random(id),
            identity: Identity { handle: Handle::from_bytes([5; 16]), owner, origin },
            kind: EventKind::Started,
            state: State::Running,
            reason: None,
            created_at: Timestamp::from_unix_micros(1),
            started_at: Some(Timestamp::from_unix_micros(2)),
            finished_at: None,
            at: None,
            exit_code: None,
            signal: None,
            diagnostic: None,
        }
    }

    #[tokio::test]
    async fn what_is_refused_for_good_keeps_nothing_behind_it_waiting() {
        let place = tempfile::tempdir().unwrap();
        let journal = Journal::open(&place.path().join(FILE)).unwrap();
        let publisher = services_over(&journal).publisher.unwrap();
        publisher.publish(&event(1)).await.unwrap();
        publisher.publish(&event(1)).await.unwrap();
        let taken = LifecycleEvent { created_at: Timestamp::from_unix_micros(0), ..event(1) };
        publisher.publish(&taken).await.unwrap();
        publisher.publish(&event(2)).await.unwrap();
        let page = journal.events_after(0, 10, &EventFilter::all()).unwrap();
        assert_eq!(page.events, [(1, event(1)), (2, event(2))]);
        close_journal(journal).await;
        assert!(publisher.publish(&event(3)).await.is_err(), "what may be taken later is asked for again");
    }

    #[tokio::test]
    async fn at_the_ceiling_the_oldest_give_way_and_the_newest_is_taken_when_it_comes_again() {
        let place = tempfile::tempdir().unwrap();
        let options = JournalOptions { max_bytes: 128 * 1024 };
        let journal = Journal::open_with(&place.path().join(FILE), options).unwrap();
        let publisher = services_over(&journal).publisher.unwrap();
        let mut refused = None;
        for number in 0..1000 {
            if publisher.publish(&event(number)).await.is_err() {
                refused = Some(number);
                break;
            }
        }
        let refused = refused.expect("the ceiling is met");
        publisher.publish(&event(refused)).await.unwrap();
        let page = journal.events_after(0, 10, &EventFilter::all()).unwrap();
        assert_eq!(page.events.last(), Some(&(u64::from(refused) + 1, event(refused))));
        assert!(page.bounds.retained_from > 1);
    }

    #[tokio::test]
    async fn a_notice_is_recorded_with_everything_that_it_says() {
        let place = tempfile::tempdir().unwrap();
        let journal = Journal::open(&place.path().join(FILE)).unwrap();
        let notifier = services_over(&journal).notifier.unwrap();
        let owner = event(1).identity.owner;
        let notice = Notice {
            id: procyard_core::NotificationId::from_random([6; 16]),
            kind: NoticeKind::Stalled { quiet: Duration::from_millis(2500), total_bytes: 7 },
            handle: event(1).identity.handle,
            state: State::Running,
            reason: None,
            exit_code: None,
            started_at: Some(Timestamp::from_unix_micros(2)),
            finished_at: None,
        };
        notifier.notify(owner, &notice).await.unwrap();
        notifier.notify(owner, &notice).await.unwrap();
        let page = journal.pending(owner, 0, 10).unwrap();
        assert_eq!(page.entries.len(), 1);
        let record = &page.entries[0].record;
        assert_eq!(record.kind, NotificationKind::Stalled { quiet_ms: 2500, total_bytes: 7 });
        assert_eq!((record.id, record.handle, record.state), (notice.id, notice.handle, notice.state));
        assert_eq!(record.started_at, notice.started_at);
    }
}
