//! A client at the level of bytes: one request a connection, answered by a body or by a stream of events.

use std::collections::HashMap;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::scene::{DEADLINE, Scene};

/// An answer whose body is still to come.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    stream: BufReader<TcpStream>,
    body: String,
    /// The id of the last event that came.
    pub(crate) last_event: Option<String>,
}

/// Sends one request. Headers given here replace those that are sent otherwise; an empty one is left out.
pub(crate) async fn send(scene: &Scene, method: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let address = scene.address();
    let mut all: Vec<(String, String)> = vec![
        ("host".into(), address.to_string()),
        ("authorization".into(), "alice".into()),
        ("accept".into(), "application/json, text/event-stream".into()),
        ("content-type".into(), "application/json".into()),
        ("content-length".into(), body.len().to_string()),
    ];
    for (name, value) in headers {
        all.retain(|(known, _)| known != name);
        if !value.is_empty() {
            all.push(((*name).to_owned(), (*value).to_owned()));
        }
    }
    let fields: String = all.iter().flat_map(|(name, value)| [name, ": ", value, "\r\n"]).collect();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{method} /v1/mcp HTTP/1.1\r\n{fields}\r\n{body}").as_bytes()).await.unwrap();
    timeout(DEADLINE, Answer::read(BufReader::new(stream))).await.expect("an answer in time")
}

/// Sends one JSON-RPC message.
pub(crate) async fn post(scene: &Scene, headers: &[(&str, &str)], message: &Value) -> Answer {
    send(scene, "POST", headers, &message.to_string()).await
}

impl Answer {
    async fn read(mut stream: BufReader<TcpStream>) -> Self {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status line");
        let mut headers = HashMap::new();
        loop {
            line.clear();
            stream.read_line(&mut line).await.unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_lowercase(), value.to_owned());
        }
        Self { status, headers, stream, body: String::new(), last_event: None }
    }

    /// Takes more of the body; false at its end, or when the connection is.
    async fn more(&mut self) -> bool {
        if self.headers.get("transfer-encoding").is_some_and(|value| value == "chunked") {
            let mut size = String::new();
            if self.stream.read_line(&mut size).await.unwrap_or(0) == 0 {
                return false;
            }
            let size = usize::from_str_radix(size.trim(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            if self.stream.read_exact(&mut chunk).await.is_err() {
                return false;
            }
            self.body.push_str(std::str::from_utf8(&chunk[..size]).unwrap());
            size > 0
        } else {
            let length = self.headers.get("content-length").map_or(0, |value| value.parse().unwrap());
            let mut rest = vec![0; length - self.body.len()];
            self.stream.read_exact(&mut rest).await.unwrap();
            self.body.push_str(std::str::from_utf8(&rest).unwrap());
            false
        }
    }

    /// The whole body.
    pub(crate) async fn text(mut self) -> String {
        timeout(DEADLINE, async { while self.more().await {} }).await.expect("an end in time");
        self.body
    }

    /// The next message of a stream of events; `None` at its end.
    pub(crate) async fn event(&mut self) -> Option<Value> {
        loop {
            while let Some((event, rest)) = self.body.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.body = rest;
                let field =
                    |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                if let Some(id) = field("id:") {
                    self.last_event = Some(id.to_owned());
                }
                if let Some(message) = field("data:").and_then(|data| serde_json::from_str(data).ok()) {
                    return Some(message);
                }
            }
            if !timeout(DEADLINE, self.more()).await.expect("an event in time") {
                return None;
            }
        }
    }
}

/// A session of a client.
pub(crate) struct Session<'s> {
    pub(crate) scene: &'s Scene,
    pub(crate) id: String,
    who: &'static str,
}

impl<'s> Session<'s> {
    pub(crate) async fn open(scene: &'s Scene, who: &'static str) -> Self {
        let mut answer = post(scene, &[("authorization", who)], &initialize("2025-11-25")).await;
        assert_eq!(answer.status, 200);
        let opened = answer.event().await.unwrap();
        assert_eq!(opened["result"]["serverInfo"]["name"], "procyard", "{opened}");
        let id = answer.headers["mcp-session-id"].clone();
        let session = Self { scene, id, who };
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(session.post(&ready).await.status, 202);
        session
    }

    /// Sends one message of this session.
    pub(crate) async fn post(&self, message: &Value) -> Answer {
        post(self.scene, &self.headers(), message).await
    }

    /// Opens a stream that belongs to no request, or resumes one behind an event.
    pub(crate) async fn listen(&self, behind: Option<&str>) -> Answer {
        let mut headers = self.headers();
        headers.extend(behind.map(|event| ("last-event-id", event)));
        send(self.scene, "GET", &headers, "").await
    }

    pub(crate) fn headers(&self) -> Vec<(&str, &str)> {
        vec![
            ("authorization", self.who),
            ("mcp-session-id", &self.id),
            ("mcp-protocol-version", "2025-11-25"),
        ]
    }

    /// A request and its whole response.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Value {
        let mut answer = self.post(&request(method, params)).await;
        assert_eq!(answer.status, 200, "{method}");
        loop {
            let message = answer.event().await.expect("a response");
            if message.get("id").is_some() {
                return message;
            }
        }
    }

    /// A call that is carried out, and its structured result.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let response = self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await;
        assert_ne!(response["result"]["isError"], true, "{response}");
        response["result"]["structuredContent"].clone()
    }
}

/// A request with an id that no other has.
pub(crate) fn request(method: &str, params: Value) -> Value {
    use std::sync::atomic::{AtomicI64, Ordering};
    static NEXT: AtomicI64 = AtomicI64::new(1);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(crate) fn initialize(version: &str) -> Value {
    let client = json!({"name": "test", "version": "1"});
    request("initialize", json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client}))
}
