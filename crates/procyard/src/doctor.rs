//! `procyard doctor`: what this machine can do for contained commands, and what would make it better.
//!
//! Not for repairing anything.

use std::path::Path;
use std::process::ExitCode;

use procyard_core::Limits;
use procyard_host::{ContainmentReport, HostOptions, HostRunner};
use procyard_runner::{Runner as _, Tier};

use crate::cli::DoctorOptions;
use crate::exit;

/// Nothing here can contain a process.
const UNCONTAINED: u8 = 1;

/// Looks and tells; exits 1 when nothing can contain.
pub(crate) async fn doctor(options: DoctorOptions) -> ExitCode {
    let data_dir = match options.data.resolve() {
        Ok(data_dir) => data_dir,
        Err(error) => return exit::fault(&error),
    };
    println!("procyard {}", env!("CARGO_PKG_VERSION"));
    let contained = match HostRunner::start(HostOptions::default()).await {
        Ok(runner) => {
            tell_containment(&runner.report());
            tell_terminals(runner.capabilities().terminals);
            runner.shutdown().await;
            true
        }
        Err(error) => {
            println!("containment    none: {error}");
            println!("               nothing will be started here that could escape");
            false
        }
    };
    tell_data_dir(&data_dir);
    tell_limits(&Limits::default());
    if contained { ExitCode::SUCCESS } else { UNCONTAINED.into() }
}

fn tell_containment(report: &ContainmentReport) {
    println!("containment    {}: {}", report.tier, meaning(&report.tier));
    for (tier, why) in &report.unavailable {
        println!("               {tier} is not used: {why}");
    }
    println!("kernel         {}", report.kernel);
    if !report.proc_children {
        println!("               does not list children (CONFIG_PROC_CHILDREN): large trees end more slowly");
    }
    if report.tier == Tier::CGROUP && !report.clone_into_cgroup {
        println!(
            "               cannot start a process inside a cgroup (5.7 and later can): starts take longer"
        );
    }
}

fn meaning(tier: &Tier) -> &'static str {
    if *tier == Tier::CGROUP {
        "each command has a cgroup of its own and a subreaper above it; stop ends all of it at once"
    } else if *tier == Tier::SUBREAPER {
        "each command has a subreaper above it; what it leaves behind is found and ended"
    } else {
        "a tier of its own"
    }
}

fn tell_terminals(terminals: bool) {
    let pty = Path::new("/dev/ptmx").exists();
    println!(
        "terminals      {}",
        match (terminals, pty) {
            (true, true) => "yes",
            (true, false) => "no: there is no /dev/ptmx here; mount devpts",
            (false, _) => "no: this build has pipes only",
        }
    );
}

fn tell_data_dir(data_dir: &Path) {
    // The directory need not be there yet: the nearest one that is decides.
    let existing = data_dir.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let writable = nix::unistd::access(existing, nix::unistd::AccessFlags::W_OK).is_ok();
    println!(
        "data directory {} ({})",
        data_dir.display(),
        if writable { "writable" } else { "not writable" }
    );
}

fn tell_limits(limits: &Limits) {
    const MIB: u64 = 1024 * 1024;
    println!(
        "limits         {} running processes a loop, {} a session; {} completed ones kept",
        limits.running_per_loop, limits.running_per_session, limits.retained_per_session
    );
    println!(
        "               {} MiB of output on disk a process, {} MiB a session",
        limits.spool_bytes / MIB,
        limits.spool_bytes_total / MIB
    );
}
