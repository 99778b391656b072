//! What the service says of itself, its tools, and the inbox of a loop.
//!
//! Not for processes.

use procyard_api::http::{
    ContainmentReport, Health, InvokeReply, InvokeRequest, NotificationPage, NotificationQuery,
    ProcessCounts, RecoveryReport, ToolList,
};
use procyard_core::NotificationId;
use serde_json::{Map, Value};

use crate::client::Ask;
use crate::{Client, ClientError};

impl Client {
    /// Whether the service is there. Needs no token.
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.ask(Ask::get("/health")).await
    }

    /// How many processes are in which state.
    pub async fn process_counts(&self) -> Result<ProcessCounts, ClientError> {
        self.ask(Ask::get("/v1/diagnostics/processes")).await
    }

    /// What opening the sessions found and did.
    pub async fn recovery(&self) -> Result<RecoveryReport, ClientError> {
        self.ask(Ask::get("/v1/diagnostics/recovery")).await
    }

    /// How commands are contained, and what they may take.
    pub async fn containment(&self) -> Result<ContainmentReport, ClientError> {
        self.ask(Ask::get("/v1/diagnostics/containment")).await
    }

    /// Counters and gauges as Prometheus reads them.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        let text = self.bytes(Ask::get("/metrics")).await?;
        String::from_utf8(text.into()).map_err(ClientError::not_understood)
    }

    /// The `OpenAPI` document of the service.
    pub async fn openapi(&self) -> Result<Map<String, Value>, ClientError> {
        self.ask(Ask::get("/openapi.json")).await
    }

    /// The tools of this token's loop.
    pub async fn tools(&self) -> Result<ToolList, ClientError> {
        self.ask(Ask::get("/v1/mcp/capabilities")).await
    }

    /// One call of a tool.
    pub async fn invoke(&self, call: &InvokeRequest) -> Result<InvokeReply, ClientError> {
        self.ask(Ask::post("/v1/mcp/invoke", call)?).await
    }

    /// What this token's loop was not shown or has not acknowledged; waits for something as long as the query says.
    pub async fn notifications(&self, query: &NotificationQuery) -> Result<NotificationPage, ClientError> {
        self.look("/v1/notifications", query).await
    }

    /// The loop has taken note: it is not shown this again.
    pub async fn acknowledge(&self, notification: NotificationId) -> Result<(), ClientError> {
        let path = format!("/v1/notifications/{notification}/ack");
        self.bytes(Ask::post(path, &Map::new())?).await.map(drop)
    }
}
