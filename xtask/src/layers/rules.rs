//! The rules of `layers`, as a pure function from what the workspace is to what is wrong with it.
//!
//! It reads no file and runs nothing: the caller hands in the crates as [`Crate`]s.

use std::collections::BTreeSet;
use std::fmt;

use super::lifts::{Guarded, Lift};
use super::table::{self, HOST, LAYERS, Layer, Outside, Reach, TESTKIT};

/// A crate of the workspace, as far as the rules look at it.
#[derive(Debug, Clone)]
pub(crate) struct Crate {
    /// The package name.
    pub(crate) package: String,
    /// The folder below the root of the workspace, with `/` between its parts.
    pub(crate) dir: String,
    pub(crate) dependencies: Vec<Dependency>,
    /// Whether its manifest says `[lints] workspace = true`.
    pub(crate) inherits_lints: bool,
    /// Where its sources lift guarded lints, each with the file below the root.
    pub(crate) lifts: Vec<(String, Lift)>,
}

/// A declared dependency.
#[derive(Debug, Clone)]
pub(crate) struct Dependency {
    /// The package name, also where the manifest renames it.
    pub(crate) package: String,
    /// A dev-dependency, and no part of what the crate ships.
    pub(crate) for_tests: bool,
}

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The package, and what it does.
    pub(crate) fault: String,
    pub(crate) rule: String,
    /// The way out.
    pub(crate) remedy: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  rule: {}\n  what to do: {}", self.fault, self.rule, self.remedy)
    }
}

/// The folder of xtask, which stands outside of the layers.
const XTASK: &str = "xtask";

/// Everything that is wrong, crate by crate.
pub(crate) fn check(crates: &[Crate]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for member in crates {
        lints(member, &mut violations);
        if member.dir == XTASK {
            continue;
        }
        let layer = member.dir.strip_prefix("crates/").and_then(table::find);
        let Some(layer) = layer else {
            violations.push(Violation {
                fault: format!(
                    "{} is in `{}`, which is not in the table of layers",
                    member.package, member.dir
                ),
                rule: "every crate but xtask is in crates/ and has a line in the table".to_owned(),
                remedy:
                    "give it a line in xtask/src/layers/table.rs, with as little reach as it can live with"
                        .to_owned(),
            });
            continue;
        };
        name(member, layer, &mut violations);
        for dependency in &member.dependencies {
            depend(crates, member, layer, dependency, &mut violations);
        }
    }
    violations
}

fn name(member: &Crate, layer: &Layer, violations: &mut Vec<Violation>) {
    let expected = table::package_name(layer.dir);
    if member.package != expected {
        violations.push(Violation {
            fault: format!("the package in `{}` is named {}", member.dir, member.package),
            rule: "a package is named procyard-<folder>, the composition root procyard".to_owned(),
            remedy: format!("name it {expected}"),
        });
    }
}

fn depend(
    crates: &[Crate],
    member: &Crate,
    layer: &Layer,
    dependency: &Dependency,
    violations: &mut Vec<Violation>,
) {
    let inside = crates.iter().find(|other| other.package == dependency.package);
    let violation = match (inside, dependency.for_tests) {
        (Some(on), false) => ships_inside(layer, on),
        (Some(on), true) => tests_inside(crates, member, layer, on),
        (None, for_tests) => layer
            .outside
            .as_ref()
            .and_then(|outside| uses_outside(layer, outside, &dependency.package, for_tests)),
    };
    violations.extend(violation.map(|(rule, remedy)| {
        let kind = if dependency.for_tests { "dev-depends" } else { "depends" };
        Violation { fault: format!("{} {kind} on {}", member.package, dependency.package), rule, remedy }
    }));
}

/// Where what a crate ships may not use `on`: the rule and the remedy.
fn ships_inside(layer: &Layer, on: &Crate) -> Option<(String, String)> {
    let dir = on.dir.strip_prefix("crates/");
    let rule = match layer.reach {
        Reach::All if dir.is_some() => return None,
        Reach::Only(reach) if dir.is_some_and(|dir| reach.contains(&dir)) => return None,
        Reach::All => format!("{} may depend on every crate in crates/, and on nothing beside", layer.dir),
        Reach::Only([]) => format!("{} depends on no crate of the workspace", layer.dir),
        Reach::Only(reach) => format!("{} may depend on {} alone", layer.dir, reach.join(", ")),
    };
    Some((
        rule,
        "hand the thing in as a value or through a trait that this crate owns, or move the code to a layer \
         that sees both"
            .to_owned(),
    ))
}

/// Where the tests of a crate may not use `on`: the rule and the remedy.
///
/// Tests see the test doubles, and more than what ships as long as they look down or sideways: a crate
/// that is tested through one built on it is tested in that one. The innermost crates see the test
/// doubles alone.
fn tests_inside(crates: &[Crate], member: &Crate, layer: &Layer, on: &Crate) -> Option<(String, String)> {
    if on.dir.strip_prefix("crates/") == Some(TESTKIT) {
        return None;
    }
    if matches!(layer.reach, Reach::Only([])) {
        return Some((
            format!("of the workspace, the tests of {} use {TESTKIT} alone", layer.dir),
            "move the test to a crate that sees both".to_owned(),
        ));
    }
    if on.dir == XTASK || ships_with(crates, on).contains(member.package.as_str()) {
        return Some((
            format!(
                "the tests of a crate use no crate that is built on it, but for {TESTKIT}, and never xtask"
            ),
            format!("move the test to {}", on.dir),
        ));
    }
    None
}

/// The packages that end up in what `from` ships, itself too.
fn ships_with<'a>(crates: &'a [Crate], from: &'a Crate) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::from([from.package.as_str()]);
    let mut open = vec![from];
    while let Some(next) = open.pop() {
        for dependency in next.dependencies.iter().filter(|dependency| !dependency.for_tests) {
            let on = crates.iter().find(|member| member.package == dependency.package);
            open.extend(on.filter(|on| seen.insert(&on.package)));
        }
    }
    seen
}

/// Where a pure crate may not use an external package: the rule and the remedy.
fn uses_outside(
    layer: &Layer,
    outside: &Outside,
    package: &str,
    for_tests: bool,
) -> Option<(String, String)> {
    let (who, allowed) = if for_tests {
        (format!("the tests of {}, which is pure, use", layer.dir), [outside.ships, outside.tests].concat())
    } else {
        (format!("{}, which is pure, uses", layer.dir), outside.ships.to_vec())
    };
    (!allowed.contains(&package)).then(|| {
        (
            format!("from outside the workspace, {who} {} alone", allowed.join(", ")),
            "move what needs it to a layer further out; if it does no I/O and knows no clock and no runtime, \
             argue for it in xtask/src/layers/table.rs"
                .to_owned(),
        )
    })
}

/// The lints of the workspace hold everywhere, and two of them are lifted by `host` alone.
fn lints(member: &Crate, violations: &mut Vec<Violation>) {
    if !member.inherits_lints {
        violations.push(Violation {
            fault: format!("{} does not inherit the lints of the workspace", member.package),
            rule: "every crate holds to the same lints".to_owned(),
            remedy: "write `[lints]` and `workspace = true` in its Cargo.toml".to_owned(),
        });
    }
    if member.dir.strip_prefix("crates/") == Some(HOST) {
        return;
    }
    for (file, lift) in &member.lifts {
        let place = format!("{file}:{}: {}", lift.line, member.package);
        match lift.lint {
            Guarded::Unsafe => violations.push(Violation {
                fault: format!("{place} lifts `unsafe_code`"),
                rule: format!("unsafe code is in crates/{HOST} alone"),
                remedy: format!("use a safe crate, or put the system call behind a safe function of {HOST}"),
            }),
            Guarded::Spawning if lift.in_tests || member.dir == XTASK => {}
            Guarded::Spawning => violations.push(Violation {
                fault: format!("{place} lifts `clippy::disallowed_methods`, by its name or with a group"),
                rule: format!("only crates/{HOST} starts processes, contained; tests may too"),
                remedy: "start it through a `Runner` that the caller hands in".to_owned(),
            }),
        }
    }
}

/// The table as it is enforced, for people: one line a crate.
pub(crate) fn describe() -> String {
    let lines = LAYERS.iter().map(|layer| {
        let reach = match layer.reach {
            Reach::All => "all".to_owned(),
            Reach::Only([]) => "nothing".to_owned(),
            Reach::Only(reach) => reach.join(", "),
        };
        format!("{:<12}{reach}", layer.dir)
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate in its place, with dependencies as a manifest of this workspace would list them.
    fn member(dir: &str, ships: &[&str], tests: &[&str]) -> Crate {
        let dependency = |package: &&str, for_tests| Dependency { package: (*package).to_owned(), for_tests };
        Crate {
            package: table::package_name(dir),
            dir: format!("crates/{dir}"),
            dependencies: ships
                .iter()
                .map(|package| dependency(package, false))
                .chain(tests.iter().map(|package| dependency(package, true)))
                .collect(),
            inherits_lints: true,
            lifts: Vec::new(),
        }
    }

    /// A workspace that holds to every rule, with `changed` in the place of the crate of its folder.
    fn workspace(changed: Crate) -> Vec<Crate> {
        let mut crates = vec![
            member("core", &["serde", "thiserror"], &["proptest", "procyard-testkit"]),
            member("text", &["memchr"], &[]),
            member("store", &["nix"], &["procyard-testkit"]),
            member("runner", &["procyard-core", "tokio"], &[]),
            member("spool", &["procyard-core", "procyard-store"], &[]),
            member(
                "supervisor",
                &["procyard-core", "procyard-spool", "procyard-runner"],
                &["procyard-testkit"],
            ),
            member("host", &["procyard-core", "procyard-runner"], &[]),
            member("testkit", &["procyard-core", "procyard-supervisor"], &[]),
            member("procyard", &["procyard-supervisor", "procyard-host"], &["procyard-testkit"]),
        ];
        crates.retain(|member| member.dir != changed.dir);
        crates.push(changed);
        crates
    }

    /// Checks that a workspace with this crate in it has these faults and no others.
    #[track_caller]
    fn check_with(changed: Crate, expect: &[&str]) {
        let violations = check(&workspace(changed));
        let faults: Vec<_> = violations.iter().map(|violation| violation.fault.as_str()).collect();
        assert_eq!(faults, expect);
    }

    fn lifting(dir: &str, file: &str, lint: Guarded, in_tests: bool) -> Crate {
        let mut member = member(dir, &[], &[]);
        member.lifts.push((file.to_owned(), Lift { lint, line: 7, in_tests }));
        member
    }

    fn xtask() -> Crate {
        Crate { package: "xtask".to_owned(), dir: "xtask".to_owned(), ..member("core", &["toml"], &[]) }
    }

    #[test]
    fn a_workspace_that_holds_to_the_table_has_no_faults() {
        check_with(member("spool", &["procyard-core", "procyard-store"], &[]), &[]);
        check_with(xtask(), &[]);
    }

    #[test]
    fn a_crate_that_ships_with_one_outside_its_line_is_a_fault() {
        check_with(
            member("supervisor", &["procyard-host"], &[]),
            &["procyard-supervisor depends on procyard-host"],
        );
        check_with(member("core", &["procyard-store"], &[]), &["procyard-core depends on procyard-store"]);
        check_with(
            member("runner", &["procyard-testkit"], &[]),
            &["procyard-runner depends on procyard-testkit"],
        );
    }

    #[test]
    fn no_layer_is_built_on_xtask_or_tested_with_it() {
        let mut crates = workspace(member("procyard", &["xtask"], &[]));
        crates.push(xtask());
        assert_eq!(check(&crates)[0].fault, "procyard depends on xtask");
        let mut crates = workspace(member("procyard", &[], &["xtask"]));
        crates.push(xtask());
        assert_eq!(check(&crates)[0].fault, "procyard dev-depends on xtask");
    }

    #[test]
    fn tests_may_look_sideways_but_not_up() {
        check_with(member("supervisor", &[], &["procyard-host"]), &[]);
        check_with(
            member("runner", &["procyard-core"], &["procyard-host"]),
            &["procyard-runner dev-depends on procyard-host"],
        );
        // Through the supervisor.
        check_with(member("spool", &[], &["procyard"]), &["procyard-spool dev-depends on procyard"]);
    }

    #[test]
    fn the_tests_of_the_innermost_crates_use_testkit_alone() {
        check_with(member("store", &[], &["procyard-testkit"]), &[]);
        check_with(
            member("store", &[], &["procyard-text"]),
            &["procyard-store dev-depends on procyard-text"],
        );
    }

    #[test]
    fn a_pure_crate_uses_only_the_external_crates_that_are_listed_for_it() {
        check_with(member("core", &["serde", "uuid", "base64"], &["serde_json"]), &[]);
        check_with(member("core", &["tokio"], &[]), &["procyard-core depends on tokio"]);
        check_with(member("core", &["serde_json"], &[]), &["procyard-core depends on serde_json"]);
        check_with(member("text", &["serde"], &[]), &["procyard-text depends on serde"]);
        check_with(member("text", &[], &["tokio"]), &["procyard-text dev-depends on tokio"]);
    }

    #[test]
    fn a_crate_without_a_line_in_the_table_is_a_fault() {
        check_with(
            member("extra", &[], &[]),
            &["procyard-extra is in `crates/extra`, which is not in the table of layers"],
        );
        let elsewhere = Crate { dir: "tools".to_owned(), ..member("tools", &[], &[]) };
        check_with(elsewhere, &["procyard-tools is in `tools`, which is not in the table of layers"]);
    }

    #[test]
    fn a_package_named_otherwise_than_its_folder_is_a_fault() {
        let misnamed = Crate { package: "procyard-texts".to_owned(), ..member("text", &[], &[]) };
        check_with(misnamed, &["the package in `crates/text` is named procyard-texts"]);
    }

    #[test]
    fn every_crate_inherits_the_lints_xtask_too() {
        let own = Crate { inherits_lints: false, ..member("text", &[], &[]) };
        check_with(own, &["procyard-text does not inherit the lints of the workspace"]);
        let own = Crate { inherits_lints: false, ..xtask() };
        check_with(own, &["xtask does not inherit the lints of the workspace"]);
    }

    #[test]
    fn unsafe_code_is_lifted_in_host_alone() {
        let file = "crates/host/src/pty.rs";
        check_with(lifting("host", file, Guarded::Unsafe, false), &[]);
        let file = "crates/store/tests/disk.rs";
        check_with(
            lifting("store", file, Guarded::Unsafe, true),
            &["crates/store/tests/disk.rs:7: procyard-store lifts `unsafe_code`"],
        );
    }

    #[test]
    fn spawning_is_lifted_in_host_in_tests_and_in_xtask_alone() {
        let file = "crates/host/src/spawn.rs";
        check_with(lifting("host", file, Guarded::Spawning, false), &[]);
        check_with(lifting("procyard", "crates/procyard/tests/mcp.rs", Guarded::Spawning, true), &[]);
        let lifts = lifting("text", "xtask/src/command.rs", Guarded::Spawning, false).lifts;
        check_with(Crate { lifts, ..xtask() }, &[]);
        check_with(
            lifting("procyard", "crates/procyard/src/main.rs", Guarded::Spawning, false),
            &[
                "crates/procyard/src/main.rs:7: procyard lifts `clippy::disallowed_methods`, by its name or with a group",
            ],
        );
    }

    #[test]
    fn a_violation_says_what_is_wrong_which_rule_it_breaks_and_what_to_do() {
        let violations = check(&workspace(member("host", &["procyard-store"], &[])));
        let text = violations[0].to_string();
        assert!(text.starts_with("procyard-host depends on procyard-store\n"), "{text}");
        assert!(text.contains("rule: host may depend on core, runner alone\n"), "{text}");
        assert!(text.contains("what to do: hand the thing in"), "{text}");
    }
}
