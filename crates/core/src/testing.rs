//! Fixed identities for this crate's own tests.

use crate::{ExecutionId, Handle, Identity, LoopId, Origin, Owner, SessionId};

pub(crate) fn owner(of: u8) -> Owner {
    Owner { session: SessionId::from_random([7; 16]), loop_id: LoopId::from_random([of; 16]) }
}

pub(crate) fn identity(of: u8) -> Identity {
    Identity {
        handle: Handle::from_bytes([of; 16]),
        owner: owner(of),
        origin: Origin { execution: ExecutionId::from_random([of; 16]) },
    }
}
