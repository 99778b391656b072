//! What the tests of the tools share: a session on a temporary directory with a scripted runner, whose every result is
//! held against the schema of its tool.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test binary uses its part; a failed unwrap is a failed test"
)]

use std::sync::Arc;
use std::time::Duration;

use procyard_core::{Limits, LoopId, Owner, SessionId};
use procyard_runner::{ResourceLimits, Runner, RunnerError, RunnerErrorKind, RunnerResolver};
use procyard_store::{Dir, FsDir};
use procyard_supervisor::{Leases, Services, Supervisor};
use procyard_testkit::{DEADLINE, Script, ScriptedRunner};
use procyard_tools::{CallContext, Reply, Toolbox, ToolboxOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Gives every loop the same runner, or none.
struct Resolver(Option<Arc<ScriptedRunner>>);

impl RunnerResolver for Resolver {
    fn resolve(&self, _: Owner) -> Result<Arc<dyn Runner>, RunnerError> {
        match &self.0 {
            Some(runner) => Ok(runner.clone()),
            None => Err(RunnerError::new(RunnerErrorKind::Setup, "no runner for this loop")),
        }
    }
}

pub(crate) fn owner(of: u8) -> Owner {
    Owner { session: SessionId::from_random([9; 16]), loop_id: LoopId::from_random([of; 16]) }
}

/// A session, its runner and the tools of one owner.
pub(crate) struct Yard {
    pub(crate) supervisor: Supervisor,
    pub(crate) runner: Arc<ScriptedRunner>,
    pub(crate) tools: Arc<Toolbox>,
    pub(crate) place: TempDir,
}

impl Yard {
    pub(crate) async fn new(script: Script) -> Self {
        Self::with(ScriptedRunner::new(script), Services::discard(), None).await
    }

    pub(crate) async fn auto_yielding(script: Script, after: Duration) -> Self {
        Self::with(ScriptedRunner::new(script), Services::discard(), Some(after)).await
    }

    pub(crate) async fn with(
        runner: ScriptedRunner,
        services: Services,
        auto_yield: Option<Duration>,
    ) -> Self {
        Self::within(Limits::default(), runner, services, auto_yield).await
    }

    pub(crate) async fn within(
        limits: Limits,
        runner: ScriptedRunner,
        services: Services,
        auto_yield: Option<Duration>,
    ) -> Self {
        let place = tempfile::tempdir().unwrap();
        let root: Arc<dyn Dir> = FsDir::open(place.path()).unwrap();
        let supervisor = Supervisor::new(owner(1).session, limits, root);
        supervisor.activate(services).await.unwrap();
        let runner = Arc::new(runner);
        let tools = toolbox(&supervisor, Some(&runner), owner(1), auto_yield);
        Self { supervisor, runner, tools, place }
    }

    /// A session whose commands are asked to keep to limits.
    pub(crate) async fn limited(runner: ScriptedRunner, limits: ResourceLimits) -> Self {
        let yard = Self::with(runner, Services::discard(), None).await;
        let tools = yard.tools_as(ToolboxOptions { limits, ..ToolboxOptions::default() });
        Self { tools, ..yard }
    }

    /// The tools of another owner of the same session.
    pub(crate) fn tools_of(&self, owner: Owner) -> Arc<Toolbox> {
        toolbox(&self.supervisor, Some(&self.runner), owner, None)
    }

    /// The same owner's tools, on a workspace that others use, too.
    pub(crate) fn tools_with(&self, leases: Leases) -> Arc<Toolbox> {
        self.tools_as(ToolboxOptions { leases: Some(leases), ..ToolboxOptions::default() })
    }

    /// The same owner's tools, with other options.
    pub(crate) fn tools_as(&self, options: ToolboxOptions) -> Arc<Toolbox> {
        let resolver = Arc::new(Resolver(Some(Arc::clone(&self.runner))));
        let options = ToolboxOptions { workspace: "/ws".into(), ..options };
        Arc::new(Toolbox::new(self.supervisor.clone(), resolver, owner(1), options))
    }

    /// The tools of an owner for whom there is no runner.
    pub(crate) fn tools_without_runner(&self) -> Arc<Toolbox> {
        toolbox(&self.supervisor, None, owner(1), None)
    }

    /// A call whose result reaches its caller.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let reply = call(&self.tools, tool, arguments).await;
        reply.handed_to_transport();
        reply.structured
    }

    pub(crate) async fn bash(&self, arguments: Value) -> Value {
        self.call("Bash", with(json!({"command": "play"}), arguments)).await
    }

    /// Starts in the background; gives the process id.
    pub(crate) async fn background(&self) -> String {
        id(&self.bash(json!({"background": true})).await)
    }

    pub(crate) async fn output(&self, process: &str, arguments: Value) -> Value {
        self.call("ProcessOutput", with(json!({"process_id": process}), arguments)).await
    }

    /// Waits for the end of a process without telling anybody: the wait is made by another owner's means.
    pub(crate) async fn ended(&self, process: &str) {
        use procyard_supervisor::{Target, Until, WaitMode};
        let target = Target { handle: process.parse().unwrap(), cursor: 0, probe: None };
        let waited = self
            .supervisor
            .wait(owner(1), WaitMode::All, Until::Exit, vec![target], DEADLINE)
            .await
            .unwrap()
            .remove(0);
        assert!(waited.satisfied, "the process did not end in time");
    }
}

fn toolbox(
    supervisor: &Supervisor,
    runner: Option<&Arc<ScriptedRunner>>,
    owner: Owner,
    auto_yield: Option<Duration>,
) -> Arc<Toolbox> {
    let options = ToolboxOptions { workspace: "/ws".into(), auto_yield, ..ToolboxOptions::default() };
    Arc::new(Toolbox::new(supervisor.clone(), Arc::new(Resolver(runner.cloned())), owner, options))
}

/// A call whose result is held against its schema, and which is not handed over yet.
pub(crate) async fn call(tools: &Toolbox, tool: &str, arguments: Value) -> Reply {
    call_in(tools, tool, arguments, CallContext::default()).await
}

pub(crate) async fn call_in(tools: &Toolbox, tool: &str, arguments: Value, context: CallContext) -> Reply {
    let reply = tools.call(tool, arguments, context).await;
    let definitions = tools.definitions();
    if let Some(definition) = definitions.iter().find(|definition| definition.name == tool) {
        let schema = definition.output_schema.as_ref().unwrap();
        if let Err(error) = jsonschema::validate(schema, &reply.structured) {
            panic!("{error}: {}", reply.structured);
        }
        let shape = &schema["anyOf"];
        let shapes = shape.as_array().unwrap().iter();
        let fitting = shapes.filter(|shape| jsonschema::is_valid(shape, &reply.structured)).count();
        assert_eq!(fitting, 1, "{}", reply.structured);
        no_nulls(&reply.structured);
    }
    assert_eq!(reply.is_error, reply.structured.get("error").is_some());
    assert!(reply.text.ends_with('\n'), "{:?}", reply.text);
    reply
}

/// An optional field is absent when it has no value.
fn no_nulls(value: &Value) {
    match value {
        Value::Null => panic!("a null in a result"),
        Value::Array(items) => items.iter().for_each(no_nulls),
        Value::Object(fields) => fields.values().for_each(no_nulls),
        _ => {}
    }
}

/// The fields of both objects.
pub(crate) fn with(mut one: Value, other: Value) -> Value {
    if let (Value::Object(fields), Value::Object(more)) = (&mut one, other) {
        fields.extend(more);
    }
    one
}

pub(crate) fn id(result: &Value) -> String {
    result["process_id"].as_str().unwrap_or_else(|| panic!("no process: {result}")).to_owned()
}

pub(crate) fn code(result: &Value) -> &str {
    result["error"]["code"].as_str().unwrap_or_else(|| panic!("no error: {result}"))
}
