//! What starting, idling and ending through a guardian and shims costs, against bare processes in the same run.
//!
//! `cargo run --release -p procyard-host --example start_cost [STARTS]`

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    procyard_host::enter();
    let starts = std::env::args().nth(1).and_then(|number| number.parse().ok()).unwrap_or(500);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map(|runtime| runtime.block_on(cost::measure(starts))) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => eprintln!("{error}"),
        Err(error) => eprintln!("{error}"),
    }
}

#[cfg(target_os = "linux")]
mod cost {
    use std::error::Error;
    use std::path::PathBuf;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use procyard_core::{ExecutionId, Origin};
    use procyard_host::{HostOptions, HostRunner, TierChoice};
    use procyard_runner::{CommandSpec, Process, ProcessRequest, Runner, Signal, Tier, TreeProof};

    type Outcome<T> = Result<T, Box<dyn Error>>;

    pub(crate) async fn measure(starts: u32) -> Outcome<()> {
        for tier in [Tier::CGROUP, Tier::SUBREAPER, Tier::PIDNS] {
            let options = HostOptions { tier: TierChoice::Require(tier.clone()), ..HostOptions::default() };
            let runner = match HostRunner::start(options).await {
                Ok(runner) => runner,
                Err(error) => {
                    println!("{tier}: {error}");
                    continue;
                }
            };
            println!("\n{tier}");
            let [bare, exited, emptied] = starts_in_turn(&runner, starts).await?;
            let ratio = exited.as_secs_f64() / bare.as_secs_f64();
            println!("bare spawn and wait of true    {bare:>10.1?}");
            println!("start to exited of true        {exited:>10.1?}  {ratio:.2} x bare");
            println!("start to proven empty          {emptied:>10.1?}");
            idle(&runner).await?;
            for size in [1, 100, 1000] {
                let (proven, processes) = kill(&runner, size).await?;
                println!("kill of a tree of {size:<5}        {proven:>10.1?}  ({processes} processes)");
            }
            runner.shutdown().await;
        }
        println!();
        for size in [1, 100, 1000] {
            match bare_cgroup_kill(size) {
                Ok(took) => println!("bare cgroup.kill of {size:<5}      {took:>10.1?}"),
                Err(error) => println!("bare cgroup.kill: {error}"),
            }
        }
        Ok(())
    }

    async fn start(runner: &HostRunner, command: CommandSpec) -> Outcome<Box<dyn Process>> {
        let origin = Origin { execution: ExecutionId::from_random([1; 16]) };
        Ok(runner.prepare(ProcessRequest::new(command, "/", origin)).await?.start().await?)
    }

    /// Medians of bare and contained starts, in turn, so that both meet the same neighbours.
    #[expect(clippy::disallowed_methods, reason = "the baseline is a bare process")]
    async fn starts_in_turn(runner: &HostRunner, starts: u32) -> Outcome<[Duration; 3]> {
        let mut took = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..starts {
            let began = Instant::now();
            Command::new("/bin/true").stdin(Stdio::null()).stdout(Stdio::null()).status()?;
            took[0].push(began.elapsed());
            let began = Instant::now();
            let process = start(runner, CommandSpec::Argv(vec!["/bin/true".to_owned()])).await?;
            process.wait().await;
            took[1].push(began.elapsed());
            if process.emptied().await != TreeProof::Empty {
                return Err("not proven empty".into());
            }
            took[2].push(began.elapsed());
        }
        Ok(took.map(|mut took| {
            took.sort_unstable();
            took.get(took.len() / 2).copied().unwrap_or_default()
        }))
    }

    /// Memory of a shim and processor time of a hundred of them over a second in which nothing happens.
    async fn idle(runner: &HostRunner) -> Outcome<()> {
        let mut processes = Vec::new();
        for _ in 0..100 {
            processes
                .push(start(runner, CommandSpec::Argv(vec!["sleep".to_owned(), "100".to_owned()])).await?);
        }
        let shims = shims()?;
        let shim = *shims.first().ok_or("no shim")?;
        let private = private_kib(shim)?;
        let before = switches(&shims);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let wakeups = switches(&shims) - before;
        println!("private memory of a shim       {private:>7} KiB");
        println!("wake-ups of {} idle shims     {wakeups:>7} a second", shims.len());
        for process in processes {
            process.close().await;
        }
        Ok(())
    }

    async fn kill(runner: &HostRunner, size: u32) -> Outcome<(Duration, u32)> {
        let line = format!("for i in $(seq {}); do sleep 1000 & done; echo; wait", size - 1);
        let mut process = start(runner, CommandSpec::Shell(line)).await?;
        let mut stdout = process.take_stdout().ok_or("no output")?;
        tokio::io::AsyncReadExt::read_u8(&mut stdout).await?;
        let began = Instant::now();
        let delivery = process.signal(Signal::Kill).await?;
        if process.emptied().await != TreeProof::Empty {
            return Err("not proven empty".into());
        }
        Ok((began.elapsed(), delivery.processes))
    }

    /// What the kernel alone needs for the same: members are ended, reaped by us as their parent, and the cgroup is gone.
    #[expect(clippy::disallowed_methods, reason = "the baseline is bare processes")]
    fn bare_cgroup_kill(size: usize) -> Outcome<Duration> {
        let mounts = std::fs::read_to_string("/proc/self/mounts")?;
        let point = mounts
            .lines()
            .find_map(|line| {
                let mut fields = line.split(' ').skip(1);
                let point = fields.next()?;
                (fields.next()? == "cgroup2").then(|| PathBuf::from(point))
            })
            .ok_or("no cgroup version 2")?;
        let own = std::fs::read_to_string("/proc/self/cgroup")?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).ok_or("no own cgroup")?;
        let leaf = point.join(own).join(format!("bare-{}", std::process::id()));
        std::fs::create_dir(&leaf)?;
        let mut children = Vec::new();
        for _ in 0..size {
            let child = Command::new("sleep").arg("1000").spawn()?;
            std::fs::write(leaf.join("cgroup.procs"), child.id().to_string())?;
            children.push(child);
        }
        let began = Instant::now();
        std::fs::write(leaf.join("cgroup.kill"), "1")?;
        for mut child in children {
            child.wait()?;
        }
        while std::fs::remove_dir(&leaf).is_err() {}
        Ok(began.elapsed())
    }

    fn parent_and_name(pid: u32) -> Option<(u32, String)> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Some((field("PPid:")?.parse().ok()?, field("Name:")?.to_owned()))
    }

    /// The grandchildren of this process.
    fn shims() -> Outcome<Vec<u32>> {
        let mut shims = Vec::new();
        for entry in std::fs::read_dir("/proc")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let Some((guardian, name)) = parent_and_name(pid) else { continue };
            let above = parent_and_name(guardian).map(|(parent, _)| parent);
            if name == "procyard-shim" && above == Some(std::process::id()) {
                shims.push(pid);
            }
        }
        Ok(shims)
    }

    fn private_kib(pid: u32) -> Outcome<u64> {
        let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let kib = |line: &str| line.split_ascii_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok());
        Ok(rollup.lines().filter(|line| line.starts_with("Private_")).filter_map(kib).sum())
    }

    fn switches(pids: &[u32]) -> u64 {
        let of = |pid: &u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let count =
                |line: &str| line.split_ascii_whitespace().nth(1).and_then(|count| count.parse::<u64>().ok());
            Some(status.lines().filter(|line| line.contains("ctxt_switches")).filter_map(count).sum::<u64>())
        };
        pids.iter().filter_map(of).sum()
    }
}
