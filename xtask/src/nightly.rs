//! `nightly`: the long settings of the whole workspace, in release: what a change does not wait for and a night has time for.
//!
//! Not for anything that a change must pass: that is `ci`.

use anyhow::bail;
use clap::ValueEnum;

use crate::{api, command, fuzz};

/// What `nightly` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to run; everything when none is named
    #[arg(value_enum)]
    parts: Vec<Part>,
}

/// The parts, in the order they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// 100,000 cases of the supervisor against its model
    Model,
    /// A thousand sudden deaths of the writers of manifests, journal and spool
    Crashes,
    /// Each kept byte of a spool damaged
    Damage,
    /// 400 losses by chance at each step of what is stored
    PowerCuts,
    /// 100,000 streams for each property of pages of output
    Pages,
    /// Ten minutes of fuzzing for each target
    Fuzz,
    /// The whole HTTP API under Schemathesis for ten minutes
    Api,
    /// 200 clients and 2,000 processes at the service, with what the calls cost
    Load,
    /// A service under load for ten minutes, or `PROCYARD_TEST_SOAK_SECONDS`: nothing that it takes grows
    Soak,
    /// 30 ends of the service under load, or `PROCYARD_TEST_RESTARTS`, half of them sudden
    Restart,
    /// A GiB of output, followed over HTTP by quick, slow and stuck readers
    Follow,
}

/// One run of `cargo test`.
struct Run {
    package: &'static str,
    /// The test program; the library's own tests where none is named.
    test: Option<&'static str>,
    filter: &'static str,
    ignored: bool,
    /// Whether what it measured is shown.
    shown: bool,
    setting: Option<(&'static str, &'static str)>,
}

impl Run {
    const fn new(package: &'static str, test: &'static str, filter: &'static str) -> Self {
        Self { package, test: Some(test), filter, ignored: false, shown: false, setting: None }
    }

    const fn of_library(package: &'static str, filter: &'static str) -> Self {
        Self { test: None, ..Self::new(package, "", filter) }
    }

    const fn ignored(package: &'static str, test: &'static str, filter: &'static str) -> Self {
        Self { ignored: true, ..Self::new(package, test, filter) }
    }

    /// The built service under load.
    const fn load(filter: &'static str) -> Self {
        Self { shown: true, ..Self::ignored("procyard", "load", filter) }
    }

    const fn set(self, name: &'static str, value: &'static str) -> Self {
        Self { setting: Some((name, value)), ..self }
    }
}

/// How long each target is fuzzed.
const FUZZ_SECONDS: u64 = 600;

const LOSSES: &str = "PROCYARD_TEST_LOSSES";

impl Part {
    /// What failed of it.
    fn carry_out(self) -> Vec<String> {
        let outcomes = match self {
            Self::Fuzz => vec![fuzz::run_all(FUZZ_SECONDS)],
            Self::Api => vec![api::for_seconds(api::SECONDS)],
            _ => self.runs().iter().map(Run::carry_out).collect(),
        };
        outcomes.into_iter().filter_map(Result::err).map(|error| format!("{self:?}: {error:#}")).collect()
    }

    /// The tests that it is.
    fn runs(self) -> Vec<Run> {
        match self {
            Self::Model => vec![
                Run::new("procyard-supervisor", "supervisor", "model::")
                    .set("PROCYARD_TEST_MODEL_CASES", "100000"),
            ],
            Self::Crashes => vec![
                Run::ignored("procyard-manifest", "crash", "a_thousand"),
                Run::ignored("procyard-journal", "crash", "a_thousand"),
                Run::ignored("procyard-spool", "crash", "a_thousand"),
            ],
            Self::Damage => vec![Run::ignored("procyard-spool", "damage", "")],
            Self::PowerCuts => vec![
                Run::new("procyard-spool", "power_cut", "").set(LOSSES, "400"),
                Run::new("procyard-manifest", "power_cut", "").set(LOSSES, "400"),
                Run::new("procyard-supervisor", "supervisor", "power_cut::").set(LOSSES, "400"),
            ],
            Self::Pages => {
                vec![Run::of_library("procyard-tools", "page::compose").set("PROCYARD_TEST_PAGES", "100000")]
            }
            Self::Load => vec![Run::load("many::")],
            Self::Soak => vec![Run::load("soak::")],
            Self::Restart => vec![Run::load("restart::")],
            Self::Follow => vec![Run::load("follow::")],
            // Not tests, but inputs that are made as long as there is time.
            Self::Fuzz | Self::Api => Vec::new(),
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let parts = if args.parts.is_empty() { Part::value_variants() } else { &args.parts };
    // The other parts have a night, too.
    let failed: Vec<_> = parts.iter().flat_map(|part| part.carry_out()).collect();
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("; ")) }
}

impl Run {
    fn carry_out(&self) -> anyhow::Result<()> {
        let mut cargo = command::cargo(["test", "--release", "--package", self.package]);
        match self.test {
            Some(test) => cargo.args(["--test", test, "--"]),
            None => cargo.args(["--lib", "--"]),
        };
        cargo.args((!self.filter.is_empty()).then_some(self.filter));
        cargo.args(self.ignored.then_some("--ignored"));
        cargo.args(self.shown.then_some("--nocapture"));
        cargo.envs(self.setting);
        if let Some((name, value)) = self.setting {
            eprintln!("with {name}={value}");
        }
        command::run(&mut cargo)
    }
}
