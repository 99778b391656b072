//! The tools of one owner over one supervisor.
//!
//! Not for sessions or transports: whoever serves a client builds one of these for each of its loops.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use procyard_api::{BashArguments, InputArguments, ListArguments, OutputArguments, StopArguments};
use procyard_core::{ExecutionId, Owner, PublicError};
use procyard_runner::{Environment, ResourceLimits, Runner, RunnerResolver};
use procyard_supervisor::{Leases, Supervisor, Telling};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::definitions::{BASH, ToolDefinition, bash_schema, named, shared};
use crate::notices::by_handle;
use crate::progress::{Progress, Reporter};
use crate::reply::{Answer, Reply};
use crate::screen::Screens;
use crate::{arguments, bash, input, list, output, stop};

/// What becomes of a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommandLines {
    /// A shell carries it out.
    #[default]
    Shell,
    /// It is split into [words](crate::words), which no shell sees; what only a shell can do is refused.
    Words,
}

/// How commands are started.
#[derive(Debug, Clone, Default)]
pub struct ToolboxOptions {
    /// Where commands run unless they say otherwise, and what a relative `workdir` is relative to. Absolute.
    pub workspace: PathBuf,
    /// After this long a foreground call hands its process over and returns; `None`: never.
    pub auto_yield: Option<Duration>,
    /// What the environment of commands is made of, before a call's own changes.
    pub environment: Environment,
    /// What becomes of `command`; `argv` is never changed.
    pub command_lines: CommandLines,
    /// The shell that a dialect starts by itself, by its name or path; `None`: `bash`. The runner has its own for
    /// `command`.
    pub shell: Option<String>,
    /// Caps on what each command may take.
    pub limits: ResourceLimits,
    /// Who else uses the workspace. Each command holds a lease of it for what its runner enforces, for its whole life.
    pub leases: Option<Leases>,
}

/// What a transport knows of a call.
#[derive(Clone, Default)]
pub struct CallContext {
    /// Takes the progress of a foreground command, where the client asked for it.
    pub progress: Option<Arc<dyn Progress>>,
    /// The execution that the call belongs to, for the record of what it starts; a new one when absent.
    pub execution: Option<ExecutionId>,
    /// Cancelled as soon as the input that the call gives was accepted or refused, so that a transport can let the next
    /// one follow in its order without waiting for the answer.
    pub accepted: CancellationToken,
}

impl CallContext {
    pub(crate) fn reporter(&self) -> Option<Reporter<'_>> {
        self.progress.as_ref().map(Reporter::new)
    }
}

impl std::fmt::Debug for CallContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallContext").field("execution", &self.execution).finish_non_exhaustive()
    }
}

/// Whether a command may outlive its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lasting {
    Possible,
    /// The runner cannot end everything that a command starts.
    Uncontained,
    /// Completion cannot be announced.
    Unannounced,
}

/// The tools of one owner. Shared by its calls, which may run at the same time.
pub struct Toolbox {
    supervisor: Supervisor,
    owner: Owner,
    /// Without one there is no Bash, and the resolver has said why.
    runner: Result<Arc<dyn Runner>, PublicError>,
    options: ToolboxOptions,
    lasting: Lasting,
    definitions: Arc<[ToolDefinition]>,
    screens: Screens,
}

impl Toolbox {
    /// Builds the tools of `owner`. Its runner is resolved here, once; an owner without a runner gets no Bash, and
    /// can still read, write to, stop and list what it has, and is told the resolver's reason when it calls Bash all the
    /// same.
    pub fn new(
        supervisor: Supervisor,
        runners: Arc<dyn RunnerResolver>,
        owner: Owner,
        options: ToolboxOptions,
    ) -> Self {
        let runner = runners.resolve(owner).map_err(|error| error.public());
        let contained = runner.as_ref().is_ok_and(|runner| runner.capabilities().tier.is_some());
        let lasting = match (contained, supervisor.notifies()) {
            (false, _) => Lasting::Uncontained,
            (true, false) => Lasting::Unannounced,
            (true, true) => Lasting::Possible,
        };
        let definitions = shared(supervisor.limits(), lasting, runner.is_ok());
        Self { supervisor, owner, runner, options, lasting, definitions, screens: Screens::default() }
    }

    /// The same tools for whoever hosts the session, who also reaches what a closed loop has left. Nothing that an owner
    /// can reach may hold them.
    pub fn overseeing(self) -> Self {
        Self { supervisor: self.supervisor.overseeing(), ..self }
    }

    /// What a client is told of the tools.
    pub fn definitions(&self) -> Arc<[ToolDefinition]> {
        Arc::clone(&self.definitions)
    }

    /// Carries a call out. Whatever goes wrong is a [`Reply`], never a panic of the caller's making.
    ///
    /// Dropping the future stops a foreground command that was not handed over yet; it cancels a wait; it takes
    /// back no input and no stop. Must be called within a tokio runtime. The caller says by
    /// [`Reply::handed_to_transport`] that the result is on its way.
    pub async fn call(&self, name: &str, arguments: Value, context: CallContext) -> Reply {
        let mut telling = self.telling();
        let answer = self.answer(name, arguments, &context, &mut telling).await;
        Reply::new(telling, answer, by_handle)
    }

    /// The beginning of a reply.
    pub(crate) fn telling(&self) -> Telling {
        self.supervisor.telling(self.owner)
    }

    async fn answer(
        &self,
        name: &str,
        arguments: Value,
        context: &CallContext,
        telling: &mut Telling,
    ) -> Result<Answer, PublicError> {
        if name == BASH {
            self.runner()?;
        }
        let tool = named(&self.definitions, name)?;
        match name {
            BASH => {
                // What is hidden where nothing may outlive its call is refused with its reason.
                let arguments: BashArguments = arguments::parse(arguments, bash_schema())?;
                bash::bash(self, arguments, context, telling).await
            }
            "ProcessOutput" => {
                output::output(self, parse::<OutputArguments>(arguments, tool)?, telling).await
            }
            "ProcessInput" => {
                let arguments = parse::<InputArguments>(arguments, tool)?;
                input::input(self, arguments, telling, &context.accepted).await
            }
            "ProcessStop" => stop::stop(self, parse::<StopArguments>(arguments, tool)?, telling).await,
            _ => list::list(self, &parse::<ListArguments>(arguments, tool)?),
        }
    }

    /// The supervisor of the session, for a transport that shows live views.
    pub fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// Whose tools these are.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Whether a command may outlive its call.
    pub fn lets_commands_last(&self) -> bool {
        self.lasting == Lasting::Possible
    }

    pub(crate) fn options(&self) -> &ToolboxOptions {
        &self.options
    }

    pub(crate) fn screens(&self) -> &Screens {
        &self.screens
    }

    pub(crate) fn lasting(&self) -> Lasting {
        self.lasting
    }

    pub(crate) fn runner(&self) -> Result<&Arc<dyn Runner>, PublicError> {
        self.runner.as_ref().map_err(Clone::clone)
    }
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Toolbox").field("owner", &self.owner).finish_non_exhaustive()
    }
}

fn parse<T: DeserializeOwned>(arguments: Value, tool: &ToolDefinition) -> Result<T, PublicError> {
    arguments::parse(arguments, &tool.input_schema)
}
