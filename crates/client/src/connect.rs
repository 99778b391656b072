//! Where the service is, and a connection to it.
//!
//! Not for what is said on it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::ClientError;

/// How long a connection may take to come about.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// How long a service that cannot take another connection just now is left alone.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// Where a service is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Its Unix socket.
    Unix(PathBuf),
    /// A TCP address.
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => path.display().fmt(f),
            Address::Tcp(address) => address.fmt(f),
        }
    }
}

impl Address {
    /// What the `Host` header says. A socket has no name, so it is this machine's.
    pub(crate) fn host(&self) -> String {
        match self {
            Address::Unix(_) => "localhost".to_owned(),
            Address::Tcp(address) => address.to_string(),
        }
    }

    /// Connects. Cancellation safe.
    pub(crate) async fn connect(&self) -> Result<Connection, ClientError> {
        let connected = tokio::time::timeout(CONNECT_WITHIN, async {
            match self {
                Address::Unix(path) => unix(path).await.map(Connection::Unix),
                Address::Tcp(address) => TcpStream::connect(address).await.map(Connection::Tcp),
            }
        });
        let connected = connected.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let unreachable = |source| ClientError::Unreachable { address: self.to_string(), source };
        let connection = connected.map_err(unreachable)?;
        if let Connection::Unix(stream) = &connection {
            // Before anything is said: a token, or what a command is told, would be the stranger's.
            let listener = stream.peer_cred().map_err(unreachable)?.uid();
            if !is_trusted(listener, rustix::process::geteuid().as_raw()) {
                return Err(ClientError::Stranger { address: self.to_string() });
            }
        }
        Ok(connection)
    }
}

/// Connects, and waits where as many wait already as the system lets: unlike over TCP, it says so instead of queueing
/// (`connect(2)`, EAGAIN).
async fn unix(path: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::time::sleep(BUSY_PAUSE).await,
            connected => return connected,
        }
    }
}

/// Whether a service that this user runs is expected there: it is their own, or root's.
fn is_trusted(listener: u32, own: u32) -> bool {
    listener == own || listener == 0
}

/// A connection of either kind.
#[derive(Debug)]
pub(crate) enum Connection {
    Unix(UnixStream),
    Tcp(TcpStream),
}

macro_rules! either {
    ($self:ident, $stream:ident => $does:expr) => {
        match $self.get_mut() {
            Connection::Unix($stream) => $does,
            Connection::Tcp($stream) => $does,
        }
    };
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    use super::is_trusted;

    #[test]
    fn a_socket_is_trusted_that_is_of_the_same_user_or_of_root() {
        for (listener, own, trusted) in
            [(1000, 1000, true), (0, 1000, true), (0, 0, true), (1001, 1000, false), (1000, 0, false)]
        {
            assert_eq!(is_trusted(listener, own), trusted, "{listener} {own}");
        }
    }
}
