//! The client: an address, a token, and how a request is sent and its answer taken.
//!
//! Not for routes: those are in files of their own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connect::{Address, Connection};
use crate::{ClientError, path};

/// The longest answer that is taken whole. A tool's result is at most 1 MiB of text, which JSON can write as six.
pub(crate) const ANSWER_MAX: usize = 16 << 20;

/// A client of one service, with one token or, on its Unix socket, none. Cheap to clone.
///
/// No request has a deadline of its own, since some wait on purpose: drop the future to stop waiting. What was sent by then
/// may be carried out all the same.
#[derive(Clone)]
pub struct Client {
    address: Arc<Address>,
    /// As the header has it.
    authorization: Option<HeaderValue>,
}

/// A request before it has an address.
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Ask {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), body: None, headers: Vec::new() }
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self { method: Method::DELETE, ..Self::get(path) }
    }

    pub(crate) fn post(path: impl Into<String>, body: &impl Serialize) -> Result<Self, ClientError> {
        let body =
            serde_json::to_vec(body).map_err(|_| ClientError::Invalid("it cannot be written as JSON"))?;
        Ok(Self { method: Method::POST, body: Some(body), ..Self::get(path) })
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl Client {
    /// A client of the service at an address.
    pub fn new(address: Address) -> Self {
        Self { address: Arc::new(address), authorization: None }
    }

    /// A client of the service with this Unix socket.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::new(Address::Unix(path.into()))
    }

    /// The same service with this token: its requests are those of the token's loop, or of the administrator. A token that
    /// no header can hold is sent as an empty one, and refused; as none it would be whoever connects.
    pub fn with_token(&self, token: &str) -> Self {
        let token = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut authorization = token.unwrap_or_else(|_| HeaderValue::from_static("Bearer"));
        authorization.set_sensitive(true);
        Self { address: Arc::clone(&self.address), authorization: Some(authorization) }
    }

    /// Where the service is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }

    /// Sends a request and gives the answer's head, whatever its status, with the body still to come.
    pub(crate) async fn send(&self, ask: Ask) -> Result<Response<Incoming>, ClientError> {
        let connection = self.address.connect().await?;
        let request = self.request(ask)?;
        let (mut sender, driver) = handshake(connection).await?;
        // Ends with the answer's body, or when that is dropped.
        tokio::spawn(driver);
        sender.send_request(request).await.map_err(ClientError::broken)
    }

    fn request(&self, ask: Ask) -> Result<Request<Full<Bytes>>, ClientError> {
        let mut request =
            Request::builder().method(ask.method).uri(ask.path).header(HOST, self.address.host());
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        for (name, value) in ask.headers {
            request = request.header(name, value);
        }
        if ask.body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = Full::new(Bytes::from(ask.body.unwrap_or_default()));
        request
            .body(body)
            .map_err(|_| ClientError::Invalid("a header or the path holds what HTTP does not admit"))
    }

    /// The answer of a success; a refusal is an error.
    pub(crate) async fn succeed(&self, ask: Ask) -> Result<Response<Incoming>, ClientError> {
        let answer = self.send(ask).await?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let (status, retry_after) = (answer.status(), retry_after(&answer));
        let body = whole(answer.into_body()).await?;
        Err(ClientError::of_answer(status.as_u16(), retry_after, &body))
    }

    /// The answer as it is.
    pub(crate) async fn bytes(&self, ask: Ask) -> Result<Bytes, ClientError> {
        whole(self.succeed(ask).await?.into_body()).await
    }

    /// The answer, understood.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, ask: Ask) -> Result<T, ClientError> {
        let answer = self.bytes(ask.header(ACCEPT.as_str(), "application/json")).await?;
        serde_json::from_slice(&answer).map_err(ClientError::not_understood)
    }

    /// The answer of a `GET` with a query.
    pub(crate) async fn look<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.ask(Ask::get(path::with_query(path, query)?)).await
    }

    /// Something that is to be gone afterwards.
    pub(crate) async fn remove(&self, path: String) -> Result<(), ClientError> {
        self.bytes(Ask::delete(path)).await.map(drop)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("address", &self.address).finish_non_exhaustive()
    }
}

async fn handshake(
    connection: Connection,
) -> Result<(http1::SendRequest<Full<Bytes>>, impl Future<Output = ()>), ClientError> {
    let (sender, driver) = http1::handshake(TokioIo::new(connection)).await.map_err(ClientError::broken)?;
    Ok((sender, async {
        // Whoever reads the body learns of it there.
        let _ = driver.await;
    }))
}

async fn whole(body: Incoming) -> Result<Bytes, ClientError> {
    match Limited::new(body, ANSWER_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(ClientError::TooLong { limit: ANSWER_MAX })
        }
        Err(error) => Err(ClientError::Broken(error)),
    }
}

fn retry_after(answer: &Response<Incoming>) -> Option<Duration> {
    let may_help = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
    let seconds = answer.headers().get(RETRY_AFTER).filter(|_| may_help.contains(&answer.status()))?;
    seconds.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_no_header_can_hold_is_not_sent_as_none() {
        let client = Client::unix("/nowhere");
        assert!(client.authorization().is_none());
        assert_eq!(client.with_token("a").authorization().unwrap(), "Bearer a");
        assert_eq!(client.with_token("a\nb").authorization().unwrap(), "Bearer");
    }
}
