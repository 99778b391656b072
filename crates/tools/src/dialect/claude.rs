//! The vocabulary of Claude Code: Bash, `BashOutput`, `KillShell`, `TaskOutput` and `TaskStop`.
//!
//! A shell or task is a process, its id the handle. Each look shows what was printed since the one before. Not for the
//! working directory that `cd` carries from one call to the next there: here each command begins in the workspace.

mod text;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use procyard_api::{BashArguments, StopArguments, StopResult, input_schema};
use procyard_core::{Effects, ErrorCode, Handle, PublicError};
use procyard_supervisor::{Snapshot, Target, Telling, Until, WaitMode};
use procyard_text::shorten;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};

use super::filter::matching;
use super::places::Places;
use super::unread::unread;
use super::{
    LOOKS, STARTS, STOPS, attempts, command_of, inside, no_such_process, notes, renamed, text_only, tool,
    without,
};
use text::{end_of, finished, in_background, noted, output_or_nothing, status};

use crate::definitions::{ToolDefinition, named};
use crate::notices::by_handle;
use crate::pattern::Pattern;
use crate::reply::{Answer, Reply};
use crate::surface::Surface;
use crate::toolbox::{CallContext, Lasting, Toolbox};
use crate::{arguments, bash, render, stop};

/// Bytes of output in a result.
const OUTPUT: usize = 30_000;

/// Milliseconds that `TaskOutput` waits when a call does not say.
const WAIT: u64 = 30_000;

/// The longest label that is kept, in characters.
const LABEL_MAX: usize = 200;

const INSTRUCTIONS: &str = "Runs commands under supervision. Bash runs a command and waits for it, or with run_in_background: \
true returns at once with an ID, and you are notified when it ends. BashOutput shows what it has printed since you last \
looked, TaskOutput waits for its end, KillShell or TaskStop ends it with everything it started. Each command begins in the \
workspace: cd does not last from one call to the next.";

/// The same where no command may outlive its call.
const WITHIN_THE_CALL: &str = "Runs commands under supervision. Bash runs a command and waits for its end; everything it started \
ends with it. Each command begins in the workspace: cd does not last from one call to the next.";

fn handle_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{22}$" })
}

/// Arguments of Bash.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Bash {
    /// The command line, run by a shell.
    #[schemars(length(min = 1))]
    command: String,
    /// Milliseconds that the command may run before it is stopped with everything it started, in whole seconds, rounded up.
    #[serde(default)]
    #[schemars(range(min = 1))]
    timeout: Option<u64>,
    /// What the command does, in a few words; by this you recognise it in notifications.
    #[serde(default)]
    description: Option<String>,
    /// Return at once and let it run.
    #[serde(default)]
    run_in_background: bool,
}

/// Arguments of `BashOutput`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BashOutput {
    /// The ID that Bash gave.
    #[schemars(schema_with = "handle_schema")]
    bash_id: Handle,
    /// Show only lines that match this regular expression. Lines that do not are passed over for good.
    #[serde(default)]
    #[schemars(length(min = 1, max = 1024))]
    filter: Option<String>,
}

/// Arguments of `KillShell`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct KillShell {
    /// The ID that Bash gave.
    #[schemars(schema_with = "handle_schema")]
    shell_id: Handle,
}

/// Arguments of `TaskOutput`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TaskOutput {
    /// The ID that Bash gave.
    #[schemars(schema_with = "handle_schema")]
    task_id: Handle,
    /// Wait for the end. Default true.
    #[serde(default)]
    block: Option<bool>,
    /// Longest wait in milliseconds. Default 30000.
    #[serde(default)]
    #[schemars(range(max = 600_000))]
    timeout: Option<u64>,
}

/// Arguments of `TaskStop`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TaskStop {
    /// The ID that Bash gave.
    #[schemars(schema_with = "handle_schema")]
    task_id: Handle,
}

/// The surface.
pub(super) struct Claude {
    toolbox: Arc<Toolbox>,
    places: Arc<Places>,
    definitions: Arc<[ToolDefinition]>,
}

impl Claude {
    pub(super) fn new(toolbox: Arc<Toolbox>) -> Self {
        let definitions = definitions(&toolbox);
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
        let schema = &tool.input_schema;
        match name {
            "Bash" => self.bash(arguments::parse(arguments, schema)?, context, telling).await,
            "BashOutput" => self.bash_output(arguments::parse(arguments, schema)?, telling).await,
            "TaskOutput" => self.task_output(arguments::parse(arguments, schema)?, telling).await,
            "KillShell" => {
                let KillShell { shell_id } = arguments::parse(arguments, schema)?;
                self.stop(shell_id, "shell_id", telling).await
            }
            _ => {
                let TaskStop { task_id } = arguments::parse(arguments, schema)?;
                self.stop(task_id, "task_id", telling).await
            }
        }
    }

    async fn bash(
        &self,
        arguments: Bash,
        context: &CallContext,
        telling: &mut Telling,
    ) -> Result<Answer, PublicError> {
        let lasts = self.toolbox.lasting() == Lasting::Possible;
        let instead = if lasts { "leave it out and use run_in_background: true" } else { "leave it out" };
        let also = attempts(&arguments.command, instead);
        let maximum = self.toolbox.supervisor().limits().foreground_maximum.as_secs();
        let timeout = arguments.timeout.map(|ms| ms.div_ceil(1000));
        if !arguments.run_in_background && timeout.is_some_and(|seconds| seconds > maximum) {
            let mut message = format!("must be at most {}", maximum * 1000);
            if lasts {
                message.push_str("; use run_in_background: true for what takes longer");
            }
            return Err(PublicError::argument("timeout", message));
        }
        let native = BashArguments {
            command: Some(arguments.command),
            timeout,
            background: arguments.run_in_background,
            description: arguments.description.map(|text| shorten(&text, LABEL_MAX)),
            // The output is read here, so that looks go on where it ended.
            limit_bytes: Some(1),
            ..BashArguments::default()
        };
        let answer = bash::bash(&self.toolbox, native, context, telling).await?;
        let handle = answer.process()?;
        let mut answer = answer.without_structure();
        if !answer.told.contains(&handle) {
            answer.text = in_background(handle);
            if arguments.run_in_background {
                // What it has printed by now is shown by the first look.
                answer.text.push_str(&noted(&also));
                return Ok(answer);
            }
        }
        let read = unread(&self.toolbox, &self.places, handle, OUTPUT).await;
        let unread = read.map_err(|error| error.effects(Effects::Started))?;
        if answer.told.contains(&handle) {
            answer.text = finished(&unread, &also);
        } else {
            let (so_far, also) = (output_or_nothing(&unread), noted(&also));
            let _ = if so_far.is_empty() {
                write!(answer.text, "It still runs, and has printed nothing yet.\n{also}")
            } else {
                write!(answer.text, "It still runs. Output so far:\n{so_far}{also}")
            };
        }
        Ok(Answer { read: Some(unread.claim), ..answer })
    }

    async fn bash_output(&self, arguments: BashOutput, telling: &mut Telling) -> Result<Answer, PublicError> {
        let handle = self.known(arguments.bash_id, "bash_id")?;
        let filter = arguments.filter.as_deref().map(Pattern::compile).transpose();
        let filter = filter.map_err(|error| renamed(error, &[("pattern", "filter")]))?;
        telling.outcome(handle);
        let (stdout, noticed, snapshot, claim) = match filter {
            None => {
                let unread = unread(&self.toolbox, &self.places, handle, OUTPUT).await?;
                (output_or_nothing(&unread), Vec::new(), unread.snapshot, unread.claim)
            }
            Some(pattern) => {
                let found = matching(&self.toolbox, &self.places, handle, &pattern, OUTPUT).await?;
                (found.lines, found.notes, found.snapshot, found.claim)
            }
        };
        let mut text = format!("<status>{}</status>\n\n", status(&snapshot));
        text.push_str(&end_of(&snapshot));
        if !stdout.is_empty() {
            let _ = write!(text, "<stdout>\n{}</stdout>\n", inside("stdout", &stdout));
        }
        text.push_str(&noted(&noticed));
        text.push_str(&noted(&notes(&snapshot)));
        Ok(Answer { read: Some(claim), ..text_only(text, told(&snapshot)) })
    }

    async fn task_output(&self, arguments: TaskOutput, telling: &mut Telling) -> Result<Answer, PublicError> {
        let handle = self.known(arguments.task_id, "task_id")?;
        let block = arguments.block.unwrap_or(true);
        telling.outcome(handle);
        if block {
            let patience = Duration::from_millis(arguments.timeout.unwrap_or(WAIT));
            let target = Target { handle, cursor: 0, probe: None };
            self.toolbox
                .supervisor()
                .wait(self.toolbox.owner(), WaitMode::Any, Until::Exit, vec![target], patience)
                .await
                .map_err(|error| error.public())?;
        }
        let unread = unread(&self.toolbox, &self.places, handle, OUTPUT).await?;
        let snapshot = &unread.snapshot;
        let retrieval = match (snapshot.state.is_terminal(), block) {
            (true, _) => "success",
            (false, true) => "timeout",
            (false, false) => "not_ready",
        };
        let mut text = format!(
            "<retrieval_status>{retrieval}</retrieval_status>\n\n<task_id>{}</task_id>\n\n\
             <task_type>local_bash</task_type>\n\n<status>{}</status>\n\n",
            handle.reveal(),
            status(snapshot)
        );
        text.push_str(&end_of(snapshot));
        let output = output_or_nothing(&unread);
        if !output.is_empty() {
            let _ = write!(text, "<output>\n{}</output>\n", inside("output", &output));
        }
        text.push_str(&noted(&notes(snapshot)));
        let told = told(snapshot);
        Ok(Answer { read: Some(unread.claim), ..text_only(text, told) })
    }

    async fn stop(&self, handle: Handle, field: &str, telling: &mut Telling) -> Result<Answer, PublicError> {
        let handle = self.known(handle, field)?;
        let named = |error: PublicError| renamed(error, &[("process_id", field)]);
        let before = self
            .toolbox
            .supervisor()
            .snapshot(self.toolbox.owner(), &handle)
            .map_err(|error| named(error.public()))?;
        let native = StopArguments { process_id: handle, mode: None, grace_ms: None };
        let answer = stop::stop(&self.toolbox, native, telling).await.map_err(named)?;
        let result: StopResult = answer.result()?;
        let command = command_of(&before);
        let id = handle.reveal();
        let what = if field == "task_id" { "task" } else { "shell" };
        let message = if before.state.is_terminal() {
            let ending = render::ending(result.status, result.exit_code, result.signal);
            format!("The {what} {id} had ended already: {ending} ({command})")
        } else if what == "task" {
            format!("Successfully stopped task: {id} ({command})")
        } else {
            format!("Successfully killed shell: {id} ({command})")
        };
        let said = if what == "task" {
            json!({ "message": message, "task_id": id, "task_type": "local_bash", "command": command })
        } else {
            json!({ "message": message, "shell_id": id })
        };
        Ok(Answer { text: format!("{said}\n"), ..answer.without_structure() })
    }

    /// The handle, if the caller has such a process.
    fn known(&self, handle: Handle, field: &str) -> Result<Handle, PublicError> {
        match self.toolbox.supervisor().snapshot(self.toolbox.owner(), &handle) {
            Ok(_) => Ok(handle),
            Err(error) if error.code() == ErrorCode::NotFound => {
                Err(no_such_process(&self.toolbox, field, by_handle))
            }
            Err(error) => Err(error.public()),
        }
    }
}

#[async_trait]
impl Surface for Claude {
    fn toolbox(&self) -> &Toolbox {
        &self.toolbox
    }

    fn instructions(&self) -> &'static str {
        if self.toolbox.lasting() == Lasting::Possible { INSTRUCTIONS } else { WITHIN_THE_CALL }
    }

    fn definitions(&self) -> Arc<[ToolDefinition]> {
        Arc::clone(&self.definitions)
    }

    fn gives_input(&self, _: &str) -> bool {
        false
    }

    async fn call(&self, name: &str, arguments: Value, context: CallContext) -> Reply {
        let mut telling = self.toolbox.telling();
        let answer = self.answer(name, arguments, &context, &mut telling).await;
        Reply::new(telling, answer, by_handle)
    }
}

fn definitions(toolbox: &Toolbox) -> Vec<ToolDefinition> {
    let mut all = Vec::new();
    if toolbox.runner().is_ok() {
        let limits = toolbox.supervisor().limits();
        let (default, maximum) =
            (limits.foreground_default.as_millis(), limits.foreground_maximum.as_millis());
        let mut schema = input_schema::<Bash>();
        let mut description = "Runs a command in a shell and returns its output and how it ended. Each command begins in the \
                               workspace; nothing of the shell lasts from one call to the next, neither directory nor \
                               variables. Everything that a command starts belongs to it and ends with it."
            .to_owned();
        let mut timeout = format!(
            "Milliseconds that the command may run before it is stopped with everything it started; rounded up to whole \
             seconds. Default {default}, at most {maximum}."
        );
        if toolbox.lasting() == Lasting::Possible {
            description.push_str(
                " Use run_in_background: true for what runs long: you get an ID for BashOutput, TaskOutput and KillShell, and \
                 are notified when it ends. Do not start things with & or nohup, and do not wait by running sleep.",
            );
            timeout.push_str(" In the background: none by default, and without a maximum.");
        } else {
            schema = without(schema, &["run_in_background"]);
        }
        if let Some(property) = schema.pointer_mut("/properties/timeout/description") {
            *property = json!(timeout);
        }
        all.push(tool("Bash", "Run a command", &description, schema, STARTS));
    }
    all.push(tool(
        "BashOutput",
        "Read a command's output",
        "Shows what a background command has printed since you last looked, and how it is doing. It does not wait: use \
         TaskOutput for that.",
        input_schema::<BashOutput>(),
        LOOKS,
    ));
    all.push(tool(
        "KillShell",
        "Stop a command",
        "Ends a background command and everything it started, and returns when all of it is gone.",
        input_schema::<KillShell>(),
        STOPS,
    ));
    all.push(tool(
        "TaskOutput",
        "Wait for a command",
        "Waits for the end of a background command, and shows what it has printed since you last looked.",
        input_schema::<TaskOutput>(),
        LOOKS,
    ));
    all.push(tool(
        "TaskStop",
        "Stop a task",
        "The same as KillShell, for a task_id.",
        input_schema::<TaskStop>(),
        STOPS,
    ));
    all
}

fn told(snapshot: &Snapshot) -> Vec<Handle> {
    if snapshot.state.is_terminal() { vec![snapshot.identity.handle] } else { Vec::new() }
}
