//! What the service has room for, and under which names it is found.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use procyard_api::http::CreateSession;
use procyard_core::{Limits, SessionId};
use procyard_manifest::{AnchorSettings, Ceilings, SessionRoot};
use tokio::task::JoinSet;

use crate::running::{Running, within};
use crate::scene::Scene;
use crate::served::{Service, block, start, verb};

/// The soft and the hard limit of open descriptors of a process, as proc(5) tells them.
fn descriptors(pid: i32) -> (String, String) {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let mut values = line.split_ascii_whitespace().map(str::to_owned);
    (values.next().unwrap(), values.next().unwrap())
}

#[test]
fn the_service_takes_the_descriptors_that_it_may_and_commands_have_those_that_it_was_started_with() {
    let scene = Scene::new();
    let mut command = scene.command("env");
    command.args(["--default-signal", "sh", "-c", "ulimit -Sn 321; exec \"$PROCYARD\" serve"]);
    let service = Service::of(&scene, &mut command);
    let (soft, hard) = descriptors(service.running.pid());
    assert_eq!(soft, hard, "it has raised its own");
    let (_, client) = service.session();
    let handle = start(&client, "ulimit -Sn; ulimit -Hn");
    assert_eq!(verb(&scene, "wait", &handle, &[]).code(), 0);
    assert_eq!(verb(&scene, "logs", &handle, &[]).stdout(), format!("321\n{hard}\n"));
}

/// The status of opening MCP over HTTP under a name.
#[track_caller]
fn opened_as(address: &str, token: &str, host: &str, origin: Option<&str>) -> String {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",
        "capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
    let origin = origin.map(|origin| format!("origin: {origin}\r\n")).unwrap_or_default();
    let request = format!(
        "POST /v1/mcp HTTP/1.1\r\nhost: {host}\r\n{origin}authorization: Bearer {token}\r\n\
         content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    within(move || {
        let mut status = [0; "HTTP/1.1 200".len()];
        stream.read_exact(&mut status).unwrap();
        String::from_utf8(status[status.len() - 3..].to_vec()).unwrap()
    })
}

#[test]
fn mcp_over_http_is_found_under_the_address_that_is_listened_on_and_the_names_that_are_configured() {
    let scene = Scene::new();
    let refused =
        Running::spawn(&mut scene.procyard(["serve", "--set", "server.origins=app.example"])).wait();
    assert!(refused.code() == 125 && refused.stderr().contains("https://name:port"), "{refused:?}");
    // No address that MCP over HTTP knows by itself.
    let arguments = [
        "--listen",
        "127.0.0.2:0",
        "--set",
        "server.hosts=yard.example",
        "--set",
        "server.origins=https://app.example",
    ];
    let service = Service::start(&scene, &arguments);
    let address = service.ready.rsplit("http://").next().unwrap().to_owned();
    let (created, _) = service.session();
    let opened = |host: &str, origin| opened_as(&address, &created.token, host, origin);
    for host in [&*address, "yard.example", "yard.example:1234", "localhost"] {
        assert_eq!(opened(host, None), "200", "{host}");
    }
    for host in ["127.0.0.2:1", "evil.example"] {
        assert_eq!(opened(host, None), "403", "{host}");
    }
    assert_eq!(opened(&address, Some("https://app.example")), "200");
    assert_eq!(opened(&address, Some("https://evil.example")), "403");
}

#[test]
fn sessions_that_somebody_else_holds_keep_no_other_one_waiting() {
    let scene = Scene::new();
    // So long the service waits for those.
    let service = Service::start(&scene, &["--set", "processes.graceful_shutdown_ms=50000"]);
    let limits = Limits::default();
    let held: Vec<_> = (1..=16)
        .map(|number| {
            let session = SessionId::from_random([number; 16]);
            let anchor = AnchorSettings {
                provider: "procyard".to_owned(),
                ceilings: Ceilings {
                    spool_bytes: limits.spool_bytes,
                    spool_bytes_total: limits.spool_bytes_total,
                },
            };
            let root = SessionRoot::open_or_create(&scene.data_dir(), session, anchor, Duration::ZERO);
            (session, root.unwrap())
        })
        .collect();
    block(async {
        let mut waiting = JoinSet::new();
        for (session, _) in &held {
            let (admin, session_id) = (service.admin(), Some(*session));
            waiting.spawn(async move { admin.create_session(&CreateSession { session_id }).await });
        }
        for _ in 0..3 {
            service.admin().create_session(&CreateSession::default()).await.unwrap();
        }
        assert!(waiting.try_join_next().is_none(), "those are waited for");
        drop(held);
        while let Some(opened) = waiting.join_next().await {
            opened.unwrap().unwrap();
        }
    });
}
