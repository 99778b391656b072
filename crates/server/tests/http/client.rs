//! A client at the level of requests: one connection each.

use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::body::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpStream, UnixStream};

/// No test waits longer for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Where a service listens.
#[derive(Debug, Clone)]
pub(crate) enum At {
    Socket(PathBuf),
    Tcp(std::net::SocketAddr),
}

impl At {
    pub(crate) fn socket(path: &Path) -> Self {
        Self::Socket(path.to_owned())
    }

    /// Sends a request, and gives the response as soon as its head is there.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let sent = async {
            match self {
                Self::Socket(path) => over(UnixStream::connect(path).await.unwrap(), request).await,
                Self::Tcp(address) => over(TcpStream::connect(address).await.unwrap(), request).await,
            }
        };
        tokio::time::timeout(PATIENCE, sent).await.expect("an answer in time")
    }
}

async fn over<S>(stream: S, request: Request<Full<Bytes>>) -> Response<Incoming>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    // Ends with the response.
    tokio::spawn(connection);
    sender.send_request(request).await.unwrap()
}

/// A response, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) body: Bytes,
    /// Whether the body came to its end.
    pub(crate) whole: bool,
    pub(crate) trailers: hyper::HeaderMap,
}

impl Answer {
    pub(crate) async fn of(response: Response<Incoming>) -> Self {
        let (parts, mut body) = response.into_parts();
        let (mut bytes, mut whole, mut trailers) = (Vec::new(), true, hyper::HeaderMap::new());
        let read = async {
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame else {
                    whole = false;
                    return;
                };
                bytes.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
                if let Ok(last) = frame.into_trailers() {
                    trailers = last;
                }
            }
        };
        tokio::time::timeout(PATIENCE, read).await.expect("the body in time");
        Self { status: parts.status.as_u16(), headers: parts.headers, body: bytes.into(), whole, trailers }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn trailer(&self, name: &str) -> Option<&str> {
        self.trailers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}
