//! Strategies that give what they say.

use procyard_core::{LimitSettings, Limits};
use procyard_runner::{CommandSpec, ProcessRequest, Runner as _, Signal, TreeProof};
use procyard_testkit::strategies::{interleavings, limits, origins, owners, scripts, sizes, strangers};
use procyard_testkit::{DEADLINE, ScriptedRunner};
use proptest::prelude::*;

use crate::owner;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn limits_are_what_settings_resolve_to(limits in limits()) {
        let Limits { running_per_loop, running_per_session, waiters, .. } = limits;
        let wide = |bytes: u64| i64::try_from(bytes).unwrap();
        let settings = LimitSettings {
            running_per_loop: running_per_loop.into(),
            running_per_session: running_per_session.into(),
            retained_per_session: limits.retained_per_session.into(),
            waiters: waiters.into(),
            window_bytes: wide(limits.window_bytes),
            window_bytes_total: wide(limits.window_bytes_total),
            spool_bytes: wide(limits.spool_bytes),
            spool_bytes_total: wide(limits.spool_bytes_total),
            ..LimitSettings::default()
        };
        prop_assert_eq!(settings.resolve().unwrap(), limits);
    }

    #[test]
    fn every_sequence_of_an_interleaving_is_in_its_own_order(
        mixed in interleavings(vec![vec![1, 2, 3], vec![], vec![7, 8]]),
    ) {
        let of = |number| -> Vec<i32> {
            mixed.iter().filter(|(from, _)| *from == number).map(|(_, item)| *item).collect()
        };
        prop_assert_eq!([of(0), of(1), of(2)], [vec![1, 2, 3], vec![], vec![7, 8]]);
    }

    #[test]
    fn strangers_are_others_and_sizes_are_some(
        stranger in strangers(owner(1)), other in owners(), sizes in sizes(9),
    ) {
        prop_assert_ne!(stranger, owner(1));
        prop_assert_ne!(other, owner(1));
        prop_assert!(!sizes.is_empty() && sizes.iter().all(|size| (1..=9).contains(size)));
    }

    #[test]
    fn any_script_that_starts_ends_by_a_kill_and_leaves_nothing(script in scripts(), origin in origins()) {
        let clock = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        clock.unwrap().block_on(async {
            let runner = ScriptedRunner::new(script);
            let request = ProcessRequest::new(CommandSpec::Shell("play".into()), "/", origin);
            let prepared = runner.prepare(request).await.unwrap();
            // One that does not start may panic on the way.
            let Ok(Ok(process)) = tokio::spawn(prepared.start()).await else { return };
            process.signal(Signal::Kill).await.unwrap();
            tokio::time::timeout(DEADLINE, process.wait()).await.expect("the leader ends");
            assert_eq!(process.tree().await, TreeProof::Empty);
        });
    }
}
