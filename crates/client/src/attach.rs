//! A process's terminal, over a WebSocket.
//!
//! Not for the person's terminal: whoever attaches one has it.

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::header::AUTHORIZATION;
use procyard_api::http::{AttachCommand, AttachQuery, AttachReport};
use procyard_core::Handle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::connect::Connection;
use crate::path::{of_process, with_query};
use crate::{Client, ClientError, CutOff};

/// The longest message of the service.
const MESSAGE_MAX: usize = 4 << 20;

impl Client {
    /// Attaches to a process. Several may be attached at the same time.
    pub async fn attach(&self, handle: &Handle, query: &AttachQuery) -> Result<Attachment, ClientError> {
        let connection = self.address().connect().await?;
        let path = with_query(&of_process(handle, "/attach"), query)?;
        let uri = format!("ws://{}{path}", self.address().host());
        let mut request = uri.into_client_request().map_err(ClientError::broken)?;
        if let Some(authorization) = self.authorization() {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        let config =
            WebSocketConfig::default().max_message_size(Some(MESSAGE_MAX)).max_frame_size(Some(MESSAGE_MAX));
        let opened = tokio_tungstenite::client_async_with_config(request, connection, Some(config)).await;
        match opened {
            Ok((socket, _)) => Ok(Attachment { socket }),
            Err(error) => Err(refused(error)),
        }
    }
}

/// An attachment to a process: its output comes, input goes.
#[derive(Debug)]
pub struct Attachment {
    socket: WebSocketStream<Connection>,
}

/// What comes from the process, or from the service about it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum FromProcess {
    /// Output, as it was printed.
    Output(Bytes),
    /// A report of the service.
    Report(AttachReport),
}

impl Attachment {
    /// What comes next; `None` when the attachment has ended, a [`ClientError::CutOff`] where the service ends it before the
    /// process has. Cancellation safe.
    pub async fn next(&mut self) -> Result<Option<FromProcess>, ClientError> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Binary(bytes))) => return Ok(Some(FromProcess::Output(bytes))),
                Some(Ok(Message::Text(text))) => {
                    let report = serde_json::from_str(&text).map_err(ClientError::not_understood)?;
                    return Ok(Some(FromProcess::Report(report)));
                }
                // The library answers pings and closes by itself.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(farewell))) => {
                    return farewell.as_ref().and_then(understood).map_or(Ok(None), |why| Err(why.into()));
                }
                Some(Err(Error::ConnectionClosed | Error::AlreadyClosed)) | None => return Ok(None),
                Some(Err(error)) => return Err(broken(error)),
            }
        }
    }

    /// Types these bytes. Waits while the service takes no more.
    pub async fn send(&mut self, bytes: impl Into<Bytes>) -> Result<(), ClientError> {
        self.socket.send(Message::Binary(bytes.into())).await.map_err(broken)
    }

    /// Asks for a new size or for the end of input.
    pub async fn command(&mut self, command: AttachCommand) -> Result<(), ClientError> {
        let text = serde_json::to_string(&command)
            .map_err(|_| ClientError::Invalid("it cannot be written as JSON"))?;
        self.socket.send(Message::Text(text.into())).await.map_err(broken)
    }

    /// Leaves the process as it is.
    pub async fn detach(mut self) {
        // It is left by dropping the connection, too; this is only polite.
        let _ = self.socket.close(None).await;
    }
}

/// What the service means by going away (RFC 6455, section 7.4.1); nothing of a farewell because the process has ended.
fn understood(farewell: &CloseFrame) -> Option<CutOff> {
    match farewell.code {
        CloseCode::Away | CloseCode::Error if let Some(said) = CutOff::parse(&farewell.reason) => Some(said),
        CloseCode::Away => Some(CutOff::ShuttingDown),
        CloseCode::Error => Some(CutOff::Unavailable),
        _ => None,
    }
}

fn broken(error: Error) -> ClientError {
    match error {
        Error::Capacity(_) => ClientError::TooLong { limit: MESSAGE_MAX },
        error => ClientError::broken(error),
    }
}

/// A service that does not switch protocols says why, as it does elsewhere.
fn refused(error: Error) -> ClientError {
    match error {
        Error::Http(answer) => {
            let body = answer.body().as_deref().unwrap_or_default();
            ClientError::of_answer(answer.status().as_u16(), None, body)
        }
        error => broken(error),
    }
}

#[cfg(test)]
mod tests {
    use super::{CloseCode, CloseFrame, CutOff, understood};

    #[test]
    fn a_farewell_is_understood_by_its_reason_and_else_by_its_code() {
        for (code, reason, why) in [
            (CloseCode::Away, "loop_closed", Some(CutOff::LoopClosed)),
            (CloseCode::Away, "session_closed", Some(CutOff::SessionClosed)),
            (CloseCode::Away, "removed", Some(CutOff::Removed)),
            (CloseCode::Away, "the service is being shut down", Some(CutOff::ShuttingDown)),
            (CloseCode::Error, "gap", Some(CutOff::Gap)),
            (CloseCode::Error, "of tomorrow", Some(CutOff::Unavailable)),
            (CloseCode::Normal, "the process has ended", None),
        ] {
            assert_eq!(understood(&CloseFrame { code, reason: reason.into() }), why, "{code} {reason}");
        }
    }
}
