//! A service with everything around it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::body::Incoming;
use procyard_core::{Handle, Limits, LoopId, Owner, SessionId};
use procyard_server::http::{Listener, ServiceError, ServiceOptions, serve};
use procyard_supervisor::{Target, Until, WaitMode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::{Answer, At, PATIENCE};
use crate::document;
use crate::host::Host;

/// A loop and its token.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) owner: Owner,
    pub(crate) text: String,
}

/// With what a request authenticates itself.
#[derive(Debug, Clone)]
pub(crate) enum Who<'a> {
    /// Over TCP, with nothing.
    Nobody,
    /// Over TCP, with this token.
    Bearer(&'a str),
    /// Over the socket, with nothing.
    Peer,
}

impl<'a> From<&'a Token> for Who<'a> {
    fn from(token: &'a Token) -> Self {
        Who::Bearer(&token.text)
    }
}

pub(crate) struct Scene {
    place: TempDir,
    pub(crate) host: Arc<Host>,
    pub(crate) socket: At,
    pub(crate) tcp: At,
    pub(crate) admin: String,
    pub(crate) stop: CancellationToken,
    serving: Option<JoinHandle<Result<(), ServiceError>>>,
}

impl Scene {
    pub(crate) async fn begin() -> Self {
        Self::with(|options| options, Limits::default()).await
    }

    pub(crate) async fn with(change: impl Fn(ServiceOptions) -> ServiceOptions, limits: Limits) -> Self {
        let place = tempfile::tempdir().unwrap();
        Self::on(place, change, limits).await
    }

    pub(crate) async fn on(
        place: TempDir,
        change: impl Fn(ServiceOptions) -> ServiceOptions,
        limits: Limits,
    ) -> Self {
        let host = Arc::new(Host::new(place.path().join("sessions"), limits));
        let path = place.path().join("procyard.sock");
        let socket = Listener::unix(&path).await.unwrap();
        let tcp = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = tcp.address().unwrap().trim_start_matches("http://").parse().unwrap();
        let options = change(ServiceOptions::in_directory(place.path()));
        let stop = CancellationToken::new();
        let serving = serve(vec![socket, tcp], Arc::clone(&host) as _, options, stop.clone());
        let serving = tokio::spawn(serving);
        let scene = Self {
            socket: At::socket(&path),
            tcp: At::Tcp(address),
            admin: String::new(),
            place,
            host,
            stop,
            serving: Some(serving),
        };
        // Waits until it serves: connections are taken before.
        assert_eq!(scene.get(Who::Nobody, "/health").await.status, 200);
        let admin = std::fs::read_to_string(scene.place.path().join("admin.token")).unwrap();
        Self { admin: admin.trim().to_owned(), ..scene }
    }

    pub(crate) fn data_dir(&self) -> &std::path::Path {
        self.place.path()
    }

    /// Stops the service; its directory stays.
    pub(crate) async fn end(self) -> TempDir {
        let (served, place) = self.served().await;
        served.unwrap();
        place
    }

    /// Stops the service, and says how that went.
    pub(crate) async fn served(mut self) -> (Result<(), ServiceError>, TempDir) {
        self.stop.cancel();
        let serving = self.serving.take().unwrap();
        let served = tokio::time::timeout(PATIENCE, serving).await.expect("the service ends").unwrap();
        (served, self.place)
    }

    pub(crate) fn admin(&self) -> Who<'_> {
        Who::Bearer(&self.admin)
    }

    /// A new session and its first loop.
    pub(crate) async fn session(&self) -> Token {
        let created = self.post(self.admin(), "/v1/sessions", &json!({})).await;
        assert_eq!(created.status, 201, "{}", created.text());
        token(&created.json(), None)
    }

    /// Another loop of the same session.
    pub(crate) async fn another_loop(&self, of: &Token) -> Token {
        let path = format!("/v1/sessions/{}/loops", of.owner.session);
        let created = self.post(self.admin(), &path, &json!({})).await;
        assert_eq!(created.status, 201, "{}", created.text());
        token(&created.json(), Some(of.owner.session))
    }

    pub(crate) async fn get(&self, who: impl Into<Who<'_>>, path: &str) -> Answer {
        self.call(who, "GET", path, &[], None).await
    }

    pub(crate) async fn delete(&self, who: impl Into<Who<'_>>, path: &str) -> Answer {
        self.call(who, "DELETE", path, &[], None).await
    }

    pub(crate) async fn post(&self, who: impl Into<Who<'_>>, path: &str, body: &Value) -> Answer {
        self.call(who, "POST", path, &[], Some(body.to_string())).await
    }

    /// One request, whose answer must be one of those that the document has for it.
    pub(crate) async fn call(
        &self,
        who: impl Into<Who<'_>>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Answer {
        let answer = Answer::of(self.open(who, method, path, headers, body).await).await;
        document::check(method, path, &answer);
        answer
    }

    /// The same, with the body still to come.
    pub(crate) async fn open(
        &self,
        who: impl Into<Who<'_>>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> hyper::Response<Incoming> {
        let mut request = Request::builder().method(method).uri(path).header("host", "procyard");
        let at = match who.into() {
            Who::Nobody => &self.tcp,
            Who::Bearer(token) => {
                request = request.header("authorization", format!("Bearer {token}"));
                &self.tcp
            }
            Who::Peer => &self.socket,
        };
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = Full::new(Bytes::from(body.unwrap_or_default()));
        at.send(request.body(body).unwrap()).await
    }

    /// Starts a command, and gives its handle.
    pub(crate) async fn start(&self, token: &Token, command: &str) -> String {
        self.start_with(token, &json!({ "command": command })).await
    }

    pub(crate) async fn start_with(&self, token: &Token, body: &Value) -> String {
        let started = self.post(token, "/v1/processes", body).await;
        assert_eq!(started.status, 201, "{}", started.text());
        let process = started.json()["process"]["process_id"].as_str().unwrap().to_owned();
        assert_eq!(started.header("location"), Some(&*format!("/v1/processes/{process}")));
        process
    }

    /// Resolves when a process has ended and the journal has its end.
    pub(crate) async fn ended(&self, token: &Token, process: &str) {
        let target = Target { handle: process.parse::<Handle>().unwrap(), cursor: 0, probe: None };
        let supervisor = self.host.supervisor(token.owner.session);
        let waited = supervisor.wait(token.owner, WaitMode::All, Until::Exit, vec![target], PATIENCE).await;
        assert!(waited.unwrap()[0].satisfied);
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let page = self.get(token, &format!("/v1/processes/{process}/events")).await.json();
            let last =
                page["events"].as_array().and_then(|events| events.last().cloned()).unwrap_or_default();
            if last["kind"] == "completed" {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "its end is recorded");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn token(created: &Value, session: Option<SessionId>) -> Token {
    let session =
        session.unwrap_or_else(|| created["session_id"].as_str().unwrap().parse::<SessionId>().unwrap());
    let loop_id = created["loop_id"].as_str().unwrap().parse::<LoopId>().unwrap();
    Token { owner: Owner { session, loop_id }, text: created["token"].as_str().unwrap().to_owned() }
}
