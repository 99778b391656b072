//! A small MCP client: raw JSON-RPC lines over the streams of a server, with an eye on every line.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, Command, ExitStatus};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::running::{Running, within};
use crate::scene::{DEADLINE, Scene};

/// The newest revision that opens with `initialize`.
pub(crate) const WITH_INITIALIZE: &str = "2025-11-25";

/// What a request of the newest revision says of its client, which offers these capabilities.
pub(crate) fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// A server and its client.
pub(crate) struct Client {
    pub(crate) server: Running,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    /// What came and was not asked for yet.
    pending: Vec<Value>,
    /// What each tool promises to answer.
    schemas: HashMap<String, jsonschema::Validator>,
    requests: i64,
}

impl Client {
    /// A server that nothing has been said to.
    #[track_caller]
    pub(crate) fn silent(scene: &Scene, arguments: &[&str]) -> Self {
        Self::silent_with(scene, |command| {
            command.args(arguments);
        })
    }

    /// The same, of a server that is started in another way than usual.
    #[track_caller]
    pub(crate) fn silent_with(scene: &Scene, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = scene.procyard_heeding_signals(["mcp"]);
        change(&mut command);
        let mut server = Running::spawn(&mut command);
        let input = server.stdin.take();
        let stdout = server.take_stdout();
        let (sender, lines) = mpsc::sync_channel(1024);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                if line.is_err() || sender.send(line.unwrap_or_default()).is_err() {
                    return;
                }
            }
        });
        Self { server, input, lines, pending: Vec::new(), schemas: HashMap::new(), requests: 0 }
    }

    /// A server that has been greeted, and whose tools are known.
    #[track_caller]
    pub(crate) fn connect(scene: &Scene, arguments: &[&str]) -> Self {
        let mut client = Self::silent(scene, arguments);
        client.initialize(WITH_INITIALIZE);
        client.learn_tools();
        client
    }

    #[track_caller]
    pub(crate) fn initialize(&mut self, version: &str) -> Value {
        self.initialize_offering(version, json!({}))
    }

    /// Opens the protocol as a client with these capabilities.
    #[track_caller]
    pub(crate) fn initialize_offering(&mut self, version: &str, capabilities: Value) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": client});
        let result = self.ask("initialize", params);
        self.notify("notifications/initialized", json!({}));
        result
    }

    #[track_caller]
    pub(crate) fn learn_tools(&mut self) -> Vec<Value> {
        let result = self.ask("tools/list", json!({}));
        let tools = result["tools"].as_array().unwrap().clone();
        // The tools of a dialect answer in text alone.
        for tool in tools.iter().filter(|tool| tool["outputSchema"].is_object()) {
            let validator = jsonschema::validator_for(&tool["outputSchema"]).unwrap();
            self.schemas.insert(tool["name"].as_str().unwrap().to_owned(), validator);
        }
        tools
    }

    /// Writes a line as it is.
    pub(crate) fn write(&mut self, line: impl AsRef<[u8]>) {
        let input = self.input.as_mut().expect("its input is open");
        input.write_all(line.as_ref()).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.write(json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Sends a request and gives its id.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> i64 {
        self.requests += 1;
        let id = self.requests;
        self.write(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    /// The response to a request, as it is.
    #[track_caller]
    pub(crate) fn response(&mut self, id: i64) -> Value {
        self.message("a response", |message| message["id"] == id)
    }

    /// A request that is refused, and the error.
    #[track_caller]
    pub(crate) fn refused(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        let response = self.response(id);
        response.get("error").unwrap_or_else(|| panic!("{response}")).clone()
    }

    /// A request and its result.
    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        let response = self.response(id);
        response.get("result").unwrap_or_else(|| panic!("{response}")).clone()
    }

    /// A call of a tool and its whole result, held against the schema that the tool has given.
    #[track_caller]
    pub(crate) fn call_whole(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        if let Some(schema) = self.schemas.get(tool) {
            let problems: Vec<_> =
                schema.iter_errors(&result["structuredContent"]).map(|error| error.to_string()).collect();
            assert!(problems.is_empty(), "{problems:?} in {result}");
        }
        result
    }

    /// A call that is carried out, and its structured result.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call_whole(tool, arguments);
        assert_ne!(result["isError"], true, "{result}");
        result["structuredContent"].clone()
    }

    /// Sends a call without waiting for it.
    pub(crate) fn begin(&mut self, tool: &str, arguments: Value) -> i64 {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The next message that is wanted, also if it came before; others are kept.
    #[track_caller]
    pub(crate) fn message(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(at) = self.pending.iter().position(&wanted) {
                return self.pending.remove(at);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.pending.push(parsed(&line)),
                Err(error) => panic!("no {what}: {error}; there are {:?}", self.pending),
            }
        }
    }

    /// Everything that came and was not asked for, up to now.
    #[track_caller]
    pub(crate) fn unasked(&mut self) -> &[Value] {
        // Whatever was sent before the answer to this is there when it is.
        self.ask("ping", json!({}));
        &self.pending
    }

    /// Takes away what came and was not asked for.
    pub(crate) fn take_unasked(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.pending)
    }

    /// Closes the input, as a client that is gone.
    pub(crate) fn leave(&mut self) {
        drop(self.input.take());
    }

    /// Leaves, and gives how the server ended and how long that took.
    #[track_caller]
    pub(crate) fn leave_and_wait(mut self) -> (ExitStatus, Duration) {
        let began = Instant::now();
        self.leave();
        let status = self.end();
        (status, began.elapsed())
    }

    /// Signals the server, and gives how it ended and how long that took.
    #[track_caller]
    pub(crate) fn signal_and_wait(mut self, signal: Signal) -> (ExitStatus, Duration) {
        let began = Instant::now();
        self.server.signal(signal);
        let status = self.end();
        (status, began.elapsed())
    }

    /// Waits for the server's end. Its last lines are protocol, too.
    #[track_caller]
    fn end(&mut self) -> ExitStatus {
        let status = self.server.end();
        let lines = std::mem::replace(&mut self.lines, mpsc::sync_channel(0).1);
        for line in within(move || lines.into_iter().collect::<Vec<_>>()) {
            self.pending.push(parsed(&line));
        }
        status
    }
}

/// A line of the protocol; there are no others.
#[track_caller]
fn parsed(line: &str) -> Value {
    let message: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
    // The answers to a batch come in one line.
    let messages = message.as_array().map_or(std::slice::from_ref(&message), Vec::as_slice);
    assert!(!messages.is_empty() && messages.iter().all(|message| message["jsonrpc"] == "2.0"), "{message}");
    message
}
