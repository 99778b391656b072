//! Processes: start, list, look, read, write, stop, remove.
//!
//! Not for bytes and not for streams: see `logs`, `stream` and `attach`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use procyard_api::http::{NoArguments, ProcessPage, ProcessQuery, ResizeBody, StartReply};
use procyard_api::{
    BashArguments, BashResult, InputArguments, ListArguments, OutputArguments, StopArguments,
};
use procyard_core::{Effects, PublicError};
use procyard_supervisor::Snapshot;
use procyard_tools::select_page;
use serde_json::{Value, json};

use super::call::Call;
use super::caller::{Caller, invalid};
use super::details::details;
use super::problem::Problem;
use super::tool;

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// As the tool's argument.
const KEY_MAX: usize = 128;

pub(crate) async fn start(call: Call) -> Result<Response, Problem> {
    let owner = call.caller.owner().ok_or_else(invalid)?;
    let mut arguments = call.json()?;
    if let Value::Object(object) = &mut arguments {
        // Whoever starts over HTTP looks at the process afterwards, unless it says otherwise.
        object.entry("background").or_insert(Value::Bool(true));
    }
    let checked: BashArguments =
        procyard_tools::parse_arguments(arguments.clone(), &call.route.takes_body().schema)
            .map_err(Problem::schema)?;
    if let Some(key) = idempotency_key(&call)? {
        if checked.idempotency_key.is_some_and(|known| known != key) {
            return Err(Problem::argument(
                "Idempotency-Key",
                "differs from the `idempotency_key` of the body",
            ));
        }
        arguments["idempotency_key"] = json!(key);
    }
    let session = call.own_session().await?;
    let toolbox = session.toolbox(owner);
    let mut reply = tool::call(&toolbox, "Bash", arguments).await?;
    let structured = std::mem::take(&mut reply.structured);
    let result: BashResult = serde_json::from_value(structured)
        .map_err(|error| Problem::internal("a result does not read", &error))?;
    let started = |error: PublicError| Problem::from(error.effects(Effects::Started));
    let snapshot =
        session.supervisor().snapshot(owner, &result.process_id).map_err(|error| started(error.public()))?;
    let location = format!("/v1/processes/{}", result.process_id.reveal());
    let body = StartReply { process: details(&snapshot, false), result };
    let mut response = tool::with_reply(StatusCode::CREATED, &body, reply)?;
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

fn idempotency_key(call: &Call) -> Result<Option<String>, Problem> {
    let Some(value) = call.parts.headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = value.to_str().ok().filter(|key| !key.is_empty() && key.len() <= KEY_MAX);
    let wrong =
        || Problem::argument("Idempotency-Key", format!("must be 1 to {KEY_MAX} visible ASCII characters"));
    key.map(|key| Some(key.to_owned())).ok_or_else(wrong)
}

pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let query: ProcessQuery = call.query()?;
    let found: Vec<Snapshot> = match call.caller {
        Caller::Loop(owner, _) => {
            for_admin_alone(query.session_id.is_some())?;
            call.own_session().await?.supervisor().list(owner)
        }
        _ => everybodys(&call, &query)?,
    };
    let by_admin = call.caller == Caller::Admin;
    let arguments = ListArguments { state: query.state, limit: query.limit, page: query.page };
    let (shown, next_page) = select_page(found, &arguments)?;
    let processes = shown.iter().map(|snapshot| details(snapshot, by_admin)).collect();
    tool::json(StatusCode::OK, &ProcessPage { processes, next_page })
}

/// Refuses what only the administrator may ask for.
pub(crate) fn for_admin_alone(asked: bool) -> Result<(), Problem> {
    if asked {
        Err(Problem::argument("session_id", "is for the administrator; a token has its own session"))
    } else {
        Ok(())
    }
}

/// The processes of all loops, of one session or of all, newest first.
fn everybodys(call: &Call, query: &ProcessQuery) -> Result<Vec<Snapshot>, Problem> {
    let sessions = match query.session_id {
        Some(id) => vec![call.service.session(id)?],
        None => call.service.sessions(),
    };
    let mut found = Vec::new();
    for session in sessions {
        let supervisor = session.overseer();
        found.extend(supervisor.owners().into_iter().flat_map(|owner| supervisor.list(owner)));
    }
    found.sort_by_key(|snapshot| std::cmp::Reverse((snapshot.created_at, snapshot.sequence)));
    Ok(found)
}

pub(crate) async fn get(call: Call) -> Result<Response, Problem> {
    let process = call.process().await?;
    tool::json(StatusCode::OK, &details(&process.snapshot()?, process.by_admin))
}

pub(crate) async fn delete(call: Call) -> Result<Response, Problem> {
    let process = call.process().await?;
    process.supervisor().remove(process.owner, &process.handle).await?;
    if !process.by_admin {
        // Whoever removes it knows that it has ended.
        process.supervisor().learnt(process.owner, &[process.handle]);
    }
    Ok(tool::nothing())
}

pub(crate) async fn output(call: Call) -> Result<Response, Problem> {
    let process = call.process().await?;
    let arguments = call.query_of_tool::<OutputArguments>(process.handle)?;
    tool::call_about(&process, "ProcessOutput", arguments).await
}

pub(crate) async fn input(call: Call) -> Result<Response, Problem> {
    let process = call.process().await?;
    let arguments = call.body_of_tool::<InputArguments>(process.handle)?;
    tool::call_about(&process, "ProcessInput", arguments).await
}

pub(crate) async fn resize(call: Call) -> Result<Response, Problem> {
    let process = call.process().await?;
    let ResizeBody { rows, cols } = call.body()?;
    let arguments = json!({ "process_id": process.handle, "rows": rows, "cols": cols });
    tool::call_about(&process, "ProcessInput", arguments).await
}

pub(crate) async fn stop(call: Call) -> Result<Response, Problem> {
    let process = call.process().await?;
    let arguments = call.body_of_tool::<StopArguments>(process.handle)?;
    tool::call_about(&process, "ProcessStop", arguments).await
}

pub(crate) async fn kill(call: Call) -> Result<Response, Problem> {
    let process = call.process().await?;
    let NoArguments {} = call.body()?;
    let arguments = json!({ "process_id": process.handle, "mode": "kill" });
    tool::call_about(&process, "ProcessStop", arguments).await
}
