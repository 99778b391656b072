//! Lets a client open the protocol late: what it says before its first request is passed over.
//!
//! The SDK takes a notification or a response before the first request for the end of the protocol, and a client that
//! sends one, perhaps to a server that it believes to be open still, would lose its server. Not for anything later.

use std::future::Future;

use rmcp::model::JsonRpcMessage;
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// A transport whose first message is a request.
pub(crate) struct OpensLate<T> {
    inner: T,
    opened: bool,
}

impl<T> OpensLate<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, opened: false }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for OpensLate<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = self.inner.receive().await?;
            self.opened |= matches!(message, JsonRpcMessage::Request(_));
            if self.opened {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
