//! Ends that are told once, though services are told at least once.
//!
//! Not for whom a notice goes to: the caller hands in those of one owner.

use std::collections::HashMap;

use procyard_core::{EventId, Handle, LifecycleEvent, NotificationId};
use procyard_supervisor::{Notice, NoticeKind};

/// The end of a process as it was announced: one, under one id, as the last thing that is said of it. The events may be
/// those of a [`Journal`](crate::Journal) or of several one after the other, with every repetition; what is repeated
/// must be what was said first.
///
/// # Panics
///
/// When it does not hold.
#[track_caller]
pub fn assert_terminal_once(events: &[LifecycleEvent], process: Handle) -> LifecycleEvent {
    let mut by_id: HashMap<EventId, &LifecycleEvent> = HashMap::new();
    let mut said: Vec<&LifecycleEvent> = Vec::new();
    for event in events.iter().filter(|event| event.identity.handle == process) {
        if let Some(first) = by_id.get(&event.id) {
            assert!(
                *first == event,
                "expected an event to be repeated as it was; it was {first:?} and then {event:?}"
            );
        } else {
            by_id.insert(event.id, event);
            said.push(event);
        }
    }
    let kinds: Vec<_> = said.iter().map(|event| (event.kind, event.state)).collect();
    let ends = said.iter().filter(|event| event.kind.is_end()).count();
    assert!(ends == 1, "expected one end of {process:?}; {ends} were announced: {kinds:?}");
    let last = said.iter().rfind(|event| event.kind.is_end()).filter(|end| said.last() == Some(end));
    let Some(end) = last else {
        panic!("expected nothing after the end of {process:?}; seen were {kinds:?}")
    };
    for event in &said {
        if let Err(error) = event.check() {
            panic!(
                "expected events that the lifecycle matrix admits; of {process:?} came {event:?}: {error}"
            );
        }
    }
    (*end).clone()
}

/// The notice of a process's end: one id, however often it was delivered, and each time the same.
///
/// # Panics
///
/// When there is none, or another.
#[track_caller]
pub fn assert_noticed_once(notices: &[Notice], process: Handle) -> Notice {
    let ends = ends(notices, process);
    let Some(first) = ends.first() else {
        panic!("expected a notice of the end of {process:?}; there was none among {}", notices.len())
    };
    let other = ends.iter().find(|notice| *notice != first);
    assert!(
        other.is_none(),
        "expected one notice of the end of {process:?}; seen were {first:?} and {other:?}"
    );
    (*first).clone()
}

/// # Panics
///
/// When the end of this process was noticed.
#[track_caller]
pub fn assert_no_notice(notices: &[Notice], process: Handle) {
    let ids: Vec<NotificationId> = ends(notices, process).iter().map(|notice| notice.id).collect();
    assert!(ids.is_empty(), "expected no notice of the end of {process:?}; seen were {ids:?}");
}

fn ends(notices: &[Notice], process: Handle) -> Vec<&Notice> {
    let mine = notices.iter().filter(|notice| notice.handle == process);
    mine.filter(|notice| notice.kind == NoticeKind::Completed).collect()
}
