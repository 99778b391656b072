//! Layers `runner` and `host`: a process tree that cannot escape, without a supervisor above it.

use procyard_core::{ExecutionId, Origin};
use procyard_host::{HostOptions, HostRunner};
use procyard_runner::{CommandSpec, ProcessRequest, Runner, Signal, TreeProof};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First of all: the guardian of the trees is this program, entered again.
    procyard_host::enter();
    tokio::runtime::Runtime::new()?.block_on(async {
        let runner = HostRunner::start(HostOptions::default()).await?;
        let origin = Origin { execution: ExecutionId::from_random([1; 16]) };
        let command = CommandSpec::Shell("setsid sleep 1000 & exit 3".to_owned());
        let process = runner.prepare(ProcessRequest::new(command, "/", origin)).await?.start().await?;

        let status = process.wait().await.status;
        println!("the leader ended ({status:?}); its tree: {:?}", process.tree().await);
        process.signal(Signal::Kill).await?;
        assert_eq!(process.emptied().await, TreeProof::Empty, "the sleep is gone, too");
        runner.shutdown().await;
        Ok(())
    })
}
