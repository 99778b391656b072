//! A scene whose power is cut at every one of its steps, and what is looked at after each cut.
//!
//! Not for what a cut takes: that is a [`Loss`].

use std::fmt;

use super::{LosingStore, Loss};

/// Mixes a step into a seed, so that no two steps are left to the same chance: the golden ratio in 64 bits.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// How thoroughly a scene is cut.
///
/// ```
/// use procyard_store::{read_file, replace_file};
/// use procyard_testkit::{LosingStore, PowerCuts};
///
/// let cuts = PowerCuts { seed: 7, random_losses: 10 }.at_every_step(
///     LosingStore::new,
///     |store| replace_file(&*store.root(), "settings", b"new").is_ok(),
///     |promised, after, _| {
///         let found = read_file(&*after.root(), "settings", 100);
///         assert!(!promised || found.is_ok_and(|bytes| bytes == b"new"));
///     },
/// );
/// // A file is made, written, synced and renamed, and its directory synced: five steps, and the end.
/// assert_eq!((cuts.steps, cuts.cuts), (5, 6 * 14));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerCuts {
    /// What chance begins with. The same seed gives the same losses for the same steps.
    pub seed: u64,
    /// Losses by chance at each step, beside the [fixed](Loss::FIXED) ones.
    pub random_losses: u64,
}

/// One cut. Its text says how to see it again: run the scene to that step, and take that loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Steps of the scene before the one at which the power went.
    pub step: u64,
    /// What was lost.
    pub loss: Loss,
    /// That step in words; `None` when the scene had come to its end.
    pub at: Option<String>,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.as_deref().unwrap_or("the end");
        write!(f, "power cut at step {} ({at}), loss {:?}", self.step, self.loss)
    }
}

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cuts {
    /// Steps of the scene.
    pub steps: u64,
    /// Cuts that were looked at.
    pub cuts: u64,
}

impl Cuts {
    /// Both added up.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { steps: self.steps + other.steps, cuts: self.cuts + other.cuts }
    }
}

/// Says which cut it was when a scene or a check panics.
struct Telling(String);

impl Drop for Telling {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

impl PowerCuts {
    /// Plays a scene once for each of its steps and once to its end, cuts the power there, and checks what is found
    /// after each loss. Says how much that was.
    ///
    /// `prepare` makes the store; its steps are not cut, and what it did not sync is at stake. `act` is the scene: it
    /// must come to its end though calls fail, and gives what was promised before the power went
    /// ([`has_power`](LosingStore::has_power) tells). `check` gets that, what was found, and the cut; its panic is
    /// followed by the cut's text.
    pub fn at_every_step<T>(
        self,
        prepare: impl Fn() -> LosingStore,
        act: impl Fn(&LosingStore) -> T,
        check: impl Fn(&T, &LosingStore, &Cut),
    ) -> Cuts {
        let whole = prepare();
        let prepared = whole.steps();
        act(&whole);
        let steps = whole.steps() - prepared;
        let mut cuts = 0;
        for step in 0..=steps {
            let store = prepare();
            store.cut_after(step);
            let telling = Telling(format!("while the power was cut at step {step}"));
            let promised = act(&store);
            drop(telling);
            let at = store.last_step();
            let chance = (0..self.random_losses).map(|number| {
                Loss::Random(self.seed ^ (step * self.random_losses + number + 1).wrapping_mul(MIX))
            });
            for loss in Loss::FIXED.into_iter().chain(chance) {
                let cut = Cut { step, loss, at: at.clone() };
                let telling = Telling(format!("after a {cut}"));
                check(&promised, &store.after_cut(loss), &cut);
                drop(telling);
                cuts += 1;
            }
        }
        Cuts { steps, cuts }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use procyard_store::{Access, read_file, replace_file};

    use super::*;

    const CUTS: PowerCuts = PowerCuts { seed: 1, random_losses: 20 };

    fn with_old() -> LosingStore {
        let store = LosingStore::new();
        replace_file(&*store.root(), "a", b"old").unwrap();
        store
    }

    #[test]
    fn a_replaced_file_is_old_or_new_at_every_step_and_new_once_promised() {
        let found = RefCell::new(std::collections::BTreeSet::new());
        let cuts = CUTS.at_every_step(
            with_old,
            |store| replace_file(&*store.root(), "a", b"new!").is_ok(),
            |promised, after, cut| {
                let bytes = read_file(&*after.root(), "a", 10).unwrap();
                assert!(bytes == b"new!" || (bytes == b"old" && !promised), "{cut}: {bytes:?}");
                found.borrow_mut().insert(bytes);
            },
        );
        // Make, write, sync, rename, sync of the directory, and the end.
        assert_eq!(cuts, Cuts { steps: 5, cuts: 6 * 24 });
        assert_eq!(found.into_inner().len(), 2, "both were seen");
    }

    #[test]
    fn a_scene_that_forgets_a_sync_is_found_out() {
        let torn = RefCell::new(0);
        CUTS.at_every_step(
            with_old,
            |store| {
                let root = store.root();
                let file = root.create_file(".tmp")?;
                file.write_all_at(b"new!", 0)?;
                root.rename(".tmp", "a")?;
                root.sync()
            },
            |_, after, _| {
                let file = after.root().open_file("a", Access::Read).unwrap();
                *torn.borrow_mut() += u32::from(![3, 4].contains(&file.len().unwrap()));
            },
        );
        assert!(torn.into_inner() > 0);
    }
}
