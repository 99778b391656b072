//! Who a process belongs to: no zero identity gets in by any way, and nothing unknown is dropped.

use procyard_core::{EventId, ExecutionId, IdError, Identity, LoopId, NotificationId, Owner, SessionId};
use serde_json::json;
use uuid::Uuid;

const NIL: &str = "00000000-0000-0000-0000-000000000000";
const SOME: &str = "3e0d7f0a-9a55-4a86-8d7b-6b1f4f1c2d33";

macro_rules! refuses_nil {
    ($($id:ty),+) => {$(
        assert_eq!(<$id>::new(Uuid::nil()), Err(IdError::Nil));
        assert_eq!(NIL.parse::<$id>(), Err(IdError::Nil));
        assert_eq!("nobody".parse::<$id>(), Err(IdError::Malformed));
        assert!(serde_json::from_value::<$id>(json!(NIL)).is_err());
        let id: $id = SOME.parse().expect("a uuid");
        assert_eq!((id.to_string(), serde_json::to_value(id).ok()), (SOME.to_owned(), Some(json!(SOME))));
        assert!(!<$id>::from_random([0; 16]).uuid().is_nil(), "version and variant are set");
    )+};
}

#[test]
fn a_zero_identity_is_refused_whichever_way_it_comes() {
    refuses_nil!(SessionId, LoopId, ExecutionId, EventId, NotificationId);
    assert!(serde_json::from_value::<Owner>(json!({ "session": SOME, "loop": NIL })).is_err());
}

#[test]
fn an_identity_with_more_in_it_is_not_taken_for_one_without() {
    let identity = |more: &str| {
        let mut value = json!({
            "handle": "AAECAwQFBgcICQoLDA0ODw",
            "owner": { "session": SOME, "loop": SOME },
            "origin": { "execution": SOME },
        });
        if !more.is_empty() {
            value[more] = json!(1);
        }
        serde_json::from_value::<Identity>(value)
    };
    assert!(identity("").is_ok());
    assert!(identity("pid").is_err());
}

#[test]
fn an_identity_shows_four_characters_of_its_handle() {
    let owner = json!({ "session": SOME, "loop": SOME });
    let value =
        json!({ "handle": "AAECAwQFBgcICQoLDA0ODw", "owner": owner, "origin": { "execution": SOME } });
    let identity: Identity = serde_json::from_value(value).expect("an identity");
    let shown = format!("{identity:?}");
    assert!(shown.contains("AAEC…") && !shown.contains("AAECA"), "{shown}");
}
