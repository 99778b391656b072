//! The requests of one client that are not answered yet.
//!
//! A client chooses the ids, and the SDK knows a request by nothing else: it would give the late answer of a call that was
//! cancelled to the next one with the same id. So the SDK is given numbers of its own, each used once, and the client's ids
//! are put back on the way out. Not for what is done about a client that asks for too much: see `lines`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ClientJsonRpcMessage, ClientNotification, GetMeta as _, RequestId, ServerJsonRpcMessage};

use crate::batch::Batch;
use crate::weight::Share;

/// The requests under way. Shared by the way in and the way out.
#[derive(Default)]
pub(crate) struct InFlight {
    /// Guards the ids; held to look at or change them.
    ids: Mutex<Ids>,
}

#[derive(Default)]
struct Ids {
    next: i64,
    /// By the number that the SDK knows.
    asked: HashMap<i64, Asked>,
    /// The number of each id.
    numbers: HashMap<RequestId, i64>,
}

struct Asked {
    id: RequestId,
    /// What it came with and is answered in.
    batch: Option<Arc<Batch>>,
    /// What it weighs.
    _share: Share,
}

impl Ids {
    fn forget(&mut self, number: i64) -> Option<Asked> {
        let asked = self.asked.remove(&number)?;
        self.numbers.remove(&asked.id);
        Some(asked)
    }
}

impl InFlight {
    fn ids(&self) -> MutexGuard<'_, Ids> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a request with this id is under way.
    pub(crate) fn has(&self, id: &RequestId) -> bool {
        self.ids().numbers.contains_key(id)
    }

    /// A message on its way in, as the SDK is to see it. `None` for one that is about a request which is not under way.
    /// The id of a request must not be in use. A request holds its share, and the batch that it came in, until it is over.
    pub(crate) fn coming(
        &self,
        mut message: ClientJsonRpcMessage,
        share: Share,
        batch: Option<Arc<Batch>>,
    ) -> Option<ClientJsonRpcMessage> {
        let mut ids = self.ids();
        match &mut message {
            ClientJsonRpcMessage::Request(request) => {
                let number = ids.next;
                ids.next += 1;
                let id = std::mem::replace(&mut request.id, RequestId::Number(number));
                ids.numbers.insert(id.clone(), number);
                ids.asked.insert(number, Asked { id, batch, _share: share });
            }
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &mut notification.notification {
                    let number = *ids.numbers.get(cancelled.params.request_id.as_ref()?)?;
                    // It gets no answer, so its id is free from now on.
                    ids.forget(number);
                    cancelled.params.request_id = Some(RequestId::Number(number));
                }
            }
            _ => {}
        }
        Some(message)
    }

    /// A message on its way out, as the client is to see it, and the batch that it belongs to, if any. `None` for what belongs
    /// to a request that was cancelled.
    pub(crate) fn going(
        &self,
        mut message: ServerJsonRpcMessage,
    ) -> Option<(ServerJsonRpcMessage, Option<Arc<Batch>>)> {
        let mut batch = None;
        match &mut message {
            ServerJsonRpcMessage::Response(response) => (response.id, batch) = self.answered(&response.id)?,
            ServerJsonRpcMessage::Error(error) => {
                if let Some(id) = &mut error.id {
                    (*id, batch) = self.answered(id)?;
                }
            }
            ServerJsonRpcMessage::Notification(notification) => {
                let meta = notification.notification.get_meta_mut();
                if let Some(RequestId::Number(number)) = meta.subscription_id() {
                    meta.set_subscription_id(self.ids().asked.get(&number)?.id.clone());
                }
            }
            ServerJsonRpcMessage::Request(_) => {}
        }
        Some((message, batch))
    }

    fn answered(&self, number: &RequestId) -> Option<(RequestId, Option<Arc<Batch>>)> {
        let RequestId::Number(number) = number else { return None };
        let Asked { id, batch, .. } = self.ids().forget(*number)?;
        Some((id, batch))
    }

    /// Nothing that came in a batch is answered any more: what its batch has goes out without it.
    pub(crate) fn give_batches_up(&self) {
        let mut ids = self.ids();
        let batched: Vec<_> =
            ids.asked.iter().filter(|(_, asked)| asked.batch.is_some()).map(|(number, _)| *number).collect();
        for number in batched {
            ids.forget(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::weight::Weight;

    fn coming(flight: &InFlight, message: Value) -> Option<Value> {
        let message = serde_json::from_value(message).unwrap();
        let message = flight.coming(message, Weight::default().hold(1), None);
        message.map(|message| serde_json::to_value(message).unwrap())
    }

    fn going(flight: &InFlight, message: Value) -> Option<Value> {
        let message = serde_json::from_value(message).unwrap();
        flight.going(message).map(|(message, _)| serde_json::to_value(message).unwrap())
    }

    fn ping(id: &Value) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
    }

    fn answer(id: &Value) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "result": {}})
    }

    fn cancel(id: &Value) -> Value {
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
    }

    #[test]
    fn ids_of_both_types_come_back_as_they_were_and_do_not_meet() {
        let flight = InFlight::default();
        let number = coming(&flight, ping(&json!(1))).unwrap()["id"].clone();
        let text = coming(&flight, ping(&json!("1"))).unwrap()["id"].clone();
        assert_ne!(number, text);
        assert_eq!(going(&flight, answer(&text)).unwrap()["id"], "1");
        assert_eq!(going(&flight, answer(&number)).unwrap()["id"], 1);
        assert_eq!(going(&flight, answer(&number)), None, "each is answered once");
    }

    #[test]
    fn the_late_answer_of_a_cancelled_request_is_not_given_to_the_next_one_with_its_id() {
        let flight = InFlight::default();
        let id = json!("again");
        let first = coming(&flight, ping(&id)).unwrap()["id"].clone();
        assert!(flight.has(&RequestId::String("again".into())));
        assert_eq!(coming(&flight, cancel(&id)).unwrap()["params"]["requestId"], first);
        assert_eq!(coming(&flight, cancel(&id)), None, "it is not under way any more");
        let second = coming(&flight, ping(&id)).unwrap()["id"].clone();
        assert_eq!(going(&flight, answer(&first)), None);
        assert_eq!(going(&flight, answer(&second)).unwrap()["id"], id);
    }

    #[test]
    fn what_a_subscription_tells_names_the_request_that_asked() {
        let flight = InFlight::default();
        let number = coming(&flight, ping(&json!("listen"))).unwrap()["id"].clone();
        let told = |number: &Value| {
            let meta = json!({"io.modelcontextprotocol/subscriptionId": number});
            let params = json!({"uri": "procyard://process/x/output", "_meta": meta});
            json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params})
        };
        let out = going(&flight, told(&number)).unwrap();
        assert_eq!(out["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "listen", "{out}");
        coming(&flight, cancel(&json!("listen"))).unwrap();
        assert_eq!(going(&flight, told(&number)), None);
    }

    #[tokio::test]
    async fn the_weight_of_what_is_under_way_goes_with_its_answer_and_its_cancellation() {
        let (flight, weight) = (InFlight::default(), Weight::default());
        for id in 0..4 {
            let message = serde_json::from_value(ping(&json!(id))).unwrap();
            flight.coming(message, weight.hold(1), None).unwrap();
        }
        let mut room = std::pin::pin!(weight.at_most(2));
        assert!(futures_util::poll!(&mut room).is_pending());
        coming(&flight, cancel(&json!(3))).unwrap();
        assert!(futures_util::poll!(&mut room).is_pending());
        going(&flight, answer(&json!(0))).unwrap();
        assert!(futures_util::poll!(&mut room).is_ready());
    }
}
