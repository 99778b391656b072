//! The place of one test, and the real program serving in it.
//!
//! Not for what is asked of the service: see `jobs`.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use procyard_api::http::{CreateLoop, CreateSession};
use procyard_client::{Address, Client};
use procyard_core::SessionId;
use tokio::sync::oneshot;

/// Longer than anything here takes on a busy machine, but for what has a length of its own.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

const PROCYARD: &str = env!("CARGO_BIN_EXE_procyard");

/// A data directory, its configuration, and a directory for what commands write down. They outlive a service.
pub(crate) struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    /// With this configuration.
    pub(crate) fn new(configuration: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("config.toml"), configuration).unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.path().join("data")
    }

    /// The program, with a soft limit of descriptors where one is given.
    fn program(&self, descriptors: Option<u64>) -> Command {
        let mut command = Command::new("env");
        // Whoever starts the tests may ignore signals, which is inherited.
        command.arg("--default-signal");
        if let Some(descriptors) = descriptors {
            command.args(["prlimit", &format!("--nofile={descriptors}:"), "--"]);
        }
        command
            .arg(PROCYARD)
            .current_dir(self.path())
            .env("PROCYARD_DATA", self.data_dir())
            // No configuration of whoever runs the tests.
            .env("XDG_CONFIG_HOME", self.path().join("nobody"))
            .env("PROCYARD_LOG", "warn")
            .stdin(Stdio::null());
        command
    }

    /// Removes the sessions that have ended, as a person does it beside the service.
    #[expect(clippy::disallowed_methods, reason = "what is tested is the program itself, from outside")]
    pub(crate) async fn collect(&self) {
        let mut gc = self.program(None);
        gc.args(["gc", "--older-than", "0"]);
        let ended = tokio::task::spawn_blocking(move || gc.output().unwrap()).await.unwrap();
        assert!(ended.status.success(), "{ended:?}");
    }

    /// A service that has said that it is ready.
    pub(crate) async fn serve(&self) -> Service {
        self.serve_within(None).await
    }

    /// The same, with this soft limit of descriptors.
    #[expect(clippy::disallowed_methods, reason = "what is tested is the program itself, from outside")]
    pub(crate) async fn serve_within(&self, descriptors: Option<u64>) -> Service {
        let mut command = self.program(descriptors);
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(self.path().join("config.toml"));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (lines, hears) = (BufReader::new(child.stderr.take().unwrap()).lines(), Arc::clone(&said));
        let (tells, ready) = oneshot::channel();
        // Ends with the program.
        std::thread::spawn(move || hear(lines.map_while(Result::ok), tells, &hears));
        let mut service =
            Service { child, said, tcp: ([0; 4], 0).into(), socket: self.data_dir().join("procyard.sock") };
        let ready = tokio::time::timeout(PATIENCE, ready).await.expect("it gets ready");
        service.tcp =
            ready.unwrap_or_else(|_| panic!("it ended instead of getting ready: {}", service.said()));
        service
    }
}

/// Keeps what a service says, but for the line that says where it is ready.
fn hear(lines: impl Iterator<Item = String>, tells: oneshot::Sender<SocketAddr>, said: &Mutex<String>) {
    let mut tells = Some(tells);
    for line in lines {
        if line.contains("ready on")
            && let Some(tells) = tells.take()
        {
            let _ = tells.send(line.rsplit("http://").next().unwrap().parse().unwrap());
            continue;
        }
        let mut said = said.lock().unwrap();
        if said.len() < 64 * 1024 {
            said.push_str(&line);
            said.push('\n');
        }
    }
}

/// A service.
pub(crate) struct Service {
    child: Child,
    said: Arc<Mutex<String>>,
    pub(crate) tcp: SocketAddr,
    pub(crate) socket: PathBuf,
}

/// A loop, as a client knows it.
#[derive(Clone)]
pub(crate) struct Loop {
    pub(crate) session: SessionId,
    pub(crate) token: String,
    pub(crate) client: Client,
}

impl Service {
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// As the user of the service, who is the administrator.
    pub(crate) fn admin(&self) -> Client {
        Client::unix(&self.socket)
    }

    /// A new session with so many loops. Every second loop calls over TCP.
    pub(crate) async fn session(&self, loops: usize) -> Vec<Loop> {
        let admin = self.admin();
        let over_tcp = Client::new(Address::Tcp(self.tcp));
        let created = admin.create_session(&CreateSession::default()).await.unwrap();
        let mut made = Vec::new();
        for number in 0..loops {
            let token = match number {
                0 => created.token.clone(),
                _ => admin.create_loop(created.session_id, &CreateLoop::default()).await.unwrap().token,
            };
            let way = if number % 2 == 0 { &admin } else { &over_tcp };
            made.push(Loop { session: created.session_id, client: way.with_token(&token), token });
        }
        made
    }

    /// Signals the service alone, which is not waited for yet, so that the number is its own.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Waits for its end; what it said on the way, beside that it was ready.
    pub(crate) async fn end(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, self.said());
            }
            assert!(Instant::now() < deadline, "it ends: {}", self.said());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Ends it in order, and fails if that was not in order.
    pub(crate) async fn finish(self) {
        self.signal(Signal::SIGTERM);
        let (status, said) = self.end().await;
        assert_eq!(status.code(), Some(0), "{said}");
        assert_eq!(said, "", "a service that is well has nothing to say");
    }

    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the service said: {}", self.said());
        }
        // Without effect on one that has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
