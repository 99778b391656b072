//! The ledger against a model that adds everything up anew, under any order of calls.

use procyard_core::{
    LimitSettings, Limits, LoopId, Owner, QuotaLedger, QuotaRequest, Refusal, Reservation, Retained,
    SessionId, Usage, Waiter,
};
use proptest::prelude::*;

const OWNERS: u8 = 3;

fn owner(of: u8) -> Owner {
    Owner { session: SessionId::from_random([7; 16]), loop_id: LoopId::from_random([of; 16]) }
}

fn limits() -> Limits {
    Limits {
        running_per_loop: 3,
        running_per_session: 5,
        window_bytes_total: 1000,
        spool_bytes_total: 5000,
        waiters: 4,
        ..Limits::default()
    }
}

#[derive(Debug, Clone)]
enum Call {
    Reserve { of: u8, window: u64, spool: u64 },
    Release(prop::sample::Index),
    Retain(prop::sample::Index, u64),
    Adopt(u64),
    Forget(prop::sample::Index),
    Transfer(prop::sample::Index, u8),
    Wait,
    Woken(prop::sample::Index),
}

fn call() -> impl Strategy<Value = Call> {
    let any = any::<prop::sample::Index>;
    prop_oneof![
        4 => (0..OWNERS, 0..500_u64, 0..2500_u64)
            .prop_map(|(of, window, spool)| Call::Reserve { of, window, spool }),
        1 => (0..OWNERS, any_size(), any_size())
            .prop_map(|(of, window, spool)| Call::Reserve { of, window, spool }),
        2 => any().prop_map(Call::Release),
        2 => (any(), 0..4000_u64).prop_map(|(which, bytes)| Call::Retain(which, bytes)),
        1 => (0..2000_u64).prop_map(Call::Adopt),
        2 => any().prop_map(Call::Forget),
        2 => (any(), 0..OWNERS).prop_map(|(which, to)| Call::Transfer(which, to)),
        2 => Just(Call::Wait),
        2 => any().prop_map(Call::Woken),
    ]
}

fn any_size() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), any::<u64>()]
}

/// Everything that was given out and not yet given back.
#[derive(Default)]
struct Given {
    running: Vec<Reservation>,
    retained: Vec<(Retained, u64)>,
    waiters: Vec<Waiter>,
}

impl Given {
    fn usage(&self) -> Usage {
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        Usage {
            running: count(self.running.len()),
            window_bytes: self.running.iter().map(|one| one.request().window_bytes).sum(),
            spool_bytes: self.running.iter().map(|one| one.request().spool_bytes).sum(),
            retained_bytes: self.retained.iter().map(|(_, bytes)| bytes).sum(),
            waiters: count(self.waiters.len()),
        }
    }

    fn running_of(&self, owner: Owner) -> u32 {
        u32::try_from(self.running.iter().filter(|one| one.owner() == owner).count()).unwrap_or(u32::MAX)
    }

    /// Which limit refuses, worked out from the sums.
    fn refusal(&self, owner: Owner, request: QuotaRequest) -> Option<Refusal> {
        let (limits, usage) = (limits(), self.usage());
        let wide = |bytes: u64| u128::from(bytes);
        let window = wide(usage.window_bytes) + wide(request.window_bytes);
        let spool = wide(usage.spool_bytes) + wide(usage.retained_bytes) + wide(request.spool_bytes);
        if self.running_of(owner) >= limits.running_per_loop {
            Some(Refusal::LoopSlots { limit: limits.running_per_loop })
        } else if usage.running >= limits.running_per_session {
            Some(Refusal::SessionSlots { limit: limits.running_per_session })
        } else if window > wide(limits.window_bytes_total) {
            Some(Refusal::WindowBytes { limit: limits.window_bytes_total })
        } else if spool > wide(limits.spool_bytes_total) {
            let needed = u64::try_from(spool).unwrap_or(u64::MAX);
            let shortfall = needed - limits.spool_bytes_total;
            let evictable = usage.retained_bytes;
            Some(Refusal::SpoolBytes { limit: limits.spool_bytes_total, shortfall, evictable })
        } else {
            None
        }
    }
}

fn apply(call: Call, ledger: &mut QuotaLedger, given: &mut Given) -> Result<(), TestCaseError> {
    match call {
        Call::Reserve { of, window, spool } => {
            let request = QuotaRequest { window_bytes: window, spool_bytes: spool };
            let expected = given.refusal(owner(of), request);
            match ledger.reserve(owner(of), request) {
                Ok(reservation) => {
                    prop_assert_eq!(expected, None);
                    prop_assert_eq!((reservation.owner(), reservation.request()), (owner(of), request));
                    given.running.push(reservation);
                }
                Err(refusal) => prop_assert_eq!(Some(refusal), expected),
            }
        }
        Call::Release(which) if !given.running.is_empty() => {
            ledger.release(given.running.swap_remove(which.index(given.running.len())));
        }
        Call::Retain(which, bytes) if !given.running.is_empty() => {
            let reservation = given.running.swap_remove(which.index(given.running.len()));
            let counted = bytes.min(reservation.request().spool_bytes);
            given.retained.push((ledger.retain(reservation, bytes), counted));
        }
        Call::Adopt(bytes) => given.retained.push((ledger.adopt(bytes), bytes)),
        Call::Forget(which) if !given.retained.is_empty() => {
            ledger.forget(given.retained.swap_remove(which.index(given.retained.len())).0);
        }
        Call::Transfer(which, to) if !given.running.is_empty() => {
            let at = which.index(given.running.len());
            let from = given.running[at].owner();
            let fits = from == owner(to) || given.running_of(owner(to)) < limits().running_per_loop;
            let moved = ledger.transfer(&mut given.running[at], owner(to));
            prop_assert_eq!(moved.is_ok(), fits);
            prop_assert_eq!(given.running[at].owner(), if fits { owner(to) } else { from });
        }
        Call::Wait => match ledger.reserve_waiter() {
            Ok(waiter) => given.waiters.push(waiter),
            Err(refusal) => {
                prop_assert_eq!(refusal, Refusal::Waiters { limit: limits().waiters });
                prop_assert_eq!(given.usage().waiters, limits().waiters);
            }
        },
        Call::Woken(which) if !given.waiters.is_empty() => {
            ledger.release_waiter(given.waiters.swap_remove(which.index(given.waiters.len())));
        }
        _ => {}
    }
    Ok(())
}

proptest! {
    #[test]
    fn the_ledger_is_the_sum_of_what_was_given_within_its_limits_and_ends_at_zero(
        calls in prop::collection::vec(call(), 1..120),
    ) {
        let (mut ledger, mut given, limits) = (QuotaLedger::new(&limits()), Given::default(), limits());
        let mut adopted = 0;
        for call in calls {
            if let Call::Adopt(bytes) = call {
                adopted += bytes;
            }
            apply(call, &mut ledger, &mut given)?;
            let usage = ledger.usage();
            prop_assert_eq!(usage, given.usage());
            prop_assert_eq!(usage.is_zero(), given.usage() == Usage::default());
            prop_assert!(usage.running <= limits.running_per_session);
            prop_assert!(usage.window_bytes <= limits.window_bytes_total);
            // What a restore found is there whether it fits or not; nothing else ever exceeds the limit.
            prop_assert!(usage.spool_bytes + usage.retained_bytes <= limits.spool_bytes_total + adopted);
            prop_assert!(usage.waiters <= limits.waiters);
            for of in 0..OWNERS {
                prop_assert_eq!(ledger.running_of(owner(of)), given.running_of(owner(of)));
                prop_assert!(ledger.running_of(owner(of)) <= limits.running_per_loop);
            }
        }
        given.running.into_iter().for_each(|one| ledger.release(one));
        given.retained.into_iter().for_each(|(one, _)| ledger.forget(one));
        given.waiters.into_iter().for_each(|one| ledger.release_waiter(one));
        prop_assert!(ledger.usage().is_zero());
        prop_assert!((0..OWNERS).all(|of| ledger.running_of(owner(of)) == 0));
    }

    #[test]
    fn limits_resolve_to_positive_consistent_ones_or_name_the_field_at_fault(
        values in prop::collection::vec(prop_oneof![3 => Just(0), 5 => 1..50_i64, 1 => any::<i64>()], 17),
    ) {
        let settings = LimitSettings {
            running_per_loop: values[0],
            running_per_session: values[1],
            retained_per_session: values[2],
            window_bytes: values[3],
            window_bytes_total: values[4],
            spool_bytes: values[5],
            spool_bytes_total: values[6],
            inline_bytes: values[7],
            waiters: values[8],
            pending_input_bytes: values[9],
            graceful_shutdown_ms: values[10],
            drain_quiet_ms: values[11],
            drain_cap_ms: values[12],
            leftover_grace_ms: values[13],
            proof_bound_ms: values[14],
            foreground_default_secs: values[15],
            foreground_maximum_secs: values[16],
        };
        let given = serde_json::to_value(&settings)?;
        let value = |field: &str| given[field].as_i64().unwrap_or_default();
        match settings.resolve() {
            Err(invalid) => {
                let at_fault = value(invalid.field);
                let whole = match invalid.field {
                    "running_per_loop" => value("running_per_session"),
                    "window_bytes" => value("window_bytes_total"),
                    "spool_bytes" => value("spool_bytes_total"),
                    "drain_quiet_ms" => value("drain_cap_ms"),
                    "foreground_default_secs" => value("foreground_maximum_secs"),
                    _ => 0,
                };
                let contradicts = whole > 0 && at_fault > whole;
                prop_assert!(at_fault < 0 || contradicts || at_fault > i64::from(u32::MAX), "{}", invalid);
            }
            Ok(limits) => {
                prop_assert!(0 < limits.running_per_loop && limits.running_per_loop <= limits.running_per_session);
                prop_assert!(0 < limits.window_bytes && limits.window_bytes <= limits.window_bytes_total);
                prop_assert!(0 < limits.spool_bytes && limits.spool_bytes <= limits.spool_bytes_total);
                prop_assert!(!limits.drain_quiet.is_zero() && limits.drain_quiet <= limits.drain_cap);
                prop_assert!(limits.foreground_default <= limits.foreground_maximum);
                for (explicit, effective) in [
                    (values[0], u64::from(limits.running_per_loop)),
                    (values[1], u64::from(limits.running_per_session)),
                    (values[2], u64::from(limits.retained_per_session)),
                    (values[3], limits.window_bytes),
                    (values[4], limits.window_bytes_total),
                    (values[5], limits.spool_bytes),
                    (values[6], limits.spool_bytes_total),
                    (values[7], limits.inline_bytes),
                    (values[8], u64::from(limits.waiters)),
                    (values[9], limits.pending_input_bytes),
                    (values[15], limits.foreground_default.as_secs()),
                    (values[16], limits.foreground_maximum.as_secs()),
                ] {
                    prop_assert!(explicit == 0 || explicit.unsigned_abs() == effective, "an explicit value stands");
                    prop_assert!(effective > 0);
                }
            }
        }
    }
}

#[test]
fn what_exactly_fills_a_limit_is_granted_and_a_byte_more_is_refused() {
    let limits = Limits {
        window_bytes_total: 10,
        spool_bytes_total: 20,
        running_per_loop: 9,
        running_per_session: 9,
        ..Limits::default()
    };
    let ask = |ledger: &mut QuotaLedger, window_bytes, spool_bytes| {
        ledger.reserve(owner(1), QuotaRequest { window_bytes, spool_bytes }).map(drop)
    };
    let mut ledger = QuotaLedger::new(&limits);
    assert_eq!(ask(&mut ledger, 10, 20), Ok(()));
    assert_eq!(ask(&mut ledger, 1, 0), Err(Refusal::WindowBytes { limit: 10 }));
    let full = Refusal::SpoolBytes { limit: 20, shortfall: 1, evictable: 0 };
    assert_eq!(ask(&mut ledger, 0, 1), Err(full));
}
