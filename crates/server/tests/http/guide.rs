//! The guide to the service, run.

use std::process::Stdio;

use crate::client::{At, PATIENCE};
use crate::scene::Scene;

const GUIDE: &str = include_str!("../../../../docs/service.md");

/// Everything between `sh` fences.
fn commands() -> String {
    let blocks = GUIDE.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.collect()
}

#[test]
fn the_guide_has_every_route() {
    for (_, path, _) in crate::document::operations() {
        let spoken = path
            .replace("{session_id}", "$SESSION")
            .replace("/{loop_id}", "/$")
            .replace("{process_id}", "$PROCESS")
            .replace("{notification_id}", "$NOTICE");
        let typed = spoken.replace("$PROCESS", "$TYPING");
        assert!(commands().contains(&spoken) || commands().contains(&typed), "{spoken}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_guide_works() {
    let scene = Scene::begin().await;
    let (At::Socket(socket), At::Tcp(address)) = (&scene.socket, &scene.tcp) else { panic!("both") };
    let script = format!("set -euo pipefail\n{}", commands());
    let mut shell = tokio::process::Command::new("bash");
    shell.args(["-c", &script]).stdin(Stdio::null()).kill_on_drop(true);
    shell.env("SOCKET", socket).env("URL", format!("http://{address}")).env("DATA", scene.data_dir());
    #[expect(clippy::disallowed_methods, reason = "the guide is for a shell")]
    let run = tokio::time::timeout(3 * PATIENCE, shell.output()).await.expect("the guide ends").unwrap();
    let said = format!("{}\n{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    if said.contains("command not found") {
        eprintln!("curl or jq is missing: the guide is not run");
        return;
    }
    assert!(run.status.success(), "{said}");
    scene.end().await;
}
