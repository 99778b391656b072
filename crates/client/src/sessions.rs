//! Sessions and loops: routes of the administrator.
//!
//! Not for what a loop does.

use procyard_api::http::{CreateLoop, CreateSession, LoopCreated, SessionCreated, SessionInfo, SessionList};
use procyard_core::{LoopId, SessionId};

use crate::client::Ask;
use crate::{Client, ClientError};

impl Client {
    /// Makes a session, or opens one again, with a token for a new loop in it.
    pub async fn create_session(&self, wish: &CreateSession) -> Result<SessionCreated, ClientError> {
        self.ask(Ask::post("/v1/sessions", wish)?).await
    }

    /// The open sessions.
    pub async fn sessions(&self) -> Result<SessionList, ClientError> {
        self.ask(Ask::get("/v1/sessions")).await
    }

    /// One open session.
    pub async fn session(&self, session: SessionId) -> Result<SessionInfo, ClientError> {
        self.ask(Ask::get(format!("/v1/sessions/{session}"))).await
    }

    /// Shuts a session down: all that it runs is ended.
    pub async fn close_session(&self, session: SessionId) -> Result<(), ClientError> {
        self.remove(format!("/v1/sessions/{session}")).await
    }

    /// A token for a new loop of a session, or another one for a loop of it.
    pub async fn create_loop(
        &self,
        session: SessionId,
        wish: &CreateLoop,
    ) -> Result<LoopCreated, ClientError> {
        self.ask(Ask::post(format!("/v1/sessions/{session}/loops"), wish)?).await
    }

    /// Closes a loop: ends what it runs and revokes its tokens.
    pub async fn close_loop(&self, session: SessionId, loop_id: LoopId) -> Result<(), ClientError> {
        self.remove(format!("/v1/sessions/{session}/loops/{loop_id}")).await
    }
}
