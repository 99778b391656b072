//! Bash: starts a command and stays with it as long as its call asks.
//!
//! Until a process is handed over, it belongs to its call: a caller that goes away stops it. Not for checking
//! arguments: see `plan`.

use std::time::Duration;

use procyard_api::{BashArguments, BashResult, LeftoversReport};
use procyard_core::{
    Effects, ErrorCode, ExecutionId, Handle, LeaseHolder, Origin, Outcome, PublicError, State,
    WorkspaceAccess,
};
use procyard_runner::ProcessRequest;
use procyard_supervisor::{
    Attendance, Lease, Snapshot, StartOptions, Started, StreamFilter, SupervisorError, Target, Telling,
    Until, WaitMode, WaitPlace,
};

use crate::headtail::head_and_tail;
use crate::limits;
use crate::page::{Look, forward};
use crate::plan::{Mode, Plan};
use crate::progress::Reporter;
use crate::render;
use crate::reply::Answer;
use crate::source::Supervised;
use crate::toolbox::{CallContext, Lasting, Toolbox};

/// How long after its deadline a stopped process may take to be recorded, beyond what the limits allow for each step.
const SLACK: Duration = Duration::from_secs(2);

/// How long a start waits for the workspace.
const LEASE_WAIT: Duration = Duration::from_secs(5);

/// Carries a call out. Dropping the future before the process is handed over stops the process.
pub(crate) async fn bash(
    toolbox: &Toolbox,
    arguments: BashArguments,
    context: &CallContext,
    telling: &mut Telling,
) -> Result<Answer, PublicError> {
    let supervisor = toolbox.supervisor();
    let plan = Plan::new(arguments, toolbox.options(), supervisor.limits(), toolbox.lasting())?;
    // Before anything happens: a command that is started and then not waited for would be lost to its caller.
    let mut place = match plan.mode {
        Mode::Background(wait) if wait.is_zero() => None,
        _ => Some(supervisor.reserve_wait().map_err(|error| error.public())?),
    };
    if place.is_some() && matches!(plan.mode, Mode::Background(_)) {
        // Its end may come, and be due, before its handle is known here.
        telling.starts();
    }
    let mut again = true;
    loop {
        let (handle, new, attendance) = start(toolbox, &plan, context).await?;
        if place.is_some() || !new {
            // Before the wait and the hand-over: an end that comes during this call is this call's to tell.
            telling.outcome(handle);
        }
        let call = Call { toolbox, plan: &plan, handle };
        // Also of a process that another call with the same key has started: it is stopped when the last of them is gone. A
        // background process needs nobody once it runs; until then, those who joined its start.
        let stays = !new || !matches!(plan.mode, Mode::Background(_));
        let attendance = stays.then_some(attendance);
        let (ended, lift) = match plan.mode {
            Mode::Background(wait) if wait.is_zero() && new => return call.started(),
            Mode::Background(wait) | Mode::Yielded(wait) => {
                (call.wait_for_end(place.as_mut(), wait, None).await?, false)
            }
            Mode::Foreground => {
                let (within, lift) = call.patience();
                (call.wait_for_end(place.as_mut(), within, context.reporter()).await?, lift)
            }
        };
        let reached = match ended {
            Some(snapshot) => snapshot,
            None => call.let_go(lift, attendance.as_ref()).await?,
        };
        // What this call joined never ran. Where the call that was starting it had gone by then, its key is free, and this one
        // starts it now; where the command could not be executed, it is found again.
        let never_ran = reached.state == State::Failed && reached.started_at.is_none();
        if new || !never_ran || !std::mem::take(&mut again) {
            return call.answer(reached, attendance).await;
        }
        // Whoever gave it up was told; this caller has had nothing of it and is told nothing.
        attendance.as_ref().map(Attendance::release);
    }
}

/// The process, whether this call started it, and that this call stays with it.
async fn start(
    toolbox: &Toolbox,
    plan: &Plan,
    context: &CallContext,
) -> Result<(Handle, bool, Attendance), PublicError> {
    let (supervisor, owner) = (toolbox.supervisor(), toolbox.owner());
    let refused = |error: SupervisorError| error.public();
    if let Some(key) = &plan.record.idempotency
        && let Some(handle) = supervisor.find_idempotent(owner, key).map_err(refused)?
    {
        return Ok((handle, false, supervisor.attend(owner, handle)));
    }
    let runner = toolbox.runner()?;
    if plan.terminal.is_some() && !runner.capabilities().terminals {
        let message = "there are no terminals here; leave out `tty`";
        return Err(PublicError::new(ErrorCode::PtyUnavailable, message).field("tty"));
    }
    let origin =
        Origin { execution: context.execution.unwrap_or_else(|| ExecutionId::from_random(rand::random())) };
    let request = ProcessRequest {
        environment: plan.environment.clone(),
        terminal: plan.terminal,
        stdin: plan.stdin,
        deadline: plan.deadline,
        limits: toolbox.options().limits.clone(),
        ..ProcessRequest::new(plan.command.clone(), plan.workdir.clone(), origin)
    };
    let prepared = runner.prepare(request).await.map_err(|error| error.public())?;
    let lease = lease(toolbox, prepared.effective_access()).await?;
    let options = StartOptions {
        background: matches!(plan.mode, Mode::Background(_)),
        spool_ceiling: plan.spool_ceiling,
        deadline: plan.deadline,
        leftovers: plan.leftovers,
        stall_window: plan.stall_window,
        terminal: plan.terminal,
        stdin: plan.stdin,
        input: plan.input.clone(),
        limits: toolbox.options().limits.clone(),
        ..StartOptions::new(plan.record.clone())
    };
    let started = supervisor.start_attended(owner, origin, prepared, lease, options).await;
    let (started, attendance) = started.map_err(refused)?;
    Ok((started.handle(), matches!(started, Started::New(_)), attendance))
}

/// The lease of what the runner will really enforce, waited for with a bound. Without it nothing is started.
async fn lease(toolbox: &Toolbox, access: WorkspaceAccess) -> Result<Lease, PublicError> {
    match &toolbox.options().leases {
        None => Ok(Lease::none()),
        Some(leases) => {
            leases.acquire(&LeaseHolder::Process(access), LEASE_WAIT).await.map_err(|error| error.public())
        }
    }
}

/// One call with its process.
struct Call<'c> {
    toolbox: &'c Toolbox,
    plan: &'c Plan,
    handle: Handle,
}

impl Call<'_> {
    /// How long a foreground call stays, and whether the deadline is lifted when it then leaves.
    fn patience(&self) -> (Duration, bool) {
        let limits = self.toolbox.supervisor().limits();
        let stopping =
            limits.graceful_shutdown + limits.drain_cap + limits.leftover_grace + limits.proof_bound;
        let to_the_end = self.plan.deadline.unwrap_or(limits.foreground_maximum) + stopping + SLACK;
        match self.toolbox.options().auto_yield.filter(|_| self.toolbox.lasting() == Lasting::Possible) {
            Some(patience) if patience < to_the_end => (patience, self.plan.default_deadline),
            _ => (to_the_end, false),
        }
    }

    /// Waits for the end, where there is a place to wait in; `None` when it did not come in time.
    async fn wait_for_end(
        &self,
        place: Option<&mut WaitPlace>,
        within: Duration,
        reporter: Option<Reporter<'_>>,
    ) -> Result<Option<Snapshot>, PublicError> {
        let (supervisor, owner) = (self.toolbox.supervisor(), self.toolbox.owner());
        let started = |error: SupervisorError| error.public().effects(Effects::Started);
        let snapshot = match place {
            Some(place) => {
                let target = Target { handle: self.handle, cursor: 0, probe: None };
                let wait = place.wait(owner, WaitMode::Any, Until::Exit, vec![target], within);
                let waited = match reporter {
                    None => wait.await,
                    Some(reporter) => reporter.during(wait, supervisor, owner, self.handle).await,
                };
                // The process runs; only the waiting failed.
                let target = waited.map_err(started)?.into_iter().next();
                target.and_then(|target| target.snapshot).ok_or(SupervisorError::NotFound)
            }
            None => supervisor.snapshot(owner, &self.handle),
        };
        let snapshot = snapshot.map_err(started)?;
        Ok(Some(snapshot).filter(|snapshot| snapshot.state.is_terminal()))
    }

    /// Hands the process over, so that it stays when the caller goes, where that can be. Of a start that was joined this
    /// waits until it is known what came of it: nobody is told that something runs which may yet not.
    async fn let_go(
        &self,
        lift_deadline: bool,
        attendance: Option<&Attendance>,
    ) -> Result<Snapshot, PublicError> {
        let (supervisor, owner) = (self.toolbox.supervisor(), self.toolbox.owner());
        let snapshot = if self.toolbox.lasting() == Lasting::Possible {
            supervisor.hand_over(owner, &self.handle, lift_deadline).await
        } else {
            supervisor.snapshot(owner, &self.handle)
        };
        let snapshot = match (snapshot, attendance) {
            (Ok(snapshot), Some(attendance)) if snapshot.state == State::Starting => attendance.begun().await,
            (snapshot, _) => snapshot,
        };
        snapshot.map_err(|error| error.public().effects(Effects::Started))
    }

    /// The answer once the call has waited: the result, or a process that goes on.
    async fn answer(&self, reached: Snapshot, attendance: Option<Attendance>) -> Result<Answer, PublicError> {
        if reached.state.is_terminal() {
            return self.finished(reached, attendance).await;
        }
        let mut warnings = self.plan.warnings.clone();
        if reached.teardown_failed {
            warnings
                .push("the deadline has passed, but not everything it started could be ended yet".to_owned());
        }
        let answer = self.running(warnings).await?;
        // Nobody asked for a process that outlives this call.
        let unasked = self.plan.mode == Mode::Foreground && self.toolbox.lasting() == Lasting::Possible;
        Ok(Answer { left_running: unasked.then_some(self.handle), ..answer })
    }

    /// A background process that has just been started.
    fn started(&self) -> Result<Answer, PublicError> {
        let (supervisor, owner) = (self.toolbox.supervisor(), self.toolbox.owner());
        let snapshot = supervisor
            .snapshot(owner, &self.handle)
            .map_err(|error| error.public().effects(Effects::Started))?;
        let result = BashResult {
            status: State::Running,
            started_at: snapshot.started_at.map(Into::into),
            timeout_s: snapshot.deadline.map(|deadline| deadline.as_secs()),
            tty: snapshot.terminal.is_some(),
            limits: limits::report(&snapshot),
            warnings: self.plan.warnings.clone(),
            backgrounded: true,
            ..blank(self.handle)
        };
        let text = render::bash(&result);
        Answer::new(&result, text)
    }

    /// A process that runs on, with its output so far.
    async fn running(&self, mut warnings: Vec<String>) -> Result<Answer, PublicError> {
        let look =
            Look { limit: self.plan.limit, encoding: procyard_api::Encoding::SafeText, collapse: true };
        let shown =
            forward(&self.source(), 0, &look).await.map_err(|error| error.effects(Effects::Started))?;
        if shown.next_cursor < shown.total_bytes {
            warnings.push("the output so far exceeds limit_bytes; read on at next_cursor".to_owned());
        }
        // A process that ended while its output was read is still told as running: its end is announced.
        let result = BashResult {
            output: shown.output,
            start_cursor: shown.start_cursor,
            next_cursor: shown.next_cursor,
            total_bytes: shown.total_bytes,
            gap: shown.gap,
            normalized: shown.normalized,
            binary: shown.binary,
            warnings,
            ..described(&shown.snapshot, State::Running)
        };
        let text = render::bash(&result);
        Answer::new(&result, text)
    }

    /// A process that has ended, with the beginning and the end of its output.
    async fn finished(
        &self,
        snapshot: Snapshot,
        attendance: Option<Attendance>,
    ) -> Result<Answer, PublicError> {
        let answer = ended(&self.source(), &snapshot, self.plan.limit, self.plan.warnings.clone()).await?;
        Ok(Answer { attendance, ..answer })
    }

    fn source(&self) -> Supervised<'_> {
        Supervised {
            supervisor: self.toolbox.supervisor(),
            owner: self.toolbox.owner(),
            handle: self.handle,
            streams: StreamFilter::Both,
        }
    }
}

/// The answer of a process that has ended, with the beginning and the end of its output in `limit` bytes.
pub(crate) async fn ended(
    source: &Supervised<'_>,
    snapshot: &Snapshot,
    limit: usize,
    mut warnings: Vec<String>,
) -> Result<Answer, PublicError> {
    warnings.extend(limits::warning(snapshot));
    let mut result = BashResult { warnings, ..described(snapshot, snapshot.state) };
    match head_and_tail(source, limit).await {
        Ok(output) => {
            result.output = output.shown.output;
            result.start_cursor = output.shown.start_cursor;
            result.next_cursor = output.shown.next_cursor;
            result.total_bytes = output.shown.total_bytes;
            result.omitted_bytes = output.omitted;
            result.gap = output.shown.gap;
            result.normalized = output.shown.normalized;
            result.binary = output.shown.binary;
        }
        // How the command ended is known, and is not lost with its output.
        Err(error) => {
            result.total_bytes = snapshot.total_bytes;
            result.gap = true;
            result.warnings.push(format!("the output could not be read: {}", error.message));
        }
    }
    let text = render::bash(&result);
    Ok(Answer::new(&result, text)?.telling(vec![source.handle]))
}

fn blank(handle: Handle) -> BashResult {
    BashResult {
        process_id: handle,
        status: State::Running,
        exit_code: None,
        signal: None,
        reason: None,
        diagnostic: None,
        output: String::new(),
        start_cursor: 0,
        next_cursor: 0,
        total_bytes: 0,
        omitted_bytes: None,
        gap: false,
        normalized: false,
        binary: false,
        unread_input_bytes: None,
        backgrounded: false,
        started_at: None,
        finished_at: None,
        duration_ms: None,
        leftovers: None,
        storage_degraded: false,
        timeout_s: None,
        tty: false,
        limits: None,
        warnings: Vec::new(),
        notifications: Vec::new(),
    }
}

/// What a snapshot says, without output. Told as `status`, which may be earlier than the snapshot's.
fn described(snapshot: &Snapshot, status: State) -> BashResult {
    let ended = status.is_terminal();
    let outcome = snapshot.outcome.as_ref().filter(|_| ended);
    let finished_at = snapshot.finished_at.filter(|_| ended);
    BashResult {
        status,
        exit_code: outcome.and_then(|outcome| outcome.exit_code),
        signal: outcome.and_then(|outcome| outcome.signal),
        reason: outcome.map(|outcome| outcome.reason),
        diagnostic: outcome.and_then(diagnostic),
        total_bytes: snapshot.total_bytes,
        unread_input_bytes: unread_input(snapshot),
        backgrounded: snapshot.handed_over,
        started_at: snapshot.started_at.map(Into::into),
        finished_at: finished_at.map(Into::into),
        duration_ms: finished_at.zip(snapshot.started_at).map(|(to, from)| to.millis_since(from)),
        leftovers: outcome.and_then(leftovers),
        storage_degraded: snapshot.storage_degraded,
        timeout_s: snapshot.deadline.map(|deadline| deadline.as_secs()),
        tty: snapshot.terminal.is_some(),
        limits: limits::report(snapshot),
        ..blank(snapshot.identity.handle)
    }
}

/// Input that was accepted and that the process never took, where there is any.
pub(crate) fn unread_input(snapshot: &Snapshot) -> Option<u64> {
    Some(snapshot.unread_input).filter(|bytes| *bytes > 0)
}

/// A diagnostic that says something.
pub(crate) fn diagnostic(outcome: &Outcome) -> Option<String> {
    outcome.diagnostic.clone().filter(|text| !text.is_empty())
}

/// The leftovers of an outcome, where there were any.
pub(crate) fn leftovers(outcome: &Outcome) -> Option<LeftoversReport> {
    outcome.leftovers.map(|leftovers| LeftoversReport { count: leftovers.count, action: leftovers.action })
}
