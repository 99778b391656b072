//! The person's terminal is as it was, however `procyard` ends.

use nix::sys::signal::Signal;

use crate::attach::{attaching, on_a_terminal};
use crate::recorded::Recorded;
use crate::scene::Scene;
use crate::served::{Service, start_as};
use crate::tmux::Window;

crate::trials! {
    a_terminal_is_restored_when_the_service_is_killed;
    a_terminal_is_restored_when_the_service_is_stopped_and_the_person_is_told;
    a_terminal_is_restored_when_the_attachment_is_told_to_end;
    a_terminal_is_restored_when_a_run_is_told_to_end;
}

/// A program that has taken over the terminal as far as one can.
const GREEDY: &str = "eval \"$RECORD\"; stty raw -echo; printf '\\033[?1049h\\033[?25l\\033[?1000h\\033[?2004hbegun'; exec sleep 1000";

/// As it was: modes, screen, cursor.
fn assert_restored(window: &Window<'_>) {
    window.wait_for("[as before]");
    assert!(!window.is_on_the_alternate_screen() && !window.cursor_is_hidden(), "{}", window.text());
}

fn a_terminal_is_restored_when_the_service_is_killed() {
    let scene = Scene::new();
    let mut service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let handle = start_as(&client, on_a_terminal(GREEDY));
    scene.wait_for_records(1);
    let window = Window::open(&scene, &attaching(&handle));
    window.wait_for("begun");
    service.running.signal(Signal::SIGKILL);
    service.running.end();
    window.wait_for("[left 125]");
    assert_restored(&window);
    let text: String = window.text().lines().collect();
    assert!(text.contains("gave no reason"), "{text}");
    scene.assert_the_lifeline_holds();
}

fn a_terminal_is_restored_when_the_service_is_stopped_and_the_person_is_told() {
    let scene = Scene::new();
    let mut service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let handle = start_as(&client, on_a_terminal(GREEDY));
    scene.wait_for_records(1);
    let window = Window::open(&scene, &attaching(&handle));
    window.wait_for("begun");
    service.running.signal(Signal::SIGTERM);
    assert_eq!(service.running.end().code(), Some(0));
    window.wait_for("[left 125]");
    assert_restored(&window);
    let text: String = window.text().lines().collect();
    assert!(text.contains("the service was stopped"), "{text}");
    scene.assert_no_survivor();
}

fn a_terminal_is_restored_when_the_attachment_is_told_to_end() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
        let scene = Scene::new();
        let service = Service::start(&scene, &[]);
        let (_, client) = service.session();
        let handle = start_as(&client, on_a_terminal(GREEDY));
        let process = scene.wait_for_records(1)[0];
        let line = attaching(&handle).replace(
            "\"$PROCYARD\" attach",
            "env --default-signal bash -c 'eval \"$RECORD\"; exec \"$PROCYARD\" attach \"$0\"'",
        );
        let window = Window::open(&scene, &line);
        window.wait_for("begun");
        other_than(process, &scene).signal(signal);
        window.wait_for("[left 0]");
        assert_restored(&window);
        assert!(process.is_alive(), "it was only left");
        process.signal(Signal::SIGKILL);
    }
}

fn a_terminal_is_restored_when_a_run_is_told_to_end() {
    for (signal, code) in
        [(Signal::SIGTERM, 143), (Signal::SIGHUP, 143), (Signal::SIGQUIT, 143), (Signal::SIGINT, 143)]
    {
        let scene = Scene::new();
        std::fs::write(scene.path().join("line"), GREEDY.replace("\\033[?1049h", "")).unwrap();
        let window = Window::open(
            &scene,
            "a=$(stty -g); env --default-signal bash -c 'eval \"$RECORD\"; exec \"$PROCYARD\" run --tty \"$(cat line)\"'; e=$?; \
             [ \"$a\" = \"$(stty -g)\" ] && echo [as before]; (exit $e)",
        );
        window.wait_for("begun");
        // The first is procyard itself.
        let recorded = scene.wait_for_records(2);
        recorded[0].signal(signal);
        window.wait_for(&format!("[left {code}]"));
        window.wait_for("[as before]");
        scene.assert_no_survivor();
    }
}

/// The other one of two.
fn other_than(one: Recorded, scene: &Scene) -> Recorded {
    let recorded = scene.wait_for_records(2);
    *recorded.iter().find(|recorded| **recorded != one).expect("another one recorded itself")
}
