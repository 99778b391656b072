//! Interrupt, terminate, kill, and what is said of the tree meanwhile.

use std::net::TcpListener;

use libtest_mimic::Trial;
use procyard_core::{LeaderEnd, SIGINT, SIGKILL, SIGTERM, WaitStatus};
use procyard_runner::{Signal, Tier, TreeProof};
use tokio::io::AsyncReadExt;

use crate::scene::{Scene, assert_emptied, eventually, on_each_tier, runner, start, within};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    trials.extend(on_each_tier("an_interrupt_reaches_the_leaders_group_and_nothing_else", interrupt));
    trials.extend(on_each_tier("terminate_reaches_every_descendant_also_stopped_ones", terminate));
    trials.extend(on_each_tier("a_kill_proves_the_tree_empty_after_the_leader_has_exited", kill_after_exit));
    trials.extend(on_each_tier("signals_to_what_has_ended_say_so", after_the_end));
    trials.extend(on_each_tier("a_signal_at_the_moment_of_the_end_says_so", at_the_end));
    trials.extend(on_each_tier("a_dropped_process_takes_its_tree_along", dropped));
    trials.extend(on_each_tier("a_shutdown_ends_every_tree_and_the_next_start_works", shutdown));
    trials.extend(on_each_tier("a_port_is_free_when_the_tree_is_proven_empty", port));
    trials.extend(on_each_tier("a_command_that_signals_its_group_reaches_only_itself", kill_zero));
    trials
}

async fn interrupt(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let line = r#"setsid bash -c "$STAY" & bash -c "$STAY" & eval "$RECORD"; sleep 1000"#;
    let process = start(&runner, scene.request(line)).await.unwrap();
    scene.wait_for_records(3);
    let delivery = within(process.signal(Signal::Interrupt)).await.unwrap();
    assert!(delivery.leader_alive);
    assert!((2..=3).contains(&delivery.processes), "leader, sleep, background job: {delivery:?}");
    assert_eq!(within(process.wait()).await.status.unwrap().end(), LeaderEnd::Signal(SIGINT));
    assert!(matches!(within(process.tree()).await, TreeProof::Survivors(1 | 2)), "own sessions go on");
    let again = within(process.signal(Signal::Interrupt)).await.unwrap();
    assert_eq!((again.leader_alive, again.processes), (false, 0), "the group's leader is reaped");
    assert_eq!(within(process.close()).await, TreeProof::Empty);
    scene.assert_no_survivor();
}

async fn terminate(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let line = r#"setsid bash -c "$STAY" & (bash -c 'eval "$RECORD"; kill -STOP $$; exec sleep 1000' &)
                  bash -c "$STAY" & eval "$RECORD"; sleep 1000"#;
    let process = start(&runner, scene.request(line)).await.unwrap();
    scene.wait_for_records(4);
    let delivery = within(process.signal(Signal::Terminate)).await.unwrap();
    assert!(delivery.leader_alive);
    assert!(delivery.processes >= 4, "{delivery:?}");
    assert_eq!(within(process.wait()).await.status.unwrap().end(), LeaderEnd::Signal(SIGTERM));
    assert_emptied(&*process).await;
    scene.assert_no_survivor();
}

async fn kill_after_exit(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let line = r#"(trap '' TERM; setsid bash -c "$STAY" &) ; (bash -c "$STAY" &) ; exit 4"#;
    let mut process = start(&runner, scene.request(line)).await.unwrap();
    assert_eq!(within(process.wait()).await.status, Some(WaitStatus::exited(4)));
    scene.wait_for_records(2);
    assert_eq!(within(process.tree()).await, TreeProof::Survivors(2));
    let delivery = within(process.signal(Signal::Kill)).await.unwrap();
    assert_eq!((delivery.leader_alive, delivery.processes), (false, 2));
    assert_emptied(&*process).await;
    scene.assert_no_survivor();
    let mut stdout = process.take_stdout().unwrap();
    assert_eq!(within(stdout.read(&mut [0; 8])).await.unwrap(), 0, "nobody holds the output any more");
}

async fn after_the_end(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let process = start(&runner, scene.request("exit 0")).await.unwrap();
    within(process.wait()).await;
    for signal in [Signal::Interrupt, Signal::Terminate, Signal::Kill] {
        let delivery = within(process.signal(signal)).await.unwrap();
        assert_eq!((delivery.leader_alive, delivery.processes), (false, 0));
    }
    assert_emptied(&*process).await;
}

/// The shim is gone and its last word not yet taken in: nothing here gives way to the task that does.
async fn at_the_end(tier: Tier) {
    let runner = runner(&tier).await;
    for signal in [None, Some(Signal::Interrupt), Some(Signal::Terminate), Some(Signal::Kill)] {
        let scene = Scene::new();
        let line = r#"eval "$RECORD"; until [ -e "$PIDS.go" ]; do sleep 0.01; done"#;
        let process = start(&runner, scene.request(line)).await.unwrap();
        let shim = scene.wait_for_records(1)[0].parent_now();
        std::fs::write(scene.pids().with_extension("go"), "").unwrap();
        eventually("the shim ends", || (!shim.is_alive()).then_some(()));
        match signal {
            Some(signal) => {
                let delivery = within(process.signal(signal)).await.unwrap();
                assert_eq!((delivery.leader_alive, delivery.processes), (false, 0), "{signal:?}");
            }
            None => assert_eq!(within(process.tree()).await, TreeProof::Empty),
        }
    }
}

async fn dropped(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let line = r#"trap '' TERM HUP INT; (setsid bash -c "$STAY" &) ; eval "$STAY""#;
    let process = start(&runner, scene.request(line)).await.unwrap();
    let recorded = scene.wait_for_records(2);
    drop(process);
    eventually("the tree is gone", || recorded.iter().all(|process| !process.is_alive()).then_some(()));
}

async fn shutdown(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let line = r#"trap '' TERM HUP INT; (setsid bash -c "$STAY" &) ; eval "$STAY""#;
    let process = start(&runner, scene.request(line)).await.unwrap();
    scene.wait_for_records(2);
    within(runner.shutdown()).await;
    scene.assert_no_survivor();
    assert_emptied(&*process).await;
    assert_eq!(within(process.wait()).await.status.unwrap().end(), LeaderEnd::Signal(SIGKILL));
    let process = start(&runner, scene.request("exit 6")).await.unwrap();
    assert_eq!(within(process.wait()).await.status, Some(WaitStatus::exited(6)));
}

async fn kill_zero(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let process = start(&runner, scene.request("kill -KILL 0")).await.unwrap();
    assert_eq!(within(process.wait()).await.status.unwrap().end(), LeaderEnd::Signal(SIGKILL));
    assert_emptied(&*process).await;
    let next = start(&runner, scene.request("exit 7")).await.unwrap();
    assert_eq!(within(next.wait()).await.status, Some(WaitStatus::exited(7)), "guardian and test live");
}

async fn port(tier: Tier) {
    let runner = runner(&tier).await;
    let scene = Scene::new();
    let line = r#"(setsid bash -c 'eval "$RECORD"; exec "$THIS" as-listener' &); eval "$STAY""#;
    let process = start(&runner, scene.request(line)).await.unwrap();
    scene.wait_for_records(2);
    let port: u16 = eventually("the grandchild listens", || {
        std::fs::read_to_string(scene.pids().with_extension("port")).ok()?.strip_suffix('\n')?.parse().ok()
    });
    assert!(TcpListener::bind(("127.0.0.1", port)).is_err(), "the port is taken");
    within(process.signal(Signal::Kill)).await.unwrap();
    assert_emptied(&*process).await;
    TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
}

/// Listens on some port, says on which, and stays.
pub(crate) fn be_listener() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let told = format!("{}.port", std::env::var("PIDS").unwrap());
    std::fs::write(told, format!("{}\n", listener.local_addr().unwrap().port())).unwrap();
    listener.accept().unwrap();
}
