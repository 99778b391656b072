//! Who may see what: a table of every route. A route that is added without an entry here fails.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::client::Answer;
use crate::document;
use crate::scene::{Scene, Token, Who};

/// Whom a route serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Serves {
    Everybody,
    /// Any token; what is seen is its own.
    Own,
    /// One process: its owner, and the administrator.
    OneProcess,
    /// Loops, each for itself.
    Loops,
    /// Loops, by the sessions of a protocol.
    Protocol,
    Admin,
}

/// Method, path, body, and whom it serves. `{session}` and so on stand for those of the owner.
#[rustfmt::skip]
fn table() -> Vec<(&'static str, &'static str, Value, Serves)> {
    use Serves::{Admin, Everybody, Loops, OneProcess, Own, Protocol};
    let none = Value::Null;
    vec![
        ("POST", "/v1/sessions", json!({}), Admin),
        ("GET", "/v1/sessions", none.clone(), Admin),
        ("GET", "/v1/sessions/{session_id}", none.clone(), Admin),
        ("POST", "/v1/sessions/{session_id}/loops", json!({}), Admin),
        ("GET", "/v1/processes", none.clone(), Own),
        ("POST", "/v1/processes", json!({"command": "hello"}), Loops),
        ("GET", "/v1/processes/{process_id}", none.clone(), OneProcess),
        ("GET", "/v1/processes/{process_id}/output", none.clone(), OneProcess),
        ("GET", "/v1/processes/{process_id}/logs", none.clone(), OneProcess),
        ("GET", "/v1/processes/{process_id}/events", none.clone(), OneProcess),
        ("GET", "/v1/processes/{process_id}/events/stream", none.clone(), OneProcess),
        ("GET", "/v1/processes/{process_id}/attach", none.clone(), OneProcess),
        ("POST", "/v1/processes/{process_id}/input", json!({"data": "x"}), OneProcess),
        ("POST", "/v1/processes/{process_id}/resize", json!({"rows": 4, "cols": 4}), OneProcess),
        ("POST", "/v1/processes/{process_id}/stop", json!({}), OneProcess),
        ("POST", "/v1/processes/{process_id}/kill", none.clone(), OneProcess),
        ("DELETE", "/v1/processes/{process_id}", none.clone(), OneProcess),
        ("GET", "/v1/events", none.clone(), Own),
        ("GET", "/v1/events/stream", none.clone(), Own),
        ("GET", "/v1/notifications", none.clone(), Loops),
        ("POST", "/v1/notifications/{notification_id}/ack", none.clone(), Loops),
        ("POST", "/v1/mcp", json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}), Protocol),
        ("GET", "/v1/mcp", none.clone(), Protocol),
        ("DELETE", "/v1/mcp", none.clone(), Protocol),
        ("GET", "/v1/mcp/capabilities", none.clone(), Loops),
        ("POST", "/v1/mcp/invoke", json!({"name": "ProcessList"}), Loops),
        ("GET", "/v1/diagnostics/processes", none.clone(), Own),
        ("GET", "/v1/diagnostics/recovery", none.clone(), Admin),
        ("GET", "/v1/diagnostics/containment", none.clone(), Own),
        ("GET", "/metrics", none.clone(), Admin),
        ("GET", "/openapi.json", none.clone(), Own),
        ("GET", "/health", none.clone(), Everybody),
        // Last, since they end what the others look at.
        ("DELETE", "/v1/sessions/{session_id}/loops/{loop_id}", none.clone(), Admin),
        ("DELETE", "/v1/sessions/{session_id}", none, Admin),
    ]
}

#[test]
fn every_route_is_in_the_table() {
    let have: BTreeSet<_> =
        document::operations().into_iter().map(|(method, path, _)| (method, path)).collect();
    let want: BTreeSet<_> =
        table().into_iter().map(|(method, path, _, _)| (method.to_owned(), path.to_owned())).collect();
    assert_eq!(have, want);
}

/// What a route is asked about.
struct Asked<'a> {
    owner: &'a Token,
    process: &'a str,
    notification: &'a str,
}

impl Asked<'_> {
    fn path(&self, template: &str) -> String {
        template
            .replace("{session_id}", &self.owner.owner.session.to_string())
            .replace("{loop_id}", &self.owner.owner.loop_id.to_string())
            .replace("{process_id}", self.process)
            .replace("{notification_id}", self.notification)
    }
}

/// A request whose body is read unless it streams for ever.
async fn ask(scene: &Scene, who: Who<'_>, method: &str, path: &str, body: &Value) -> Answer {
    let body = (!body.is_null()).then(|| body.to_string());
    // What the streamable HTTP transport of the Model Context Protocol wants; to others it is all one.
    let headers = [("accept", "application/json, text/event-stream"), ("content-type", "application/json")];
    let response = scene.open(who, method, path, &headers, body).await;
    let streams = response.headers().get("content-type").is_some_and(|of| of == "text/event-stream");
    if streams {
        let (parts, _) = response.into_parts();
        let body = axum::body::Bytes::new();
        return Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
            whole: true,
            trailers: hyper::HeaderMap::new(),
        };
    }
    let answer = Answer::of(response).await;
    document::check(method, path, &answer);
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_sees_what_is_its_own_and_nothing_else_exists() {
    let scene = Scene::begin().await;
    let owner = scene.session().await;
    let sibling = scene.another_loop(&owner).await;
    let stranger = scene.session().await;
    let process = scene.start(&owner, "wait").await;
    let ended = scene.start(&owner, "hello").await;
    scene.ended(&owner, &ended).await;
    let inbox = scene.get(&owner, "/v1/notifications?wait_ms=15000").await.json();
    let notification = inbox["notifications"][0]["id"].as_str().unwrap().to_owned();
    let theirs = Asked { owner: &owner, process: &process, notification: &notification };
    let nothing = uuid::Uuid::new_v4().to_string();
    let nobodys = Asked { owner: &owner, process: "AAECAwQFBgcICQoLDA0ODw", notification: &nothing };
    for (method, template, body, serves) in table() {
        let path = theirs.path(template);
        let of = format!("{method} {template}");
        let nobody = ask(&scene, Who::Nobody, method, &path, &body).await;
        let forged = ask(&scene, Who::Bearer("pyt_forged"), method, &path, &body).await;
        let public = serves == Serves::Everybody;
        for answer in [&nobody, &forged] {
            assert_eq!(answer.status == 401, !public, "{of}: {}", answer.status);
        }
        if !public {
            assert_eq!(&*nobody.code(), "unauthenticated", "{of}");
        }
        for foreign in [&sibling, &stranger] {
            let answer = ask(&scene, foreign.into(), method, &path, &body).await;
            match serves {
                Serves::Admin => assert_eq!(answer.status, 401, "{of}"),
                Serves::OneProcess => {
                    let missing = ask(&scene, foreign.into(), method, &nobodys.path(template), &body).await;
                    assert_eq!(answer.status, 404, "{of}: {}", answer.text());
                    assert_eq!((answer.status, &answer.body), (missing.status, &missing.body), "{of}");
                    let names = |answer: &Answer| answer.headers.keys().cloned().collect::<Vec<_>>();
                    assert_eq!(names(&answer), names(&missing), "{of}");
                }
                Serves::Loops if template.contains("{notification_id}") => {
                    let missing = ask(&scene, foreign.into(), method, &nobodys.path(template), &body).await;
                    assert_eq!((answer.status, &answer.body), (missing.status, &missing.body), "{of}");
                    assert_eq!(answer.status, 404, "{of}");
                }
                // The token is good, the name of this service is not.
                Serves::Protocol => {
                    assert!(matches!(answer.status, 403), "{of}: {}: {}", answer.status, answer.text());
                }
                Serves::Own | Serves::Loops | Serves::Everybody => {
                    assert!(answer.status < 300, "{of}: {}", answer.text());
                    for secret in [&process, &ended, &notification] {
                        assert!(!answer.text().contains(&**secret), "{of} shows what is not its own");
                    }
                }
            }
        }
        // The administrator is served with its token and on the socket, but where a loop is needed.
        if method == "GET" {
            for admin in [scene.admin(), Who::Peer] {
                let answer = ask(&scene, admin, method, &path, &body).await;
                match serves {
                    Serves::Loops | Serves::Protocol => assert_eq!(answer.status, 401, "{of}"),
                    _ if matches!(template, "/v1/events" | "/v1/events/stream") => {
                        assert_eq!(answer.status, 400, "{of}: which session is to be said");
                        let path = format!("{path}?session_id={}", owner.owner.session);
                        assert_eq!(
                            ask(&scene, scene.admin(), method, &path, &body).await.status,
                            200,
                            "{of}"
                        );
                    }
                    _ if template.ends_with("/attach") => assert_eq!(answer.status, 409, "{of}: no terminal"),
                    _ => assert_eq!(answer.status, 200, "{of}: {}", answer.text()),
                }
            }
        }
    }
    let seen = scene.get(&owner, &format!("/v1/processes/{process}")).await.json();
    assert_eq!(seen["state"], json!("running"), "nothing of all that has touched it");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_on_the_socket_is_what_it_is() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let send = async |authorization: Option<String>| {
        let mut request = hyper::Request::builder().uri("/v1/sessions").header("host", "x");
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        let body = http_body_util::Full::default();
        Answer::of(scene.socket.send(request.body(body).unwrap()).await).await.status
    };
    assert_eq!(send(None).await, 200);
    assert_eq!(send(Some(format!("Bearer {}", scene.admin))).await, 200);
    assert_eq!(send(Some(format!("Bearer {}", token.text))).await, 401);
    assert_eq!(send(Some("Basic abc".to_owned())).await, 401);
    scene.end().await;
}
