//! Containment, caps and privileges of commands, as the command line names them: most are flags of keys of the
//! configuration.
//!
//! Not for enforcing them: the host runner does that, and says what it cannot.

use clap::{Args, ValueEnum};
use procyard_host::{ContainmentReport, HostOptions};
use procyard_runner::ResourceLimits;

use crate::cli::TierName;
use crate::cli::written::whole;
use crate::config::{Config, Flag};

/// Options of every verb that starts commands.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Limits of commands")]
pub(crate) struct LimitOptions {
    /// Contain commands in this way or start none [default: the strongest of cgroup and subreaper that there is]
    #[arg(long, value_enum)]
    pub(crate) tier: Option<TierName>,

    /// The most memory that a command and all it starts may take together, swap included: bytes, or with K, M, G, T
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory_max: Option<u64>,

    /// The most processes and threads that a command and all it starts may be together
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u32::MAX.into()))]
    pub(crate) pids_max: Option<u32>,

    /// The CPU niceness of commands, -20 to 19
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<i32>(-20..=19))]
    pub(crate) nice: Option<i32>,

    /// How early commands are ended when the machine is out of memory, -1000 to 1000 [default: 500 above procyard's own]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<i32>(-1000..=1000))]
    pub(crate) oom_score_adj: Option<i32>,

    /// Leave core dumps as they are set here; without this commands make none
    #[arg(long)]
    pub(crate) keep_core_dumps: bool,

    /// Keep commands from gaining privileges by set-user-ID programs, such as sudo
    #[arg(long)]
    pub(crate) no_new_privs: bool,

    /// Keep commands from signalling what is not of their own tree, procyard above all; takes --no-new-privs with it
    #[arg(long, value_name = "WHEN", value_enum)]
    pub(crate) signal_scope: Option<Scope>,
}

/// When signals are scoped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Scope {
    /// Not at all
    #[default]
    Off,
    /// Where the kernel can
    Preferred,
    /// Always: start nothing where the kernel cannot
    Required,
}

impl LimitOptions {
    /// The flags that stand for keys.
    pub(crate) fn flags(&self) -> Vec<Flag> {
        let named =
            |value: Option<clap::builder::PossibleValue>| value.map(|value| value.get_name().to_owned());
        let tier = self.tier.and_then(|tier| named(tier.to_possible_value()));
        let scope = self.signal_scope.and_then(|scope| named(scope.to_possible_value()));
        let given = [
            ("--tier", "containment.require", tier.as_ref().map(|_| true.to_string())),
            ("--tier", "containment.tier", tier),
            ("--memory-max", "containment.memory_max", self.memory_max.map(|most| most.to_string())),
            ("--pids-max", "containment.pids_max", self.pids_max.map(|most| most.to_string())),
            ("--no-new-privs", "containment.no_new_privs", self.no_new_privs.then(|| true.to_string())),
            ("--signal-scope", "containment.signal_scope", scope),
        ];
        given.into_iter().filter_map(|(name, key, value)| Some(Flag { name, key, value: value? })).collect()
    }

    /// What each command is asked to keep to.
    pub(crate) fn of_each(&self, config: &Config) -> ResourceLimits {
        ResourceLimits { nice: self.nice, oom_score_adj: self.oom_score_adj, ..config.resource_limits() }
    }

    /// What the runner is told once.
    pub(crate) fn of_runner(&self, config: &Config) -> HostOptions {
        HostOptions { keep_core_dumps: self.keep_core_dumps, ..config.host_options() }
    }
}

/// What was asked for and cannot be had here, in words.
pub(crate) fn unenforced(config: &Config, report: &ContainmentReport) -> Vec<String> {
    let asked = &config.containment;
    let scope = asked.signal_scope != Scope::Off;
    let asked = [
        ("the memory limit", asked.memory_max.is_some(), report.memory_limit.as_ref().err()),
        ("the process limit", asked.pids_max.is_some(), report.process_limit.as_ref().err()),
        ("the signal scope", scope, report.signal_scope.as_ref().err()),
    ];
    let missing = asked.into_iter().filter(|(_, asked, _)| *asked);
    missing.filter_map(|(what, _, why)| Some(format!("{what} is not enforced: {}", why?))).collect()
}

/// Bytes, or with a binary unit: `256M`, `1GiB`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| "must be a size, such as 512M or 2G".to_owned())?;
    let unit = unit.trim_start().to_ascii_lowercase();
    let unit = unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit);
    let shift = match unit {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err("has an unknown unit; use K, M, G or T".to_owned()),
    };
    let bytes = number.checked_mul(1 << shift).ok_or("is too large")?;
    if bytes == 0 { Err("must be positive".to_owned()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_have_a_binary_unit() {
        for (text, bytes) in [
            ("4096", 4096),
            ("64K", 64 << 10),
            ("256M", 256 << 20),
            ("256m", 256 << 20),
            ("1G", 1 << 30),
            ("1GiB", 1 << 30),
            ("2 GB", 2 << 30),
            ("3T", 3 << 40),
            ("512b", 512),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for (text, why) in [
            ("", "must be a size"),
            ("M", "must be a size"),
            ("-1", "must be a size"),
            ("1.5G", "unknown unit"),
            ("1P", "unknown unit"),
            ("0", "positive"),
            ("99999999999T", "too large"),
        ] {
            assert!(size(text).is_err_and(|error| error.contains(why)), "{text}");
        }
    }
}
