//! The sessions of one owner's MCP clients over HTTP: a bounded number, each ended when nobody uses it.
//!
//! The SDK keeps the sessions; this decides how many there are and for how long, and notices clients that vanish. A call
//! whose connection is gone waits a moment for its client to resume the stream, and is then cancelled, so that its command
//! does not run on for nobody. Revisions without sessions need nothing of this: there the SDK cancels with the connection.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification,
    GetExtensions as _, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionConfig,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::presence::Presence;
use crate::stamped_ids;

/// How many sessions there may be, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionLimits {
    /// Sessions at a time. To open one more ends the one that was not used for the longest time and has no open stream.
    pub(crate) most: usize,
    /// A session without an open stream ends when it was not used for so long.
    pub(crate) idle: Duration,
    /// So long a call waits for its client to come back.
    pub(crate) absence: Duration,
}

/// Why a session could not be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionsError {
    #[error("too many sessions are in use")]
    Full,
    #[error(transparent)]
    Sdk(#[from] LocalSessionManagerError),
}

/// The sessions.
pub(crate) struct Sessions {
    inner: LocalSessionManager,
    limits: SessionLimits,
    book: Arc<Book>,
}

/// What is known of the sessions beside what the SDK keeps.
#[derive(Default)]
struct Book {
    /// Guards the entries; held to look at or change one.
    entries: Mutex<HashMap<SessionId, Entry>>,
    /// Told when there may be something earlier to do than before.
    changed: Notify,
}

struct Entry {
    used: Instant,
    /// Open streams.
    open: usize,
    calls: HashMap<u64, Call>,
    next: u64,
}

/// A request whose answer is not delivered yet.
struct Call {
    /// What its client calls it.
    request: RequestId,
    /// What the SDK calls it.
    stamped: RequestId,
    presence: Presence,
    /// Its answer was written to a stream, or it was cancelled and gets none: its client may use the id again.
    over: bool,
    /// The number by which the client names the stream when it resumes it; known from the first event on.
    stream: Option<u64>,
    /// How often the stream was resumed. Of several connections that carried it only the last one counts.
    resumed: u64,
    absent_since: Option<Instant>,
}

impl Book {
    fn entries(&self) -> MutexGuard<'_, HashMap<SessionId, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self, id: &SessionId) {
        if let Some(entry) = self.entries().get_mut(id) {
            entry.used = Instant::now();
        }
    }

    /// The request that its client has cancelled under this id, as the SDK knows it; `None` where none is under way in a
    /// session that there is.
    fn cancelled(&self, session: &SessionId, request: &RequestId) -> Option<RequestId> {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(session) else { return Some(request.clone()) };
        let mut calls = entry.calls.values_mut().filter(|call| !call.over);
        let call = calls.find(|call| call.request == *request)?;
        call.over = true;
        Some(call.stamped.clone())
    }

    /// A stream is open from now on, of a call where the key and the connection of one are given.
    fn opened(self: &Arc<Self>, id: &SessionId, call: Option<(u64, u64)>) -> Open {
        if let Some(entry) = self.entries().get_mut(id) {
            entry.open += 1;
            entry.used = Instant::now();
        }
        Open { book: Arc::clone(self), id: id.clone(), call, ended: false }
    }
}

impl Sessions {
    pub(crate) fn new(limits: SessionLimits) -> Self {
        let mut inner = LocalSessionManager::default();
        // Whether a session is idle is decided here, where open streams are known.
        let mut config = SessionConfig::default();
        config.keep_alive = None;
        inner.session_config = config;
        Self { inner, limits, book: Arc::default() }
    }

    /// Whether no session could be opened now, not even in place of another.
    pub(crate) fn is_full(&self) -> bool {
        let entries = self.book.entries();
        entries.len() >= self.limits.most && entries.values().all(|entry| entry.open > 0)
    }

    /// Whether a request of this session with this id is not answered yet.
    pub(crate) fn is_answering(&self, session: &str, request: &RequestId) -> bool {
        let entries = self.book.entries();
        let calls = entries.get(session).into_iter().flat_map(|entry| entry.calls.values());
        calls.filter(|call| !call.over).any(|call| call.request == *request)
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.book.entries().is_empty()
    }

    /// Ends what nobody uses, for as long as it is polled. Wakes only when something may be due.
    pub(crate) async fn look_after(&self) {
        loop {
            let next = self.end_what_is_due().await;
            let changed = self.book.changed.notified();
            match next {
                Some(at) => {
                    // What is due later than noted makes no difference: it is looked at again then.
                    let _ = tokio::time::timeout_at(at, changed).await;
                }
                None => changed.await,
            }
        }
    }

    /// Ends what is due, and says when to look again.
    async fn end_what_is_due(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut next = None;
        let mut idle = Vec::new();
        let mut left = Vec::new();
        let mut note = |at: Instant| next = Some(next.map_or(at, |earlier: Instant| earlier.min(at)));
        for (id, entry) in self.book.entries().iter_mut() {
            entry.calls.retain(|_, call| match call.absent_since.map(|since| since + self.limits.absence) {
                Some(due) if due <= now => {
                    left.push((id.clone(), call.stamped.clone()));
                    false
                }
                Some(due) => {
                    note(due);
                    true
                }
                None => true,
            });
            let ends = entry.used + self.limits.idle;
            if entry.open == 0 && entry.calls.is_empty() {
                if ends <= now {
                    idle.push(id.clone());
                } else {
                    note(ends);
                }
            }
        }
        for (id, request) in left {
            let why = Some("the connection of the call is gone".to_owned());
            let params = CancelledNotificationParam::new(Some(request), why);
            let cancelled = ClientNotification::CancelledNotification(CancelledNotification::new(params));
            // A session that is gone meanwhile has cancelled its calls.
            let _ = self.inner.accept_message(&id, ClientJsonRpcMessage::notification(cancelled)).await;
        }
        for id in idle {
            let _ = self.close_session(&id).await;
        }
        next
    }

    /// Makes room for one more session.
    async fn make_room(&self) -> Result<(), SessionsError> {
        loop {
            let victim = {
                let entries = self.book.entries();
                if entries.len() < self.limits.most {
                    return Ok(());
                }
                let unused = entries.iter().filter(|(_, entry)| entry.open == 0);
                unused.min_by_key(|(_, entry)| entry.used).map(|(id, _)| id.clone())
            };
            match victim {
                Some(id) => self.close_session(&id).await?,
                None => return Err(SessionsError::Full),
            }
        }
    }
}

impl SessionManager for Sessions {
    type Error = SessionsError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionsError> {
        self.make_room().await?;
        let (id, transport) = self.inner.create_session().await?;
        let entry = Entry { used: Instant::now(), open: 0, calls: HashMap::new(), next: 0 };
        self.book.entries().insert(id.clone(), entry);
        self.book.changed.notify_one();
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionsError> {
        Ok(self.inner.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionsError> {
        Ok(self.inner.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionsError> {
        self.book.entries().remove(id);
        Ok(self.inner.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        let mut call = None;
        if let ClientJsonRpcMessage::Request(request) = &mut message {
            let presence = Presence::new();
            request.request.extensions_mut().insert(presence.clone());
            if let Some(entry) = self.book.entries().get_mut(id) {
                let key = entry.next;
                entry.next += 1;
                let stamped = stamped_ids::stamped(key, &request.id);
                let waiting = Call {
                    request: std::mem::replace(&mut request.id, stamped.clone()),
                    stamped,
                    presence,
                    over: false,
                    stream: None,
                    resumed: 0,
                    absent_since: None,
                };
                entry.calls.insert(key, waiting);
                call = Some((key, 0));
            }
        }
        // From here on a client that goes away is noticed.
        let open = self.book.opened(id, call);
        let stream = self.inner.create_stream(id, message).await?;
        Ok(Watched { stream: Box::pin(stream), open })
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<(), SessionsError> {
        self.book.touch(id);
        if let ClientJsonRpcMessage::Notification(notification) = &mut message
            && let ClientNotification::CancelledNotification(cancelled) = &mut notification.notification
            && let Some(request) = &cancelled.params.request_id
        {
            let Some(stamped) = self.book.cancelled(id, request) else { return Ok(()) };
            cancelled.params.request_id = Some(stamped);
        }
        Ok(self.inner.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        let open = self.book.opened(id, None);
        let stream = self.inner.create_standalone_stream(id).await?;
        Ok(Watched { stream: Box::pin(stream), open })
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        let resumed = stream_of(&last_event_id);
        let stream = self.inner.resume(id, last_event_id).await?;
        let mut call = None;
        if let Some(entry) = self.book.entries().get_mut(id)
            && let Some((key, found)) =
                entry.calls.iter_mut().find(|(_, call)| resumed.is_some() && call.stream == resumed)
        {
            found.absent_since = None;
            found.presence.set(true);
            found.resumed += 1;
            call = Some((*key, found.resumed));
        }
        let open = self.book.opened(id, call);
        Ok(Watched { stream: Box::pin(stream), open })
    }
}

/// Whether a message is the answer to the request that the SDK calls so.
fn answers(message: &ServerJsonRpcMessage, request: &RequestId) -> bool {
    match message {
        ServerJsonRpcMessage::Response(response) => response.id == *request,
        ServerJsonRpcMessage::Error(error) => error.id.as_ref() == Some(request),
        _ => false,
    }
}

/// The number of the stream in the id of an event: `<event>/<stream>`.
fn stream_of(event_id: &str) -> Option<u64> {
    event_id.split_once('/')?.1.parse().ok()
}

/// An open stream of a session.
struct Open {
    book: Arc<Book>,
    id: SessionId,
    call: Option<(u64, u64)>,
    /// The stream has carried all it will.
    ended: bool,
}

impl Open {
    fn saw(&self, event: &ServerSseMessage) {
        let stream = event.event_id.as_deref().and_then(stream_of);
        if let Some((key, _)) = self.call
            && let Some(call) =
                self.book.entries().get_mut(&self.id).and_then(|entry| entry.calls.get_mut(&key))
        {
            call.stream = call.stream.or(stream);
            call.over |= event.message.as_deref().is_some_and(|message| answers(message, &call.stamped));
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(entry) = self.book.entries().get_mut(&self.id) {
            entry.open -= 1;
            entry.used = Instant::now();
            if let Some((key, connection)) = self.call
                && let Some(call) = entry.calls.get_mut(&key).filter(|call| call.resumed == connection)
            {
                call.absent_since = Some(Instant::now());
                call.presence.set(false);
                if self.ended {
                    entry.calls.remove(&key);
                }
            }
        }
        self.book.changed.notify_one();
    }
}

/// A stream whose end is noticed, by whatever it comes, and which calls requests as their client does.
struct Watched {
    stream: Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>,
    open: Open,
}

impl Stream for Watched {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        let mut polled = self.stream.as_mut().poll_next(context);
        match &mut polled {
            Poll::Ready(Some(event)) => {
                self.open.saw(event);
                event.message.iter_mut().for_each(stamped_ids::restore);
            }
            Poll::Ready(None) => self.open.ended = true,
            Poll::Pending => {}
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use rmcp::transport::Transport as _;
    use serde_json::{Value, json};

    use super::*;

    fn message<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn answer(id: &Value, marked: u64) -> ServerJsonRpcMessage {
        message(json!({"jsonrpc": "2.0", "id": id, "result": {"marked": marked}}))
    }

    /// The first message of a stream that has one; null at its end.
    async fn answered(stream: impl Stream<Item = ServerSseMessage>) -> Value {
        let messages = stream.filter_map(async |event| event.message);
        let first = std::pin::pin!(messages).next().await;
        first.map_or(Value::Null, |message| serde_json::to_value(&*message).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn each_answer_goes_to_the_request_that_it_answers_whatever_the_client_calls_them() {
        let second = Duration::from_secs(1);
        let sessions = Sessions::new(SessionLimits { most: 1, idle: second, absence: second });
        let (id, mut sdk) = sessions.create_session().await.unwrap();
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
            "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
        let (greeted, ()) = tokio::join!(sessions.initialize_session(&id, message(hello)), async {
            sdk.receive().await.unwrap();
            sdk.send(answer(&json!(0), 0)).await.unwrap();
        });
        greeted.unwrap();
        let ping = || message(json!({"jsonrpc": "2.0", "id": "x", "method": "ping"}));
        let x = RequestId::String("x".into());

        // Two at the same time.
        let mut asked = Vec::new();
        let mut streams = Vec::new();
        for _ in 0..2 {
            streams.push(Box::pin(sessions.create_stream(&id, ping()).await.unwrap()));
            asked.push(serde_json::to_value(sdk.receive().await.unwrap()).unwrap()["id"].clone());
        }
        assert_ne!(asked[0], asked[1]);
        sdk.send(answer(&asked[1], 1)).await.unwrap();
        let told = answered(streams.pop().unwrap()).await;
        assert_eq!((&told["id"], &told["result"]["marked"]), (&json!("x"), &json!(1)));

        // One that is cancelled, answered all the same, and meanwhile asked again.
        assert!(sessions.is_answering(&id, &x));
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x"}});
        sessions.accept_message(&id, message(cancel.clone())).await.unwrap();
        assert!(!sessions.is_answering(&id, &x), "its id is free");
        let cancelled = serde_json::to_value(sdk.receive().await.unwrap()).unwrap();
        assert_eq!(cancelled["params"]["requestId"], asked[0]);
        assert_eq!(answered(streams.pop().unwrap()).await, Value::Null, "it gets no answer");
        let again = sessions.create_stream(&id, ping()).await.unwrap();
        let third = serde_json::to_value(sdk.receive().await.unwrap()).unwrap()["id"].clone();
        sdk.send(answer(&asked[0], 0)).await.unwrap();
        sdk.send(answer(&third, 3)).await.unwrap();
        let told = answered(again).await;
        assert_eq!((&told["id"], &told["result"]["marked"]), (&json!("x"), &json!(3)));

        // Nothing is under way that this could cancel, so that the SDK never hears of it.
        sessions.accept_message(&id, message(cancel)).await.unwrap();
        let _last = sessions.create_stream(&id, ping()).await.unwrap();
        let next = serde_json::to_value(sdk.receive().await.unwrap()).unwrap();
        assert_eq!(next["method"], "ping");
    }
}
