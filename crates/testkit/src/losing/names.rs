//! What a directory holds: now, for good, and after a power cut.
//!
//! Not here: what the names stand for.

use std::collections::BTreeMap;

use rand::RngExt as _;
use rand::rngs::StdRng;

use super::NodeId;

type Entries = BTreeMap<String, NodeId>;

/// A change of names that the directory was not synced after. What a node is named goes with the change, since a node
/// has one name at a time.
#[derive(Debug, Clone)]
enum Change {
    Make(String, NodeId),
    Rename(String, NodeId),
    Remove(NodeId),
}

impl Change {
    fn node(&self) -> NodeId {
        match self {
            Self::Make(_, node) | Self::Rename(_, node) | Self::Remove(node) => *node,
        }
    }

    fn apply(&self, entries: &mut Entries) {
        entries.retain(|_, node| *node != self.node());
        match self {
            Self::Make(name, node) | Self::Rename(name, node) => {
                entries.insert(name.clone(), *node);
            }
            Self::Remove(_) => {}
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Names {
    now: Entries,
    durable: Entries,
    pending: Vec<Change>,
    /// Whether the directory itself was removed: nothing can be made in it any more.
    pub(super) removed: bool,
}

impl Names {
    fn settled(entries: Entries) -> Self {
        Self { now: entries.clone(), durable: entries, pending: Vec::new(), removed: false }
    }

    pub(super) fn find(&self, name: &str) -> Option<NodeId> {
        self.now.get(name).copied()
    }

    pub(super) fn entries(&self) -> &Entries {
        &self.now
    }

    pub(super) fn make(&mut self, name: &str, node: NodeId) {
        self.change(Change::Make(name.to_owned(), node));
    }

    pub(super) fn rename(&mut self, to: &str, node: NodeId) {
        self.change(Change::Rename(to.to_owned(), node));
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        self.change(Change::Remove(node));
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.pending.push(change);
    }

    pub(super) fn sync(&mut self) {
        self.durable.clone_from(&self.now);
        self.pending.clear();
    }

    pub(super) fn durable(&self) -> Self {
        Self::settled(self.durable.clone())
    }

    pub(super) fn current(&self) -> Self {
        Self::settled(self.now.clone())
    }

    pub(super) fn at_random(&self, random: &mut StdRng) -> Self {
        let mut entries = self.durable.clone();
        let mut pending: Vec<(usize, &Change)> = self.pending.iter().enumerate().collect();
        // The latest change of each node that has survived: what came before it is past.
        let mut latest = BTreeMap::new();
        let (survives, in_order) = ([0.1, 0.5, 0.9][random.random_range(0..3)], random.random_bool(0.5));
        while !pending.is_empty() {
            let next = if in_order { 0 } else { random.random_range(0..pending.len()) };
            let (age, change) = pending.remove(next);
            let newest = latest.get(&change.node()).is_none_or(|latest| *latest < age);
            if newest && random.random_bool(survives) {
                change.apply(&mut entries);
                latest.insert(change.node(), age);
            }
        }
        Self::settled(entries)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng as _;

    use super::*;

    fn outcomes(names: &Names) -> BTreeSet<Vec<(String, NodeId)>> {
        let found = |seed| names.at_random(&mut StdRng::seed_from_u64(seed)).now.into_iter().collect();
        (0..500).map(found).collect()
    }

    fn entries(expected: &[(&str, NodeId)]) -> Vec<(String, NodeId)> {
        expected.iter().map(|(name, node)| ((*name).to_owned(), *node)).collect()
    }

    #[test]
    fn a_rename_over_another_file_leaves_the_old_or_the_new_one() {
        let mut names = Names::default();
        names.make("a", 1);
        names.sync();
        names.make(".tmp", 2);
        names.rename("a", 2);
        let expected = [&[("a", 1)][..], &[(".tmp", 2), ("a", 1)], &[("a", 2)]];
        assert_eq!(outcomes(&names), expected.map(entries).into());
    }

    #[test]
    fn a_file_has_one_name_whatever_survives() {
        let mut names = Names::default();
        names.make("a", 1);
        names.rename("b", 1);
        names.rename("c", 1);
        let expected = [&[][..], &[("a", 1)], &[("b", 1)], &[("c", 1)]];
        assert_eq!(outcomes(&names), expected.map(entries).into());
    }

    #[test]
    fn later_changes_survive_without_earlier_ones() {
        let mut names = Names::default();
        names.make("a", 1);
        names.make("b", 2);
        names.remove(1);
        assert!(outcomes(&names).contains(&entries(&[("b", 2)])));
        assert!(outcomes(&names).contains(&entries(&[("a", 1), ("b", 2)])));
        names.sync();
        assert_eq!(outcomes(&names), [entries(&[("b", 2)])].into());
    }
}
