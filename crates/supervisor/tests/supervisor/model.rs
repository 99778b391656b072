//! The whole supervisor against a pure model: random interleavings of everything that callers, processes, services and
//! the clock can do to it, and its deaths, on a paused clock and a store in memory.
//!
//! The model ([`reference`]) is plain data that knows to the millisecond what should be; after each step the
//! supervisor is held against it ([`check`]). Not for faults of the runner or the store: those have matrices of their own.

mod calls;
mod check;
mod process;
mod reference;
mod services;
mod steps;
mod world;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// How many cases are tried. CI tries the first; `cargo xtask nightly` says how many it tries.
fn cases() -> u32 {
    std::env::var("PROCYARD_TEST_MODEL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2_000)
}

#[test]
fn the_supervisor_does_what_the_model_does() {
    let config = ProptestConfig {
        cases: cases(),
        max_shrink_iters: 4_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let all = prop::collection::vec(steps::step(), 1..steps::STEPS_MAX);
    let outcome = TestRunner::new(config).run(&all, |steps| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut world = world::World::new().await;
            for step in steps {
                world.take(step).await;
            }
            world.finish().await;
        });
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
