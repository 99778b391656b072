//! What a result says of the caps on a command: the values in force, and what is not enforced.
//!
//! Not for setting them: that is whoever builds the toolbox.

use procyard_api::{LimitReport, LimitsReport};
use procyard_core::Enforcement;
use procyard_supervisor::Snapshot;

/// The caps of a process, where some were asked for.
pub(crate) fn report(snapshot: &Snapshot) -> Option<LimitsReport> {
    let limits = snapshot.limits.as_ref()?;
    Some(LimitsReport {
        memory_max: limits.memory_max.as_ref().map(one),
        pids_max: limits.pids_max.as_ref().map(one),
        nice: limits.nice.as_ref().map(one),
        oom_score_adj: limits.oom_score_adj.as_ref().map(one),
        core_max: limits.core_max.as_ref().map(one),
        memory_kills: Some(snapshot.memory_kills).filter(|kills| *kills > 0),
    })
}

fn one<T: Copy + TryInto<i64>>(limit: &Enforcement<T>) -> LimitReport {
    LimitReport {
        // More than that is no limit on any machine.
        value: limit.value().map(|value| value.try_into().unwrap_or(i64::MAX)),
        not_enforced: limit.why_not().map(str::to_owned),
    }
}

/// That the memory limit was reached, where the diagnostic of the end does not say it.
pub(crate) fn warning(snapshot: &Snapshot) -> Option<String> {
    let limits = snapshot.limits.as_ref().filter(|_| snapshot.memory_kills > 0)?;
    let said = limits.memory_reached(snapshot.memory_kills);
    let diagnostic = snapshot.outcome.as_ref().and_then(|outcome| outcome.diagnostic.as_ref());
    (diagnostic != Some(&said)).then_some(said)
}

/// In one line.
pub(crate) fn in_words(limits: &LimitsReport) -> String {
    let named = [
        ("memory_max", &limits.memory_max),
        ("pids_max", &limits.pids_max),
        ("nice", &limits.nice),
        ("oom_score_adj", &limits.oom_score_adj),
        ("core_max", &limits.core_max),
    ];
    let told = named.into_iter().filter_map(|(name, limit)| {
        let limit = limit.as_ref()?;
        Some(match (limit.value, &limit.not_enforced) {
            (Some(value), _) => format!("{name} {value}"),
            (None, Some(why)) => format!("{name} not enforced ({why})"),
            (None, None) => return None,
        })
    });
    told.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use procyard_core::{EffectiveLimits, Outcome, Reason, State};

    use super::*;
    use crate::testing;

    fn limited(kills: u32) -> Snapshot {
        let limits = EffectiveLimits {
            memory_max: Some(Enforcement::InForce(1 << 20)),
            pids_max: Some(Enforcement::not("no pids controller")),
            nice: Some(Enforcement::InForce(-3)),
            ..EffectiveLimits::default()
        };
        Snapshot {
            limits: Some(limits),
            memory_kills: kills,
            ..testing::snapshot("true", if kills > 0 { State::Failed } else { State::Running })
        }
    }

    #[test]
    fn every_cap_is_told_as_a_value_or_a_reason() {
        let report = report(&limited(0)).unwrap();
        assert_eq!(
            in_words(&report),
            "memory_max 1048576, pids_max not enforced (no pids controller), nice -3"
        );
        let json = serde_json::to_value(&report).unwrap();
        let expect = serde_json::json!({
            "memory_max": {"value": 1_048_576}, "pids_max": {"not_enforced": "no pids controller"}, "nice": {"value": -3}
        });
        assert_eq!(json, expect);
        assert_eq!(super::report(&testing::snapshot("true", State::Running)), None);
    }

    #[test]
    fn a_value_beyond_what_json_takes_is_the_largest() {
        assert_eq!(one(&Enforcement::InForce(u64::MAX)).value, Some(i64::MAX));
    }

    #[test]
    fn reaching_the_memory_limit_is_told_once() {
        assert_eq!(warning(&limited(0)), None);
        let mut ended = limited(2);
        assert!(warning(&ended).unwrap().contains("1 MiB was reached"));
        let said = ended.limits.as_ref().unwrap().memory_reached(2);
        ended.outcome = Some(Outcome::diagnosed(Reason::Failed, &said));
        assert_eq!(warning(&ended), None, "the diagnostic says it");
        assert_eq!(report(&ended).unwrap().memory_kills, Some(2));
    }
}
