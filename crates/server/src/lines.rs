//! Messages to and from a client over a pair of byte streams, one a line: the transport that the SDK is given.
//!
//! Everything that a client writes is either carried out by the SDK or answered here. What a client may keep waiting is
//! bounded: a line, the requests under way, and the answers that it does not read. Beyond, nothing is read from it until
//! there is room again. Not for the order of calls, nor for how a session opens: see `turns` and `opens_late`.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{ClientJsonRpcMessage, ErrorCode};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::envelope::{Received, Refusal, read};
use crate::in_flight::InFlight;
use crate::line_reader::{Line, LineReader};
use crate::outbox::Outbox;
use crate::params;

/// The longest message that is read; a tool's arguments are at most 1 MiB of text, which JSON can write as six.
pub(crate) const MESSAGE_MAX: usize = 8 * 1024 * 1024;

/// Answers that a client has not read. One more may be as long as it is.
const UNREAD_MAX: usize = 64 * 1024 * 1024;

/// What the requests under way may weigh: their own bytes, and as much as an answer usually takes until it is on its way.
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
    held: Option<Held>,
    /// Since when there is no room for one more request.
    full_since: Option<Instant>,
}

/// A request that waits for others to be answered.
struct Held {
    message: ClientJsonRpcMessage,
    weight: usize,
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
            held: None,
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
            let (line, weight) = match self.reader.next().await {
                Line::Whole(line) => (read(&line), line.len() + ASKED_EACH),
                Line::TooLong(beginning) => {
                    (Received::Refused(Refusal::too_long(&beginning, MESSAGE_MAX)), 0)
                }
                Line::End => return None,
            };
            match line {
                Received::Message(message) => match self.refusal(&message) {
                    Some(refusal) => refuse(&outbox, &refusal),
                    None if matches!(*message, ClientJsonRpcMessage::Request(_)) => {
                        self.held = Some(Held { message: *message, weight });
                    }
                    None => {
                        if let Some(message) = self.in_flight.coming(*message, 0) {
                            return Some(message);
                        }
                    }
                },
                Received::Refused(refusal) => refuse(&outbox, &refusal),
                // Each on a line of its own, as in every revision that has no batches.
                Received::Batch(ids) => {
                    for id in ids {
                        refuse(&outbox, &Refusal::batched(id));
                    }
                }
                Received::Ignored => {}
            }
        }
    }

    /// Why a message is not for the SDK.
    fn refusal(&self, message: &ClientJsonRpcMessage) -> Option<Refusal> {
        if let ClientJsonRpcMessage::Request(request) = message
            && self.in_flight.has(&request.id)
        {
            return Some(Refusal::in_use(&request.id));
        }
        params::refusal(message)
    }

    /// The request that is held, as soon as there is room for it. Cancellation safe: it is held until then.
    async fn admit(&mut self) -> Option<ClientJsonRpcMessage> {
        let weight = self.held.as_ref()?.weight;
        let full_since = *self.full_since.get_or_insert_with(Instant::now);
        let has_room = tokio::select! {
            biased;
            () = self.in_flight.at_most(ASKED_MAX.saturating_sub(weight)) => true,
            () = sleep_until(full_since + ASKED_WAIT) => false,
            never = self.reader.read_ahead(AHEAD_MAX) => match never {},
        };
        let held = self.held.take()?;
        if has_room {
            self.full_since = None;
            return self.in_flight.coming(held.message, weight);
        }
        if let (ClientJsonRpcMessage::Request(request), Some(outbox)) = (held.message, &self.outbox) {
            let why = "too many requests are under way; wait until some are answered";
            refuse(outbox, &Refusal::new(json!(request.id), ErrorCode::INVALID_REQUEST, why));
        }
        None
    }
}

/// Posts a refusal. Nobody waits until it is read.
fn refuse(outbox: &Outbox, refusal: &Refusal) {
    drop(outbox.post(refusal.response().to_string().into_bytes()));
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for Lines<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (outbox, in_flight) = (self.outbox.clone(), Arc::clone(&self.in_flight));
        async move {
            let gone = || io::Error::from(io::ErrorKind::NotConnected);
            let outbox = outbox.ok_or_else(gone)?;
            // What was cancelled meanwhile is not for the client.
            let Some(item) = in_flight.going(item) else { return Ok(()) };
            outbox.post(serde_json::to_vec(&item)?).await.map_err(|_| gone())
        }
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleServer>>> + Send {
        self.next()
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
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
}
