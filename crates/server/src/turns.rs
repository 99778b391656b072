//! Keeps the input that a client sends in the order in which it sent it.
//!
//! The SDK carries every request out in a task of its own, so that two inputs sent one behind the other could reach a
//! process the other way round. Here each call that can give input gets a turn as it comes off the wire, and waits until the one
//! before it was accepted or refused. Not for other calls, which may overtake each other.

use std::future::Future;
use std::sync::Arc;

use procyard_tools::Surface;
use rmcp::model::{ClientRequest, GetExtensions as _, JsonRpcMessage};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The turn of one call. It is over when its input was accepted, or when nobody holds the turn any more.
#[derive(Clone)]
pub(crate) struct Turn {
    before: CancellationToken,
    accepted: CancellationToken,
    _over: Arc<DropGuard>,
}

impl Turn {
    /// Resolves when the call before this one is over.
    pub(crate) async fn come(&self) {
        self.before.cancelled().await;
    }

    /// To be cancelled when the input of this call was accepted or refused.
    pub(crate) fn accepted(&self) -> CancellationToken {
        self.accepted.clone()
    }
}

/// A transport that gives turns.
pub(crate) struct TakesTurns<T> {
    inner: T,
    surface: Arc<dyn Surface>,
    last: CancellationToken,
}

impl<T> TakesTurns<T> {
    pub(crate) fn new(inner: T, surface: Arc<dyn Surface>) -> Self {
        let nobody = CancellationToken::new();
        nobody.cancel();
        Self { inner, surface, last: nobody }
    }

    fn turn(&mut self) -> Turn {
        let accepted = CancellationToken::new();
        let over = Arc::new(accepted.clone().drop_guard());
        let before = std::mem::replace(&mut self.last, accepted.clone());
        Turn { before, accepted, _over: over }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for TakesTurns<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let mut message = self.inner.receive().await?;
        if let JsonRpcMessage::Request(request) = &mut message
            && let ClientRequest::CallToolRequest(call) = &request.request
            && self.surface.gives_input(&call.params.name)
        {
            let turn = self.turn();
            request.request.extensions_mut().insert(turn);
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
