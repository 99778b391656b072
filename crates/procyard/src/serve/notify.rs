//! Tells whoever started the service that it is ready, or ends (`sd_notify(3)`), where that is asked for.
//!
//! Not for descriptors that are passed in.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends one state to the socket that `$NOTIFY_SOCKET` names. That nobody takes it hinders nothing.
pub(super) fn tell(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return };
    if let Err(error) = send(&name, state) {
        tracing::warn!(%error, "the service manager could not be told");
    }
}

fn send(name: &OsStr, state: &str) -> std::io::Result<()> {
    // A name that begins with `@` is in no directory.
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_reaches_the_socket_that_is_named() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), "READY=1").unwrap();
        let mut told = [0; 16];
        let count = manager.recv(&mut told).unwrap();
        assert_eq!(&told[..count], b"READY=1");
        assert!(send(place.path().join("nobody").as_os_str(), "READY=1").is_err());
    }
}
