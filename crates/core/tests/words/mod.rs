//! Every reason that an event may have, none among them, for tests that try all of them.

use procyard_core::Reason;

/// None, then each reason.
pub(crate) fn reasons() -> impl Iterator<Item = Option<Reason>> {
    std::iter::once(None).chain(Reason::ALL.map(Some))
}
