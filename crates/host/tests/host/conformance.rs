//! The host runner keeps every rule of the runner contract, on each tier, with commands that bash runs.

use std::collections::HashSet;
use std::path::PathBuf;

use async_trait::async_trait;
use libtest_mimic::Trial;
use procyard_host::HostRunner;
use procyard_runner::{CommandSpec, ProcessRequest, Runner, Tier};
use procyard_testkit::conformance::{Act, Stage, Subject, cases};

use crate::scene::{Recorded, Scene, TIERS, block_on, request, runner};

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |tier: &Tier, case: procyard_testkit::conformance::Case| {
        Trial::test(format!("{tier}::contract::{}", case.rule()), || {
            block_on(case.check()).map_err(|broken| broken.to_string().into())
        })
    };
    let of_tier = |tier: &Tier| {
        let all = cases(Host { tier: tier.clone() });
        all.into_iter().map(|case| trial(tier, case)).collect::<Vec<_>>()
    };
    TIERS.iter().flat_map(of_tier).collect()
}

struct Host {
    tier: Tier,
}

#[async_trait]
impl Subject for Host {
    async fn stage(&self) -> Box<dyn Stage> {
        Box::new(HostStage { runner: runner(&self.tier).await, scene: Scene::new() })
    }
}

struct HostStage {
    runner: HostRunner,
    scene: Scene,
}

impl Stage for HostStage {
    fn runner(&self) -> &dyn Runner {
        &self.runner
    }

    fn request(&self, act: &Act) -> ProcessRequest {
        let mut wanted = self.scene.request("");
        let mut set = |name: &str, value: String| {
            wanted.environment.changes.insert(name.into(), Some(value.into()));
        };
        let line = match act {
            Act::Exit { stdout, stderr, code } => {
                set("OUT", stdout.clone());
                set("ERR", stderr.clone());
                format!(r#"printf %s "$OUT"; printf %s "$ERR" >&2; exit {code}"#)
            }
            Act::Die(signal) => format!("ulimit -c 0; kill -{signal} $$; sleep 1000"),
            Act::Flood(bytes) => format!("head -c {bytes} /dev/zero | tr '\\0' x"),
            Act::Stay => format!("{READY}; exec sleep 1000"),
            Act::Answer(code) => {
                format!("trap 'exit {code}' TERM; {READY}; while :; do sleep 0.02; done")
            }
            Act::Endure => format!("trap '' TERM INT; {READY}; exec sleep 1000"),
            Act::Accompanied(count) => format!("{}; {READY}; exec sleep 1000", descendants(*count)),
            Act::Leave { descendants: count, code } => format!("{}; exit {code}", descendants(*count)),
            Act::Echo => "exec cat".to_owned(),
            Act::CountLines => {
                "stty -echo 2>&-; echo ready; while read -r line; do echo ${#line}; done; exit 0".to_owned()
            }
            // A trap would do, but bash forgets a signal that comes while its trap runs.
            Act::TellSize => r#"while :; do now=$(stty size); [ "$now" = "$was" ] || echo "size $now"
                                was=$now; sleep 0.02; done"#
                .to_owned(),
            Act::Write(file) => {
                set("FILE", file.to_str().unwrap().to_owned());
                r#": 2>&- >"$FILE""#.to_owned()
            }
            Act::MissingProgram => return request(argv("no-such-program-anywhere".into())),
            Act::NotExecutable => {
                let text = "neither a binary nor a script\n";
                return request(argv(self.scene.file("no-program", text, 0o755)));
            }
            Act::DeletedWorkdir => {
                let deleted = self.scene.directory.path().join("deleted");
                std::fs::create_dir(&deleted).unwrap();
                std::fs::remove_dir(&deleted).unwrap();
                wanted.workdir = deleted;
                "exit 0".to_owned()
            }
        };
        wanted.command = CommandSpec::Shell(line);
        wanted
    }

    fn workspace(&self) -> PathBuf {
        self.scene.directory.path().to_owned()
    }

    fn living(&self) -> usize {
        // As processes, not as lines: one that died within the tick of the clock in which another took its namespace's
        // place recorded itself as that one did.
        let alive = self.scene.recorded().into_iter().filter(Recorded::is_alive);
        alive.collect::<HashSet<_>>().len()
    }
}

const READY: &str = r#"eval "$RECORD"; echo ready"#;

/// Shell text that makes them, each in a session of its own, and goes on when all have recorded themselves.
fn descendants(count: u32) -> String {
    format!(
        r#"born=$(mktemp -d "$PIDS.XXXXXX"); export born
           for i in $(seq {count}); do (setsid bash -c 'eval "$RECORD"; : >"$born/$0"; exec sleep 1000' $i &); done
           until [ "$(ls "$born" | wc -l)" = {count} ]; do sleep 0.01; done"#
    )
}

fn argv(program: PathBuf) -> CommandSpec {
    CommandSpec::Argv(vec![program.to_str().unwrap().to_owned()])
}
