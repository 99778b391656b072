//! What a client of the protocol is answered, whatever carries its messages.
//!
//! One of these serves one client: a connection, a session, or where the protocol has neither a single request. Not for
//! the tools themselves, nor for how a message arrives.

use std::sync::Arc;
use std::time::Duration;

use procyard_tools::{Reply, Surface, Toolbox};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CustomRequest, CustomResult, GetTaskParams,
    GetTaskResult, Implementation, InitializeRequestParams, InitializeResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::follow::{self, FOLLOWED_MAX, Followed};
use crate::params::not_understood;
use crate::presence::Presence;
use crate::reports::Reports;
use crate::turns::Turn;
use crate::{resources, results, tasks};

/// What calls that are under way get to finish when the client has gone: those that only look something up do.
const GONE_GRACE: Duration = Duration::from_millis(250);

/// Answers one client.
pub(crate) struct McpServer {
    surface: Arc<dyn Surface>,
    gone: CancellationToken,
    followed: Followed,
}

impl McpServer {
    /// Serves a surface until `gone` is cancelled, which stops the foreground commands of calls under way.
    pub(crate) fn new(surface: Arc<dyn Surface>, gone: CancellationToken) -> Self {
        Self { surface, gone, followed: Followed::default() }
    }

    fn toolbox(&self) -> &Toolbox {
        self.surface.toolbox()
    }

    /// Whether the results of a tool are more than text. Those of a name that is no tool have a structure, too: errors.
    fn gives_structure(&self, name: &str) -> bool {
        let tool = self.surface.definitions().into_iter().find(|definition| definition.name == name);
        tool.is_none_or(|definition| definition.output_schema.is_some())
    }

    /// Carries a call out, unless its client cancels it or leaves: `None`.
    async fn carry_out(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Option<Reply> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let (reports, mut call) = Reports::of(context.meta.get_progress_token(), context.peer.clone());
        let turn = context.extensions.get::<Turn>();
        if let Some(turn) = turn {
            call.accepted = turn.accepted();
        }
        let answered = async {
            if let Some(turn) = turn {
                turn.come().await;
            }
            self.surface.call(&request.name, arguments, call).await
        };
        // Dropping the call is what cancels it: it stops a foreground command that was not handed over.
        let reply = tokio::select! {
            biased;
            () = context.ct.cancelled() => None,
            reply = answered => Some(reply),
            () = client_left(&self.gone) => None,
        };
        reports.end().await;
        if let (Some(_), Some(presence)) = (&reply, context.extensions.get::<Presence>()) {
            // An answer that nobody reads would be lost. The call of a client that stays away is cancelled.
            tokio::select! {
                () = presence.wait() => {}
                () = context.ct.cancelled() => {}
                () = self.gone.cancelled() => {}
            }
        }
        // The response to a call that was cancelled meanwhile is dropped, so nobody has seen it.
        reply.filter(|_| !context.ct.is_cancelled())
    }
}

async fn client_left(gone: &CancellationToken) {
    gone.cancelled().await;
    tokio::time::sleep(GONE_GRACE).await;
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("procyard", env!("CARGO_PKG_VERSION")))
            .with_instructions(self.surface.instructions())
    }

    /// A session can be greeted again, as by the next client of a proxy that keeps its server: what was agreed upon last
    /// holds.
    async fn initialize(
        &self,
        mut request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let agreed = self.negotiate_initialize(&request)?;
        request.protocol_version = agreed.protocol_version.clone();
        context.peer.set_peer_info(request);
        Ok(agreed)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.surface.definitions().into_iter().find(|definition| definition.name == name).map(results::tool)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.surface.definitions().into_iter().map(results::tool).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.clone();
        let Some(reply) = self.carry_out(request, &context).await else {
            // A cancelled call gets no response; the SDK drops this one.
            return Err(ErrorData::internal_error("the call was cancelled", None));
        };
        let structured = self.gives_structure(&name);
        let takes_tasks = || context.client_capabilities().is_some_and(|client| client.supports_tasks());
        // The result of a task is structured, so it is for tools that promise that.
        if let Some(handle) = reply.left_running.filter(|_| structured && takes_tasks()) {
            // What the reply tells of other processes is not part of a task, so it waits for the next result.
            return tasks::created(self.toolbox(), &handle).map(CallToolResponse::Task);
        }
        let result = results::result(&reply, structured);
        reply.handed_to_transport();
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        resources::list(self.toolbox(), request.and_then(|request| request.cursor).as_deref())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the request was cancelled", None)),
            read = resources::read(self.toolbox(), &request.uri) => read.map(ReadResourceResponse::Complete),
        }
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.followed.add(self.toolbox(), &context.peer, &request.uri)
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.followed.remove(&request.uri)
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let asked = requested.resource_subscriptions.as_deref().unwrap_or_default();
        let mut accepted = SubscriptionFilter::new();
        accepted.resource_subscriptions = Some(resources::well_formed(asked, FOLLOWED_MAX));
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        tokio::select! {
            listened = follow::listen(self.toolbox(), &context) => listened,
            () = self.gone.cancelled() => Ok(()),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        tasks::get(self.toolbox(), &request.task_id).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        tasks::update(self.toolbox(), &request.task_id)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        tasks::cancel(self.toolbox(), &request.task_id).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(not_understood(request))
    }
}
