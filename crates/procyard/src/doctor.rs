//! `procyard doctor`: what this machine can do for contained commands, and what would make it better.
//!
//! Not for repairing anything.

use std::fmt::Display;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use procyard_core::Limits;
use procyard_host::{CgroupVersion, ContainmentReport, HostOptions, HostRunner};
use procyard_runner::{Runner as _, Tier};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::cli::DoctorOptions;
use crate::config::Effective;
use crate::data_dir::others_can_write;
use crate::problem::without_number;
use crate::say::{Voice, give};
use crate::table::{columns, shown_width};
use crate::{exit, log};

/// The columns of a subject.
const SUBJECT: usize = 14;

/// How much is written to try the data directory.
const TRIAL_BYTES: usize = 64 * 1024;

/// What gives a command its limits where nothing does.
const HOW_TO_LIMIT: &str = "to limit, run in a subgroup of a delegated cgroup (systemd: Delegate=yes with \
    DelegateSubgroup=), or where the hierarchies of memory and pids are writable";

/// Looks and tells; exits 1 when something would be refused here, whatever the command: see [`exit::UNFIT`].
pub(crate) async fn doctor(options: DoctorOptions) -> ExitCode {
    match look(&options).await {
        Ok(code) => code,
        Err(error) => exit::fault_as(&error, Voice::of(options.json)),
    }
}

async fn look(options: &DoctorOptions) -> anyhow::Result<ExitCode> {
    let configured = options.config.load(Vec::new())?;
    log::start(&Voice::of(options.json).logs(&configured.config.log))?;
    let data = Place::try_out(options.data.resolve()?).await?;
    let host = HostOptions { try_on_request: true, ..HostOptions::default() };
    let found = match HostRunner::start(host).await {
        Ok(runner) => {
            let found = (runner.report(), runner.capabilities().terminals);
            runner.shutdown().await;
            Ok(found)
        }
        Err(error) => Err(error.to_string()),
    };
    give(if options.json {
        format!("{}\n", as_json(&found, &data, &configured))
    } else {
        folded(&as_text(&found, &data, &configured), shown_width())
    })?;
    let fit = found.is_ok() && data.usable.is_ok();
    Ok(if fit { ExitCode::SUCCESS } else { exit::UNFIT.into() })
}

/// What contains commands here and whether they can have terminals, or why nothing does.
type Found = Result<(ContainmentReport, bool), String>;

fn as_text(found: &Found, data: &Place, configured: &Effective) -> String {
    let mut text = format!("procyard       {}\n", env!("CARGO_PKG_VERSION"));
    match found {
        Ok((report, built_in)) => {
            text.push_str(&containment(report));
            text.push_str(&enforcement(report));
            text.push_str(&row("terminals", terminals(*built_in).err().unwrap_or("yes")));
        }
        Err(error) => {
            text.push_str(&row("containment", format_args!("none: {error}")));
            text.push_str(&row("", "nothing will be started here that could escape"));
        }
    }
    text.push_str(&data.rows());
    text.push_str(&limits(&configured.limits));
    text.push_str(&row("configuration", file(configured.file.as_deref())));
    text
}

fn as_json(found: &Found, data: &Place, configured: &Effective) -> Value {
    fn possible(what: Result<impl Serialize, impl Display>) -> Value {
        match what {
            Ok(how) => json!({"possible": true, "how": how}),
            Err(why) => json!({"possible": false, "why": why.to_string()}),
        }
    }
    let contained = found.as_ref().map(|(report, _)| report.tier.as_str());
    let mut value = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "containment": possible(contained),
        "data_directory": {"path": data.path, "usable": possible(data.usable.as_ref().map(|()| "writable"))},
        "configuration": configured.file,
    });
    if let Ok((report, built_in)) = found {
        let version = |version: &CgroupVersion| match version {
            CgroupVersion::Two => "cgroup v2",
            CgroupVersion::One => "cgroup v1",
        };
        let unavailable: Map<_, _> =
            report.unavailable.iter().map(|(tier, why)| (tier.to_string(), json!(why))).collect();
        let on_request: Vec<_> = report.on_request.iter().map(ToString::to_string).collect();
        for (name, field) in [
            ("on_request", json!(on_request)),
            ("unavailable", Value::Object(unavailable)),
            ("kernel", json!(report.kernel)),
            ("memory_limit", possible(report.memory_limit.as_ref().map(version))),
            ("process_limit", possible(report.process_limit.as_ref().map(version))),
            ("signal_scope", possible(report.signal_scope.as_ref().map(|()| "landlock"))),
            ("terminals", possible(terminals(*built_in).map(|()| "devpts"))),
        ] {
            value[name] = field;
        }
    }
    value
}

/// A line with its subject; without one it goes on with the line before.
fn row(subject: &str, says: impl Display) -> String {
    format!("{subject:<SUBJECT$} {says}\n")
}

/// The lines with none longer than that where words allow it, below what they say and not below their subject.
fn folded(text: &str, width: Option<usize>) -> String {
    let Some(width) = width.filter(|width| *width > 2 * SUBJECT) else { return text.to_owned() };
    let mut folded = String::new();
    for line in text.lines() {
        let mut taken = 0;
        for word in line.split_inclusive(' ') {
            if taken > SUBJECT + 1 && taken + columns(word.trim_end()) > width {
                folded.truncate(folded.trim_end_matches(' ').len());
                folded.push('\n');
                folded.extend(std::iter::repeat_n(' ', SUBJECT + 1));
                taken = SUBJECT + 1;
            }
            folded.push_str(word);
            taken += columns(word);
        }
        folded.push('\n');
    }
    folded
}

fn containment(report: &ContainmentReport) -> String {
    let mut text = row("containment", format_args!("{}: {}", report.tier, meaning(&report.tier)));
    text.push_str(&row("", mass_kill(&report.tier)));
    for tier in &report.on_request {
        text.push_str(&row(
            "",
            format_args!("{tier} is to be had on request (--tier {tier}): {}", meaning(tier)),
        ));
    }
    for (tier, why) in &report.unavailable {
        text.push_str(&row("", format_args!("{tier} is not to be had: {why}")));
    }
    text.push_str(&row("kernel", &report.kernel));
    if !report.proc_children {
        text.push_str(&row("", "does not list children (CONFIG_PROC_CHILDREN): large trees end more slowly"));
    }
    if report.tier == Tier::CGROUP && !report.clone_into_cgroup {
        text.push_str(&row(
            "",
            "cannot start a process inside a cgroup (5.7 and later can): starts take longer",
        ));
    }
    text
}

/// What commands can be kept from taking and doing.
fn enforcement(report: &ContainmentReport) -> String {
    let limited = |limit: &Result<CgroupVersion, String>| match limit {
        Ok(CgroupVersion::Two) => "can be enforced, in the command's own cgroup".to_owned(),
        Ok(CgroupVersion::One) => "can be enforced, by the hierarchy of cgroup version 1".to_owned(),
        Err(why) => format!("not enforced: {why}"),
    };
    let mut text = row("memory limit", limited(&report.memory_limit));
    text.push_str(&row("process limit", limited(&report.process_limit)));
    if report.memory_limit.is_err() || report.process_limit.is_err() {
        text.push_str(&row("", HOW_TO_LIMIT));
    }
    let scope = match &report.signal_scope {
        Ok(()) => {
            "can be had: --signal-scope keeps commands from signalling procyard and each other".to_owned()
        }
        Err(why) => format!("no: {why}"),
    };
    text.push_str(&row("signal scope", scope));
    text
}

fn meaning(tier: &Tier) -> &'static str {
    if *tier == Tier::CGROUP {
        "each command has a cgroup of its own and a subreaper above it; stop ends all of it at once"
    } else if *tier == Tier::SUBREAPER {
        "each command has a subreaper above it; what it leaves behind is found and ended"
    } else if *tier == Tier::PIDNS {
        "each command has a PID namespace; the kernel ends all of it, also after kill -9 -1"
    } else {
        "a tier of its own"
    }
}

/// What a command of the same user does by `kill -9 -1`, which ends all of ours at once.
fn mass_kill(tier: &Tier) -> &'static str {
    if *tier == Tier::CGROUP {
        "if a command kills all of this user's processes (kill -9 -1), the next start ends what is left"
    } else {
        "if a command kills all of this user's processes (kill -9 -1), nothing ends what is left of it"
    }
}

fn terminals(built_in: bool) -> Result<(), &'static str> {
    match (built_in, Path::new("/dev/ptmx").exists()) {
        (true, true) => Ok(()),
        (true, false) => Err("no: there is no /dev/ptmx here; mount devpts"),
        (false, _) => Err("no: this build has pipes only"),
    }
}

/// The data directory, and whether sessions can be kept there.
struct Place {
    path: PathBuf,
    usable: Result<(), Unusable>,
}

/// Why no sessions can be kept, and what to do about it.
struct Unusable {
    why: String,
    next: &'static str,
}

impl Place {
    /// Tries it: a directory that may be written may still have no room.
    async fn try_out(path: PathBuf) -> anyhow::Result<Self> {
        let tried = tokio::task::spawn_blocking(move || {
            let usable = data_directory(&path);
            Self { path, usable }
        });
        Ok(tried.await?)
    }

    fn rows(&self) -> String {
        let path = self.path.display();
        match &self.usable {
            Ok(()) => row("data directory", format_args!("{path} (writable)")),
            Err(Unusable { why, next }) => {
                let why = row("data directory", format_args!("{path} ({why})"));
                why + &row("", next)
            }
        }
    }
}

impl Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.why, self.next)
    }
}

/// Writes and syncs a file there that has no name, and looks for what `serve` refuses. Blocking.
fn data_directory(data_dir: &Path) -> Result<(), Unusable> {
    // The directory need not be there yet: the nearest one that is decides. A link that leads nowhere is there, and in the
    // way of a directory.
    let is_there = |path: &&Path| path.symlink_metadata().is_ok();
    let existing = data_dir.ancestors().find(is_there).unwrap_or(Path::new("/"));
    let place = existing.display();
    if !existing.is_dir() {
        let why = format!("not usable: {place} is not a directory");
        return Err(Unusable { why, next: "name another with --data-dir" });
    }
    let made = tempfile::tempfile_in(existing)
        .map_err(|error| refused(&error, format_args!("no file can be made in {place}")))?;
    write_trial(made)
        .map_err(|error| refused(&error, format_args!("{TRIAL_BYTES} bytes cannot be written in {place}")))?;
    if others_can_write(data_dir) {
        let why = "not fit for `procyard serve`: others can write to it".to_owned();
        return Err(Unusable { why, next: "take that away (chmod go-w)" });
    }
    Ok(())
}

fn write_trial(mut file: std::fs::File) -> std::io::Result<()> {
    file.write_all(&vec![b'p'; TRIAL_BYTES])?;
    file.sync_all()
}

fn refused(error: &std::io::Error, what: impl Display) -> Unusable {
    let (how, next) = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            ("full", "make room, for example with `procyard gc`, or name another directory with --data-dir")
        }
        ErrorKind::FileTooLarge => ("not writable", "raise the limit on the size of files (ulimit -f)"),
        _ => ("not writable", "name another directory with --data-dir"),
    };
    Unusable { why: format!("{how}: {what}: {}", reason(error)), next }
}

/// The system's own words, without what a library puts around them.
fn reason(error: &std::io::Error) -> String {
    match error.get_ref().and_then(std::error::Error::source) {
        Some(source) => without_number(&source.to_string()).to_owned(),
        None => without_number(&error.to_string()).to_owned(),
    }
}

fn file(file: Option<&Path>) -> String {
    file.map_or_else(
        || "no file; `procyard config` shows what is in force".to_owned(),
        |file| file.display().to_string(),
    )
}

fn limits(limits: &Limits) -> String {
    const MIB: u64 = 1024 * 1024;
    let processes = format!(
        "{} running processes a loop, {} a session; {} completed ones kept",
        limits.running_per_loop, limits.running_per_session, limits.retained_per_session
    );
    let output = format!(
        "{} MiB of output on disk a process, {} MiB a session",
        limits.spool_bytes / MIB,
        limits.spool_bytes_total / MIB
    );
    row("limits", processes) + &row("", output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_folded_at_words_below_what_they_say() {
        let text = row("subject", "one two three four five six") + &row("", "short");
        assert_eq!(folded(&text, None), text);
        assert_eq!(folded(&text, Some(20)), text, "too narrow for two columns");
        assert_eq!(
            folded(&text, Some(30)),
            "subject        one two three\n               four five six\n               short\n"
        );
        let path = row("data directory", "/a/path/that/is/longer/than/the/terminal (writable)");
        assert_eq!(
            folded(&path, Some(30)),
            "data directory /a/path/that/is/longer/than/the/terminal\n               (writable)\n"
        );
    }
}
