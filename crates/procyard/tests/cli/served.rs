//! A service under test, and a typed client of it.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::Command;
use std::thread::JoinHandle;

use nix::sys::signal::Signal;
use procyard_api::BashArguments;
use procyard_api::http::{CreateSession, SessionCreated};
use procyard_client::Client;
use procyard_core::Handle;

use crate::running::{Ended, Running, within};
use crate::scene::Scene;

/// A service that has said that it is ready.
pub(crate) struct Service {
    pub(crate) running: Running,
    /// The line that said so.
    pub(crate) ready: String,
    /// Reads what it says on stderr after that.
    rest: JoinHandle<String>,
    socket: PathBuf,
}

impl Service {
    #[track_caller]
    pub(crate) fn start(scene: &Scene, arguments: &[&str]) -> Self {
        Self::of(scene, scene.procyard_heeding_signals(["serve"]).args(arguments))
    }

    /// The same, started by a command that becomes it.
    #[track_caller]
    pub(crate) fn of(scene: &Scene, command: &mut Command) -> Self {
        let mut running = Running::spawn(command);
        let mut stderr = running.take_stderr();
        let (ready, rest) = within(move || {
            let (mut line, mut byte) = (Vec::new(), [0]);
            while stderr.read(&mut byte).unwrap() > 0 && byte != *b"\n" {
                line.push(byte[0]);
            }
            // What else it says is read, so that it never blocks.
            let rest = std::thread::spawn(move || std::io::read_to_string(stderr).unwrap());
            (String::from_utf8(line).unwrap(), rest)
        });
        assert!(ready.contains("ready"), "{ready}");
        Self { running, ready, rest, socket: scene.data_dir().join("procyard.sock") }
    }

    /// Asks it to end, and gives its code with what it has said since it was ready.
    #[track_caller]
    pub(crate) fn terminate(mut self) -> (Option<i32>, String) {
        self.running.signal(Signal::SIGTERM);
        let status = self.running.end();
        let Self { rest, .. } = self;
        (status.code(), within(move || rest.join().unwrap()))
    }

    /// As the user of the service, who is the administrator.
    pub(crate) fn admin(&self) -> Client {
        Client::unix(&self.socket)
    }

    /// A new session, and a client with its token.
    pub(crate) fn session(&self) -> (SessionCreated, Client) {
        let admin = self.admin();
        let created = block(admin.create_session(&CreateSession::default())).unwrap();
        let client = admin.with_token(&created.token);
        (created, client)
    }
}

/// Starts a command line in the background.
#[track_caller]
pub(crate) fn start(client: &Client, line: &str) -> Handle {
    start_as(client, BashArguments { command: Some(line.to_owned()), ..BashArguments::default() })
}

#[track_caller]
pub(crate) fn start_as(client: &Client, arguments: BashArguments) -> Handle {
    let arguments = BashArguments { background: true, ..arguments };
    block(client.start(&arguments, None)).unwrap().process.entry.process_id
}

/// Runs a verb on a process.
#[track_caller]
pub(crate) fn verb(scene: &Scene, verb: &str, handle: &Handle, arguments: &[&str]) -> Ended {
    let mut command = scene.procyard([verb]);
    Running::spawn(command.arg(handle.reveal()).args(arguments)).wait()
}

/// Runs a future to its end.
pub(crate) fn block<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(crate::scene::DEADLINE, future).await.expect("it answers within the deadline")
    })
}
