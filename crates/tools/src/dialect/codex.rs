//! The vocabulary of the Codex CLI ("unified exec"): `exec_command` and `write_stdin`.
//!
//! A session is a process; its number is derived from the handle, so that it means the same for as long as the process is
//! known, also after a restart, and is looked up among the caller's own processes only. Each result shows what was
//! printed since the one before. Not for approvals and sandboxes, which that vocabulary has, too.

mod text;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use procyard_api::{BashArguments, InputArguments, input_schema};
use procyard_core::{Effects, ErrorCode, Handle, PublicError, StopKind};
use procyard_supervisor::{
    Snapshot, StdinStatus, StopRequest, StreamFilter, Target, Telling, Until, WaitMode, WaitPlace,
};
use procyard_text::shorten;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use text::{name, number_of, text};

use super::places::Places;
use super::unread::{Unread, look, source, unread};
use super::{LOOKS, STARTS, attempts, no_such_process, renamed, text_only, tool, without};
use crate::definitions::{ToolDefinition, named};
use crate::ground::ground_before;
use crate::output::output_probe;
use crate::reply::{Answer, Reply};
use crate::surface::Surface;
use crate::toolbox::{CallContext, CommandLines, Lasting, Toolbox};
use crate::{arguments, bash, input};

/// What a token is taken for, in bytes.
const TOKEN: usize = 4;

/// Tokens of output in a result.
const TOKENS: u64 = 10_000;

/// Tokens that a call may ask for.
const TOKENS_MAX: u64 = 250_000;

/// Milliseconds that a start stays with its process.
const START: (u64, std::ops::RangeInclusive<u64>) = (10_000, 250..=30_000);

/// Milliseconds that a write waits.
const WRITE: (u64, std::ops::RangeInclusive<u64>) = (250, 250..=30_000);

/// Milliseconds that a look without a write waits.
const POLL: (u64, std::ops::RangeInclusive<u64>) = (5_000, 5_000..=300_000);

/// With `wait_mode: output`, output is whole when it has been quiet for this long.
const QUIET: Duration = Duration::from_millis(100);

/// The ^C that a model writes to interrupt.
const INTERRUPT: &str = "\u{3}";

/// The shell where none is configured.
const SHELL: &str = "bash";

/// Characters of a command that its process is listed under.
const LABEL_MAX: usize = 200;

const INSTRUCTIONS: &str = "Runs commands under supervision. exec_command runs a command line and waits for it; if it still \
runs after yield_time_ms you get a session ID. write_stdin with that ID and empty chars waits for more output or for the end, \
with chars it writes to the terminal of a command that was started with tty: true; chars \\u0003 interrupts any command. What \
a command started ends with it.";

/// The same where no command may outlive its call.
const WITHIN_THE_CALL: &str = "Runs commands under supervision. exec_command runs a command line and waits for its end; everything \
it started ends with it.";

/// Arguments of `exec_command`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExecCommand {
    /// The command line.
    #[schemars(length(min = 1))]
    cmd: String,
    /// Where it runs. Default: the workspace.
    #[serde(default)]
    workdir: Option<String>,
    /// The shell that runs it. Default: the one that runs all command lines here.
    #[serde(default)]
    #[schemars(length(min = 1))]
    shell: Option<String>,
    /// Whether the shell is a login shell and reads its profile. Default true.
    #[serde(default)]
    login: Option<bool>,
    /// Give it a terminal, so that `write_stdin` can write to it. Default false: it reads end of file.
    #[serde(default)]
    tty: bool,
    /// Milliseconds to wait for its end before you get a session ID. Default 10000; less than 250 means 250, more than
    /// 30000 means 30000.
    #[serde(default)]
    yield_time_ms: Option<u64>,
    /// Budget of output in tokens of four bytes. Default 10000.
    #[serde(default)]
    #[schemars(range(min = 1))]
    max_output_tokens: Option<u64>,
}

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WaitFor {
    Output,
    #[default]
    Completion,
}

/// Arguments of `write_stdin`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteStdin {
    /// The session ID that `exec_command` gave.
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_u64))]
    session_id: u64,
    /// What to write; no newline is added. Default empty: only wait. `\u0003` interrupts.
    #[serde(default)]
    chars: Option<String>,
    /// Milliseconds to wait. With chars: default 250, from 250 to 30000. Without: default 5000, from 5000 to 300000. Less
    /// or more means the nearest of these.
    #[serde(default)]
    yield_time_ms: Option<u64>,
    /// What ends the wait early: `completion` (default) the end of the command, `output` also output that has come to
    /// rest.
    #[serde(default)]
    wait_mode: Option<WaitFor>,
    /// Budget of output in tokens of four bytes. Default 10000.
    #[serde(default)]
    #[schemars(range(min = 1))]
    max_output_tokens: Option<u64>,
}

/// The surface.
pub(super) struct Codex {
    toolbox: Arc<Toolbox>,
    places: Arc<Places>,
    definitions: Arc<[ToolDefinition]>,
}

impl Codex {
    pub(super) fn new(toolbox: Arc<Toolbox>) -> Self {
        let definitions =
            definitions(toolbox.lasting(), toolbox.runner().is_ok(), toolbox.options().command_lines);
        Self { toolbox, places: Arc::default(), definitions: definitions.into() }
    }

    async fn answer(
        &self,
        name: &str,
        arguments: Value,
        context: &CallContext,
        telling: &mut Telling,
    ) -> Result<Answer, PublicError> {
        let tool = named(&self.definitions, name)?;
        let began = Instant::now();
        if name == "exec_command" {
            let arguments: ExecCommand = arguments::parse(arguments, &tool.input_schema)?;
            self.exec_command(arguments, context, telling, began).await
        } else {
            let arguments: WriteStdin = arguments::parse(arguments, &tool.input_schema)?;
            self.write_stdin(arguments, context, telling, began).await
        }
    }

    async fn exec_command(
        &self,
        arguments: ExecCommand,
        context: &CallContext,
        telling: &mut Telling,
        began: Instant,
    ) -> Result<Answer, PublicError> {
        let budget = budget(arguments.max_output_tokens);
        let told = attempts(&arguments.cmd, "leave it out: the command runs on when the call yields");
        let stays = self.toolbox.lasting() == Lasting::Possible;
        let description = Some(shorten(&arguments.cmd, LABEL_MAX));
        let (command, argv) = match self.toolbox.options().command_lines {
            CommandLines::Words => (Some(arguments.cmd), None),
            CommandLines::Shell => {
                let shell = arguments.shell.or_else(|| self.toolbox.options().shell.clone());
                let flag = if arguments.login.unwrap_or(true) { "-lc" } else { "-c" };
                let shell = shell.unwrap_or_else(|| SHELL.to_owned());
                (None, Some(vec![shell, flag.to_owned(), arguments.cmd]))
            }
        };
        let native = BashArguments {
            description,
            command,
            argv,
            workdir: arguments.workdir.filter(|workdir| !workdir.is_empty()),
            tty: arguments.tty,
            yield_time_ms: stays.then(|| within(arguments.yield_time_ms, &START)),
            // The output is read here, from where the last result ended.
            limit_bytes: Some(1),
            ..BashArguments::default()
        };
        let answer = bash::bash(&self.toolbox, native, context, telling).await.map_err(own)?;
        let handle = answer.process()?;
        let unread = self.read(handle, budget).await.map_err(|error| error.effects(Effects::Started))?;
        // Whoever was told that it runs is told of its end later, also if it has ended meanwhile.
        let ended = answer.told.contains(&handle);
        let text = text(&unread, ended, began.elapsed(), &told);
        Ok(Answer { text, read: Some(unread.claim), ..answer.without_structure() })
    }

    async fn write_stdin(
        &self,
        arguments: WriteStdin,
        context: &CallContext,
        telling: &mut Telling,
        began: Instant,
    ) -> Result<Answer, PublicError> {
        let (supervisor, owner) = (self.toolbox.supervisor(), self.toolbox.owner());
        let handle = self.resolve(arguments.session_id)?;
        let chars = arguments.chars.unwrap_or_default();
        let patience = within(arguments.yield_time_ms, if chars.is_empty() { &POLL } else { &WRITE });
        let patience = Duration::from_millis(patience);
        let until = Instant::now() + patience;
        let wait_for = arguments.wait_mode.unwrap_or_default();
        // Before anything is written: what was written and is then not waited for would be repeated by its caller.
        let place = supervisor.reserve_wait().map_err(|error| error.public())?;
        telling.outcome(handle);
        let before = supervisor.snapshot(owner, &handle).map_err(|error| own(error.public()))?;
        let from = if chars.is_empty() {
            self.places.of(&handle)
        } else {
            ground_before(&source(&self.toolbox, handle), before.total_bytes).await
        };
        let written = self.write(&before, chars, patience, context, telling).await;
        context.accepted.cancel();
        written.map_err(own)?;
        let effects = |error: PublicError| error.effects(Effects::Started);
        // An interrupt has waited for the end already.
        let patience = until.saturating_duration_since(Instant::now());
        wait(&self.toolbox, place, handle, from, wait_for, patience).await.map_err(effects)?;
        let unread = self.read(handle, budget(arguments.max_output_tokens)).await.map_err(effects)?;
        let ended = unread.snapshot.state.is_terminal();
        let text = text(&unread, ended, began.elapsed(), &[]);
        let told = if ended { vec![handle] } else { Vec::new() };
        Ok(Answer { read: Some(unread.claim), ..text_only(text, told) })
    }

    /// Writes, or interrupts what has no terminal to write ^C to.
    async fn write(
        &self,
        before: &Snapshot,
        chars: String,
        patience: Duration,
        context: &CallContext,
        telling: &mut Telling,
    ) -> Result<(), PublicError> {
        let handle = before.identity.handle;
        if chars.is_empty() || before.state.is_terminal() && chars == INTERRUPT {
            return Ok(());
        }
        if before.terminal.is_none() && chars == INTERRUPT {
            context.accepted.cancel();
            // An exit is the interrupt's for as long as one that is typed has; the call waits for it no longer than asked.
            let request = StopRequest { kind: StopKind::Interrupt, grace: None };
            let stop = self.toolbox.supervisor().stop(self.toolbox.owner(), &handle, request);
            return match tokio::time::timeout(patience, stop).await {
                Ok(stopped) => stopped.map(|_| ()).map_err(|error| error.public()),
                Err(_) => Ok(()),
            };
        }
        if before.stdin == StdinStatus::None {
            let message =
                "this session has no terminal and reads end of file; start it with tty: true to write to it";
            return Err(PublicError::new(ErrorCode::StdinClosed, message).field("chars"));
        }
        let native = InputArguments { data: Some(chars), limit_bytes: Some(1), ..InputArguments::to(handle) };
        input::input(&self.toolbox, native, telling, &context.accepted).await.map(|_| ())
    }

    async fn read(&self, handle: Handle, budget: usize) -> Result<Unread, PublicError> {
        unread(&self.toolbox, &self.places, handle, budget).await.map_err(own)
    }

    /// The caller's process with this number.
    fn resolve(&self, number: u64) -> Result<Handle, PublicError> {
        let named = self.toolbox.supervisor().list(self.toolbox.owner());
        let mut named: Vec<&Snapshot> =
            named.iter().filter(|process| number_of(&process.identity.handle) == number).collect();
        if named.len() > 1 {
            // Two in two thousand million: the one that runs is meant, if it is only one.
            named.retain(|process| !process.state.is_terminal());
        }
        match named.as_slice() {
            [process] => Ok(process.identity.handle),
            _ => Err(no_such_process(&self.toolbox, "session_id", name)),
        }
    }
}

#[async_trait]
impl Surface for Codex {
    fn toolbox(&self) -> &Toolbox {
        &self.toolbox
    }

    fn instructions(&self) -> &'static str {
        if self.toolbox.lasting() == Lasting::Possible { INSTRUCTIONS } else { WITHIN_THE_CALL }
    }

    fn definitions(&self) -> Arc<[ToolDefinition]> {
        Arc::clone(&self.definitions)
    }

    fn gives_input(&self, tool: &str) -> bool {
        tool == "write_stdin"
    }

    async fn call(&self, name: &str, arguments: Value, context: CallContext) -> Reply {
        let mut telling = self.toolbox.telling();
        let answer = self.answer(name, arguments, &context, &mut telling).await;
        Reply::new(telling, answer, self::name)
    }
}

fn definitions(lasting: Lasting, starts: bool, lines: CommandLines) -> Vec<ToolDefinition> {
    let lasts = lasting == Lasting::Possible;
    let mut all = Vec::new();
    if starts {
        let schema = match lines {
            CommandLines::Shell => input_schema::<ExecCommand>(),
            // No shell sees the line, so there is none to choose.
            CommandLines::Words => without(input_schema::<ExecCommand>(), &["shell", "login"]),
        };
        let (description, schema) = if lasts {
            (
                "Runs a command line and returns its output and how it ended, or, if it still runs after yield_time_ms, its \
                 output so far and a session ID for write_stdin; you are then notified when it ends. Everything that it \
                 starts belongs to it and ends with it.",
                schema,
            )
        } else {
            (
                "Runs a command line, waits for its end, and returns its output and how it ended. Everything that it starts \
                 belongs to it and ends with it.",
                without(schema, &["yield_time_ms"]),
            )
        };
        all.push(tool("exec_command", "Run a command", description, schema, STARTS));
    }
    all.push(tool(
        "write_stdin",
        "Write to a command, or wait for it",
        "Writes characters to a running session, waits, and returns what it has printed since the last result. Empty chars only \
         wait: ask once with a long yield_time_ms instead of again and again.",
        input_schema::<WriteStdin>(),
        crate::definitions::ToolAnnotations { read_only: false, open_world: true, ..LOOKS },
    ));
    all
}

fn within(asked: Option<u64>, (default, range): &(u64, std::ops::RangeInclusive<u64>)) -> u64 {
    asked.unwrap_or(*default).clamp(*range.start(), *range.end())
}

fn budget(tokens: Option<u64>) -> usize {
    usize::try_from(tokens.unwrap_or(TOKENS).min(TOKENS_MAX)).unwrap_or(usize::MAX).saturating_mul(TOKEN)
}

/// An error in the words of this vocabulary.
fn own(error: PublicError) -> PublicError {
    let error = match error.code {
        ErrorCode::NotFound => PublicError { message: "there is no such process".to_owned(), ..error },
        _ => error,
    };
    let names = [("argv", "cmd"), ("command", "cmd"), ("data", "chars"), ("process_id", "session_id")];
    renamed(error, &names)
}

async fn wait(
    toolbox: &Toolbox,
    mut place: WaitPlace,
    handle: Handle,
    from: u64,
    wait_for: WaitFor,
    patience: Duration,
) -> Result<(), PublicError> {
    let owner = toolbox.owner();
    let end = Instant::now() + patience;
    let (until, probe) = match wait_for {
        WaitFor::Completion => (Until::Exit, None),
        WaitFor::Output => (Until::Probe, output_probe(StreamFilter::Both, &look(1))),
    };
    let target = Target { handle, cursor: from, probe };
    let waited = place
        .wait(owner, WaitMode::Any, until, vec![target], patience)
        .await
        .map_err(|error| own(error.public()))?;
    if wait_for == WaitFor::Output && waited.iter().all(|target| target.satisfied) {
        let within = end.saturating_duration_since(Instant::now());
        // A process that went away meanwhile is told so by its read.
        let _ = place.quiet(owner, &handle, QUIET, within).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_nearest_that_there_is() {
        for (asked, range, expect) in [
            (None, &START, 10_000),
            (Some(0), &START, 250),
            (Some(120_000), &START, 30_000),
            (None, &WRITE, 250),
            (None, &POLL, 5_000),
            (Some(1_000), &POLL, 5_000),
            (Some(u64::MAX), &POLL, 300_000),
        ] {
            assert_eq!(within(asked, range), expect, "{asked:?}");
        }
    }

    #[test]
    fn a_budget_is_bounded() {
        assert_eq!(budget(None), 40_000);
        assert_eq!(budget(Some(u64::MAX)), 1_000_000);
        assert_eq!(budget(Some(1)), 4);
    }

    #[test]
    fn what_may_not_outlive_its_call_is_not_in_the_schema() {
        let tools = definitions(Lasting::Uncontained, true, CommandLines::Shell);
        assert!(!tools[0].input_schema.to_string().contains("yield"), "{}", tools[0].input_schema);
        assert!(!tools[0].description.contains("yield"));
        assert_eq!(
            definitions(Lasting::Possible, false, CommandLines::Shell).len(),
            1,
            "nothing can be started"
        );
    }
}
