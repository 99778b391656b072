//! A session with scripted processes that the inputs of tools and of the protocol are tried on.
//!
//! One for all inputs, since making one takes longer than trying one. Its clock is paused: a wait for an hour is over at
//! once.

use std::sync::Arc;
use std::time::Duration;

use procyard_core::{Handle, Limits, LoopId, Owner, SessionId};
use procyard_runner::{ProcessRequest, Runner, RunnerError, RunnerResolver};
use procyard_store::{Dir, FsDir};
use procyard_supervisor::{Services, Supervisor};
use procyard_testkit::{Script, ScriptedRunner};
use procyard_tools::{CallContext, Dialect, Surface, Toolbox, ToolboxOptions};
use serde_json::json;

/// A temporary directory in memory, where there is such a file system.
pub(crate) fn scratch() -> tempfile::TempDir {
    let made = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    made.expect("there is room for a temporary directory")
}

/// Scripted processes for every owner.
pub(crate) struct Resolver(pub(crate) Arc<ScriptedRunner>);

impl RunnerResolver for Resolver {
    fn resolve(&self, _: Owner) -> Result<Arc<dyn Runner>, RunnerError> {
        Ok(self.0.clone())
    }
}

/// What a process does: one that is given input echoes it, others print something and end.
pub(crate) fn script(request: &ProcessRequest) -> Script {
    if request.terminal.is_some() || request.stdin == procyard_runner::StdinMode::Open {
        Script::new().echo_input().exit(0)
    } else {
        Script::new().stdout("one\n\x1b[31mtwo\r\n").pause(Duration::from_secs(5)).stderr("three").exit(0)
    }
}

/// The session.
pub(crate) struct World {
    runtime: tokio::runtime::Runtime,
    supervisor: Supervisor,
    owner: Owner,
    native: Arc<Toolbox>,
    surfaces: [Arc<dyn Surface>; 3],
    /// A process that takes input.
    alive: Option<Handle>,
    _place: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime can be made");
        let place = scratch();
        let owner = Owner { session: SessionId::from_random([1; 16]), loop_id: LoopId::from_random([2; 16]) };
        let dir: Arc<dyn Dir> = FsDir::open(place.path()).expect("the scratch directory opens");
        let (supervisor, native) = runtime.block_on(async {
            let supervisor = Supervisor::new(owner.session, Limits::default(), dir);
            supervisor.activate(Services::discard()).await.expect("an empty session is activated");
            let runner = Arc::new(ScriptedRunner::choosing(script));
            let options = ToolboxOptions {
                workspace: "/ws".into(),
                auto_yield: Some(Duration::from_secs(50)),
                ..ToolboxOptions::default()
            };
            let native = Toolbox::new(supervisor.clone(), Arc::new(Resolver(runner)), owner, options);
            (supervisor, Arc::new(native))
        });
        let surfaces = Dialect::ALL.map(|dialect| dialect.over(Arc::clone(&native)));
        Self { runtime, supervisor, owner, native, surfaces, alive: None, _place: place }
    }

    pub(crate) fn surfaces(&self) -> &[Arc<dyn Surface>; 3] {
        &self.surfaces
    }

    /// Runs `work` to its end.
    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// The text with the names that stand for a process that is there: `HANDLE`, and `NUMBER` where it has a number.
    pub(crate) fn named(&mut self, text: &str) -> String {
        if !text.contains("HANDLE") && !text.contains("NUMBER") {
            return text.to_owned();
        }
        let (handle, number) = self.alive();
        text.replace("HANDLE", &handle.reveal()).replace("NUMBER", &number)
    }

    fn alive(&mut self) -> (Handle, String) {
        let running = |handle: &Handle| {
            self.supervisor.snapshot(self.owner, handle).is_ok_and(|process| !process.state.is_terminal())
        };
        let handle = match self.alive.filter(running) {
            Some(handle) => handle,
            None => self.start(),
        };
        self.alive = Some(handle);
        // The error of a wrong number names the right ones.
        let asked = async {
            let arguments = json!({"session_id": 0});
            self.surfaces[1].call("write_stdin", arguments, CallContext::default()).await.text.clone()
        };
        let text = self.run(asked);
        let number = text.split_once("run: ").map_or("", |(_, named)| named);
        let number: String = number.chars().take_while(char::is_ascii_digit).collect();
        (handle, number)
    }

    fn start(&self) -> Handle {
        // Room for it, whatever earlier inputs have left running.
        for process in self.supervisor.list(self.owner) {
            if !process.state.is_terminal() {
                let request =
                    procyard_supervisor::StopRequest { kind: procyard_core::StopKind::Kill, grace: None };
                let _ = self.run(self.supervisor.stop(self.owner, &process.identity.handle, request));
            }
        }
        let arguments = json!({"command": "cat", "tty": true, "background": true});
        self.run(async {
            let reply = self.native.call("Bash", arguments, CallContext::default()).await;
            reply.handed_to_transport();
            let id = reply.structured["process_id"].as_str().and_then(|id| id.parse().ok());
            id.unwrap_or_else(|| panic!("no process: {}", reply.text))
        })
    }
}
