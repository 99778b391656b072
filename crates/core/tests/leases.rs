//! The lease table against a model that compares path texts, under any order of calls.

use procyard_core::{Lease, LeaseHolder, LeaseTable, WorkspaceAccess};
use proptest::prelude::*;
use proptest::sample::select;

/// What the model knows of a holder, with paths as lists of names.
#[derive(Debug, Clone)]
struct Asked {
    kind: Kind,
    paths: Vec<Vec<&'static str>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Reader,
    Scoped,
    Broad,
    Write,
    Checkpoint,
}

impl Asked {
    fn holder(&self) -> LeaseHolder {
        let paths = self.paths.iter().map(|path| format!("/{}", path.join("/")).into()).collect();
        match self.kind {
            Kind::Reader => LeaseHolder::Process(WorkspaceAccess::ReadOnly),
            Kind::Scoped => LeaseHolder::Process(WorkspaceAccess::ScopedWrite { paths }),
            Kind::Broad => LeaseHolder::Process(WorkspaceAccess::BroadWrite),
            Kind::Write => LeaseHolder::StructuredWrite { paths },
            Kind::Checkpoint => LeaseHolder::Checkpoint,
        }
    }

    fn is_process(&self) -> bool {
        matches!(self.kind, Kind::Reader | Kind::Scoped | Kind::Broad)
    }

    fn excludes(&self, other: &Asked) -> bool {
        if self.kind == Kind::Reader
            || other.kind == Kind::Reader
            || (self.is_process() && other.is_process())
        {
            return false;
        }
        let everything = |asked: &Asked| matches!(asked.kind, Kind::Broad | Kind::Checkpoint);
        everything(self)
            || everything(other)
            || self.paths.iter().any(|one| {
                other.paths.iter().any(|two| one.iter().zip(two).all(|(name, other_name)| name == other_name))
            })
    }
}

fn asked() -> impl Strategy<Value = Asked> {
    let kinds = select(vec![
        Kind::Reader,
        Kind::Scoped,
        Kind::Scoped,
        Kind::Broad,
        Kind::Write,
        Kind::Write,
        Kind::Write,
        Kind::Checkpoint,
    ]);
    // Names that begin alike: a comparison of texts would take `ab` for something below `a`.
    let name = select(vec!["a", "ab", "a.b", "b", "a b"]);
    let path = prop::collection::vec(name, 0..4);
    (kinds, prop::collection::vec(path, 0..3)).prop_map(|(kind, paths)| Asked { kind, paths })
}

#[derive(Debug, Clone)]
enum Call {
    Acquire(Asked),
    Release(prop::sample::Index),
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        3 => asked().prop_map(Call::Acquire),
        2 => any::<prop::sample::Index>().prop_map(Call::Release),
    ]
}

proptest! {
    #[test]
    fn a_lease_is_granted_exactly_when_nobody_holds_what_it_needs(calls in prop::collection::vec(call(), 1..60)) {
        let (mut table, mut held) = (LeaseTable::default(), Vec::<(Lease, Asked)>::new());
        for call in calls {
            match call {
                Call::Acquire(asked) => {
                    let in_the_way = held.iter().find(|(_, other)| other.excludes(&asked));
                    match table.acquire(&asked.holder()) {
                        Ok(lease) => {
                            prop_assert!(in_the_way.is_none(), "{:?} granted beside {:?}", asked, in_the_way);
                            held.push((lease, asked));
                        }
                        Err(conflict) => {
                            let kind = in_the_way.map(|(_, other)| other.holder().kind());
                            prop_assert_eq!(kind, Some(conflict.with), "{:?} refused", asked);
                        }
                    }
                }
                Call::Release(which) if !held.is_empty() => {
                    table.release(held.remove(which.index(held.len())).0);
                }
                Call::Release(_) => {}
            }
            prop_assert_eq!((table.len(), table.is_empty()), (held.len(), held.is_empty()));
        }
        for (lease, _) in held {
            table.release(lease);
        }
        prop_assert!(table.is_empty());
    }

    #[test]
    fn exclusion_is_mutual(one in asked(), other in asked()) {
        prop_assert_eq!(one.holder().excludes(&other.holder()), other.holder().excludes(&one.holder()));
    }
}
