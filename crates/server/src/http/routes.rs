//! The table of routes.
//!
//! Not for the router: see `dispatch`.

use std::future::ready;
use std::sync::LazyLock;

use axum::http::Method;
use procyard_api::http::{
    AttachQuery, ContainmentReport, CreateLoop, CreateSession, EventPage, EventQuery, EventStreamQuery,
    Health, InvokeReply, InvokeRequest, LogsQuery, LoopCreated, NoArguments, NotificationPage,
    NotificationQuery, ProcessCounts, ProcessDetails, ProcessPage, ProcessQuery, RecoveryReport, ResizeBody,
    SessionCreated, SessionInfo, SessionList, StartReply, ToolList,
};
use procyard_api::{
    BashArguments, InputArguments, InputResult, OutputArguments, OutputResult, StopArguments, StopResult,
};

use super::caller::Access::{Admin, Any, Loop, Public};
use super::route::{Header, Route};
use super::{
    attach, diagnostics, events, invoke, logs, metrics, notifications, openapi, processes, sessions, stream,
};

/// Every route but those below `/v1/mcp`, which speak the Model Context Protocol.
pub(crate) static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let mut routes = session_routes();
    routes.extend(process_routes());
    routes.extend(event_routes());
    routes.extend(other_routes());
    routes
});

const EVENT_STREAM: &str = "text/event-stream";
const LAST_EVENT_ID: &str = "The `id` of the last event that was seen: the stream goes on behind it.";

fn session_routes() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/sessions", "create_session", Admin,
            "Open a session, a new one or a named one again, and mint the token of a new loop in it.",
            |call| Box::pin(sessions::create(call)))
            .body::<CreateSession>()
            .json::<SessionCreated>(201, "The session, its new loop and that loop's token.")
            .errors(&[409]),
        Route::new(Method::GET, "/v1/sessions", "list_sessions", Admin, "List the open sessions.",
            |call| Box::pin(ready(sessions::list(&call))))
            .json::<SessionList>(200, "The open sessions."),
        Route::new(Method::GET, "/v1/sessions/{session_id}", "get_session", Admin, "Look at an open session.",
            |call| Box::pin(ready(sessions::get(&call))))
            .json::<SessionInfo>(200, "The session.")
            .errors(&[404]),
        Route::new(Method::DELETE, "/v1/sessions/{session_id}", "delete_session", Admin,
            "Shut a session down: stop its processes and prove them gone, and revoke its tokens. What it recorded stays.",
            |call| Box::pin(sessions::delete(call)))
            .nothing(204, "Nothing of it runs any more.")
            .errors(&[404]),
        Route::new(Method::POST, "/v1/sessions/{session_id}/loops", "create_loop", Admin,
            "Mint a token of another loop in this session.",
            |call| Box::pin(sessions::create_loop(call)))
            .body::<CreateLoop>()
            .json::<LoopCreated>(201, "The loop and its token.")
            .errors(&[404, 409]),
        Route::new(Method::DELETE, "/v1/sessions/{session_id}/loops/{loop_id}", "delete_loop", Admin,
            "Close a loop for good: revoke its tokens, stop its processes and prove them gone. Its event streams get these ends \
             and then end with `loop_closed`.",
            |call| Box::pin(sessions::delete_loop(call)))
            .nothing(204, "Nothing of it runs any more.")
            .errors(&[404]),
    ]
}

fn process_routes() -> Vec<Route> {
    let mut routes = vec![
        Route::new(Method::POST, "/v1/processes", "start_process", Loop,
            "Start a command: the arguments of Bash, with `background` true unless it is given as false.",
            |call| Box::pin(processes::start(call)))
            .body::<BashArguments>()
            .header("Idempotency-Key", "The same key with the same body gives the process that it started before, also one whose start failed.")
            .json::<StartReply>(201, "The process.")
            .with(Header::text("Location", "Where to find it."))
            .errors(&[404, 409, 429]),
        Route::new(Method::GET, "/v1/processes", "list_processes", Any,
            "List processes, running and retained, newest first.",
            |call| Box::pin(processes::list(call)))
            .query::<ProcessQuery>()
            .json::<ProcessPage>(200, "A page of them.")
            .errors(&[404]),
        Route::new(Method::GET, "/v1/processes/{process_id}", "get_process", Any, "Look at a process.",
            |call| Box::pin(processes::get(call)))
            .json::<ProcessDetails>(200, "The process."),
        Route::new(Method::DELETE, "/v1/processes/{process_id}", "delete_process", Any,
            "Remove a completed process with its output.",
            |call| Box::pin(processes::delete(call)))
            .nothing(204, "It is gone."),
        Route::new(Method::GET, "/v1/processes/{process_id}/output", "read_output", Any,
            "Read output as text or base64, and wait for more: the arguments of ProcessOutput.",
            |call| Box::pin(processes::output(call)))
            .query_of_tool::<OutputArguments>("OutputQuery", &["process_id", "process_ids", "cursors"])
            .json::<OutputResult>(200, "What was read."),
        Route::new(Method::GET, "/v1/processes/{process_id}/logs", "read_logs", Any,
            "Stream the exact bytes of the output. A response that meets bytes that are missing, or ends before it has everything, \
             breaks off.",
            |call| Box::pin(logs::logs(call)))
            .query::<LogsQuery>()
            .header("Range", "One range of bytes of the combined stream, as `bytes=0-99`. Not with a query. Several ranges, and \
                other units, are passed over: the answer is a 200.")
            .header("TE", "With `trailers` a response that ends early does not break off: the trailer `procyard-end` says why.")
            .bytes(200, "application/octet-stream", "The bytes.")
            .with(Header::number("procyard-start-cursor", "The cursor of the first byte, as far as it is there."))
            .with(Header::number("procyard-total-bytes", "How many bytes had been printed."))
            .with(Header::text("procyard-status", "The state of the process."))
            .with(Header::text("Accept-Ranges", "`bytes`."))
            .with(Header::text("Trailer", "`procyard-end`, to a client that takes trailers: `complete`, `shutting_down`, \
                `session_closed`, `loop_closed`, `removed`, `gap` or `unavailable`.").sometimes())
            .bytes(206, "application/octet-stream", "The bytes of the range that are retained.")
            .with(Header::text("Content-Range", "Which bytes these are: fewer than asked for where some have fallen out."))
            .with(Header::number("procyard-start-cursor", "The cursor of the first byte."))
            .with(Header::number("procyard-total-bytes", "How many bytes had been printed."))
            .with(Header::text("procyard-status", "The state of the process."))
            .with(Header::text("Accept-Ranges", "`bytes`.")),
        Route::new(Method::POST, "/v1/processes/{process_id}/input", "write_input", Any,
            "Write to a process: the arguments of ProcessInput.",
            |call| Box::pin(processes::input(call)))
            .body_of_tool::<InputArguments>("InputBody", &["process_id"])
            .json::<InputResult>(200, "What was accepted, and what the process has printed."),
        Route::new(Method::POST, "/v1/processes/{process_id}/resize", "resize_process", Any,
            "Give its terminal another size.",
            |call| Box::pin(processes::resize(call)))
            .body::<ResizeBody>()
            .json::<InputResult>(200, "The size is in force."),
        Route::new(Method::POST, "/v1/processes/{process_id}/stop", "stop_process", Any,
            "Stop a process with everything it started: the arguments of ProcessStop.",
            |call| Box::pin(processes::stop(call)))
            .body_of_tool::<StopArguments>("StopBody", &["process_id"])
            .json::<StopResult>(200, "How it ended, or that an interrupted one goes on."),
        Route::new(Method::POST, "/v1/processes/{process_id}/kill", "kill_process", Any,
            "Kill a process with everything it started, at once.",
            |call| Box::pin(processes::kill(call)))
            .body::<NoArguments>()
            .json::<StopResult>(200, "How it ended."),
        Route::new(Method::GET, "/v1/processes/{process_id}/attach", "attach_process", Any,
            "The terminal of a process, as a WebSocket: bytes both ways as binary messages, and JSON as text messages (schemas \
             AttachCommand and AttachReport). A process without a terminal is refused before the upgrade, with 409 and \
             `pty_unavailable`: its output comes from `logs` with `follow=true`, and `input` writes to it.",
            |call| Box::pin(attach::attach(call)))
            .query::<AttachQuery>()
            .nothing(101, "The connection is a WebSocket now."),
    ];
    for route in &mut routes {
        if route.path.contains("{process_id}") {
            route.errors.extend([404, 409, 416, 429]);
        }
    }
    routes
}

fn event_routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/processes/{process_id}/events", "list_process_events", Any,
            "Read what the journal recorded of a process.",
            |call| Box::pin(events::of_process(call)))
            .query::<EventQuery>()
            .json::<EventPage>(200, "A page of records.")
            .errors(&[404, 416]),
        Route::new(Method::GET, "/v1/events", "list_events", Any, "Read what the journal recorded.",
            |call| Box::pin(events::all(call)))
            .query::<EventQuery>()
            .json::<EventPage>(200, "A page of records.")
            .errors(&[404, 416]),
        Route::new(Method::GET, "/v1/processes/{process_id}/events/stream", "stream_process_events", Any,
            "Follow a process as server-sent events (schemas EventRecord, OutputSample, LagNotice and StreamEnd). Ends after \
             the end of the process.",
            |call| Box::pin(stream::of_process(call)))
            .query::<EventStreamQuery>()
            .header("Last-Event-ID", LAST_EVENT_ID)
            .bytes(200, EVENT_STREAM, "The events.")
            .nothing(204, "The process has ended, and everything of it was seen: do not connect again.")
            .errors(&[404, 416]),
        Route::new(Method::GET, "/v1/events/stream", "stream_events", Any,
            "Follow everything as server-sent events (schemas EventRecord, OutputSample, LagNotice and StreamEnd).",
            |call| Box::pin(stream::all(call)))
            .query::<EventStreamQuery>()
            .header("Last-Event-ID", LAST_EVENT_ID)
            .bytes(200, EVENT_STREAM, "The events.")
            .errors(&[404, 416]),
        Route::new(Method::GET, "/v1/notifications", "list_notifications", Loop,
            "Read the inbox: what is not acknowledged. Waits for something on request.",
            |call| Box::pin(notifications::list(call)))
            .query::<NotificationQuery>()
            .json::<NotificationPage>(200, "A page of notifications."),
        Route::new(Method::POST, "/v1/notifications/{notification_id}/ack", "acknowledge_notification", Loop,
            "Acknowledge a notification: it is not shown again.",
            |call| Box::pin(notifications::acknowledge(call)))
            .body::<NoArguments>()
            .nothing(204, "It is acknowledged.")
            .errors(&[404]),
    ]
}

fn other_routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/v1/mcp/capabilities",
            "list_tools",
            Loop,
            "List the tools with their schemas.",
            |call| Box::pin(invoke::capabilities(call)),
        )
        .json::<ToolList>(200, "The tools."),
        Route::new(
            Method::POST,
            "/v1/mcp/invoke",
            "invoke_tool",
            Loop,
            "Call a tool without an MCP client. A command that fails is a normal result.",
            |call| Box::pin(invoke::invoke(call)),
        )
        .body::<InvokeRequest>()
        .json::<InvokeReply>(200, "What the tool answers.")
        .errors(&[404, 409, 416, 429]),
        Route::new(
            Method::GET,
            "/v1/diagnostics/processes",
            "diagnose_processes",
            Any,
            "Count processes by state.",
            |call| Box::pin(diagnostics::processes(call)),
        )
        .json::<ProcessCounts>(200, "The counts."),
        Route::new(
            Method::GET,
            "/v1/diagnostics/recovery",
            "diagnose_recovery",
            Admin,
            "What opening the sessions found and did.",
            |call| Box::pin(ready(diagnostics::recovery(&call))),
        )
        .json::<RecoveryReport>(200, "What was found."),
        Route::new(
            Method::GET,
            "/v1/diagnostics/containment",
            "diagnose_containment",
            Any,
            "How commands are contained and limited.",
            |call| Box::pin(ready(diagnostics::containment(&call))),
        )
        .json::<ContainmentReport>(200, "The tier and the limits."),
        Route::new(Method::GET, "/metrics", "metrics", Admin, "Metrics for Prometheus.", |call| {
            Box::pin(ready(Ok(metrics::metrics(&call))))
        })
        .bytes(200, metrics::MEDIA_TYPE, "The metrics."),
        Route::new(Method::GET, "/openapi.json", "openapi", Any, "This document.", |call| {
            Box::pin(ready(openapi::openapi(&call)))
        })
        .bytes(200, "application/json", "An OpenAPI 3.1 document."),
        Route::new(Method::GET, "/health", "health", Public, "Whether the service is there.", |call| {
            Box::pin(ready(diagnostics::health(&call)))
        })
        .json::<Health>(200, "It is."),
    ]
}
