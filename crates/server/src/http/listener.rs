//! Where connections come from.
//!
//! Not for serving them.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixSocket, UnixStream};
use tokio::sync::mpsc;

use super::caller::Peer;

/// Connections that wait to be accepted, where the system lets them (`net.core.somaxconn`). Of many clients that come at the same
/// moment, those beyond it are turned away on a Unix socket, and come again seconds later over TCP.
const BACKLOG: u32 = 1024;

/// Streams that are handed over and not accepted yet; more wait with whoever hands them over.
const HANDED_MAX: usize = 16;

/// A listening socket, or what stands for one.
#[derive(Debug)]
pub enum Listener {
    /// On the file system. The file is removed when the service ends.
    Unix(UnixListener, PathBuf),
    /// On a network address. Nothing that it carries is encrypted.
    Tcp(TcpListener),
    /// Streams of any kind, which whoever embeds the service hands over: [`Listener::handed`].
    Handed(Handed),
}

/// The streams that a service is handed.
pub struct Handed(mpsc::Receiver<Box<dyn Connection>>);

impl std::fmt::Debug for Handed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handed").finish_non_exhaustive()
    }
}

/// Hands streams to a service. Cheap to clone.
#[derive(Clone)]
pub struct Connector(mpsc::Sender<Box<dyn Connection>>);

impl Connector {
    /// Hands a stream over, to be served as one that was accepted on TCP: its client needs a token. Waits while as many as
    /// the service holds wait to be accepted. [`io::ErrorKind::ConnectionRefused`] when the service accepts no more; the
    /// stream is dropped then. Cancellation safe: the stream is handed over or dropped.
    pub async fn connect(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> io::Result<()> {
        let handed = self.0.send(Box::new(stream)).await;
        handed.map_err(|_| {
            io::Error::new(io::ErrorKind::ConnectionRefused, "the service accepts no connections any more")
        })
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

/// What bytes come through.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

impl Listener {
    /// Listens on a socket at this path, for its user alone (mode 0600). A socket that is there and on which nobody listens
    /// is replaced; one on which somebody does is [`io::ErrorKind::AddrInUse`], and another file is left alone.
    ///
    /// Nobody else may be able to put something in the socket's place: a directory that is neither ours nor root's, or that
    /// others can write to, is [`io::ErrorKind::PermissionDenied`]. One that is sticky, as `/tmp`, is taken: there others
    /// can only be earlier, and clients look whose the socket is.
    pub async fn unix(path: &Path) -> io::Result<Self> {
        guarded(path)?;
        match std::fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => {
                match UnixStream::connect(path).await {
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                        std::fs::remove_file(path)?;
                    }
                    // It would block: whoever listens has more connections waiting than it accepts.
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                    _ => {
                        let message = "a service listens on this socket already";
                        return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
                    }
                }
            }
            Ok(_) => {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "the path is taken by another file",
                ));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let socket = UnixSocket::new_stream()?;
        socket.bind(path)?;
        let listener = socket.listen(BACKLOG)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self::Unix(listener, path.to_owned()))
    }

    /// Listens on an address, as `127.0.0.1:7171`; port 0 picks one. Must be called within a tokio runtime.
    pub fn tcp(address: std::net::SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Connections of an earlier service that are not quite gone do not hinder this one.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self::Tcp(socket.listen(BACKLOG)?))
    }

    /// One that listens nowhere, and what hands it the streams to serve: of a transport of one's own, or in memory.
    pub fn handed() -> (Self, Connector) {
        let (sender, receiver) = mpsc::channel(HANDED_MAX);
        (Self::Handed(Handed(receiver)), Connector(sender))
    }

    /// Where a client finds it, as one that is told to connect takes it: a path or `http://` and an address.
    /// [`io::ErrorKind::Unsupported`] where it is handed its streams.
    pub fn address(&self) -> io::Result<String> {
        match self {
            Self::Unix(_, path) => Ok(path.display().to_string()),
            Self::Tcp(listener) => Ok(format!("http://{}", listener.local_addr()?)),
            Self::Handed(_) => Err(io::Error::new(io::ErrorKind::Unsupported, "it listens nowhere")),
        }
    }

    /// The network address, where it is on one.
    pub fn local_address(&self) -> Option<std::net::SocketAddr> {
        match self {
            Self::Unix(..) | Self::Handed(_) => None,
            Self::Tcp(listener) => listener.local_addr().ok(),
        }
    }

    /// The next connection. Cancellation safe.
    pub(crate) async fn accept(&mut self) -> io::Result<(Box<dyn Connection>, Peer)> {
        match self {
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let peer = stream.peer_cred()?;
                let same_user = peer.uid() == rustix::process::geteuid().as_raw();
                Ok((Box::new(stream), Peer::new(same_user)))
            }
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Small answers go out at once; a socket that refuses that works all the same.
                let _ = stream.set_nodelay(true);
                if let Err(error) = notice_the_vanished(&stream) {
                    tracing::debug!(%error, "a connection is not kept alive");
                }
                Ok((Box::new(stream), Peer::new(false)))
            }
            Self::Handed(Handed(streams)) => match streams.recv().await {
                Some(stream) => Ok((stream, Peer::new(false))),
                // Nobody can hand anything over any more.
                None => std::future::pending().await,
            },
        }
    }
}

/// A quiet connection is asked for a sign of life after so long,
const ALIVE_AFTER: Duration = Duration::from_secs(30);
/// then so often,
const ALIVE_EVERY: Duration = Duration::from_secs(10);
/// and is gone after so many that were not answered.
const ALIVE_TIMES: u32 = 3;
/// What is sent and not acknowledged for so long is the end, too, in milliseconds.
const ACKNOWLEDGED_WITHIN: u32 = 60_000;

/// Ends a connection whose client has vanished without a word (tcp(7)): one that follows something quiet would be held for
/// ever.
fn notice_the_vanished(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, ALIVE_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, ALIVE_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, ALIVE_TIMES)?;
    Ok(sockopt::set_tcp_user_timeout(stream, ACKNOWLEDGED_WITHIN)?)
}

/// Refuses a directory in which others can put something else in a socket's place.
fn guarded(path: &Path) -> io::Result<()> {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let found = std::fs::metadata(directory)?;
    let message = if found.uid() != rustix::process::geteuid().as_raw() && found.uid() != 0 {
        "its directory belongs to another user, who could put a socket of their own there"
    } else if found.mode() & WRITABLE_BY_OTHERS != 0 && found.mode() & STICKY == 0 {
        "others can put a socket of their own in its directory; take that away (chmod go-w)"
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // One that is gone already is as good.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_that_vanishes_is_noticed_within_a_minute() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (_client, (stream, _)) = (client.unwrap(), accepted.unwrap());
        assert!(!sockopt::socket_keepalive(&stream).unwrap());
        notice_the_vanished(&stream).unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        let idle = sockopt::tcp_keepidle(&stream).unwrap();
        let silent = sockopt::tcp_keepintvl(&stream).unwrap() * sockopt::tcp_keepcnt(&stream).unwrap();
        assert_eq!(idle + silent, Duration::from_secs(60));
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 60_000);
    }
}
