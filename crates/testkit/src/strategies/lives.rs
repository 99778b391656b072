//! What a scripted process can do in its life.
//!
//! Not for what a runner does wrong in the middle of it: signals that fail are a suite's own choice.

use std::time::Duration;

use procyard_core::{LeaderEnd, Stream, WaitStatus};
use proptest::prelude::*;
use proptest::sample::select;

use super::{chunks, wait_statuses};
use crate::{Leftover, Reaction, Script, StartFault};

/// Scripts of any kind: they print, wait, end by themselves in any way or never, react to signals, leave descendants that can
/// be stubborn and hold the output, or do not start. Each ends when it is killed, and its tree can be proven empty.
pub fn scripts() -> impl Strategy<Value = Script> {
    let output = chunks(4);
    let pause = prop::option::of((0..3_000_u64).prop_map(Duration::from_millis));
    let end = prop::option::of(prop_oneof![4 => wait_statuses().prop_map(Some), 1 => Just(None)]);
    let leftover = prop::option::weighted(0.3, leftovers());
    let fault = prop::option::weighted(0.15, start_faults());
    (output, pause, end, (reactions(), reactions()), leftover, fault).prop_map(
        |(output, pause, end, (on_terminate, on_interrupt), leftover, fault)| {
            let mut script = Script::new().on_terminate(on_terminate).on_interrupt(on_interrupt);
            for (stream, bytes) in output {
                script = match stream {
                    Stream::Stderr => script.stderr(bytes),
                    Stream::Stdout | Stream::Terminal => script.stdout(bytes),
                };
            }
            if let Some(pause) = pause {
                script = script.pause(pause);
            }
            script = match end {
                Some(status) => ending(script, status),
                None => script,
            };
            if let Some(leftover) = leftover {
                script = script.leaves(leftover);
            }
            match fault {
                Some(fault) => script.start_fault(fault),
                None => script,
            }
        },
    )
}

/// Lets the leader end like this; `None`: without anybody knowing how.
fn ending(script: Script, status: Option<WaitStatus>) -> Script {
    match status.map(WaitStatus::end) {
        Some(LeaderEnd::Code(code)) => script.exit(code),
        Some(LeaderEnd::Signal(signal)) => script.die_of(signal.number()),
        Some(LeaderEnd::Unknown) | None => script.lose_status(),
    }
}

fn reactions() -> impl Strategy<Value = Reaction> {
    prop_oneof![Just(Reaction::Die), any::<u8>().prop_map(Reaction::Exit), Just(Reaction::Ignore)]
}

fn leftovers() -> impl Strategy<Value = Leftover> {
    let end_after = prop::option::of((0..3_000_u64).prop_map(Duration::from_millis));
    (1..4_u32, reactions(), end_after, any::<bool>()).prop_map(
        |(count, on_terminate, end_after, hold_output)| Leftover {
            count,
            on_terminate,
            end_after,
            hold_output,
        },
    )
}

fn start_faults() -> impl Strategy<Value = StartFault> {
    select(vec![StartFault::NotFound, StartFault::Slow(Duration::from_millis(300)), StartFault::Panic])
}
