//! What can happen to a supervisor, as data: a case is a list of these, so that one that fails shrinks.
//!
//! Not for what follows from a step: that is the reference's.

use procyard_core::StopKind;
use procyard_testkit::{Leftover, Reaction};
use proptest::prelude::*;

use super::reference::{LOOPS, Millis, SECOND};

/// The most steps of a case. Each has milliseconds of its own, and whatever takes time takes whole eighths of a second
/// more, which are no multiples of a step: no two things that different steps began ever happen at the same instant, so
/// that what follows is certain.
pub(super) const STEPS_MAX: usize = 40;

/// Which one of several: the latest, the one before, and so on round.
pub(super) type Which = usize;

#[derive(Debug, Clone)]
pub(super) enum Step {
    Start(Plan),
    Append { which: Which, text: String },
    Exit { which: Which, code: u8 },
    EndLeftovers { which: Which },
    Pass { seconds: u64 },
    Stop { which: Which, kind: StopKind, grace: Millis },
    Wait { targets: Vec<(Which, usize)>, any: bool, until: Until, seconds: u64 },
    Quiet { which: Which, seconds: u64, within: u64 },
    Input { which: Which, kilobytes: usize, eof: bool },
    Room { which: Which },
    Read { which: Which, cursor: usize },
    Cancel { which: Which },
    HandOver { which: Which, lift: bool },
    Attend { which: Which },
    Leave { which: Which, released: bool },
    Learnt { which: Which },
    Deliver { of: usize, most: usize },
    Tell { of: usize, outcome: Option<Which>, most: usize },
    EndTelling { which: Which, handed_over: bool },
    Subscribe { of: usize },
    Transfer { from: usize, to: usize },
    CloseLoop { of: usize },
    Services { publisher: bool, notifier: bool },
    Shutdown,
    Restart(Death),
}

/// What a wait looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    Exit,
    Output,
    /// This letter.
    Match(char),
}

/// How a supervisor goes before the next one comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Death {
    /// At once: what it has written is all that there is.
    Killed,
    /// Its last handle is dropped.
    Dropped,
}

/// A process to start.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) owner: usize,
    pub(super) background: bool,
    /// Its idempotency key, and the digest of its arguments.
    pub(super) key: Option<(u8, u8)>,
    /// How long the start takes.
    pub(super) slow: Option<Millis>,
    /// The runner refuses.
    pub(super) fails: bool,
    pub(super) deadline: Option<Millis>,
    pub(super) stall: Option<Millis>,
    pub(super) waits_for_leftovers: bool,
    pub(super) on_terminate: Reaction,
    pub(super) on_interrupt: Reaction,
    pub(super) leftover: Option<Leftover>,
    pub(super) stdin: bool,
}

impl Plan {
    /// A foreground process of this loop that does nothing.
    pub(super) fn plain(owner: usize) -> Self {
        Self {
            owner,
            background: false,
            key: None,
            slow: None,
            fails: false,
            deadline: None,
            stall: None,
            waits_for_leftovers: false,
            on_terminate: Reaction::Die,
            on_interrupt: Reaction::Die,
            leftover: None,
            stdin: false,
        }
    }
}

fn reaction() -> impl Strategy<Value = Reaction> {
    prop_oneof![3 => Just(Reaction::Die), 1 => (0_u8..4).prop_map(Reaction::Exit), 2 => Just(Reaction::Ignore)]
}

fn leftover() -> impl Strategy<Value = Leftover> {
    let ends = prop::option::of((0_u64..6).prop_map(|seconds| {
        // A quarter of a second apart from everything else.
        std::time::Duration::from_millis(seconds * SECOND + 250)
    }));
    (1_u32..4, any::<bool>(), ends, any::<bool>()).prop_map(|(count, stubborn, end_after, hold_output)| {
        let on_terminate = if stubborn { Reaction::Ignore } else { Reaction::Die };
        Leftover { count, on_terminate, end_after, hold_output }
    })
}

fn plan() -> impl Strategy<Value = Plan> {
    let seconds = |most: u64| (1..most).prop_map(|seconds| seconds * SECOND);
    let run = (
        0..LOOPS,
        any::<bool>(),
        prop::option::weighted(0.3, (0_u8..2, 0_u8..2)),
        // Three eighths of a second apart from everything else.
        prop::option::weighted(0.2, seconds(4).prop_map(|slow| slow + 375)),
        prop::bool::weighted(0.08),
    );
    let time = (
        prop::option::weighted(0.3, seconds(8)),
        // Half a second apart from everything else.
        prop::option::weighted(0.3, seconds(4).prop_map(|window| window + SECOND / 2)),
    );
    let ends =
        (any::<bool>(), reaction(), reaction(), prop::option::weighted(0.35, leftover()), any::<bool>());
    (run, time, ends).prop_map(|((owner, background, key, slow, fails), (deadline, stall), ends)| {
        let (waits_for_leftovers, on_terminate, on_interrupt, leftover, stdin) = ends;
        Plan {
            owner,
            background,
            key,
            slow,
            fails,
            deadline,
            stall,
            waits_for_leftovers,
            on_terminate,
            on_interrupt,
            leftover,
            stdin,
        }
    })
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let which = || 0_usize..6;
    let of = || 0..LOOPS;
    let kinds = prop::sample::select(vec![StopKind::Interrupt, StopKind::Terminate, StopKind::Kill]);
    // Three quarters of a second apart from everything else.
    let graces = (1_u64..4).prop_map(|seconds| seconds * SECOND + 750);
    let until = prop_oneof![
        2 => Just(Until::Exit),
        2 => Just(Until::Output),
        1 => prop::char::range('a', 'd').prop_map(Until::Match),
    ];
    let targets = prop::collection::vec((which(), 0_usize..30), 1..4);
    prop_oneof![
        10 => plan().prop_map(Step::Start),
        6 => (which(), "[a-dxyz]{1,12}").prop_map(|(which, text)| Step::Append { which, text }),
        6 => (which(), 0_u8..4).prop_map(|(which, code)| Step::Exit { which, code }),
        2 => which().prop_map(|which| Step::EndLeftovers { which }),
        9 => (1_u64..6).prop_map(|seconds| Step::Pass { seconds }),
        6 => (which(), kinds, graces).prop_map(|(which, kind, grace)| Step::Stop { which, kind, grace }),
        5 => (targets, any::<bool>(), until, 0_u64..5)
            .prop_map(|(targets, any, until, seconds)| Step::Wait { targets, any, until, seconds }),
        2 => (which(), 0_u64..4, 0_u64..6)
            .prop_map(|(which, seconds, within)| Step::Quiet { which, seconds, within }),
        3 => (which(), 1_usize..50, prop::bool::weighted(0.2))
            .prop_map(|(which, kilobytes, eof)| Step::Input { which, kilobytes, eof }),
        1 => which().prop_map(|which| Step::Room { which }),
        2 => (which(), 0_usize..30).prop_map(|(which, cursor)| Step::Read { which, cursor }),
        4 => which().prop_map(|which| Step::Cancel { which }),
        3 => (which(), any::<bool>()).prop_map(|(which, lift)| Step::HandOver { which, lift }),
        2 => which().prop_map(|which| Step::Attend { which }),
        2 => (which(), any::<bool>()).prop_map(|(which, released)| Step::Leave { which, released }),
        1 => which().prop_map(|which| Step::Learnt { which }),
        1 => (of(), 1_usize..4).prop_map(|(of, most)| Step::Deliver { of, most }),
        2 => (of(), prop::option::of(which()), 0_usize..4)
            .prop_map(|(of, outcome, most)| Step::Tell { of, outcome, most }),
        2 => (which(), any::<bool>())
            .prop_map(|(which, handed_over)| Step::EndTelling { which, handed_over }),
        1 => of().prop_map(|of| Step::Subscribe { of }),
        2 => (of(), of()).prop_map(|(from, to)| Step::Transfer { from, to }),
        1 => of().prop_map(|of| Step::CloseLoop { of }),
        1 => (any::<bool>(), any::<bool>())
            .prop_map(|(publisher, notifier)| Step::Services { publisher, notifier }),
        1 => Just(Step::Shutdown),
        2 => prop_oneof![3 => Just(Death::Killed), 1 => Just(Death::Dropped)].prop_map(Step::Restart),
    ]
}
