//! Tells a client that resources have changed: after each change, but never faster than it needs to know.
//!
//! What changes meanwhile is told once, so that a process which prints without end costs a client a few messages a second.
//! Not for what has changed: the client reads the resource when it wants to.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use procyard_core::Handle;
use procyard_supervisor::{LiveEvent, Subscription};
use procyard_tools::Toolbox;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{RoleServer, SubscriptionContext};
use rmcp::{ErrorData, Peer};
use tokio_util::task::AbortOnDropHandle;

use crate::resources;

/// Resources that one client may follow in one session, or by one request.
pub(crate) const FOLLOWED_MAX: usize = 256;

/// Time between two rounds of messages.
const EVERY: Duration = Duration::from_millis(250);

/// What a client of a session has subscribed to, one by one. Dropping it ends the messages.
#[derive(Default)]
pub(crate) struct Followed {
    wanted: Arc<Mutex<BTreeSet<Handle>>>,
    /// Sends the messages, from the first subscription on.
    sender: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl Followed {
    /// Follows a resource. The same answer for one that does not exist and one of another owner.
    pub(crate) fn add(&self, toolbox: &Toolbox, peer: &Peer<RoleServer>, uri: &str) -> Result<(), ErrorData> {
        let handle = resources::handle_of(uri)?;
        let known = toolbox.supervisor().snapshot(toolbox.owner(), &handle);
        known.map_err(|_| resources::missing(uri))?;
        let changes = begin(toolbox)?;
        {
            let mut wanted = lock(&self.wanted);
            if wanted.len() >= FOLLOWED_MAX && !wanted.contains(&handle) {
                let message =
                    format!("at most {FOLLOWED_MAX} resources can be followed; unsubscribe from some");
                return Err(ErrorData::invalid_request(message, None));
            }
            wanted.insert(handle);
        }
        let mut sender = lock(&self.sender);
        if sender.as_ref().is_none_or(AbortOnDropHandle::is_finished) {
            let (wanted, peer) = (Arc::clone(&self.wanted), peer.clone());
            *sender = Some(AbortOnDropHandle::new(tokio::spawn(async move {
                let tell = |handle: Handle| {
                    let told = peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(
                        resources::uri(&handle),
                    ));
                    async move { told.await.is_ok() }
                };
                each_change(changes, BTreeSet::new(), || lock(&wanted).clone(), tell).await;
            })));
        }
        Ok(())
    }

    /// No longer follows a resource; one that was not followed changes nothing.
    pub(crate) fn remove(&self, uri: &str) -> Result<(), ErrorData> {
        let handle = resources::handle_of(uri)?;
        let mut wanted = lock(&self.wanted);
        wanted.remove(&handle);
        if wanted.is_empty() {
            lock(&self.sender).take();
        }
        Ok(())
    }
}

/// Follows what one request has asked for, until it is cancelled or the session ends.
pub(crate) async fn listen(toolbox: &Toolbox, context: &SubscriptionContext) -> Result<(), ErrorData> {
    let uris = context.accepted().resource_subscriptions.as_deref().unwrap_or_default();
    let wanted: BTreeSet<Handle> = uris.iter().filter_map(|uri| resources::handle_of(uri).ok()).collect();
    let changes = begin(toolbox)?;
    // The acknowledgement is sent before this begins, and what has changed in between is not known.
    let (supervisor, owner) = (toolbox.supervisor(), toolbox.owner());
    let told_first = wanted.iter().copied().filter(|handle| {
        let snapshot = supervisor.snapshot(owner, handle);
        snapshot.is_ok_and(|found| found.total_bytes > 0 || found.state.is_terminal())
    });
    let due = told_first.collect();
    let sink = context.sink();
    let tell = |handle: Handle| {
        let uri = resources::uri(&handle);
        async move { sink.notify_resource_updated(uri).await.is_ok() }
    };
    tokio::select! {
        () = each_change(changes, due, || wanted.clone(), tell) => {}
        () = context.cancelled() => {}
    }
    Ok(())
}

fn begin(toolbox: &Toolbox) -> Result<Subscription, ErrorData> {
    let begun = toolbox.supervisor().subscribe(toolbox.owner());
    begun.map_err(|error| ErrorData::internal_error(error.public().message, None))
}

/// Calls `tell` for each wanted process that is `due`, and for each that has printed something or ended, until it says that
/// nobody listens any more or the session ends.
async fn each_change<F>(
    mut changes: Subscription,
    mut due: BTreeSet<Handle>,
    wanted: impl Fn() -> BTreeSet<Handle>,
    mut tell: impl FnMut(Handle) -> F,
) where
    F: Future<Output = bool>,
{
    loop {
        if !due.is_empty() {
            let wanted = wanted();
            for handle in std::mem::take(&mut due).into_iter().filter(|handle| wanted.contains(handle)) {
                if !tell(handle).await {
                    return;
                }
            }
            tokio::time::sleep(EVERY).await;
        }
        let Some(event) = changes.next().await else { return };
        note(&event, &wanted, &mut due);
        // What else has happened already is part of the same round.
        loop {
            let more = tokio::select! {
                biased;
                more = changes.next() => more,
                () = std::future::ready(()) => break,
            };
            match more {
                Some(event) => note(&event, &wanted, &mut due),
                None => break,
            }
        }
    }
}

fn note(event: &LiveEvent, wanted: &impl Fn() -> BTreeSet<Handle>, due: &mut BTreeSet<Handle>) {
    match event {
        LiveEvent::Output { handle, .. } => {
            due.insert(*handle);
        }
        LiveEvent::Lifecycle(event) if event.state.is_terminal() => {
            due.insert(event.identity.handle);
        }
        LiveEvent::Lifecycle(_) => {}
        // Which of them has ended is not known, so all may have.
        LiveEvent::Lagged(_) => due.extend(wanted()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
