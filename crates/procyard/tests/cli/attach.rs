//! A person at a terminal: `procyard attach` and `procyard run` in a window of tmux.

use procyard_api::BashArguments;
use procyard_core::{Handle, State};

use crate::scene::{Scene, eventually};
use crate::served::{Service, block, start_as};
use crate::tmux::{Window, is_missing};

fn on_a_terminal(line: &str) -> BashArguments {
    BashArguments { command: Some(line.to_owned()), tty: true, ..BashArguments::default() }
}

/// Attaches, and says afterwards whether the terminal is as it was.
fn attaching(handle: &Handle) -> String {
    let handle = handle.reveal();
    format!(
        "a=$(stty -g); \"$PROCYARD\" attach {handle}; e=$?; [ \"$a\" = \"$(stty -g)\" ] && echo [as before]; (exit $e)"
    )
}

#[test]
fn an_editor_is_drawn_resized_left_and_found_again() {
    if is_missing() {
        return;
    }
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let handle = start_as(&client, on_a_terminal("eval \"$RECORD\"; exec vi -u NONE note.txt"));
    scene.wait_for_records(1);
    {
        let window = Window::open(&scene, &attaching(&handle));
        window.wait_for("~");
        window.keys(&["i", "a line of mine"]);
        window.wait_for("a line of mine");
        window.resize(30, 100);
        eventually("the editor has the size of the window", || {
            let process = block(client.process(&handle)).unwrap();
            // The window's own status line takes a row.
            (process.cols == Some(100) && process.rows >= Some(29)).then_some(())
        });
        window.keys(&["C-p", "C-q"]);
        window.wait_for("[left 0]");
        window.wait_for("[as before]");
    }
    assert_eq!(block(client.process(&handle)).unwrap().state, State::Running);
    let scene_again = &scene;
    let window = Window::open(scene_again, &attaching(&handle));
    window.wait_for("a line of mine");
    window.keys(&["Escape", ":wq", "Enter"]);
    window.wait_for("[left 0]");
    window.wait_for("[as before]");
    assert_eq!(std::fs::read_to_string(scene.path().join("note.txt")).unwrap(), "a line of mine\n");
    scene.assert_no_survivor();
}

#[test]
fn a_terminal_is_restored_when_the_process_or_the_service_is_killed() {
    if is_missing() {
        return;
    }
    let scene = Scene::new();
    let mut service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let handle =
        start_as(&client, on_a_terminal("eval \"$RECORD\"; stty raw -echo; echo begun; exec sleep 1000"));
    scene.wait_for_records(1);
    let window = Window::open(&scene, &attaching(&handle));
    window.wait_for("attached");
    service.running.signal(nix::sys::signal::Signal::SIGKILL);
    service.running.end();
    window.wait_for("[as before]");
    window.wait_for("[left 125]");
    scene.assert_the_lifeline_holds();
}

#[test]
fn interrupting_a_run_once_twice_and_three_times_is_stronger_each_time() {
    if is_missing() {
        return;
    }
    for (line, times, code) in [
        ("trap 'echo asked; exit 5' INT; echo ready; while :; do sleep 0.1; done", 1, 5),
        (
            "trap 'echo asked' INT; trap 'echo told; exit 6' TERM; echo ready; while :; do sleep 0.1; done",
            2,
            6,
        ),
        ("trap 'echo asked' INT; trap 'echo told' TERM; echo ready; while :; do sleep 0.1; done", 3, 137),
    ] {
        let scene = Scene::new();
        let recorded = format!("eval \"$RECORD\"; {line}");
        std::fs::write(scene.path().join("line"), recorded).unwrap();
        let window = Window::open(
            &scene,
            "\"$PROCYARD\" run --set processes.graceful_shutdown_ms=60000 \"$(cat line)\"",
        );
        window.wait_for("ready");
        for (time, answer) in (1..=times).zip(["asked", "told", ""]) {
            window.keys(&["C-c"]);
            if time < times {
                window.wait_for(answer);
            }
        }
        window.wait_for(&format!("[left {code}]"));
        scene.assert_no_survivor();
    }
}
