//! The runner: validates requests and hands them to its guardian, of which there is always one.
//!
//! Not for what happens after the start: see [`crate::process`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use procyard_runner::{
    Capabilities, CommandSpec, PreparedProcess, ProcessRequest, Runner, RunnerError, RunnerErrorKind,
    TerminalSize, Tier,
};

use crate::controllers::Version;
use crate::environment::{DEFAULT_PATH, compose};
use crate::limits::{self, Bounds, Defaults};
use crate::link::Link;
use crate::prepared::Prepared;
use crate::terminal::Terminal;
use crate::wire::{StartBody, WantedTier};
use crate::{
    CgroupVersion, ContainmentReport, GuardianProgram, HostError, HostOptions, SignalScope, TierChoice,
    privileges,
};

/// Starts commands of this machine, each in a tree that ends with its supervisor.
///
/// Cheap to clone; the clones share one guardian. When the last clone and the last process are dropped, the guardian
/// ends. When the guardian dies, its trees end, and the next [`prepare`](Runner::prepare) starts another.
#[derive(Debug, Clone)]
pub struct HostRunner {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: HostOptions,
    program: PathBuf,
    wanted: WantedTier,
    shell: Shell,
    report: ContainmentReport,
    terminals: bool,
    defaults: Defaults,
    /// The guardian in use. Held for moments only.
    link: Mutex<Option<Arc<Link>>>,
    /// Held, on blocking threads only, while a guardian is started, so that there is one.
    starting: Mutex<()>,
}

#[derive(Debug, Clone)]
struct Shell {
    path: PathBuf,
    name: OsString,
}

impl HostRunner {
    /// Starts a guardian, which takes over what an earlier one left in our cgroups, probes the tiers and says which it
    /// has. Needs a tokio runtime with I/O and time.
    ///
    /// Dropping the future may leave a guardian that ends itself.
    pub async fn start(options: HostOptions) -> Result<Self, HostError> {
        let wanted = match &options.tier {
            TierChoice::Strongest => WantedTier::Strongest,
            TierChoice::Require(tier) if *tier == Tier::CGROUP => WantedTier::Cgroup,
            TierChoice::Require(tier) if *tier == Tier::SUBREAPER => WantedTier::Subreaper,
            TierChoice::Require(tier) if *tier == Tier::PIDNS => WantedTier::PidNamespace,
            TierChoice::Require(tier) => {
                return Err(HostError::LifetimeEnforcementUnavailable(format!(
                    "there is no tier {tier} here"
                )));
            }
        };
        if options.umask.is_some_and(|mask| mask > 0o777) {
            return Err(HostError::InvalidSetting("umask"));
        }
        let scope = privileges::can_scope_signals();
        if let (SignalScope::Required, Err(why)) = (options.signal_scope, &scope) {
            return Err(HostError::LifetimeEnforcementUnavailable(why.clone()));
        }
        if options.adopt_orphans {
            nix::sys::prctl::set_child_subreaper(true).map_err(|errno| HostError::Guardian(errno.into()))?;
        }
        let program = match &options.guardian {
            // Also right when the file was replaced or deleted meanwhile.
            GuardianProgram::CurrentExe => PathBuf::from("/proc/self/exe"),
            GuardianProgram::Path(path) => path.clone(),
        };
        let shell = find_shell(options.shell.as_deref());
        let opening = tokio::task::spawn_blocking(move || {
            let link = Link::open(&program, wanted, &options);
            (link, options, program)
        });
        let (link, options, program) =
            opening.await.map_err(|error| HostError::Guardian(std::io::Error::other(error)))?;
        let link = link?;
        let inner = Inner {
            defaults: Defaults::new(&options, &scope),
            report: report(&link, scope),
            options,
            program,
            wanted,
            shell,
            terminals: Terminal::open(TerminalSize::default()).is_ok(),
            link: Mutex::new(Some(link)),
            starting: Mutex::new(()),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What was found on this machine.
    pub fn report(&self) -> ContainmentReport {
        self.inner.report.clone()
    }

    /// Ends every tree that still lives and then the guardian; resolves when it is gone. A later
    /// [`prepare`](Runner::prepare) starts another. Cancellation safe.
    pub async fn shutdown(&self) {
        let link = self.inner.current_link(Option::take);
        if let Some(link) = link {
            link.close().await;
        }
    }

    /// The living guardian, started anew if need be.
    pub(crate) async fn link(&self) -> Result<Arc<Link>, RunnerError> {
        if let Some(link) = self.inner.living_link() {
            return Ok(link);
        }
        let inner = Arc::clone(&self.inner);
        let opening = tokio::task::spawn_blocking(move || {
            let _one = inner.starting.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(link) = inner.living_link() {
                return Ok::<_, HostError>(link);
            }
            let link = Link::open(&inner.program, inner.wanted, &inner.options)?;
            inner.current_link(|current| *current = Some(Arc::clone(&link)));
            Ok(link)
        });
        let opened = opening.await.map_err(|error| HostError::Guardian(std::io::Error::other(error)))?;
        Ok(opened?)
    }
}

impl Inner {
    fn current_link<T>(&self, with: impl FnOnce(&mut Option<Arc<Link>>) -> T) -> T {
        with(&mut self.link.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn living_link(&self) -> Option<Arc<Link>> {
        self.current_link(|link| link.as_ref().filter(|link| link.is_alive()).cloned())
    }
}

fn report(link: &Link, signal_scope: Result<(), String>) -> ContainmentReport {
    let means = |means: &Result<Version, String>| {
        means.clone().map(|version| match version {
            Version::One => CgroupVersion::One,
            Version::Two => CgroupVersion::Two,
        })
    };
    let mut unavailable: Vec<_> =
        link.hello.no_cgroup.iter().map(|reason| (Tier::CGROUP, reason.clone())).collect();
    let mut on_request = Vec::new();
    match &link.hello.pid_namespace {
        Some(Err(reason)) => unavailable.push((Tier::PIDNS, reason.clone())),
        Some(Ok(())) if !link.hello.namespaced => on_request.push(Tier::PIDNS),
        Some(Ok(())) | None => {}
    }
    let kernel = nix::sys::utsname::uname().map(|name| name.release().to_string_lossy().into_owned());
    ContainmentReport {
        tier: link.tier(),
        on_request,
        unavailable,
        kernel: kernel.unwrap_or_default(),
        proc_children: link.hello.proc_children,
        clone_into_cgroup: link.hello.clone_into_cgroup,
        memory_limit: means(&link.hello.means.memory),
        process_limit: means(&link.hello.means.pids),
        signal_scope,
    }
}

/// The shell of command lines where none is chosen: `bash` where `PATH` has it, else `sh`.
pub fn default_shell() -> &'static str {
    if on_path("bash").is_some() { "bash" } else { "sh" }
}

/// The shell that was chosen, else the [default](default_shell).
fn find_shell(chosen: Option<&Path>) -> Shell {
    let path = chosen.map_or_else(
        || on_path(default_shell()).unwrap_or_else(|| PathBuf::from("/bin/sh")),
        Path::to_path_buf,
    );
    let name = path.file_name().unwrap_or(OsStr::new("sh")).to_owned();
    Shell { path, name }
}

/// The program of this name that `PATH` has first.
fn on_path(name: &str) -> Option<PathBuf> {
    let search = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    std::env::split_paths(&search)
        .filter(|place| place.is_absolute())
        .map(|place| place.join(name))
        .find(|path| nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok())
}

impl Inner {
    /// What is to be executed, or which field of the request is wrong. Its bounds are not set yet: they are what the
    /// guardian can enforce.
    fn body(&self, request: ProcessRequest) -> Result<StartBody, RunnerError> {
        request.check()?;
        let workdir = request.workdir;
        let (program, argv) = match request.command {
            CommandSpec::Shell(line) => (
                self.shell.path.clone().into_os_string().into_vec(),
                vec![self.shell.name.clone().into_vec(), b"-c".to_vec(), line.into_bytes()],
            ),
            CommandSpec::Argv(argv) => {
                let argv: Vec<_> = argv.into_iter().map(String::into_bytes).collect();
                (argv.first().cloned().unwrap_or_default(), argv)
            }
        };
        let inherited = std::env::vars_os();
        let env = compose(
            inherited,
            &request.environment,
            &self.options.env_filter,
            &workdir,
            request.terminal.is_some(),
        );
        let path = env.get(OsStr::new("PATH")).cloned().unwrap_or_else(|| DEFAULT_PATH.into());
        let variable = |(name, value): (OsString, OsString)| {
            let mut variable = name.into_vec();
            variable.push(b'=');
            variable.extend_from_slice(value.as_bytes());
            variable
        };
        Ok(StartBody {
            program,
            argv,
            env: env.into_iter().map(variable).collect(),
            path: path.into_vec(),
            workdir: workdir.into_os_string().into_vec(),
            terminal: request.terminal.is_some(),
            umask: self.options.umask,
            bounds: Bounds::default(),
        })
    }
}

#[async_trait]
impl Runner for HostRunner {
    fn capabilities(&self) -> Capabilities {
        Capabilities { tier: Some(self.inner.report.tier.clone()), terminals: self.inner.terminals }
    }

    async fn prepare(&self, request: ProcessRequest) -> Result<Box<dyn PreparedProcess>, RunnerError> {
        let size = request.terminal;
        let stdin = request.stdin;
        limits::validate(&request.limits)?;
        let asked = request.limits.clone();
        let mut body = self.inner.body(request)?;
        let link = self.link().await?;
        let (bounds, limits) = Bounds::plan(&asked, self.inner.defaults, &link.hello.means);
        body.bounds = bounds;
        let terminal = size.map(Terminal::open).transpose().map_err(|error| {
            RunnerError::new(
                RunnerErrorKind::PtyUnavailable,
                "no terminal is to be had; try again without one",
            )
            .with_source(error)
        })?;
        Ok(Box::new(Prepared { runner: self.clone(), link, body, limits, stdin, terminal }))
    }
}
