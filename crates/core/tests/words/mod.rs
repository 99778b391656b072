//! Every kind of event and every reason that there is, for tests that try all of them.

use procyard_core::{EventKind, Reason};

pub(crate) const KINDS: [EventKind; 5] = [
    EventKind::Started,
    EventKind::Backgrounded,
    EventKind::StopRequested,
    EventKind::Completed,
    EventKind::Lost,
];

pub(crate) const REASONS: [Option<Reason>; 10] = [
    None,
    Some(Reason::Exited),
    Some(Reason::Failed),
    Some(Reason::TimedOut),
    Some(Reason::Interrupted),
    Some(Reason::Terminated),
    Some(Reason::Killed),
    Some(Reason::RunnerShutdown),
    Some(Reason::OutputLimit),
    Some(Reason::LostOnRestore),
];
