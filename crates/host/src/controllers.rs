//! Caps on memory and processes of a tree: where the kernel's controllers can be used, and what they count.
//!
//! Where a cgroup of version 2 has the controllers to give, our own or one that was handed over to us with ours in it
//! ([`beside`]), a tree's own leaf gets the limits. Elsewhere a tree that has
//! limits, and no other, gets a cgroup in each version 1 hierarchy that we may write: directly below our own, named and locked
//! as a *base* is ([`crate::cgroup::Base`]), so that one that was abandoned is found and swept by the same rule.
//! Files: `cgroup-v2.rst`, `cgroup-v1/memory.rst` and `cgroup-v1/pids.rst` of the kernel's `Documentation/admin-guide`.
//!
//! Not for containment: a root process can move itself out of a version 1 cgroup, and is then out of the limit, not out
//! of its tree.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cgroup::{Base, Hierarchy, Leaf, own_directory, write_to};
use crate::limited::Limited;
use crate::{sweep, sys};

/// What a tree may be limited in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controller {
    Memory,
    Pids,
}

impl Controller {
    const ALL: [Controller; 2] = [Controller::Memory, Controller::Pids];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Pids => "pids",
        }
    }

    /// The file of version 1 that holds the limit.
    pub(crate) const fn limit_file(self) -> &'static str {
        match self {
            Controller::Memory => "memory.limit_in_bytes",
            Controller::Pids => "pids.max",
        }
    }
}

/// Which version of cgroups enforces something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Version {
    One,
    Two,
}

/// By which means each cap is enforced, or why it is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Means {
    pub(crate) memory: Result<Version, String>,
    pub(crate) pids: Result<Version, String>,
}

/// Where a controller's limits are set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the leaf of the tree.
    Leaf,
    /// In a cgroup of its own, below this one of version 1.
    Below(PathBuf),
    Nowhere(String),
}

impl Place {
    fn find(controller: Controller, base: Option<&Base>) -> Self {
        let name = controller.name();
        if base.is_some_and(|base| {
            offers(base.path(), name) || (ask(base.path(), name) && offers(base.path(), name))
        }) {
            return Place::Leaf;
        }
        let unified = if base.is_some() {
            "our cgroup of version 2 has none to give"
        } else {
            "version 2 is not to be had"
        };
        match own_directory(Hierarchy::Of(name)) {
            Ok(own) => match try_below(&own, controller) {
                Ok(()) => Place::Below(own),
                Err(error) => {
                    Place::Nowhere(format!("no {name} controller: {unified}, and in version 1: {error}"))
                }
            },
            Err(why) => Place::Nowhere(format!("no {name} controller: {unified}, and {why}")),
        }
    }

    fn means(&self) -> Result<Version, String> {
        match self {
            Place::Leaf => Ok(Version::Two),
            Place::Below(_) => Ok(Version::One),
            Place::Nowhere(why) => Err(why.clone()),
        }
    }
}

/// The cgroup of version 2 above our own, where bases can be made that get controllers from it, as our own cannot give any
/// while we are in it: where it was handed over to us and has controllers to give.
///
/// Handed over is what is our user's, what a service manager marked as delegated (`systemd.exec(5)`), and the top of what is
/// mounted in a container.
pub(crate) fn beside(own: &Path) -> Option<PathBuf> {
    let above = own.parent()?;
    let has_some = Controller::ALL.into_iter().any(|controller| offers(above, controller.name()));
    (has_some && is_handed_over(above)).then(|| above.to_owned())
}

fn is_handed_over(cgroup: &Path) -> bool {
    let user = nix::unistd::geteuid();
    let of_our_user = !user.is_root() && cgroup.metadata().is_ok_and(|met| met.uid() == user.as_raw());
    // The root of a whole machine has no such file.
    let is_part = cgroup.join("cgroup.events").exists();
    let is_top = cgroup.parent().is_none_or(|above| !above.join("cgroup.controllers").exists());
    of_our_user
        || (is_part && is_top)
        || sys::is_marked(cgroup, c"trusted.delegate")
        || sys::is_marked(cgroup, c"user.delegate")
}

/// Whether a cgroup of version 2 has the controller, and can give it to those below.
pub(crate) fn offers(cgroup: &Path, controller: &str) -> bool {
    std::fs::read_to_string(cgroup.join("cgroup.controllers"))
        .is_ok_and(|offered| offered.split_ascii_whitespace().any(|word| word == controller))
}

/// Has the cgroup above give the controller to those below it. The kernel refuses that where processes are in it, we
/// among them, unless it is the root.
fn ask(base: &Path, controller: &str) -> bool {
    base.parent().is_some_and(|own| offers(own, controller) && give(own, controller).is_ok())
}

pub(crate) fn give(cgroup: &Path, controller: &str) -> io::Result<()> {
    write_to(&cgroup.join("cgroup.subtree_control"), &format!("+{controller}"))
}

/// Really makes a cgroup and sets its limit, because permissions and delegation differ in ways that only trying tells.
fn try_below(own: &Path, controller: Controller) -> io::Result<()> {
    let tried = Base::create(own)?;
    // No limit, in the words of each.
    let none = if controller == Controller::Memory { "-1" } else { "max" };
    let set = write_to(&tried.path().join(controller.limit_file()), none);
    tried.remove()?;
    set
}

/// Ends and removes what dead supervisors and shims left in the version 1 hierarchies, below our own cgroup.
pub(crate) fn sweep() {
    for controller in Controller::ALL {
        if let Ok(own) = own_directory(Hierarchy::Of(controller.name())) {
            sweep::sweep(&own);
        }
    }
}

/// Where limits can be set here.
#[derive(Debug, Clone)]
pub(crate) struct Controllers {
    memory: Place,
    pids: Place,
}

impl Controllers {
    /// Looks and tries, with the base in which trees get their leaves.
    pub(crate) fn find(base: Option<&Base>) -> Self {
        sweep();
        Self { memory: Place::find(Controller::Memory, base), pids: Place::find(Controller::Pids, base) }
    }

    pub(crate) fn means(&self) -> Means {
        Means { memory: self.memory.means(), pids: self.pids.means() }
    }

    /// Sets the limits of a tree that is about to start. What cannot be set is a failure, and leaves nothing behind.
    pub(crate) fn limit(
        &self,
        memory_max: Option<u64>,
        pids_max: Option<u32>,
        leaf: Option<&Leaf>,
    ) -> io::Result<Limited> {
        let mut limited = Limited::default();
        let set = pids_max
            .map_or(Ok(()), |max| limited.limit_pids(&self.pids, leaf, max))
            .and_then(|()| memory_max.map_or(Ok(()), |max| limited.limit_memory(&self.memory, leaf, max)));
        if set.is_err() {
            limited.remove();
        }
        set.map(|()| limited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        directory
    }

    fn text(directory: &tempfile::TempDir, name: &str) -> String {
        std::fs::read_to_string(directory.path().join(name)).unwrap()
    }

    #[test]
    fn the_top_of_a_container_is_handed_over_and_the_root_of_a_machine_is_not() {
        let offer = ("cgroup.controllers", "memory pids\n");
        let inside = |top: &tempfile::TempDir, name: &str| {
            let own = top.path().join(name);
            std::fs::create_dir(&own).unwrap();
            std::fs::write(own.join("cgroup.controllers"), "memory pids\n").unwrap();
            std::fs::write(own.join("cgroup.events"), "populated 1\n").unwrap();
            own
        };
        let container = directory(&[offer, ("cgroup.events", "populated 1\n")]);
        let own = inside(&container, "init");
        assert_eq!(beside(&own).as_deref(), Some(container.path()));
        assert_eq!(beside(container.path()), None, "what is above is no cgroup");
        let poor = directory(&[("cgroup.controllers", "cpu\n"), ("cgroup.events", "populated 1\n")]);
        assert_eq!(beside(&inside(&poor, "init")), None, "nothing to gain");
        if nix::unistd::geteuid().is_root() {
            let machine = directory(&[offer]);
            assert_eq!(beside(&inside(&machine, "init")), None);
            let service = inside(&container, "service");
            std::fs::create_dir(service.join("main")).unwrap();
            assert_eq!(beside(&service.join("main")), None, "a cgroup that is somebody else's to divide");
        }
    }

    #[test]
    fn a_controller_is_offered_by_its_whole_name() {
        let cgroup = directory(&[
            ("cgroup.controllers", "cpu memory_recursive pids\n"),
            ("cgroup.subtree_control", ""),
        ]);
        assert!(offers(cgroup.path(), "pids") && !offers(cgroup.path(), "memory"));
        give(cgroup.path(), "pids").unwrap();
        assert_eq!(text(&cgroup, "cgroup.subtree_control"), "+pids");
        let base = cgroup.path().join("base");
        std::fs::create_dir(&base).unwrap();
        assert!(ask(&base, "pids"));
        assert!(!ask(&base, "memory"), "what is not there is not asked for");
    }
}
