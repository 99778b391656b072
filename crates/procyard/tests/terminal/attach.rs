//! `procyard attach`: what the person sees.

use procyard_api::BashArguments;
use procyard_core::{Handle, State};

use crate::scene::{Scene, eventually};
use crate::served::{Service, block, start_as};
use crate::tmux::Window;

crate::trials! {
    an_editor_is_drawn_resized_left_and_found_again needs "vi";
    an_editor_that_is_found_again_at_the_same_size_is_drawn_whole needs "vi";
    top_is_right_after_each_attach_whatever_its_size needs "top";
    what_a_program_had_printed_is_there_when_somebody_attaches;
    a_process_without_a_terminal_is_refused_and_the_person_s_terminal_is_untouched;
}

pub(crate) fn on_a_terminal(line: &str) -> BashArguments {
    BashArguments { command: Some(line.to_owned()), tty: true, ..BashArguments::default() }
}

/// Attaches, and says afterwards whether the terminal is as it was.
pub(crate) fn attaching(handle: &Handle) -> String {
    let handle = handle.reveal();
    format!(
        "a=$(stty -g); \"$PROCYARD\" attach {handle}; e=$?; [ \"$a\" = \"$(stty -g)\" ] && echo [as before]; (exit $e)"
    )
}

/// Leaves the process, which stays, and waits until the shell has the terminal again as it was.
fn leave(window: &Window<'_>) {
    window.keys(&["C-p", "C-q"]);
    window.wait_for("[left 0]");
    window.wait_for("[as before]");
    assert!(!window.is_on_the_alternate_screen());
}

fn an_editor_is_drawn_resized_left_and_found_again() {
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
        leave(&window);
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

fn an_editor_that_is_found_again_at_the_same_size_is_drawn_whole() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let line = "seq -f 'line %g' 1 100 > note.txt; eval \"$RECORD\"; exec vi -u NONE note.txt";
    let handle = start_as(&client, on_a_terminal(line));
    scene.wait_for_records(1);
    let mut screens = Vec::new();
    for _ in 0..3 {
        let window = Window::open(&scene, &attaching(&handle));
        // The last row of text that fits above the editor's own and the window's line.
        window.wait_for("line 22\n");
        assert!(window.is_on_the_alternate_screen());
        screens.push(window.text().lines().take(22).map(str::to_owned).collect::<Vec<_>>());
        leave(&window);
    }
    assert_eq!(screens[0].first().map(String::as_str), Some("line 1"));
    assert!(screens[1] == screens[0] && screens[2] == screens[0], "{screens:#?}");
    block(client.stop(&procyard_api::StopArguments { process_id: handle, mode: None, grace_ms: None }))
        .unwrap();
    scene.assert_no_survivor();
}

fn top_is_right_after_each_attach_whatever_its_size() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    // It repaints by itself only every hour, so that what is seen was painted for who is there.
    let handle = start_as(&client, on_a_terminal("eval \"$RECORD\"; HOME=$PWD exec top -d 3600"));
    scene.wait_for_records(1);
    for (rows, cols) in [(24, 80), (30, 110), (30, 110), (20, 70)] {
        let window = Window::open_of(&scene, rows, cols, &attaching(&handle));
        eventually("the screen is whole", || {
            let text = window.text();
            let count = |wanted: &str| text.lines().filter(|line| line.contains(wanted)).count();
            let heads = [count("top - "), count("PID USER"), count("Tasks: ")];
            let head = text.lines().position(|line| line.contains("PID USER"));
            let below =
                head.map_or(0, |head| text.lines().skip(head + 1).filter(|line| !line.is_empty()).count());
            (heads == [1, 1, 1] && text.lines().next()?.contains("top - ") && below > 0).then_some(())
        });
        leave(&window);
    }
    block(client.stop(&procyard_api::StopArguments { process_id: handle, mode: None, grace_ms: None }))
        .unwrap();
    scene.assert_no_survivor();
}

fn what_a_program_had_printed_is_there_when_somebody_attaches() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let line = "echo one; printf 'name? '; eval \"$RECORD\"; read name; echo \"hello $name\"";
    let handle = start_as(&client, on_a_terminal(line));
    scene.wait_for_records(1);
    let window = Window::open(&scene, &attaching(&handle));
    window.wait_for("one\nname?");
    window.keys(&["you", "Enter"]);
    let text = window.wait_for("[left 0]");
    assert!(text.contains("one\nname? you\nhello you\n"), "{text}");
    window.wait_for("[as before]");
}

fn a_process_without_a_terminal_is_refused_and_the_person_s_terminal_is_untouched() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let command = BashArguments { stdin: true, ..on_a_terminal("eval \"$RECORD\"; exec cat") };
    let handle = start_as(&client, BashArguments { tty: false, ..command });
    scene.wait_for_records(1);
    let line = format!("printf '\\033[?25l'; {}", attaching(&handle));
    let window = Window::open(&scene, &line);
    let text = window.wait_for("[left 125]");
    let joined: String = text.lines().collect();
    assert!(text.contains("procyard: this process has no terminal"), "{text}");
    assert!(joined.contains(&format!("procyard logs -f {}", handle.reveal())), "{text}");
    assert!(text.contains("[as before]") && !text.contains("attached"), "{text}");
    assert!(window.cursor_is_hidden(), "nothing was written to the terminal but the error");
    block(client.stop(&procyard_api::StopArguments { process_id: handle, mode: None, grace_ms: None }))
        .unwrap();
    scene.assert_no_survivor();
}
