//! `procyard run` with a person who types ^C.

use crate::scene::Scene;
use crate::tmux::Window;

crate::trials! {
    interrupting_a_run_once_twice_and_three_times_is_stronger_each_time;
    with_a_terminal_of_its_own_each_interrupt_is_typed_to_the_command;
}

fn interrupting_a_run_once_twice_and_three_times_is_stronger_each_time() {
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

fn with_a_terminal_of_its_own_each_interrupt_is_typed_to_the_command() {
    let scene = Scene::new();
    let line = "eval \"$RECORD\"; n=0; trap 'n=$((n+1)); echo interrupt $n; [ $n -lt 4 ] || exit 7' INT; echo ready; while :; do sleep 0.1; done";
    std::fs::write(scene.path().join("line"), line).unwrap();
    let window = Window::open(
        &scene,
        "a=$(stty -g); \"$PROCYARD\" run --tty \"$(cat line)\"; e=$?; [ \"$a\" = \"$(stty -g)\" ] && echo [as before]; (exit $e)",
    );
    window.wait_for("ready");
    for time in 1..=4 {
        window.keys(&["C-c"]);
        window.wait_for(&format!("interrupt {time}"));
    }
    window.wait_for("[left 7]");
    window.wait_for("[as before]");
    scene.assert_no_survivor();
}
