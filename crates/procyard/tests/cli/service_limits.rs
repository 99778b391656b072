//! How many sessions a service has open.
//!
//! Not for processes: those are limited in each session.

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use procyard_api::http::{CreateSession, ProcessQuery};
use procyard_client::{Client, ClientError};

use crate::running::Running;
use crate::scene::Scene;
use crate::served::{Service, block};

fn with_sessions(scene: &Scene, most: usize) -> Service {
    let path = scene.path().join("procyard.toml");
    std::fs::write(&path, format!("[server]\nmax_sessions = {most}\n")).unwrap();
    Service::start(scene, &["--config", path.to_str().unwrap()])
}

fn is_told_to_come_later<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> bool {
    match answer {
        Ok(_) => false,
        Err(ClientError::Refused { status: 429, retry_after: Some(_), .. }) => true,
        Err(other) => panic!("{other:?}"),
    }
}

fn look(client: &Client) -> Result<(), ClientError> {
    block(client.processes(&ProcessQuery::default())).map(drop)
}

#[test]
fn as_many_sessions_are_open_as_are_configured_and_not_one_more() {
    let scene = Scene::new();
    let mut service = with_sessions(&scene, 3);
    let admin = service.admin();
    let wish = CreateSession::default();
    let opened = block(join_all((0..12).map(|_| admin.create_session(&wish))));
    let (opened, refused): (Vec<_>, Vec<_>) = opened.into_iter().partition(Result::is_ok);
    assert_eq!(opened.len(), 3, "however many ask at once");
    assert!(refused.into_iter().all(is_told_to_come_later));
    let opened: Vec<_> = opened.into_iter().map(Result::unwrap).collect();
    block(admin.close_session(opened[0].session_id)).unwrap();
    let another = block(admin.create_session(&wish)).unwrap();
    assert!(is_told_to_come_later(block(admin.create_session(&wish))));
    service.running.signal(Signal::SIGTERM);
    assert_eq!(service.running.end().code(), Some(0));

    // Fewer than were open: those that find no place wait for one.
    let service = with_sessions(&scene, 2);
    let admin = service.admin();
    let kept = [&opened[1], &opened[2], &another].map(|of| (of.session_id, admin.with_token(&of.token)));
    let (open, waiting): (Vec<_>, Vec<_>) = kept.into_iter().partition(|(_, client)| look(client).is_ok());
    assert_eq!((open.len(), waiting.len()), (2, 1));
    assert!(is_told_to_come_later(look(&waiting[0].1)));
    block(admin.close_session(open[0].0)).unwrap();
    look(&waiting[0].1).unwrap();
}

#[test]
fn a_wait_keeps_its_time_also_where_nobody_answers() {
    let scene = Scene::new();
    let socket = scene.path().join("mute");
    // It is connected to, and that is all.
    let _mute = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let handle = procyard_core::Handle::from_bytes([7; 16]).reveal();
    let mut wait = scene.procyard(["wait", "--timeout", "1", "--socket"]);
    let ended = Running::spawn(wait.arg(&socket).arg(handle.as_str())).wait();
    assert_eq!(ended.code(), 124, "{ended:?}");
    assert!(ended.stderr().contains("did not answer in time"), "{ended:?}");
}
