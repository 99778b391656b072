//! `api`: the whole HTTP API under Schemathesis, which makes requests of the service's own `OpenAPI` document, right ones and
//! wrong ones, and holds every answer against it.
//!
//! The service is the real program, with a data directory of its own and small limits. It runs as nobody where this runs as
//! root, splits command lines without a shell, and gets only the commands that `api/hooks.py` lets through. Half of the time
//! belongs to the token of a loop, half to the administrator's. Not a part of `ci`: what it finds depends on chance.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use crate::command::{self, Daemon};
use crate::python_env::Package;

const SCHEMATHESIS: Package = Package { folder: "schemathesis", name: "schemathesis", version: "4.32.5" };

/// `nobody`, on Linux.
const NOBODY: u32 = 65534;

/// How long a run takes by default.
pub(crate) const SECONDS: u32 = 600;

const SETTINGS: &str = r#"
[processes]
allow_shell = false
environment = "minimal"
max_concurrent = 8
max_concurrent_per_loop = 4
default_timeout_secs = 5
max_timeout_secs = 10
max_output_bytes = "1M"
graceful_shutdown_ms = 500
[containment]
tier = "subreaper"
[retention]
completed_per_session = 20
data_max_bytes = "64M"
[log]
level = "warn"
"#;

/// What `api` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long both runs take together
    #[arg(long, default_value_t = SECONDS)]
    seconds: u32,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    for_seconds(args.seconds)
}

/// Tries the API for so long.
pub(crate) fn for_seconds(seconds: u32) -> anyhow::Result<()> {
    let python = SCHEMATHESIS.ensure()?;
    command::run(&mut command::cargo(["build", "--package", "procyard", "--bin", "procyard"]))?;
    let built = command::target_directory()?.join("debug/procyard");
    let place = tempfile::tempdir().context("there is no room for a data directory")?;
    let place = place.path();
    let as_nobody = command::answer(Command::new("id").arg("-u"))? == "0";
    fs::set_permissions(place, fs::Permissions::from_mode(0o755))?;
    // A copy, since nobody may not look into where it was built.
    let program = place.join("procyard");
    fs::copy(built, &program)?;
    let settings = place.join("procyard.toml");
    fs::write(&settings, SETTINGS)?;
    let (data, workspace) = (place.join("data"), place.join("workspace"));
    for directory in [&data, &workspace] {
        make_private(directory, as_nobody)?;
    }
    let mut serve = if as_nobody {
        let mut setpriv = command::program("setpriv");
        setpriv.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".to_owned()]);
        setpriv.arg(program);
        setpriv
    } else {
        command::program(program)
    };
    serve.arg("serve").arg("--config").arg(settings).arg("--data-dir").arg(&data);
    serve.arg("--workspace").arg(&workspace).args(["--listen", "127.0.0.1:0"]);
    serve.env("HOME", &workspace).current_dir(&workspace);
    let service = Daemon::start(&mut serve, "ready on ")?;
    let address = service.said().rsplit(' ').next().unwrap_or_default().to_owned();
    let mut driver = command::program(python);
    driver.arg(command::root().join("xtask/api/run.py")).arg(address);
    driver.arg(data.join("admin.token")).arg(seconds.to_string());
    let tried = command::run(&mut driver);
    service.end()?;
    tried.context("the API does not do what its document says")
}

fn make_private(directory: &Path, as_nobody: bool) -> anyhow::Result<()> {
    fs::create_dir(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
    if as_nobody {
        chown(directory, Some(NOBODY), Some(NOBODY))?;
    }
    Ok(())
}
