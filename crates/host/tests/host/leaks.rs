//! What many starts leave behind: nothing.

use std::process::Command;

use libtest_mimic::Trial;
use procyard_runner::{StdinMode, Tier, TreeProof};

use crate::scene::{Recorded, Scene, block_on, eventually, on_each_tier, runner, start, tier_named, within};

const STARTS: usize = 200;

pub(crate) fn trials() -> Vec<Trial> {
    on_each_tier("many_starts_leave_no_descriptor_and_no_zombie", many_starts)
}

/// In a process of its own, where nobody else opens descriptors.
#[expect(clippy::disallowed_methods, reason = "this program again, alone")]
async fn many_starts(tier: Tier) {
    let status =
        Command::new(std::env::current_exe().unwrap()).args(["as-starter", tier.as_str()]).status().unwrap();
    assert!(status.success());
}

fn descriptors(pid: &str) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// The children of all threads of a process.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    let lists = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| {
        // A thread of a runtime may end meanwhile; its children then are another's.
        std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default()
    });
    lists.collect::<String>().split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

pub(crate) fn be_starter(tier: &str) {
    let tier = tier_named(tier);
    block_on(async {
        let runner = runner(&tier).await;
        let own = Recorded::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        let [guardian] = children(own.pid)[..] else { panic!("one child: the guardian") };
        let scene = Scene::new();
        let mut before = (0, 0);
        for number in 0..STARTS {
            let line = if number % 2 == 0 { "(sleep 1000 &)" } else { "exit 1" };
            let mut wanted = scene.request(line);
            wanted.stdin = StdinMode::Open;
            let mut process = start(&runner, wanted).await.unwrap();
            match number % 4 {
                0 | 1 => {
                    within(process.wait()).await;
                    assert_eq!(within(process.close()).await, TreeProof::Empty);
                }
                2 => drop(process.take_stdout()),
                _ => {}
            }
            drop(process);
            if number == 3 {
                eventually("shims end", || children(guardian).is_empty().then_some(()));
                before = (descriptors("self"), descriptors(&guardian.to_string()));
            }
        }
        eventually("shims end and are reaped", || children(guardian).is_empty().then_some(()));
        // Aborted tasks give their sockets back when they are next looked at.
        within(async {
            while descriptors("self") > before.0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(descriptors(&guardian.to_string()), before.1);
        runner.shutdown().await;
        assert!(children(own.pid).is_empty(), "the guardian is reaped");
    });
}
