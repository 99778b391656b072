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
use crate::tasks::Told;
use crate::turns::Turn;
use crate::{resources, results, tasks};

/// What calls that are under way get to finish when the client has gone: those that only look something up do.
const GONE_GRACE: Duration = Duration::from_millis(250);

/// Answers one client.
pub(crate) struct McpServer {
    surface: Arc<dyn Surface>,
    tools: Arc<[Tool]>,
    gone: CancellationToken,
    followed: Followed,
}

impl McpServer {
    /// Serves a surface, whose tools these are, until `gone` is cancelled, which stops the foreground commands of calls
    /// under way.
    pub(crate) fn new(surface: Arc<dyn Surface>, tools: Arc<[Tool]>, gone: CancellationToken) -> Self {
        Self { surface, tools, gone, followed: Followed::default() }
    }

    fn toolbox(&self) -> &Toolbox {
        self.surface.toolbox()
    }

    /// Whether the results of a tool are more than text. Those of a name that is no tool have a structure, too: errors.
    fn gives_structure(&self, name: &str) -> bool {
        self.tool(name).is_none_or(|tool| tool.output_schema.is_some())
    }

    fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
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
        let reply = reply?;
        self.is_heard(context).await.then_some(reply)
    }

    /// Whether an answer that is ready reaches its client. Waits for one that may come back.
    async fn is_heard(&self, context: &RequestContext<RoleServer>) -> bool {
        // An answer that nobody reads would be lost. The call of a client that stays away is cancelled.
        let is_there = match context.extensions.get::<Presence>() {
            None => true,
            Some(presence) => tokio::select! {
                biased;
                () = presence.wait() => true,
                () = context.ct.cancelled() => false,
                () = self.gone.cancelled() => false,
            },
        };
        // The response to a call that was cancelled meanwhile is dropped, so nobody sees it.
        is_there && !context.ct.is_cancelled()
    }

    /// The answer of a task, which tells what it tells only if it is heard.
    async fn answer<T>(&self, told: Told<T>, context: &RequestContext<RoleServer>) -> Result<T, ErrorData> {
        if self.is_heard(context).await { Ok(told.handed_over()) } else { Err(cancelled()) }
    }
}

/// What a handler gives for a request that was cancelled. It gets no response; the SDK drops this one.
fn cancelled() -> ErrorData {
    ErrorData::internal_error("the request was cancelled", None)
}

/// For a list of one page, which gives no cursor: whoever has one has it from elsewhere.
fn only_page(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        Some(_) => Err(resources::unknown_cursor()),
        None => Ok(()),
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
        self.tool(name).cloned()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        only_page(request)?;
        // Their schemas are shared, not copied.
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.clone();
        let Some(reply) = self.carry_out(request, &context).await else {
            return Err(cancelled());
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
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        only_page(request)?;
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Err(cancelled()),
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
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.answer(tasks::get(self.toolbox(), &request.task_id).await?, &context).await
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
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let told = tokio::select! {
            biased;
            told = tasks::cancel(self.toolbox(), &request.task_id) => told?,
            // The stop was begun and goes on; its end is told by a notice.
            () = context.ct.cancelled() => return Err(cancelled()),
        };
        self.answer(told, &context).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(not_understood(request))
    }
}
