//! The whole gallery at once, under each kind of sudden death: whoever of supervisor, guardian and shims is left ends
//! all of it.

use libtest_mimic::Trial;
use procyard_runner::Tier;

use crate::deaths::{Supervisor, all_gone, kill_at_once};
use crate::gallery::{CONDITIONAL, FORK_STORM, GALLERY, OTHER_CGROUP, a_foreign_cgroup, is_possible};
use crate::leaks::children;
use crate::scene::{Recorded, eventually, on_each_tier, runner};

/// Who is killed, in the same instant.
struct Death {
    name: &'static str,
    supervisor: bool,
    guardian: bool,
    shims: bool,
}

const fn death(name: &'static str, [supervisor, guardian, shims]: [bool; 3]) -> Death {
    Death { name, supervisor, guardian, shims }
}

const DEATHS: [Death; 7] = [
    death("the_gallery_ends_with_its_supervisor", [true, false, false]),
    death("the_gallery_ends_with_its_guardian", [false, true, false]),
    death("the_gallery_ends_with_its_shims", [false, false, true]),
    death("the_gallery_ends_with_supervisor_and_guardian", [true, true, false]),
    death("the_gallery_ends_with_supervisor_and_shims", [true, false, true]),
    death("the_gallery_ends_with_guardian_and_shims_of_a_supervisor_that_adopts", [false, true, true]),
    death("the_gallery_ends_at_the_next_start_when_all_are_killed", [true, true, true]),
];

pub(crate) fn trials() -> Vec<Trial> {
    DEATHS.iter().flat_map(|death| on_each_tier(death.name, move |tier| die(tier, death))).collect()
}

async fn die(tier: Tier, death: &Death) {
    let nobody_is_left = death.supervisor && death.guardian && death.shims;
    if nobody_is_left && tier == Tier::SUBREAPER {
        // Nothing remembers whose they were.
        return;
    }
    let mut gallery: Vec<_> = GALLERY.iter().collect();
    for (needs, escape) in &CONDITIONAL {
        if is_possible(&tier, needs).await {
            gallery.push(escape);
        }
    }
    let mut lines: Vec<_> = gallery.iter().map(|escape| escape.line.to_owned()).collect();
    let mut records = gallery.iter().map(|escape| escape.records).sum();
    // Whoever left our cgroups is not found by the next start.
    let foreign = if nobody_is_left { None } else { a_foreign_cgroup() };
    if let Some(foreign) = &foreign {
        lines.push(format!("export FOREIGN={}; {}", foreign.display(), OTHER_CGROUP.line));
        records += OTHER_CGROUP.records;
    }
    // It waits for the others, whose records it would hide.
    lines.push(format!(r#"until [ -e "$PIDS.storm" ]; do sleep 0.01; done; {}"#, FORK_STORM.line));

    let adopts = !death.supervisor && death.guardian && death.shims;
    let role = if adopts { "as-adopter" } else { "as-supervisor" };
    let mut supervisor = Supervisor::run_as(role, &tier, &lines);
    supervisor.scene.wait_for_records(records);
    std::fs::write(supervisor.scene.pids().with_extension("storm"), "").unwrap();
    supervisor.scene.wait_for_records(records + FORK_STORM.records);

    let guardian = guardian_of(&supervisor);
    let shims = children(guardian.pid);
    assert_eq!(shims.len(), lines.len(), "each tree has its shim");
    let mut doomed = Vec::new();
    doomed.extend(death.supervisor.then(|| supervisor.recorded()));
    doomed.extend(death.guardian.then_some(guardian));
    doomed.extend(shims.into_iter().filter(|_| death.shims).map(|shim| Recorded::of(shim).unwrap()));
    kill_at_once(&doomed);

    if adopts {
        for _ in &lines {
            supervisor.expect("Empty");
        }
        supervisor.scene.assert_no_survivor();
        // It ends by itself, with the child that is its own.
        supervisor.expect("next Empty");
        supervisor.expect("own child lives");
        supervisor.expect("[]");
    }
    let next = if nobody_is_left { Some(runner(&tier).await) } else { None };
    eventually("nothing survives", || all_gone(&supervisor.scene));
    supervisor.scene.assert_no_survivor();
    if let Some(foreign) = foreign {
        eventually("the foreign cgroup is empty", || std::fs::remove_dir(&foreign).ok());
    }
    if let Some(next) = next {
        next.shutdown().await;
    }
}

/// The one child that has children: shims.
fn guardian_of(supervisor: &Supervisor) -> Recorded {
    let children_of_it = children(supervisor.recorded().pid);
    let guardian = children_of_it.into_iter().find(|child| !children(*child).is_empty());
    Recorded::of(guardian.unwrap()).unwrap()
}
