//! Layers `tools` and `server`: the five tools of one owner, called directly or served over MCP.

use std::sync::Arc;

use procyard_core::{Limits, LoopId, Owner, SessionId};
use procyard_host::{HostOptions, HostRunner};
use procyard_runner::{Runner, RunnerError, RunnerResolver};
use procyard_store::FsDir;
use procyard_supervisor::{Services, Supervisor};
use procyard_tools::{CallContext, Toolbox, ToolboxOptions};

struct OneRunner(HostRunner);

impl RunnerResolver for OneRunner {
    fn resolve(&self, _: Owner) -> Result<Arc<dyn Runner>, RunnerError> {
        Ok(Arc::new(self.0.clone()))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    procyard_host::enter();
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let owner = Owner { session: SessionId::from_random([1; 16]), loop_id: LoopId::from_random([2; 16]) };
    let runner = HostRunner::start(HostOptions::default()).await?;
    let supervisor = Supervisor::new(owner.session, Limits::default(), FsDir::open(place.path())?);
    supervisor.activate(Services::discard()).await?;
    let options = ToolboxOptions { workspace: "/".into(), ..ToolboxOptions::default() };
    let toolbox = Toolbox::new(supervisor.clone(), Arc::new(OneRunner(runner.clone())), owner, options);

    let arguments = serde_json::json!({ "command": "echo hello; exit 3" });
    let reply = toolbox.call("Bash", arguments, CallContext::default()).await;
    println!("{}", reply.text);
    assert_eq!(reply.structured["exit_code"], 3, "a command that fails is a normal result");
    // Whoever hands the reply to a model says so: only then are its notices delivered.
    reply.handed_to_transport();
    // To serve them instead: procyard_server::serve_mcp(Arc::new(toolbox), read, write, stop).await

    supervisor.shutdown().await;
    runner.shutdown().await;
    Ok(())
}
