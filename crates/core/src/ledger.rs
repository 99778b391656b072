//! What running processes, retained output and waiters take of a session's limits.
//!
//! Not for choosing what to evict: the ledger says how many bytes are missing, its owner knows what is least
//! recently used.

use std::collections::BTreeMap;

use crate::{ErrorCode, Limits, Owner};

/// What one running process takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaRequest {
    /// Bytes of in-memory window.
    pub window_bytes: u64,
    /// Bytes of spool ceiling.
    pub spool_bytes: u64,
}

/// What was reserved, all of it. Not `Clone`: giving it back is once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a reservation that is dropped is never given back; hand it to `release` or `retain`"]
pub struct Reservation {
    owner: Owner,
    request: QuotaRequest,
}

impl Reservation {
    /// The owner whose slot it is.
    pub const fn owner(&self) -> Owner {
        self.owner
    }

    /// What was reserved.
    pub const fn request(&self) -> QuotaRequest {
        self.request
    }
}

/// Bytes that a completed process keeps on disk, with their real size. Not `Clone`: see [`Reservation`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "retained bytes that are dropped are never given back; hand them to `forget`"]
pub struct Retained {
    bytes: u64,
}

/// A place among the waiters. Not `Clone`: see [`Reservation`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a waiter that is dropped is never given back; hand it to `release_waiter`"]
pub struct Waiter {
    count: u32,
}

/// Which limit refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The loop runs as many processes as it may.
    #[error("this loop already runs {limit} processes")]
    LoopSlots {
        /// The limit.
        limit: u32,
    },
    /// The session runs as many processes as it may.
    #[error("this session already runs {limit} processes")]
    SessionSlots {
        /// The limit.
        limit: u32,
    },
    /// The windows together would exceed their limit.
    #[error("the in-memory output of this session would exceed {limit} bytes")]
    WindowBytes {
        /// The limit.
        limit: u64,
    },
    /// The spools together would exceed their limit. Forgetting retained output may help.
    #[error("the output of this session would exceed {limit} bytes on disk")]
    SpoolBytes {
        /// The limit.
        limit: u64,
        /// How many bytes are missing.
        shortfall: u64,
        /// How many of the bytes in use are retained ones, which can be evicted.
        evictable: u64,
    },
    /// As many calls wait as may.
    #[error("{limit} calls are waiting already")]
    Waiters {
        /// The limit.
        limit: u32,
    },
}

impl Refusal {
    /// The code that a refused caller gets.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Refusal::LoopSlots { .. } | Refusal::SessionSlots { .. } => ErrorCode::ProcessQuotaExceeded,
            Refusal::WindowBytes { .. } | Refusal::SpoolBytes { .. } | Refusal::Waiters { .. } => {
                ErrorCode::OutputQuotaExceeded
            }
        }
    }
}

/// The ledger of one session. Pure: whoever shares it guards it.
///
/// ```
/// use procyard_core::{Limits, LoopId, Owner, QuotaLedger, QuotaRequest, SessionId};
///
/// let owner = Owner { session: SessionId::from_random([1; 16]), loop_id: LoopId::from_random([2; 16]) };
/// let mut ledger = QuotaLedger::new(&Limits { running_per_loop: 1, ..Limits::default() });
/// let request = QuotaRequest { window_bytes: 1024, spool_bytes: 4096 };
/// let first = ledger.reserve(owner, request).unwrap();
/// assert!(ledger.reserve(owner, request).is_err());
/// ledger.release(first);
/// assert!(ledger.usage().is_zero());
/// ```
#[derive(Debug)]
pub struct QuotaLedger {
    per_loop: u32,
    per_session: u32,
    window_total: u64,
    spool_total: u64,
    waiters: u32,
    running_by_owner: BTreeMap<Owner, u32>,
    usage: Usage,
}

/// What is in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Running processes.
    pub running: u32,
    /// Bytes of window reserved.
    pub window_bytes: u64,
    /// Bytes of spool reserved by running processes.
    pub spool_bytes: u64,
    /// Bytes of spool that completed processes keep.
    pub retained_bytes: u64,
    /// Calls waiting.
    pub waiters: u32,
}

impl Usage {
    /// Whether nothing at all is in use.
    pub fn is_zero(&self) -> bool {
        *self == Usage::default()
    }
}

impl QuotaLedger {
    /// An empty ledger over these limits.
    pub const fn new(limits: &Limits) -> Self {
        Self {
            per_loop: limits.running_per_loop,
            per_session: limits.running_per_session,
            window_total: limits.window_bytes_total,
            spool_total: limits.spool_bytes_total,
            waiters: limits.waiters,
            running_by_owner: BTreeMap::new(),
            usage: Usage { running: 0, window_bytes: 0, spool_bytes: 0, retained_bytes: 0, waiters: 0 },
        }
    }

    /// Takes a loop slot, a session slot, window bytes and spool bytes: all or nothing.
    pub fn reserve(&mut self, owner: Owner, request: QuotaRequest) -> Result<Reservation, Refusal> {
        let of_loop = self.running_by_owner.get(&owner).copied().unwrap_or(0);
        if of_loop >= self.per_loop {
            return Err(Refusal::LoopSlots { limit: self.per_loop });
        }
        if self.usage.running >= self.per_session {
            return Err(Refusal::SessionSlots { limit: self.per_session });
        }
        let window = self.usage.window_bytes.saturating_add(request.window_bytes);
        if window > self.window_total {
            return Err(Refusal::WindowBytes { limit: self.window_total });
        }
        let retained = self.usage.retained_bytes;
        let spool = self.usage.spool_bytes.saturating_add(request.spool_bytes);
        let shortfall = spool.saturating_add(retained).saturating_sub(self.spool_total);
        if shortfall > 0 {
            return Err(Refusal::SpoolBytes { limit: self.spool_total, shortfall, evictable: retained });
        }
        self.running_by_owner.insert(owner, of_loop + 1);
        self.usage.running += 1;
        self.usage.window_bytes = window;
        self.usage.spool_bytes = spool;
        Ok(Reservation { owner, request })
    }

    /// Gives back exactly what was reserved.
    pub fn release(&mut self, reservation: Reservation) {
        let Reservation { owner, request } = reservation;
        if let Some(count) = self.running_by_owner.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                self.running_by_owner.remove(&owner);
            }
        }
        self.usage.running -= 1;
        self.usage.window_bytes -= request.window_bytes;
        self.usage.spool_bytes -= request.spool_bytes;
    }

    /// Gives back a reservation whose process completed and keeps `bytes` on disk. The bytes of a process never
    /// exceed the ceiling that it had reserved, so that retaining never exceeds a limit; more is counted as that.
    pub fn retain(&mut self, reservation: Reservation, bytes: u64) -> Retained {
        let bytes = bytes.min(reservation.request.spool_bytes);
        self.release(reservation);
        self.adopt(bytes)
    }

    /// Counts output that a restore found. It is on disk whether or not it fits; starts are refused until
    /// enough of it is evicted.
    pub fn adopt(&mut self, bytes: u64) -> Retained {
        let bytes = bytes.min(u64::MAX - self.usage.retained_bytes);
        self.usage.retained_bytes += bytes;
        Retained { bytes }
    }

    /// Gives back the bytes of an evicted process.
    pub fn forget(&mut self, retained: Retained) {
        let Retained { bytes } = retained;
        self.usage.retained_bytes -= bytes;
    }

    /// Moves the slot of a running process to another loop of the session, or refuses when that loop is full.
    pub fn transfer(&mut self, reservation: &mut Reservation, to: Owner) -> Result<(), Refusal> {
        if reservation.owner == to {
            return Ok(());
        }
        let there = self.running_by_owner.get(&to).copied().unwrap_or(0);
        if there >= self.per_loop {
            return Err(Refusal::LoopSlots { limit: self.per_loop });
        }
        if let Some(count) = self.running_by_owner.get_mut(&reservation.owner) {
            *count -= 1;
            if *count == 0 {
                self.running_by_owner.remove(&reservation.owner);
            }
        }
        self.running_by_owner.insert(to, there + 1);
        reservation.owner = to;
        Ok(())
    }

    /// Takes a place among the waiters.
    pub fn reserve_waiter(&mut self) -> Result<Waiter, Refusal> {
        if self.usage.waiters >= self.waiters {
            return Err(Refusal::Waiters { limit: self.waiters });
        }
        self.usage.waiters += 1;
        Ok(Waiter { count: 1 })
    }

    /// Gives a waiter's place back.
    pub fn release_waiter(&mut self, waiter: Waiter) {
        let Waiter { count } = waiter;
        self.usage.waiters -= count;
    }

    /// What is in use now.
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// Running processes of one owner.
    pub fn running_of(&self, owner: Owner) -> u32 {
        self.running_by_owner.get(&owner).copied().unwrap_or(0)
    }
}
