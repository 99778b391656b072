//! `procyard ps` in narrow windows.

use procyard_api::BashArguments;

use crate::scene::Scene;
use crate::served::{Service, start_as};
use crate::tmux::Window;

crate::trials! {
    the_list_fits_the_window_and_names_every_process;
    colour_is_for_terminals_that_may_have_it;
}

fn the_list_fits_the_window_and_names_every_process() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let line = format!("eval \"$RECORD\"; echo {}; exec sleep 1000", "日本語 and more ".repeat(10));
    let command = BashArguments { command: Some(line), ..BashArguments::default() };
    let handles = [start_as(&client, command.clone()), start_as(&client, command)];
    scene.wait_for_records(2);
    for cols in [40, 60, 80, 120] {
        let window = Window::open_of(&scene, 24, cols, "\"$PROCYARD\" ps");
        let text = window.wait_for("[left 0]");
        // A line that did not fit would have been continued on the next one.
        let lines: Vec<_> = text.lines().take_while(|line| !line.starts_with("[left")).collect();
        assert_eq!(lines.len(), 3, "{cols}:\n{text}");
        assert!(lines[0].starts_with("PROCESS") && lines[0].contains("STATE"), "{cols}:\n{text}");
        for handle in &handles {
            assert!(
                lines.iter().any(|line| line.starts_with(&format!("{}  running", handle.reveal()))),
                "{text}"
            );
        }
        // Between them it depends on how long ago that was.
        if cols != 60 {
            assert_eq!(lines[0].contains("STARTED"), cols >= 80, "{cols}:\n{text}");
        }
    }
    for handle in handles {
        let stop = procyard_api::StopArguments { process_id: handle, mode: None, grace_ms: None };
        crate::served::block(client.stop(&stop)).unwrap();
    }
    scene.assert_no_survivor();
}

fn colour_is_for_terminals_that_may_have_it() {
    let scene = Scene::new();
    let service = Service::start(&scene, &[]);
    let (_, client) = service.session();
    let line = "eval \"$RECORD\"; exec sleep 1000".to_owned();
    let handle = start_as(&client, BashArguments { command: Some(line), ..BashArguments::default() });
    scene.wait_for_records(1);
    for (variables, coloured) in
        [("", true), ("NO_COLOR=1", false), ("NO_COLOR=", true), ("TERM=dumb", false)]
    {
        let window = Window::open(&scene, &format!("env {variables} \"$PROCYARD\" ps"));
        window.wait_for("[left 0]");
        let text = window.text_with_colours();
        assert_eq!(text.contains("\u{1b}[32mrunning"), coloured, "{variables}: {text:?}");
    }
    let stop = procyard_api::StopArguments { process_id: handle, mode: None, grace_ms: None };
    crate::served::block(client.stop(&stop)).unwrap();
    scene.assert_no_survivor();
}
