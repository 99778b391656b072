//! What a manifest says that happened, as the events that announce it, each with its stable id.
//!
//! Not for publishing: whoever does may ask again after any doubt, and gets the same events.

use procyard_core::{EventId, EventKind, LifecycleEvent, Owner, Reason, State, Timestamp};

use crate::record::Manifest;

impl Manifest {
    /// Everything that is announced of the process so far, in order: that it was started, in the foreground or the
    /// background, that it was handed over, the first stop that was asked for, its end.
    ///
    /// Every call gives the same events with the same ids and content, however much was added behind them, so that a
    /// publisher that is idempotent by id can be given all of them again when it is not known which ones it has taken.
    pub fn events(&self) -> Vec<LifecycleEvent> {
        let mut events = Vec::with_capacity(4);
        if let Some(started_at) = self.started_at {
            let (id, kind) = if self.background {
                (self.ids.backgrounded, EventKind::Backgrounded)
            } else {
                (self.ids.started, EventKind::Started)
            };
            events.push(self.event_before_the_end(id, kind, State::Running, None, started_at));
        }
        // A stop of what was never recorded as running is the undoing of a start.
        let stop =
            self.stop_requested.filter(|stop| stop.state == State::Starting || self.started_at.is_some());
        let stop = stop.map(|stop| {
            let (id, kind) = (self.ids.stop_requested, EventKind::StopRequested);
            let event = self.event_before_the_end(id, kind, stop.state, Some(stop.reason), stop.at);
            (stop.at, LifecycleEvent { at: Some(stop.at), ..event })
        });
        let handed_over = self.handed_over_at.filter(|_| self.started_at.is_some()).map(|at| {
            let (id, kind) = (self.ids.backgrounded, EventKind::Backgrounded);
            let event = self.event_before_the_end(id, kind, State::Running, None, at);
            (at, LifecycleEvent { at: Some(at), ..event })
        });
        let mut between: Vec<_> = handed_over.into_iter().chain(stop).collect();
        between.sort_by_key(|(at, _)| *at);
        events.extend(between.into_iter().map(|(_, event)| event));
        events.extend(self.completion_event());
        events
    }

    /// The event that announces the end: `completed` or `lost`, with its stable ID. `None` before the end.
    pub fn completion_event(&self) -> Option<LifecycleEvent> {
        let outcome = self.outcome.as_ref()?;
        if !self.state.is_terminal() {
            return None;
        }
        let (kind, id) = match self.state {
            State::LostOnRestore => (EventKind::Lost, self.ids.lost),
            _ => (EventKind::Completed, self.ids.completed),
        };
        let mut identity = self.identity;
        identity.owner = self.finished_at.map_or(identity.owner, |at| self.owner_at(at));
        Some(LifecycleEvent {
            id,
            identity,
            kind,
            state: self.state,
            reason: Some(outcome.reason),
            created_at: self.created_at,
            started_at: self.started_at,
            finished_at: self.finished_at,
            at: None,
            exit_code: outcome.exit_code,
            signal: outcome.signal,
            diagnostic: outcome.diagnostic.clone(),
        })
    }

    fn event_before_the_end(
        &self,
        id: EventId,
        kind: EventKind,
        state: State,
        reason: Option<Reason>,
        at: Timestamp,
    ) -> LifecycleEvent {
        let mut identity = self.identity;
        identity.owner = self.owner_at(at);
        LifecycleEvent {
            id,
            identity,
            kind,
            state,
            reason,
            created_at: self.created_at,
            started_at: self.started_at.filter(|_| state == State::Running),
            finished_at: None,
            at: None,
            exit_code: None,
            signal: None,
            diagnostic: None,
        }
    }

    /// Who had the process then, as far as the clock can tell; the same answer whatever follows.
    fn owner_at(&self, at: Timestamp) -> Owner {
        let next = self.transfers.iter().find(|transfer| transfer.at >= at);
        next.map_or(self.identity.owner, |transfer| transfer.from)
    }
}
