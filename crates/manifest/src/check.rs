//! Which manifests are valid by themselves, and which may follow which.
//!
//! Times are not compared with each other: they come from a wall clock, which may be set back at any moment.
//!
//! Not for the disk: both checks are pure.

use procyard_core::{DIAGNOSTIC_MAX, EventKind, Owner, State, matrix_admits};

use crate::error::ManifestError;
use crate::record::{
    AccessRecord, COMMAND_MAX, CommandRecord, KEY_MAX, LABEL_MAX, Manifest, PATHS_MAX, TRANSFERS_MAX,
    VERSION, WORD_MAX, WORKDIR_MAX,
};

fn ensure(holds: bool, field: &'static str, problem: &'static str) -> Result<(), ManifestError> {
    if holds { Ok(()) } else { Err(ManifestError::Invalid { field, problem }) }
}

fn fixed(same: bool, field: &'static str) -> Result<(), ManifestError> {
    if same { Ok(()) } else { Err(ManifestError::Fixed { field }) }
}

fn onward(not_less: bool, field: &'static str) -> Result<(), ManifestError> {
    if not_less { Ok(()) } else { Err(ManifestError::Backward { field }) }
}

impl Manifest {
    /// Whether the manifest is valid by itself: sizes within their bounds, times and outcome as its state has them,
    /// an end that the lifecycle matrix knows, a trail of owners that leads to the present one.
    pub fn check(&self) -> Result<(), ManifestError> {
        ensure(self.version == VERSION, "version", "is not the one that is written")?;
        let told = self.limits.as_ref().is_none_or(procyard_core::EffectiveLimits::is_bounded);
        ensure(told, "limits", "have too long a reason")?;
        ensure(self.memory_kills == 0 || self.limits.is_some(), "memory_kills", "were by no limit")?;
        self.command.check()?;
        self.access.check()?;
        ensure(self.tier.len() <= WORD_MAX, "tier", "is too long")?;
        for size in self.terminal.iter().chain(&self.initial_terminal) {
            ensure(size.rows > 0 && size.cols > 0, "terminal", "has no rows or no columns")?;
        }
        let had_one = self.initial_terminal.is_none() || self.terminal.is_some();
        ensure(had_one, "initial_terminal", "is set without a terminal")?;
        self.check_life()?;
        let bounded = self.spool.retained_from <= self.spool.total_bytes;
        ensure(bounded, "spool", "keeps bytes that were never printed")?;
        let ended = self.state.is_terminal();
        ensure(ended || !self.published.completion, "published", "announces an end that has not come")?;
        ensure(ended || !self.published.notification, "published", "announces an end that has not come")?;
        ensure(ended || !self.evicted, "evicted", "is set before the end")?;
        ensure(
            self.handed_over || self.handed_over_at.is_none(),
            "handed_over_at",
            "is set without a hand-over",
        )?;
        self.check_trail()
    }

    fn check_life(&self) -> Result<(), ManifestError> {
        let (must_have_run, may_have_run) = match self.state {
            State::Starting => (false, false),
            State::Running | State::Exited | State::TimedOut | State::Interrupted => (true, true),
            State::Failed | State::Terminated | State::Killed | State::LostOnRestore => (false, true),
        };
        ensure(self.started_at.is_some() || !must_have_run, "started_at", "is missing")?;
        ensure(self.started_at.is_none() || may_have_run, "started_at", "is set before the start")?;
        if let Some(stop) = self.stop_requested {
            let known = matrix_admits(EventKind::StopRequested, stop.state, Some(stop.reason));
            ensure(known, "stop_requested", "is not a stop of a living process")?;
        }
        let ended = self.state.is_terminal();
        ensure(self.finished_at.is_some() || !ended, "finished_at", "is missing")?;
        ensure(self.finished_at.is_none() || ended, "finished_at", "is set before the end")?;
        ensure(self.outcome.is_some() || !ended, "outcome", "is missing")?;
        ensure(self.outcome.is_none() || ended, "outcome", "is set before the end")?;
        if let Some(diagnostic) = self.outcome.as_ref().and_then(|outcome| outcome.diagnostic.as_ref()) {
            ensure(diagnostic.len() <= DIAGNOSTIC_MAX, "outcome", "has too long a diagnostic")?;
        }
        self.completion_event().map_or(Ok(()), |event| Ok(event.check()?))
    }

    fn check_trail(&self) -> Result<(), ManifestError> {
        ensure(self.transfers.len() <= TRANSFERS_MAX, "transfers", "are too many")?;
        let session = self.identity.owner.session;
        let stays = |owner: Owner| owner.session == session;
        let inside = self.transfers.iter().all(|transfer| stays(transfer.from) && stays(transfer.to));
        ensure(inside, "transfers", "leave the session")?;
        let chained = self.transfers.windows(2).all(|pair| pair[0].to == pair[1].from);
        ensure(chained, "transfers", "have a gap")?;
        let arrives = self.transfers.last().is_none_or(|last| last.to == self.identity.owner);
        ensure(arrives, "transfers", "end at another owner")
    }

    /// Whether this manifest may replace `stored`: identity and IDs as they were (the owner changed only along the
    /// trail), a step that the state machine has, a terminal result untouched, bounds and markers not backward.
    ///
    /// The bounds of the output may shrink in one case: a restore finds the process lost and its spool shorter than
    /// the manifest says. The spool is believed, and `storage_degraded` says so.
    pub fn check_update(&self, stored: &Manifest) -> Result<(), ManifestError> {
        self.check_fixed(stored)?;
        if self.state != stored.state {
            stored.state.advance(self.state)?;
        }
        if stored.state.is_terminal() {
            fixed(self.finished_at == stored.finished_at, "finished_at")?;
            fixed(self.deadline_at == stored.deadline_at, "deadline_at")?;
            fixed(self.stop_requested == stored.stop_requested, "stop_requested")?;
            fixed(self.handed_over_at == stored.handed_over_at, "handed_over_at")?;
            fixed(self.outcome == stored.outcome, "outcome")?;
            fixed(self.memory_kills == stored.memory_kills, "memory_kills")?;
        }
        self.check_onward(stored)
    }

    fn check_fixed(&self, stored: &Manifest) -> Result<(), ManifestError> {
        fixed(self.version == stored.version, "version")?;
        fixed(self.identity.handle == stored.identity.handle, "handle")?;
        fixed(self.identity.origin == stored.identity.origin, "origin")?;
        fixed(self.command == stored.command, "command")?;
        fixed(self.access == stored.access, "access")?;
        fixed(self.limits == stored.limits, "limits")?;
        fixed(self.terminal.is_some() == stored.terminal.is_some(), "terminal")?;
        let first_stands =
            stored.initial_terminal.is_none() || self.initial_terminal == stored.initial_terminal;
        fixed(first_stands, "initial_terminal")?;
        fixed(self.stdin == stored.stdin, "stdin")?;
        fixed(self.background == stored.background, "background")?;
        fixed(self.created_at == stored.created_at, "created_at")?;
        fixed(self.ids == stored.ids, "ids")?;
        // A process that has left `starting` without a start never had one.
        let open = stored.state == State::Starting;
        fixed(self.started_at == stored.started_at || open, "started_at")?;
        fixed(self.tier == stored.tier || open, "tier")?;
        let ceiling_stands = stored.spool.ceiling.is_none() || self.spool.ceiling == stored.spool.ceiling;
        fixed(ceiling_stands, "spool.ceiling")?;
        let stop_stands = stored.stop_requested.is_none() || self.stop_requested == stored.stop_requested;
        fixed(stop_stands, "stop_requested")?;
        let hand_over_stands =
            stored.handed_over_at.is_none() || self.handed_over_at == stored.handed_over_at;
        fixed(hand_over_stands, "handed_over_at")?;
        let trail_stands = self.transfers.starts_with(&stored.transfers);
        fixed(trail_stands, "transfers")?;
        let first_after = self.transfers.get(stored.transfers.len());
        let owner_before = first_after.map_or(self.identity.owner, |transfer| transfer.from);
        fixed(owner_before == stored.identity.owner, "owner")
    }

    fn check_onward(&self, stored: &Manifest) -> Result<(), ManifestError> {
        onward(self.handed_over || !stored.handed_over, "handed_over")?;
        onward(self.memory_kills >= stored.memory_kills, "memory_kills")?;
        onward(self.storage_degraded || !stored.storage_degraded, "storage_degraded")?;
        onward(self.published.completion || !stored.published.completion, "published.completion")?;
        onward(self.published.notification || !stored.published.notification, "published.notification")?;
        onward(self.evicted || !stored.evicted, "evicted")?;
        let found_shorter =
            self.state == State::LostOnRestore && !stored.state.is_terminal() && self.storage_degraded;
        onward(self.spool.total_bytes >= stored.spool.total_bytes || found_shorter, "spool.total_bytes")?;
        onward(self.spool.retained_from >= stored.spool.retained_from || found_shorter, "spool.retained_from")
    }
}

impl CommandRecord {
    fn check(&self) -> Result<(), ManifestError> {
        match (&self.line, &self.argv) {
            (Some(line), None) => ensure(line.len() <= COMMAND_MAX, "command", "is too long")?,
            (None, Some(argv)) => {
                ensure(!argv.is_empty(), "command", "has no program")?;
                let size: usize = argv.iter().map(|argument| argument.len() + 1).sum();
                ensure(size <= COMMAND_MAX, "command", "is too long")?;
            }
            _ => ensure(false, "command", "is not either a line or arguments")?,
        }
        ensure(!self.workdir.is_empty(), "workdir", "is missing")?;
        ensure(self.workdir.len() <= WORKDIR_MAX, "workdir", "is too long")?;
        ensure(self.label.as_ref().is_none_or(|label| label.len() <= LABEL_MAX), "label", "is too long")?;
        let Some(idempotency) = &self.idempotency else { return Ok(()) };
        ensure(!idempotency.key.is_empty(), "idempotency", "has no key")?;
        let bounded = idempotency.key.len() <= KEY_MAX && idempotency.digest.len() <= WORD_MAX;
        ensure(bounded, "idempotency", "is too long")
    }
}

impl AccessRecord {
    fn check(&self) -> Result<(), ManifestError> {
        let AccessRecord::ScopedWrite { paths, .. } = self else { return Ok(()) };
        let size: usize = paths.iter().map(|path| path.len() + 1).sum();
        ensure(size <= PATHS_MAX, "access", "has too long paths")
    }
}
