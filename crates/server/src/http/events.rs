//! The journal, a page at a time.
//!
//! Not for following: see `stream`.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use procyard_api::http::{EventPage, EventQuery, EventRecord};
use procyard_core::{Handle, LifecycleEvent, Owner, SessionId};
use procyard_journal::EventFilter;
use procyard_supervisor::SupervisorError;

use super::call::Call;
use super::caller::Caller;
use super::problem::Problem;
use super::processes::for_admin_alone;
use super::service::OpenSession;
use super::tool;

/// Records of a page where a call does not say.
const RECORDS: u64 = 100;

/// Which records a caller sees.
pub(crate) struct Scope {
    pub(crate) session: Arc<OpenSession>,
    /// The loop that looks; `None`: the administrator.
    pub(crate) owner: Option<Owner>,
    /// One process alone.
    pub(crate) process: Option<Handle>,
}

impl Scope {
    /// Everything that the caller may see: of its own session, or of the one that the administrator names.
    pub(crate) async fn everything(call: &Call, session: Option<SessionId>) -> Result<Self, Problem> {
        if let Caller::Loop(owner, _) = call.caller {
            for_admin_alone(session.is_some())?;
            return Ok(Self { session: call.own_session().await?, owner: Some(owner), process: None });
        }
        let id = session.ok_or_else(|| {
            Problem::argument(
                "session_id",
                "is missing: each session has its own journal; see `GET /v1/sessions`",
            )
        })?;
        Ok(Self { session: call.service.session(id)?, owner: None, process: None })
    }

    /// The process of the path, which may have been evicted: what was recorded of it is not.
    pub(crate) async fn of_process(call: &Call, session: Option<SessionId>) -> Result<Self, Problem> {
        for_admin_alone(session.is_some() && call.caller != Caller::Admin)?;
        if call.caller == Caller::Admin
            && let Some(session) = session
        {
            let session = call.service.session(session)?;
            return Self { session, owner: None, process: Some(call.handle()?) }.known().await;
        }
        let process = call.process().await?;
        let owner = (!process.by_admin).then_some(process.owner);
        Self { session: process.session, owner, process: Some(process.handle) }.known().await
    }

    /// Itself where there is anything of its process.
    async fn known(self) -> Result<Self, Problem> {
        let filter = self.filter();
        let recorded = self.session.journal(move |journal| journal.events_after(0, 1, &filter)).await?;
        if recorded.events.is_empty()
            && let Some(handle) = self.process
        {
            // Its first record is on its way, or there is no such process.
            let supervisor = self.session.supervisor();
            let owner =
                self.owner.or_else(|| supervisor.owner_of(&handle)).ok_or(SupervisorError::NotFound)?;
            supervisor.snapshot(owner, &handle)?;
        }
        Ok(self)
    }

    pub(crate) fn filter(&self) -> EventFilter {
        let filter = self.process.map_or(EventFilter::all(), EventFilter::of_process);
        self.owner.map_or(filter, |owner| filter.and_owner(owner))
    }

    /// A record as this caller sees it.
    pub(crate) fn record(&self, seq: u64, event: &LifecycleEvent) -> EventRecord {
        let loop_id = self.owner.is_none().then_some(event.identity.owner.loop_id);
        EventRecord { loop_id, ..EventRecord::new(seq, event) }
    }
}

pub(crate) async fn all(call: Call) -> Result<Response, Problem> {
    let query: EventQuery = call.query()?;
    page(Scope::everything(&call, query.session_id).await?, &query).await
}

pub(crate) async fn of_process(call: Call) -> Result<Response, Problem> {
    let query: EventQuery = call.query()?;
    page(Scope::of_process(&call, query.session_id).await?, &query).await
}

async fn page(scope: Scope, query: &EventQuery) -> Result<Response, Problem> {
    let after = query.after_seq.unwrap_or_default();
    let limit = usize::try_from(query.limit.unwrap_or(RECORDS)).unwrap_or(usize::MAX);
    let filter = scope.filter();
    let found = scope.session.journal(move |journal| journal.events_after(after, limit, &filter)).await?;
    if after > found.bounds.last {
        return Err(Problem::ahead_of_journal("after_seq"));
    }
    let events: Vec<_> = found.events.iter().map(|(seq, event)| scope.record(*seq, event)).collect();
    let page = EventPage {
        next_seq: events.last().map_or(after, |last| last.seq),
        more: found.more,
        gap: found.bounds.retained_from > after.saturating_add(1),
        events,
    };
    tool::json(StatusCode::OK, &page)
}
