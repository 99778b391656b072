//! Messages to and from a client over a pair of byte streams, one a line: the transport that the SDK is given.
//!
//! Everything that a client writes is either carried out by the SDK or answered here. What a client may keep waiting is
//! bounded: a line, the requests under way, and the answers that it does not read. Beyond, nothing is read from it until
//! there is room again. Not for the order of calls, nor for how a session opens: see `turns` and `opens_late`.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, JsonRpcMessage, ProtocolVersion, ServerResult,
};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::batch::{Batch, Unread};
use crate::envelope::{Received, Refusal, read, read_one};
use crate::in_flight::InFlight;
use crate::line_reader::{Line, LineReader};
use crate::outbox::Outbox;
use crate::params;
use crate::weight::Weight;

/// The longest message that is read; a tool's arguments are at most 1 MiB of text, which JSON can write as six.
pub(crate) const MESSAGE_MAX: usize = 8 * 1024 * 1024;

/// Answers that a client has not read. One more may be as long as it is.
const UNREAD_MAX: usize = 64 * 1024 * 1024;

/// What the requests under way may weigh: their own bytes, and as much as an answer usually takes until it is on its way. What
/// was answered and waits for the rest of its batch weighs what it is.
const ASKED_MAX: usize = 64 * 1024 * 1024;
const ASKED_EACH: usize = 256 * 1024;

/// A request beyond that waits for others to be answered, unless none was for so long. Then it is refused, so that what
/// comes behind it, perhaps a cancellation, is read.
const ASKED_WAIT: Duration = Duration::from_secs(1);

/// What is read ahead while nothing is taken, so that a client that leaves is noticed: more than a pipe holds.
const AHEAD_MAX: usize = 2 * 1024 * 1024;

/// What is not written so long after the last message stays unwritten.
const LAST_WRITES: Duration = Duration::from_secs(1);

/// The transport.
pub(crate) struct Lines<R> {
    reader: LineReader<R>,
    /// `None` once it is closed.
    outbox: Option<Outbox>,
    writing: AbortOnDropHandle<()>,
    in_flight: Arc<InFlight>,
    weight: Weight,
    held: Option<Held>,
    unread: Option<Unread>,
    /// Whether the revision that was agreed upon last has batches. Set on the way out, looked at on the way in.
    takes_batches: Arc<AtomicBool>,
    /// Since when there is no room for one more request.
    full_since: Option<Instant>,
}

/// A request that waits for others to be answered.
struct Held {
    message: ClientJsonRpcMessage,
    weight: usize,
    batch: Option<Arc<Batch>>,
}

/// Something that a client has sent.
struct Coming {
    what: Received,
    weight: usize,
    /// What it came in.
    batch: Option<Arc<Batch>>,
}

impl<R: AsyncRead + Send + Unpin> Lines<R> {
    /// A transport over a pair of streams. Must be called within a runtime.
    pub(crate) fn new(read: R, write: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let (outbox, writing) = Outbox::new(write);
        let reader = LineReader::new(read, MESSAGE_MAX);
        Self {
            reader,
            outbox: Some(outbox),
            writing,
            in_flight: Arc::default(),
            weight: Weight::default(),
            held: None,
            unread: None,
            takes_batches: Arc::default(),
            full_since: None,
        }
    }

    /// The next message that there is room for. `None` at the end.
    async fn next(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let outbox = self.outbox.clone()?;
            tokio::select! {
                biased;
                () = outbox.at_most(UNREAD_MAX) => {}
                never = self.reader.read_ahead(AHEAD_MAX) => match never {},
            }
            if let Some(held) = self.admit().await {
                return Some(held);
            }
            let coming = match self.unread.take() {
                Some(unread) => self.batched(unread),
                None => self.line().await?,
            };
            let refuse = |refusal: &Refusal| refuse(&outbox, coming.batch.as_deref(), refusal);
            let message = match coming.what {
                Received::Message(message) => *message,
                Received::Refused(refusal) => {
                    refuse(&refusal);
                    continue;
                }
                Received::Batch(messages) => {
                    self.open(messages, coming.weight, outbox);
                    continue;
                }
                Received::Ignored => continue,
            };
            if let Some(refusal) = self.refusal(&message, coming.batch.is_some()) {
                refuse(&refusal);
            } else if matches!(message, ClientJsonRpcMessage::Request(_)) {
                self.held = Some(Held { message, weight: coming.weight + ASKED_EACH, batch: coming.batch });
            } else if let Some(message) = self.in_flight.coming(message, self.weight.hold(0), None) {
                return Some(message);
            }
        }
    }

    /// What the next line is. `None` at the end. Cancellation safe.
    async fn line(&mut self) -> Option<Coming> {
        let (what, weight) = match self.reader.next().await {
            Line::Whole(line) => (read(&line), line.len()),
            Line::TooLong(beginning) => (Received::Refused(Refusal::too_long(&beginning, MESSAGE_MAX)), 0),
            Line::End => return None,
        };
        Some(Coming { what, weight, batch: None })
    }

    /// What the next message of a batch is.
    fn batched(&mut self, unread: Unread) -> Coming {
        let (message, weight, batch, rest) = unread.next();
        self.unread = rest;
        Coming { what: message.map_or(Received::Ignored, read_one), weight, batch: Some(batch) }
    }

    /// Begins with the messages of a batch, or refuses it.
    fn open(&mut self, messages: Vec<Value>, line: usize, outbox: Outbox) {
        if !self.takes_batches.load(Ordering::Relaxed) {
            // Each on a line of its own, as in every revision that has no batches.
            for refusal in Refusal::each_batched(&messages) {
                refuse(&outbox, None, &refusal);
            }
        } else if let Some(refusal) = Refusal::of_batch(&messages) {
            refuse(&outbox, None, &refusal);
        } else {
            self.unread = Unread::new(messages, line, Batch::new(outbox, &self.weight));
        }
    }

    /// Why a message is not for the SDK.
    fn refusal(&self, message: &ClientJsonRpcMessage, batched: bool) -> Option<Refusal> {
        if let ClientJsonRpcMessage::Request(request) = message {
            if self.in_flight.has(&request.id) {
                return Some(Refusal::in_use(&request.id));
            }
            if batched && matches!(request.request, ClientRequest::InitializeRequest(_)) {
                return Some(Refusal::opens_in_batch(&request.id));
            }
        }
        params::refusal(message)
    }

    /// The request that is held, as soon as there is room for it. Cancellation safe: it is held until then.
    async fn admit(&mut self) -> Option<ClientJsonRpcMessage> {
        let weight = self.held.as_ref()?.weight;
        let full_since = *self.full_since.get_or_insert_with(Instant::now);
        let has_room = tokio::select! {
            biased;
            () = self.weight.at_most(ASKED_MAX.saturating_sub(weight)) => true,
            () = sleep_until(full_since + ASKED_WAIT) => false,
            never = self.reader.read_ahead(AHEAD_MAX) => match never {},
        };
        let held = self.held.take()?;
        if has_room {
            self.full_since = None;
            return self.in_flight.coming(held.message, self.weight.hold(weight), held.batch);
        }
        if let (ClientJsonRpcMessage::Request(request), Some(outbox)) = (held.message, &self.outbox) {
            let why = "too many requests are under way; wait until some are answered";
            let refusal = Refusal::new(json!(request.id), ErrorCode::INVALID_REQUEST, why);
            refuse(outbox, held.batch.as_deref(), &refusal);
        }
        None
    }
}

/// Posts a refusal, or adds it to the answers of the batch that it is about. Nobody waits until it is read.
fn refuse(outbox: &Outbox, batch: Option<&Batch>, refusal: &Refusal) {
    let answer = refusal.response().to_string().into_bytes();
    match batch {
        Some(batch) => batch.add(&answer),
        None => drop(outbox.post(answer)),
    }
}

/// Whether the revision that a message agrees upon has batches; `None` for one that does not answer `initialize`.
fn agrees_on_batches(message: &TxJsonRpcMessage<RoleServer>) -> Option<bool> {
    let JsonRpcMessage::Response(response) = message else { return None };
    let ServerResult::InitializeResult(agreed) = &response.result else { return None };
    Some(agreed.protocol_version < ProtocolVersion::V_2025_06_18)
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for Lines<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (outbox, in_flight) = (self.outbox.clone(), Arc::clone(&self.in_flight));
        let takes_batches = Arc::clone(&self.takes_batches);
        async move {
            let gone = || io::Error::from(io::ErrorKind::NotConnected);
            let outbox = outbox.ok_or_else(gone)?;
            // What was cancelled meanwhile is not for the client.
            let Some((item, batch)) = in_flight.going(item) else { return Ok(()) };
            if let Some(agreed) = agrees_on_batches(&item) {
                takes_batches.store(agreed, Ordering::Relaxed);
            }
            let answer = serde_json::to_vec(&item)?;
            match batch {
                // It goes out with the last one.
                Some(batch) => batch.add(&answer),
                None => outbox.post(answer).await.map_err(|_| gone())?,
            }
            Ok(())
        }
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleServer>>> + Send {
        self.next()
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // What has answers is sent with those, and holds the outbox no longer.
        (self.held, self.unread) = (None, None);
        self.in_flight.give_batches_up();
        drop(self.outbox.take());
        // Lines that a client does not read are given up with the transport.
        let _ = timeout(LAST_WRITES, &mut self.writing).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ServerJsonRpcMessage;
    use serde_json::Value;
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};

    use super::*;

    type Server = Lines<ReadHalf<DuplexStream>>;

    fn connected() -> (Server, WriteHalf<DuplexStream>, tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>) {
        let (client, server) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(server);
        let (answers, asking) = tokio::io::split(client);
        (Lines::new(read, write), asking, BufReader::new(answers).lines())
    }

    fn ping(id: usize) -> String {
        format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "ping"}))
    }

    /// The number under which the SDK is asked, or `None` when it is asked nothing for an hour.
    async fn asked(server: &mut Server) -> Option<Value> {
        let message = timeout(Duration::from_secs(3600), server.receive()).await.ok()??;
        serde_json::to_value(message).unwrap().get("id").cloned()
    }

    async fn answer(server: &mut Server, number: &Value) {
        let answer = json!({"jsonrpc": "2.0", "id": number, "result": {}});
        server.send(serde_json::from_value::<ServerJsonRpcMessage>(answer).unwrap()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_too_many_is_refused_when_no_answer_makes_room_and_what_follows_is_read() {
        let (mut server, mut asking, mut answers) = connected();
        let most = ASKED_MAX / ASKED_EACH;
        for id in 0..most + 3 {
            asking.write_all(ping(id).as_bytes()).await.unwrap();
        }
        let mut under_way = Vec::new();
        while let Some(number) = asked(&mut server).await {
            under_way.push(number);
        }
        assert!((most - 2..=most).contains(&under_way.len()), "{}", under_way.len());
        for id in under_way.len()..most + 3 {
            let line = answers.next_line().await.unwrap().unwrap();
            let refused: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(
                (&refused["id"], &refused["error"]["code"]),
                (&json!(id), &json!(-32600)),
                "{refused}"
            );
        }
        // A cancellation makes room, too.
        let cancelled =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0}});
        asking.write_all(format!("{cancelled}\n{}", ping(7777)).as_bytes()).await.unwrap();
        let message = serde_json::to_value(server.receive().await.unwrap()).unwrap();
        assert_eq!(message["params"]["requestId"], under_way[0], "{message}");
        let number = asked(&mut server).await.expect("there is room");
        answer(&mut server, &number).await;
        let answered: Value = serde_json::from_str(&answers.next_line().await.unwrap().unwrap()).unwrap();
        assert_eq!(answered["id"], 7777, "{answered}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_too_many_waits_for_as_long_as_answers_make_room() {
        let (mut server, mut asking, mut answers) = connected();
        let many = 4 * ASKED_MAX / ASKED_EACH;
        let asking = tokio::spawn(async move {
            for id in 0..many {
                asking.write_all(ping(id).as_bytes()).await.unwrap();
            }
            asking
        });
        let reading = tokio::spawn(async move {
            for id in 0..many {
                let line = answers.next_line().await.unwrap().unwrap();
                let answered: Value = serde_json::from_str(&line).unwrap();
                assert_eq!((&answered["id"], &answered["result"]), (&json!(id), &json!({})));
            }
        });
        for _ in 0..many {
            let number = asked(&mut server).await.expect("all are asked");
            answer(&mut server, &number).await;
        }
        reading.await.unwrap();
        drop(asking.await.unwrap());
        assert!(server.receive().await.is_none(), "the end");
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_client_that_reads_nothing_is_noticed() {
        let (mut server, mut asking, answers) = connected();
        asking.write_all(ping(1).as_bytes()).await.unwrap();
        asked(&mut server).await.expect("the first is asked");
        // More than is kept for a client that reads nothing; the pipe holds a part.
        drop(server.outbox.as_ref().unwrap().post(vec![b' '; UNREAD_MAX + (4 << 20)]));
        asking.write_all(ping(2).as_bytes()).await.unwrap();
        assert_eq!(asked(&mut server).await, None, "it is not asked more");
        asking.shutdown().await.unwrap();
        assert_eq!(asked(&mut server).await, None);
        let noticed = futures_util::poll!(Box::pin(server.reader.next()));
        assert!(noticed.is_ready(), "all that it said was read ahead");
        drop(answers);
    }

    /// A server that has agreed on batches, and has been asked the two requests of one.
    async fn asked_in_a_batch(server: &mut Server, asking: &mut WriteHalf<DuplexStream>) -> (Value, Value) {
        server.takes_batches.store(true, Ordering::Relaxed);
        asking.write_all(format!("[{},{}]\n", ping(1).trim(), ping(2).trim()).as_bytes()).await.unwrap();
        let first = asked(server).await.expect("the first is asked");
        (first, asked(server).await.expect("the second is asked"))
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_wait_for_their_batch_take_the_place_of_requests() {
        let (mut server, mut asking, mut answers) = connected();
        // Room for three requests more.
        let _others = server.weight.hold(ASKED_MAX - 4 * ASKED_EACH + 1024);
        let (first, second) = asked_in_a_batch(&mut server, &mut asking).await;
        let long = "x".repeat(2 * ASKED_EACH);
        let answer = json!({"jsonrpc": "2.0", "id": first, "result": {"long": long}});
        server.send(serde_json::from_value::<ServerJsonRpcMessage>(answer).unwrap()).await.unwrap();
        asking.write_all(ping(3).as_bytes()).await.unwrap();
        assert_eq!(asked(&mut server).await, None, "there is no room");
        let refused: Value = serde_json::from_str(&answers.next_line().await.unwrap().unwrap()).unwrap();
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(3), &json!(-32600)));
        // What the batch waits for can still be cancelled.
        let cancelled =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
        asking.write_all(format!("{cancelled}\n{}", ping(4)).as_bytes()).await.unwrap();
        let message = serde_json::to_value(server.receive().await.unwrap()).unwrap();
        assert_eq!(message["params"]["requestId"], second, "{message}");
        let gathered: Value = serde_json::from_str(&answers.next_line().await.unwrap().unwrap()).unwrap();
        assert_eq!((gathered.as_array().unwrap().len(), &gathered[0]["id"]), (1, &json!(1)));
        assert!(asked(&mut server).await.is_some(), "there is room again");
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_batch_has_is_sent_when_the_connection_closes() {
        let (mut server, mut asking, mut answers) = connected();
        let (_, second) = asked_in_a_batch(&mut server, &mut asking).await;
        answer(&mut server, &second).await;
        server.close().await.unwrap();
        drop(server);
        let gathered: Value = serde_json::from_str(&answers.next_line().await.unwrap().unwrap()).unwrap();
        assert_eq!(gathered, json!([{"jsonrpc": "2.0", "id": 2, "result": {}}]));
        assert!(answers.next_line().await.unwrap().is_none());
    }
}
