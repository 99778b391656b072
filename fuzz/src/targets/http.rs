//! Any bytes of a client to the HTTP service: it answers in HTTP as its document says, and lets the client go.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use procyard_core::{Handle, Owner, StopKind};
use procyard_server::http::openapi_document;
use procyard_supervisor::{StopRequest, Supervisor, Target, Until, WaitMode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};

use super::answers::{Answer, Asked, Said, asked, check_websocket, said, shown};
use super::service::{ADMIN, Running};

/// What parts of an input stand apart by: the byte is not sent.
const APART: u8 = 0;

/// How long a client that waits between its parts does so when nothing comes. All times are of the paused clock.
const QUIET: Duration = Duration::from_secs(8);

/// How long it does so when something comes again and again.
const WAITS: Duration = Duration::from_secs(60);

/// How long a client stays at the end that does not leave at once: longer than any wait that it can ask for.
const STAYS: Duration = Duration::from_secs(900);

/// Within which the server has let a client go that has left.
const LEAVING: Duration = Duration::from_secs(120);

/// Nobody takes more than this; a client that was sent so much leaves.
const SAID_MAX: usize = 8 << 20;

/// A process that there is not.
const NOBODYS: Handle = Handle::from_bytes([7; 16]);

/// Inputs that are tried on one service.
const INPUTS: usize = 1000;

/// How the client goes about it.
#[derive(Clone, Copy)]
struct Manner(u8);

impl Manner {
    /// It takes the answer to a part before it sends the next one.
    fn waits(self) -> bool {
        self.0 & 1 != 0
    }
    /// It goes when it has sent everything, whatever is still to come.
    fn leaves_at_once(self) -> bool {
        self.0 & 2 != 0
    }
    /// It sends a few bytes at a time.
    fn dribbles(self) -> bool {
        self.0 & 4 != 0
    }
}

struct Http {
    runtime: tokio::runtime::Runtime,
    document: Value,
    validators: HashMap<String, jsonschema::Validator>,
    scene: Option<Scene>,
}

thread_local! {
    static HTTP: RefCell<Http> = RefCell::new(Http::new());
}

/// The first byte is the client's manner, the rest what it sends: parts between zero bytes, with the names in capitals that
/// stand for tokens, ids and lengths.
pub(crate) fn http(data: &[u8]) {
    let Some((&manner, input)) = data.split_first() else { return };
    HTTP.with_borrow_mut(|http| http.tries(Manner(manner), input));
}

impl Http {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let runtime = runtime.expect("a runtime can be made");
        // What tokio keeps for a thread is made before this, so that it is there when the scene is dropped.
        runtime.block_on(async {});
        Self { runtime, document: openapi_document(), validators: HashMap::new(), scene: None }
    }

    fn tries(&mut self, manner: Manner, input: &[u8]) {
        let (conversation, place) = self.runtime.block_on(async {
            let mut scene = match self.scene.take() {
                Some(scene) => scene,
                None => Scene::begin().await,
            };
            let conversation = scene.converse(manner, input).await;
            let place = scene.running.place().display().to_string();
            if scene.settle(&conversation.sent).await {
                scene.running.end().await;
            } else {
                self.scene = Some(scene);
            }
            (conversation, place)
        });
        assert!(
            !shown_all(&conversation.said).contains(&place),
            "the client is told where the service keeps things"
        );
        self.check(&conversation);
    }

    /// Holds everything that was said against what was asked.
    fn check(&mut self, conversation: &Conversation) {
        let requests = asked(&conversation.sent);
        let heads = contains(&conversation.sent, b"HEAD");
        let Said { answers, switched, whole } = said(&conversation.said, &requests, heads);
        assert!(whole || conversation.left, "the server broke off within a head");
        if let Some(frames) = switched {
            check_websocket(&frames);
        }
        let count = answers.len();
        for (place, answer) in answers.iter().enumerate() {
            let request = requests.get(place);
            let of_mcp = request.map_or_else(
                || contains(&conversation.sent, b"/v1/mcp"),
                |request| request.path.starts_with("/v1/mcp"),
            );
            let is_last = place + 1 == count;
            let about = format!("{request:?} -> {} {:?}", answer.status, shown(&answer.body));
            assert!(answer.status < 500, "{about}");
            assert!(answer.whole || is_last, "{about}");
            let breaks_off = request.is_none_or(|request| request.path.contains("/logs"));
            assert!(answer.whole || conversation.left || breaks_off, "broken off: {about}");
            if !answer.whole {
                continue;
            }
            self.check_body(answer, of_mcp, is_last, &about);
            if let Some(request) = request {
                self.check_documented(request, answer, is_last, &about);
            }
        }
    }

    /// What holds of the body of any answer.
    fn check_body(&mut self, answer: &Answer, of_mcp: bool, is_last: bool, about: &str) {
        match answer.media_type() {
            _ if !answer.has_body => {}
            "application/json" => {
                let value: Value =
                    serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("{error}: {about}"));
                if answer.status >= 400 && !(of_mcp && value["jsonrpc"] == "2.0") {
                    self.check_schema(&json!({ "$ref": "#/components/schemas/ErrorBody" }), &value, about);
                }
            }
            "text/event-stream" => check_events(&answer.body, about),
            // The SDK refuses in words.
            "text/plain" if of_mcp || answer.status < 400 => {}
            _ if answer.status < 400 => {}
            // What is no request reaches no route, and ends the connection.
            "" if of_mcp => {}
            "" => assert!(
                answer.body.is_empty() && is_last && matches!(answer.status, 400 | 414 | 431),
                "{about}"
            ),
            _ => panic!("an error of an unknown form: {about}"),
        }
    }

    /// The answer is one that the document has for the request.
    fn check_documented(&mut self, request: &Asked, answer: &Answer, is_last: bool, about: &str) {
        // What is no request to hyper, a path with a stray sign say, reaches no route.
        if answer.media_type().is_empty() && is_last && matches!(answer.status, 400 | 414 | 431) {
            return;
        }
        // A route for GET answers HEAD in the same way.
        let method =
            if request.method == "HEAD" { "get".to_owned() } else { request.method.to_ascii_lowercase() };
        let path = request.path.split('?').next().unwrap_or_default();
        let Some(operation) = operation(&self.document, &method, path) else {
            let of_sdk = path == "/v1/mcp" || path.starts_with("/v1/mcp/");
            // Without the field `Host` it is no request, wherever it goes.
            assert!(of_sdk || matches!(answer.status, 400 | 404 | 405), "{about}");
            return;
        };
        let response = &operation["responses"][answer.status.to_string()];
        assert!(response.is_object(), "not in the document: {about}");
        if !answer.has_body {
            return;
        }
        let Some(contents) = response["content"].as_object() else {
            assert!(answer.body.is_empty(), "{about}");
            return;
        };
        let of_type = |media_type: &str| media_type.split(';').next() == Some(answer.media_type());
        let content = contents.iter().find(|(media_type, _)| of_type(media_type));
        let (_, content) = content.unwrap_or_else(|| panic!("not a type of the document: {about}"));
        if answer.media_type() != "application/json" {
            return;
        }
        if let Some(schema) = content.get("schema").cloned() {
            let value =
                serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("{error}: {about}"));
            self.check_schema(&schema, &value, about);
        }
    }

    fn check_schema(&mut self, schema: &Value, value: &Value, about: &str) {
        let validator = self.validators.entry(schema.to_string()).or_insert_with(|| {
            let mut whole = schema.clone();
            whole["components"] = self.document["components"].clone();
            jsonschema::draft202012::new(&whole).expect("the document's schemas are schemas")
        });
        if let Err(error) = validator.validate(value) {
            panic!("{error} at {}: {about}", error.instance_path());
        }
    }
}

/// The operation of a request, if there is one: that with the fewest names in braces.
fn operation(document: &Value, method: &str, path: &str) -> Option<Value> {
    let have: Vec<_> = path.split('/').collect();
    let fits = |template: &str| {
        let want: Vec<_> = template.split('/').collect();
        have.len() == want.len()
            && have
                .iter()
                .zip(&want)
                .all(|(have, want)| have == want || (want.starts_with('{') && !have.is_empty()))
    };
    let paths = document["paths"].as_object()?;
    let (_, operations) =
        paths.iter().filter(|(path, _)| fits(path)).min_by_key(|(path, _)| path.matches('{').count())?;
    operations.get(method).cloned()
}

/// Server-sent events (WHATWG HTML, section 9.2): lines with a field each, and JSON for their data.
fn check_events(body: &[u8], about: &str) {
    let text = std::str::from_utf8(body).unwrap_or_else(|error| panic!("{error}: {about}"));
    for line in text.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        assert!(matches!(field, "" | "data" | "event" | "id" | "retry"), "{line:?} in {about}");
        let value = value.trim();
        if field == "data" && !value.is_empty() {
            let _: Value = serde_json::from_str(value).unwrap_or_else(|error| panic!("{error}: {about}"));
        }
    }
}

/// What was sent and said on one connection.
struct Conversation {
    sent: Vec<u8>,
    said: Vec<u8>,
    /// The client left before the server ended the connection.
    left: bool,
}

/// A service with one session, of which the client has what it needs.
struct Scene {
    running: Running,
    owner: Owner,
    other: Owner,
    tokens: [String; 2],
    alive: Option<Handle>,
    ended: Option<Handle>,
    inputs: usize,
}

impl Scene {
    async fn begin() -> Self {
        let running = Running::begin();
        let created = post(&running, "/v1/sessions").await;
        let session = text(&created, "session_id");
        let another = post(&running, &format!("/v1/sessions/{session}/loops")).await;
        let owner = |created: &Value| Owner {
            session: session.parse().expect("the id of a session"),
            loop_id: text(created, "loop_id").parse().expect("the id of a loop"),
        };
        Self {
            owner: owner(&created),
            other: owner(&another),
            tokens: [text(&created, "token"), text(&another, "token")],
            running,
            alive: None,
            ended: None,
            inputs: 0,
        }
    }

    /// Of the session, unless the client has ended it.
    fn supervisor(&self) -> Option<Supervisor> {
        self.running.host.supervisor(self.owner.session)
    }

    /// Sends an input in its parts, and takes what comes until one side ends it.
    async fn converse(&mut self, manner: Manner, input: &[u8]) -> Conversation {
        let mut line = Line::open(&self.running).await;
        let mut sent = Vec::new();
        for part in input.split(|byte| *byte == APART) {
            let part = self.named(part, &line.said).await;
            sent.extend_from_slice(&part);
            line.send(&part, manner.dribbles()).await;
            if manner.waits() {
                line.listen(QUIET, WAITS).await;
            }
            if line.ended || line.said.len() > SAID_MAX {
                break;
            }
        }
        if !manner.leaves_at_once() {
            line.listen(STAYS, STAYS).await;
        }
        let left = !line.ended;
        line.leave().await;
        Conversation { sent, said: line.said, left }
    }

    /// A part with what its names stand for.
    async fn named(&mut self, part: &[u8], said: &[u8]) -> Vec<u8> {
        let mut part = part.to_vec();
        if contains(&part, b"HANDLE") {
            let handle = self.alive().await.unwrap_or(NOBODYS);
            replace(&mut part, "HANDLE", &handle.reveal());
        }
        if contains(&part, b"ENDED") {
            let handle = self.ended().await.unwrap_or(NOBODYS);
            replace(&mut part, "ENDED", &handle.reveal());
        }
        replace(&mut part, "MCP_SESSION", &mcp_session(said));
        replace(&mut part, "SESSION_ID", &self.owner.session.to_string());
        replace(&mut part, "LOOP_ID", &self.other.loop_id.to_string());
        replace(&mut part, "ADMIN", ADMIN);
        replace(&mut part, "TOKEN", &self.tokens[0]);
        replace(&mut part, "OTHER", &self.tokens[1]);
        let length =
            part.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(0, |end| part.len() - end - 4);
        replace(&mut part, "LENGTH", &length.to_string());
        part
    }

    /// A process that takes input, where there can be one.
    async fn alive(&mut self) -> Option<Handle> {
        let supervisor = self.supervisor()?;
        let runs = |handle: &Handle| {
            supervisor.snapshot(self.owner, handle).is_ok_and(|process| !process.state.is_terminal())
        };
        let handle = match self.alive.filter(runs) {
            Some(handle) => handle,
            None => self.start(r#"{"command":"cat","tty":true}"#).await,
        };
        self.alive = Some(handle);
        self.alive
    }

    /// A process that has ended, where there can be one.
    async fn ended(&mut self) -> Option<Handle> {
        let supervisor = self.supervisor()?;
        if let Some(handle) = self.ended.filter(|handle| supervisor.snapshot(self.owner, handle).is_ok()) {
            return Some(handle);
        }
        let handle = self.start(r#"{"command":"three"}"#).await;
        let target = Target { handle, cursor: 0, probe: None };
        let ended = supervisor.wait(self.owner, WaitMode::All, Until::Exit, vec![target], STAYS).await;
        assert!(ended.is_ok_and(|ended| ended[0].satisfied), "a scripted process does not end");
        self.ended = Some(handle);
        self.ended
    }

    async fn start(&self, body: &str) -> Handle {
        let created = request(&self.running, "/v1/processes", &self.tokens[0], body).await;
        text(&created["process"], "process_id").parse().expect("a handle")
    }

    /// Stops what an input has left running; whether the service is no longer what inputs are tried on.
    async fn settle(&mut self, sent: &[u8]) -> bool {
        self.inputs += 1;
        let Some(supervisor) = self.supervisor() else { return true };
        if self.running.host.count() > 1 || contains(sent, b"/v1/sessions/") || self.inputs >= INPUTS {
            return true;
        }
        for owner in [self.owner, self.other] {
            for process in supervisor.list(owner).into_iter().filter(|process| !process.state.is_terminal()) {
                if Some(process.identity.handle) == self.alive {
                    continue;
                }
                let request = StopRequest { kind: StopKind::Kill, grace: None };
                let _ = supervisor.stop(owner, &process.identity.handle, request).await;
            }
        }
        false
    }
}

/// The client's end of a connection.
struct Line {
    input: WriteHalf<DuplexStream>,
    output: ReadHalf<DuplexStream>,
    said: Vec<u8>,
    ended: bool,
}

impl Line {
    async fn open(running: &Running) -> Self {
        let (client, server) = tokio::io::duplex(4096);
        running.connector.connect(server).await.expect("the service takes connections");
        let (output, input) = tokio::io::split(client);
        Self { input, output, said: Vec::new(), ended: false }
    }

    /// Sends something while it takes what comes.
    async fn send(&mut self, bytes: &[u8], dribbles: bool) {
        let Self { input, output, said, ended } = self;
        let writing = async {
            let pieces = bytes.chunks(if dribbles { 7 } else { usize::MAX });
            for piece in pieces {
                // A server that has ended the connection reads no more.
                if input.write_all(piece).await.is_err() {
                    return;
                }
                if dribbles {
                    tokio::task::yield_now().await;
                }
            }
        };
        tokio::pin!(writing);
        loop {
            tokio::select! {
                biased;
                () = &mut writing => return,
                read = output.read_buf(said) => if ends(&read) {
                    *ended = true;
                    return;
                },
            }
        }
    }

    /// Takes what comes until it is quiet for so long, or comes for longer than it has a mind to.
    async fn listen(&mut self, quiet: Duration, most: Duration) {
        let listening = async {
            while self.said.len() <= SAID_MAX {
                match tokio::time::timeout(quiet, self.output.read_buf(&mut self.said)).await {
                    Ok(read) if ends(&read) => {
                        self.ended = true;
                        return;
                    }
                    Ok(_) => {}
                    Err(_) => return,
                }
            }
        };
        let _ = tokio::time::timeout(most, listening).await;
    }

    /// Goes, and waits for the server to let go of the connection.
    async fn leave(&mut self) {
        let _ = self.input.shutdown().await;
        let rest = async { while self.output.read_buf(&mut self.said).await.is_ok_and(|read| read > 0) {} };
        let ended = tokio::time::timeout(LEAVING, rest).await;
        assert!(ended.is_ok(), "the connection stays when its client has left");
    }
}

fn ends(read: &std::io::Result<usize>) -> bool {
    !read.as_ref().is_ok_and(|read| *read > 0)
}

/// The result of a request of the administrator, which succeeds.
async fn post(running: &Running, path: &str) -> Value {
    request(running, path, ADMIN, "{}").await
}

async fn request(running: &Running, path: &str, token: &str, body: &str) -> Value {
    let mut line = Line::open(running).await;
    let sent = format!(
        "POST {path} HTTP/1.1\r\nhost: fuzz\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    line.send(sent.as_bytes(), false).await;
    line.listen(STAYS, STAYS).await;
    let said = said(&line.said, &[], false);
    match said.answers.as_slice() {
        [answer] if answer.status == 201 => serde_json::from_slice(&answer.body).expect("a body in JSON"),
        _ => panic!("{path} is answered with {}", shown(&line.said)),
    }
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}")).to_owned()
}

/// The id of the last MCP session that was given.
fn mcp_session(said: &[u8]) -> String {
    const HEADER: &str = "mcp-session-id: ";
    let said = shown_all(said);
    let found = said.rfind(HEADER).map(|place| &said[place + HEADER.len()..]);
    found.and_then(|rest| rest.lines().next()).unwrap_or("none").to_owned()
}

fn shown_all(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Puts a value in the place of each occurrence of a name.
fn replace(bytes: &mut Vec<u8>, name: &str, value: &str) {
    let mut from = 0;
    while let Some(place) = bytes[from..].windows(name.len()).position(|window| window == name.as_bytes()) {
        let place = from + place;
        bytes.splice(place..place + name.len(), value.bytes());
        from = place + value.len();
    }
}
