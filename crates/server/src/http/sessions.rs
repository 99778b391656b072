//! Sessions and loops: the administrator opens and ends them.
//!
//! Not for what happens in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use procyard_api::http::{
    CreateLoop, CreateSession, LoopCreated, LoopInfo, SessionCreated, SessionInfo, SessionList,
};
use procyard_core::{ErrorCode, LoopId, Owner, PublicError, SessionId};

use super::call::Call;
use super::host::HostError;
use super::problem::Problem;
use super::service::{OpenSession, Service, blocking};
use super::tokens::MintError;
use super::tool;

pub(crate) async fn create(call: Call) -> Result<Response, Problem> {
    let asked: CreateSession = call.body()?;
    let session = call.service.host.open(asked.session_id).await?;
    let session = call.service.keep(session);
    let owner = Owner { session: session.id(), loop_id: new_loop() };
    let token = mint(&call.service, owner).await?;
    let created = SessionCreated { session_id: owner.session, loop_id: owner.loop_id, token };
    tool::json(StatusCode::CREATED, &created)
}

fn new_loop() -> LoopId {
    LoopId::from_random(*uuid::Uuid::new_v4().as_bytes())
}

async fn mint(service: &Service, owner: Owner) -> Result<String, Problem> {
    let tokens = Arc::clone(&service.tokens);
    blocking(move || tokens.mint(owner)).await?.map_err(|error| match error {
        MintError::Full(limit) => PublicError::new(
            ErrorCode::ProcessQuotaExceeded,
            format!("the session has {limit} tokens, as many as it may have at a time; close a loop, or wait for that"),
        )
        .retryable()
        .into(),
        MintError::Revoked => Problem::not_found("the session or the loop was closed meanwhile"),
        MintError::Unwritten(error) => unwritten(&error),
    })
}

fn unwritten(error: &std::io::Error) -> Problem {
    tracing::error!(%error, "a token could not be recorded");
    PublicError::new(ErrorCode::StorageUnavailable, "the token cannot be recorded now").retryable().into()
}

pub(crate) fn list(call: &Call) -> Result<Response, Problem> {
    let sessions = call.service.sessions().iter().map(|session| look(&call.service, session)).collect();
    tool::json(StatusCode::OK, &SessionList { sessions })
}

pub(crate) fn get(call: &Call) -> Result<Response, Problem> {
    let session = call.service.session(call.session_id()?)?;
    tool::json(StatusCode::OK, &look(&call.service, &session))
}

fn look(service: &Service, session: &OpenSession) -> SessionInfo {
    let supervisor = session.overseer();
    let blank = |loop_id, tokens| LoopInfo { loop_id, tokens, running: 0, retained: 0 };
    let mut loops: BTreeMap<LoopId, LoopInfo> = service
        .tokens
        .loops(session.id())
        .into_iter()
        .map(|(loop_id, tokens)| (loop_id, blank(loop_id, tokens)))
        .collect();
    for owner in supervisor.owners() {
        let info = loops.entry(owner.loop_id).or_insert_with(|| blank(owner.loop_id, 0));
        for snapshot in supervisor.list(owner) {
            let count = if snapshot.state.is_terminal() { &mut info.retained } else { &mut info.running };
            *count += 1;
        }
    }
    SessionInfo { session_id: session.id(), loops: loops.into_values().collect() }
}

pub(crate) async fn delete(call: Call) -> Result<Response, Problem> {
    let id = call.session_id()?;
    let service = Arc::clone(&call.service);
    // Goes on when the caller leaves: nothing is half ended.
    let ending = call.service.tasks.spawn(async move {
        let had_tokens = revoke(&service, Revoked::Session(id)).await?;
        match service.close(id).await {
            // It was not open; its tokens could have opened it.
            Err(HostError::NotFound) if had_tokens => Ok(0),
            closed => Ok::<_, Problem>(closed?),
        }
    });
    let unproven = ending.await.map_err(|error| Problem::internal("closing a session failed", &error))??;
    if unproven > 0 { Err(unproven_error(unproven)) } else { Ok(tool::nothing()) }
}

fn unproven_error(count: usize) -> Problem {
    let message = format!(
        "everything was killed, but {count} commands could not be proven gone; the attempt goes on, ask again later"
    );
    PublicError::new(ErrorCode::TeardownFailed, message).retryable().into()
}

enum Revoked {
    Session(SessionId),
    Loop(Owner),
}

/// Whether there was anything to revoke.
async fn revoke(service: &Service, which: Revoked) -> Result<bool, Problem> {
    let tokens = Arc::clone(&service.tokens);
    let revoked = blocking(move || match which {
        Revoked::Session(session) => tokens.revoke_session(session),
        Revoked::Loop(owner) => tokens.revoke_loop(owner),
    });
    revoked.await?.map_err(|error| unwritten(&error))
}

pub(crate) async fn create_loop(call: Call) -> Result<Response, Problem> {
    let asked: CreateLoop = call.body()?;
    let session = call.service.session(call.session_id()?)?;
    let owner = Owner { session: session.id(), loop_id: asked.loop_id.unwrap_or_else(new_loop) };
    if session.supervisor().is_closed(owner) {
        let message = "this loop was closed; leave `loop_id` out to make another";
        return Err(PublicError::new(ErrorCode::Conflict, message).field("loop_id").into());
    }
    let token = mint(&call.service, owner).await?;
    tool::json(StatusCode::CREATED, &LoopCreated { loop_id: owner.loop_id, token })
}

pub(crate) async fn delete_loop(call: Call) -> Result<Response, Problem> {
    let owner = Owner { session: call.session_id()?, loop_id: call.loop_id()? };
    let service = Arc::clone(&call.service);
    let ending = call.service.tasks.spawn(async move { end_loop(&service, owner).await });
    let unproven = ending.await.map_err(|error| Problem::internal("closing a loop failed", &error))??;
    if unproven > 0 { Err(unproven_error(unproven)) } else { Ok(tool::nothing()) }
}

/// Ends a loop, which has a token, or something in its session where that is open; how many trees are not proven gone.
async fn end_loop(service: &Service, owner: Owner) -> Result<usize, Problem> {
    let had_tokens = revoke(service, Revoked::Loop(owner)).await?;
    let session = service.host.get(owner.session).map(|session| service.keep(session));
    let unproven = match session {
        Some(session) if had_tokens || session.supervisor().owners().contains(&owner) => {
            // Whoever waits for news of it looks, and finds that its token is worth nothing.
            session.inbox.send_replace(());
            let unproven = session.supervisor().close_loop(owner).await?;
            session.forget(owner);
            unproven
        }
        _ if had_tokens => 0,
        _ => return Err(Problem::not_found("there is no such loop")),
    };
    service.mcp.forget(owner);
    Ok(unproven)
}
