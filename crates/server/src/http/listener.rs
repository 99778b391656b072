//! Where connections come from.
//!
//! Not for serving them.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixSocket, UnixStream};

use super::caller::Peer;

/// Connections that wait to be accepted, where the system lets them (`net.core.somaxconn`). Of many clients that come at the same
/// moment, those beyond it are turned away on a Unix socket, and come again seconds later over TCP.
const BACKLOG: u32 = 1024;

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// On the file system. The file is removed when the service ends.
    Unix(UnixListener, PathBuf),
    /// On a network address. Nothing that it carries is encrypted.
    Tcp(TcpListener),
}

/// What bytes come through.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

impl Listener {
    /// Listens on a socket at this path, for its user alone (mode 0600). A socket that is there and on which nobody listens
    /// is replaced; one on which somebody does is [`io::ErrorKind::AddrInUse`], and another file is left alone. The
    /// directory must be private: nobody else may be able to put something in the socket's place.
    pub async fn unix(path: &Path) -> io::Result<Self> {
        match std::fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => {
                if UnixStream::connect(path).await.is_ok() {
                    return Err(io::Error::new(
                        io::ErrorKind::AddrInUse,
                        "a service listens on this socket already",
                    ));
                }
                std::fs::remove_file(path)?;
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

    /// Listens on an address, as `127.0.0.1:7171`; port 0 picks one.
    pub async fn tcp(address: std::net::SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Connections of an earlier service that are not quite gone do not hinder this one.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self::Tcp(socket.listen(BACKLOG)?))
    }

    /// Where a client finds it, as one that is told to connect takes it: a path or `http://` and an address.
    pub fn address(&self) -> io::Result<String> {
        match self {
            Self::Unix(_, path) => Ok(path.display().to_string()),
            Self::Tcp(listener) => Ok(format!("http://{}", listener.local_addr()?)),
        }
    }

    /// The next connection. Cancellation safe.
    pub(crate) async fn accept(&self) -> io::Result<(Box<dyn Connection>, Peer)> {
        match self {
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let peer = stream.peer_cred()?;
                let same_user = peer.uid() == rustix::process::geteuid().as_raw();
                Ok((Box::new(stream), Peer { same_user }))
            }
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Small answers go out at once; a socket that refuses that works all the same.
                let _ = stream.set_nodelay(true);
                Ok((Box::new(stream), Peer { same_user: false }))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // One that is gone already is as good.
            let _ = std::fs::remove_file(path);
        }
    }
}
