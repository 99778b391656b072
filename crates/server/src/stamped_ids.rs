//! Ids for the requests of a session over HTTP, each of which the SDK sees once.
//!
//! A client chooses its ids and may use one again, after it has cancelled a request say; the SDK knows a request by nothing
//! else, and would give the late answer of the earlier one to the later. Over a pair of streams a table puts the client's ids
//! back (see `in_flight`). Here a stream can be resumed when its request is long forgotten, so that what is put back is part
//! of the id itself. Not for which requests are under way: see `mcp_sessions`.

use std::sync::Arc;

use rmcp::model::{GetMeta as _, RequestId, ServerJsonRpcMessage};
use serde_json::json;

/// What the SDK is to call the request of this number that its client calls `id`.
pub(crate) fn stamped(number: u64, id: &RequestId) -> RequestId {
    RequestId::String(format!("{number} {}", json!(id)).into())
}

/// What the client calls a request that the SDK calls so.
fn original(stamped: &RequestId) -> Option<RequestId> {
    let RequestId::String(text) = stamped else { return None };
    let (_, id) = text.split_once(' ')?;
    serde_json::from_str(id).ok()
}

/// Puts the client's id back where a message on its way out has the SDK's.
pub(crate) fn restore(message: &mut Arc<ServerJsonRpcMessage>) {
    let Some(id) = named_in(message).as_ref().and_then(original) else { return };
    // The SDK keeps its own for a client that resumes the stream.
    match Arc::make_mut(message) {
        ServerJsonRpcMessage::Response(response) => response.id = id,
        ServerJsonRpcMessage::Error(error) => error.id = Some(id),
        ServerJsonRpcMessage::Notification(notification) => {
            notification.notification.get_meta_mut().set_subscription_id(id);
        }
        ServerJsonRpcMessage::Request(_) => {}
    }
}

/// The request of the client that a message is about.
fn named_in(message: &ServerJsonRpcMessage) -> Option<RequestId> {
    match message {
        ServerJsonRpcMessage::Response(response) => Some(response.id.clone()),
        ServerJsonRpcMessage::Error(error) => error.id.clone(),
        ServerJsonRpcMessage::Notification(notification) => {
            notification.notification.get_meta().subscription_id()
        }
        ServerJsonRpcMessage::Request(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn restored(message: Value) -> Value {
        let mut message = Arc::new(serde_json::from_value(message).unwrap());
        let kept = Arc::clone(&message);
        let before = serde_json::to_value(&*kept).unwrap();
        restore(&mut message);
        assert_eq!(serde_json::to_value(&*kept).unwrap(), before, "what is kept stays as it is");
        serde_json::to_value(&*message).unwrap()
    }

    #[test]
    fn ids_of_both_types_come_back_as_they_were() {
        for id in [json!(1), json!(-7), json!("1"), json!(""), json!("with a \" and a space"), json!("3 4")] {
            let stamped = stamped(9, &serde_json::from_value(id.clone()).unwrap());
            assert_ne!(json!(stamped), id);
            assert_eq!(restored(json!({"jsonrpc": "2.0", "id": stamped, "result": {}}))["id"], id);
            let error = json!({"code": -32603, "message": "no"});
            assert_eq!(restored(json!({"jsonrpc": "2.0", "id": stamped, "error": error}))["id"], id);
            let meta = json!({"io.modelcontextprotocol/subscriptionId": stamped});
            let params = json!({"uri": "procyard://process/x/output", "_meta": meta});
            let method = "notifications/resources/updated";
            let told = restored(json!({"jsonrpc": "2.0", "method": method, "params": params}));
            assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
        }
    }

    #[test]
    fn the_same_id_is_another_each_time_and_one_that_was_not_stamped_stays() {
        let id = RequestId::Number(1);
        assert_ne!(stamped(1, &id), stamped(2, &id));
        for id in [json!(1), json!("hello"), json!("hello you")] {
            assert_eq!(restored(json!({"jsonrpc": "2.0", "id": id, "result": {}}))["id"], id);
        }
    }
}
