//! How a service ends, and what the next one finds.

use nix::sys::signal::Signal;
use procyard_api::http::ProcessQuery;
use procyard_core::State;

use crate::recorded::ESCAPE;
use crate::running::{Running, read_until};
use crate::scene::{Scene, eventually};
use crate::served::{Service, block, start, verb};

#[test]
fn a_service_that_is_terminated_ends_what_runs_and_the_next_one_has_the_records() {
    let scene = Scene::new();
    let mut service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let done = start(&client, "echo kept; exit 3");
    assert_eq!(verb(&scene, "wait", &done, &[]).code(), 3);
    let running = start(&client, &format!("{ESCAPE}; eval \"$RECORD\"; echo begun; exec sleep 1000"));
    scene.wait_for_records(2);
    service.running.signal(Signal::SIGTERM);
    assert_eq!(service.running.end().code(), Some(0));
    scene.assert_no_survivor();
    assert!(!scene.data_dir().join("procyard.sock").exists());

    let service = Service::start(&scene, &[]);
    // The sessions that were open are, and so is the token that was minted then.
    assert_eq!(block(service.admin().sessions()).unwrap().sessions.len(), 1);
    assert_eq!(block(client.process(&done)).unwrap().entry.exit_code, Some(3));
    assert_eq!(verb(&scene, "logs", &done, &[]).stdout(), "kept\n");
    assert_eq!(block(client.process(&running)).unwrap().state, State::Terminated);
}

#[test]
fn a_service_whose_disk_takes_no_records_says_how_many_are_lost_and_does_not_exit_as_if_all_were_well() {
    for json in [false, true] {
        let scene = Scene::new();
        let mut command = scene.procyard_heeding_signals(["serve"]);
        command.env("PROCYARD_LOG", "off");
        let service = Service::of(&scene, if json { command.arg("--json") } else { &mut command });
        let (created, client) = service.session();
        let lost = [(); 2].map(|()| start(&client, "eval \"$RECORD\"; exec sleep 1000"));
        start(&client, "eval \"$RECORD\"; exec sleep 1000");
        scene.wait_for_records(3);
        let session = scene.data_dir().join("sessions").join(created.session_id.to_string());
        for handle in &lost {
            // No file can take the place of a directory, whoever saves it.
            let record = session.join(format!("{}.manifest.json", handle.reveal()));
            std::fs::remove_file(&record).unwrap();
            std::fs::create_dir(&record).unwrap();
        }
        let (code, said) = service.terminate();
        assert_eq!((code, said.lines().count()), (Some(125), 1), "{said}");
        assert!(said.contains("the records of 2 commands could not be saved"), "{said}");
        if json {
            let said: serde_json::Value = serde_json::from_str(&said).unwrap();
            assert_eq!(said["error"]["code"], "storage_unavailable", "{said}");
        }
        scene.assert_no_survivor();
    }
}

#[test]
fn a_service_that_is_killed_leaves_nobody_and_the_next_one_says_what_was_lost() {
    let scene = Scene::new();
    let mut service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let done = start(&client, "echo kept");
    assert_eq!(verb(&scene, "wait", &done, &[]).code(), 0);
    let running = start(&client, &format!("{ESCAPE}; eval \"$RECORD\"; echo begun; exec sleep 1000"));
    scene.wait_for_records(2);
    service.running.signal(Signal::SIGKILL);
    service.running.end();
    scene.assert_the_lifeline_holds();
    assert!(scene.data_dir().join("procyard.sock").exists(), "nobody was left to remove it");

    let service = Service::start(&scene, &[]);
    assert_eq!(verb(&scene, "logs", &done, &[]).stdout(), "kept\n");
    assert_eq!(block(client.process(&running)).unwrap().state, State::LostOnRestore);
    let waited = verb(&scene, "wait", &running, &[]);
    assert!(waited.code() == 125 && waited.stderr().contains("lost on restore"), "{waited:?}");
    let recovery = block(service.admin().recovery()).unwrap();
    assert_eq!((recovery.sessions[0].lost, recovery.anomalies), (1, 0));
}

#[test]
fn a_session_that_does_not_open_again_is_told_and_so_is_why() {
    let scene = Scene::new();
    let mut service = Service::start(&scene, &[]);
    let sessions = [(); 3].map(|()| service.session());
    for (_, client) in &sessions {
        assert_eq!(verb(&scene, "wait", &start(client, "echo kept"), &[]).code(), 0);
    }
    service.running.signal(Signal::SIGTERM);
    assert_eq!(service.running.end().code(), Some(0));
    let place = |at: usize| scene.data_dir().join("sessions").join(sessions[at].0.session_id.to_string());
    std::fs::write(place(0).join("anchor.json"), "").unwrap();
    std::fs::write(place(1).join("journal.sqlite3"), "no database at all").unwrap();

    let quiet = |command: &mut std::process::Command| Service::of(&scene, command.env("PROCYARD_LOG", "off"));
    let service = quiet(&mut scene.procyard_heeding_signals(["serve"]));
    let recovery = block(service.admin().recovery()).unwrap();
    assert_eq!((recovery.sessions.len(), recovery.unopened.len(), recovery.anomalies), (1, 2, 2));
    for (at, word) in [(0, "anchor"), (1, "journal")] {
        let told = recovery.unopened.iter().find(|of| of.session_id == sessions[at].0.session_id).unwrap();
        assert!(told.problem.contains(word), "{told:?}");
        let refused = block(sessions[at].1.processes(&ProcessQuery::default())).unwrap_err();
        let refused = refused.refusal().unwrap().clone();
        assert!(!refused.retryable && refused.message.contains(word), "{refused:?}");
        assert!(!format!("{refused:?}{told:?}").contains(scene.path().to_str().unwrap()), "no path is told");
    }
    // Whoever gives one up ends it, and it is no anomaly any more.
    block(service.admin().close_session(sessions[0].0.session_id)).unwrap();
    assert_eq!(block(service.admin().recovery()).unwrap().anomalies, 1);
}

#[test]
fn whoever_follows_is_told_whether_the_service_was_stopped_or_died() {
    for (signal, word) in [(Signal::SIGTERM, "the service was stopped"), (Signal::SIGKILL, "gave no reason")]
    {
        let scene = Scene::new();
        let mut service = Service::start(&scene, &[]);
        let (_, client) = service.session();
        let handle = start(&client, "eval \"$RECORD\"; echo begun; exec sleep 1000");
        scene.wait_for_records(1);
        let mut logs = scene.procyard(["logs", "-f"]);
        let mut logs = Running::spawn(logs.arg(handle.reveal()));
        let mut events = scene.procyard(["events", "-f", "--json"]);
        let mut events = Running::spawn(events.arg(handle.reveal()));
        let printed = read_until(logs.take_stdout(), "begun\n");
        let told = read_until(events.take_stdout(), "}\n");
        service.running.signal(signal);
        service.running.end();
        let (logs, events) = (logs.wait(), events.wait());
        drop((printed, told));
        let said = logs.stderr();
        assert_eq!((logs.code(), said.lines().count()), (125, 1), "{signal}: {said}");
        assert!(said.contains("the output breaks off here") && said.contains(word), "{signal}: {said}");
        let said = events.stderr();
        let code = if signal == Signal::SIGTERM { "supervisor_shutting_down" } else { "internal" };
        assert_eq!(events.code(), 125, "{signal}: {said}");
        assert!(said.contains(word) && said.contains(code) && said.contains("--after 1"), "{signal}: {said}");
        scene.assert_the_lifeline_holds();
    }
}

#[test]
fn a_session_that_was_closed_stays_closed() {
    let scene = Scene::new();
    let mut service = Service::start(&scene, &[]);
    let (created, client) = service.session();
    let handle = start(&client, "eval \"$RECORD\"; exec sleep 1000");
    scene.wait_for_records(1);
    block(service.admin().close_session(created.session_id)).unwrap();
    scene.assert_no_survivor();
    assert!(block(client.process(&handle)).is_err(), "its tokens are revoked");
    service.running.signal(Signal::SIGTERM);
    assert_eq!(service.running.end().code(), Some(0));
    let service = Service::start(&scene, &[]);
    assert!(block(service.admin().sessions()).unwrap().sessions.is_empty());
}

#[test]
fn a_file_in_the_place_of_the_socket_is_left_alone() {
    let scene = Scene::new();
    let path = scene.path().join("taken");
    std::fs::write(&path, "mine").unwrap();
    let mut command = scene.procyard(["serve", "--socket"]);
    let refused = Running::spawn(command.arg(&path)).wait();
    assert_eq!(refused.code(), 125);
    assert!(refused.stderr().contains("--socket"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn a_service_that_is_terminated_lets_a_session_end_in_order_that_is_being_ended() {
    let scene = Scene::new();
    let mut service = Service::start(&scene, &["--set", "processes.graceful_shutdown_ms=60000"]);
    let (created, client) = service.session();
    // It takes longer than connections get to leave.
    let line = "trap 'echo > asked; sleep 8; echo > done; exit 0' TERM; eval \"$RECORD\"; while :; do sleep 0.05; done";
    start(&client, line);
    scene.wait_for_records(1);
    let admin = service.admin();
    // Nobody is left to answer it in the end.
    let ending = std::thread::spawn(move || block(admin.close_session(created.session_id)).is_ok());
    eventually("it is asked to end", || scene.path().join("asked").exists().then_some(()));
    service.running.signal(Signal::SIGTERM);
    assert_eq!(service.running.end().code(), Some(0));
    scene.assert_no_survivor();
    assert!(scene.path().join("done").exists(), "it has ended as it wanted to");
    let _ = ending.join();
}
