//! One request with headers of its own, which the typed client does not send, and its answer as it comes.
//!
//! Not for what the typed client does.

use std::net::SocketAddr;
use std::path::Path;

use axum::body::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};

/// Why there is no answer, or no more of it.
pub(crate) type Broken = Box<dyn std::error::Error + Send + Sync>;

/// Sends a GET over the Unix socket; the answer's head, with the body still to come.
pub(crate) async fn get(
    socket: &Path,
    token: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Response<Incoming>, Broken> {
    let mut request =
        Request::get(path).header("host", "localhost").header("authorization", format!("Bearer {token}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(UnixStream::connect(socket).await?)).await?;
    // Ends with the answer's body, or when that is dropped.
    tokio::spawn(connection);
    Ok(sender.send_request(request.body(Empty::<Bytes>::new())?).await?)
}

/// The next bytes of a body; `None` after the last.
pub(crate) async fn more(body: &mut Incoming) -> Result<Option<Bytes>, Broken> {
    while let Some(frame) = body.frame().await {
        if let Ok(bytes) = frame?.into_data() {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

/// A connection that says nothing.
pub(crate) async fn silent(address: SocketAddr) -> Result<TcpStream, std::io::Error> {
    TcpStream::connect(address).await
}
