//! The layers: which crate may depend on which. This table is the law that `layers` enforces.
//!
//! A crate's place is its folder in `crates/`; its package is `procyard-<folder>`, and `procyard` for
//! the folder of that name. A line may stand here before its crate exists. Widening a line changes the
//! architecture: what a layer does not know is what keeps it usable alone.

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Layer {
    /// The folder in `crates/`.
    pub(crate) dir: &'static str,
    /// What it may depend on inside the workspace, by folder.
    pub(crate) reach: Reach,
    /// For a pure crate, everything that it may use from outside the workspace.
    pub(crate) outside: Option<Outside>,
}

/// How far a crate sees into the workspace.
#[derive(Debug)]
pub(crate) enum Reach {
    /// These crates and no others.
    Only(&'static [&'static str]),
    /// Every crate of the table: the composition root.
    All,
}

/// External crates that a pure crate may use.
#[derive(Debug)]
pub(crate) struct Outside {
    /// In what it ships and in its build script.
    pub(crate) ships: &'static [&'static str],
    /// In its tests, on top of those.
    pub(crate) tests: &'static [&'static str],
}

/// The test doubles: open to the tests of every crate, although it depends on some of them.
pub(crate) const TESTKIT: &str = "testkit";

/// The one crate that lifts `unsafe_code` and spawns processes.
pub(crate) const HOST: &str = "host";

const PURE_TESTS: &[&str] = &["proptest", "serde_json"];

/// The table, from the inside out.
#[rustfmt::skip]
pub(crate) const LAYERS: &[Layer] = &[
    // No input or output, no clock, no runtime: think twice before adding to these two lists.
    pure("core", &["serde", "thiserror", "uuid", "base64"]),
    pure("text", &["memchr"]),
    layer("store", &[]),
    layer("api", &["core"]),
    layer("runner", &["core"]),
    layer("journal", &["core"]),
    layer("spool", &["core", "store"]),
    layer("manifest", &["core", "store"]),
    layer("supervisor", &["core", "spool", "manifest", "store", "runner"]),
    layer("tools", &["core", "api", "text", "runner", "supervisor"]),
    layer("host", &["core", "runner"]),
    layer("server", &["core", "api", "tools", "supervisor", "journal"]),
    layer("client", &["core", "api"]),
    layer("testkit", &["core", "store", "runner", "supervisor"]),
    Layer { dir: "procyard", reach: Reach::All, outside: None },
];

const fn layer(dir: &'static str, reach: &'static [&'static str]) -> Layer {
    Layer { dir, reach: Reach::Only(reach), outside: None }
}

const fn pure(dir: &'static str, ships: &'static [&'static str]) -> Layer {
    Layer { dir, reach: Reach::Only(&[]), outside: Some(Outside { ships, tests: PURE_TESTS }) }
}

/// The line of the crate in `crates/<dir>`.
pub(crate) fn find(dir: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.dir == dir)
}

/// The name that the package in `crates/<dir>` must have.
pub(crate) fn package_name(dir: &str) -> String {
    if dir == "procyard" { dir.to_owned() } else { format!("procyard-{dir}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_speaks_of_crates_that_stand_above_it_so_the_table_has_no_cycle() {
        for (place, layer) in LAYERS.iter().enumerate() {
            let Reach::Only(reach) = layer.reach else { continue };
            for dir in reach {
                assert!(LAYERS[..place].iter().any(|above| above.dir == *dir), "{} reaches {dir}", layer.dir);
            }
        }
    }

    #[test]
    fn no_crate_has_two_lines() {
        for (place, layer) in LAYERS.iter().enumerate() {
            assert!(LAYERS[..place].iter().all(|above| above.dir != layer.dir), "{}", layer.dir);
        }
    }
}
