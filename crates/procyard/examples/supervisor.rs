//! Layer `supervisor`: handles, owners, output by cursor, waiting, a durable record.

use std::time::Duration;

use procyard_core::{ExecutionId, Limits, LoopId, Origin, Owner, SessionId};
use procyard_host::{HostOptions, HostRunner};
use procyard_runner::{CommandSpec, ProcessRequest, Runner};
use procyard_store::FsDir;
use procyard_supervisor::{
    CommandRecord, Lease, ReadFrom, ReadRequest, Services, StartOptions, StreamFilter, Supervisor, Target,
    Until, WaitMode,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    procyard_host::enter();
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let owner = Owner { session: SessionId::from_random([1; 16]), loop_id: LoopId::from_random([2; 16]) };
    let origin = Origin { execution: ExecutionId::from_random([3; 16]) };
    let runner = HostRunner::start(HostOptions::default()).await?;
    let supervisor = Supervisor::new(owner.session, Limits::default(), FsDir::open(place.path())?);
    supervisor.activate(Services::discard()).await?;

    let line = "for i in 1 2 3; do echo step $i; sleep 0.1; done";
    let request = ProcessRequest::new(CommandSpec::Shell(line.to_owned()), "/", origin);
    let prepared = runner.prepare(request).await?;
    let options = StartOptions { background: true, ..StartOptions::new(CommandRecord::line(line, "/")) };
    let handle = supervisor.start(owner, origin, prepared, Lease::none(), options).await?.handle();

    let mut cursor = 0;
    loop {
        let everything = StreamFilter::Both;
        let request = ReadRequest { from: ReadFrom::Cursor(cursor), max_bytes: 4096, streams: everything };
        let (page, snapshot) = supervisor.read(owner, &handle, request).await?;
        print!("{}", String::from_utf8_lossy(&page.bytes));
        cursor = page.next_cursor;
        if snapshot.state.is_terminal() && cursor == page.total_bytes {
            println!("{} {:?}", snapshot.state, snapshot.outcome.and_then(|outcome| outcome.exit_code));
            break;
        }
        // Wakes at once on output or at the end; nothing polls.
        let target = Target { handle, cursor, probe: None };
        supervisor.wait(owner, WaitMode::Any, Until::Probe, vec![target], Duration::from_secs(60)).await?;
    }
    supervisor.shutdown().await;
    runner.shutdown().await;
    Ok(())
}
