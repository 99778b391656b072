//! The end of one loop: its calls are refused, its trees are stopped and proven empty.
//!
//! Not for the session's end: see `shutdown`.

use std::sync::Arc;

use procyard_core::{Owner, Requester, StopKind};

use crate::SupervisorError;
use crate::shared::{Phase, Shared};
use crate::shutdown::let_services_take;
use crate::stop::end_all;

/// Refuses every further call of this owner and ends what it runs; how many of its processes are not proven gone. Its views
/// end once they have shown these ends. Cancelling it cancels no stop.
pub(crate) async fn close_loop(shared: &Arc<Shared>, owner: Owner) -> Result<usize, SupervisorError> {
    if owner.session != shared.session {
        return Err(SupervisorError::NotFound);
    }
    let living: Vec<_> = {
        let mut registry = shared.registry();
        if registry.phase == Phase::Inactive {
            return Err(SupervisorError::NotActive);
        }
        registry.closed_loops.insert(owner);
        registry.of(owner).filter(|entry| !entry.is_terminal()).collect()
    };
    let views = ViewsEnd { shared: Arc::clone(shared), owner };
    end_all(shared, living, StopKind::Terminate, Requester::Owner, shared.limits.graceful_shutdown).await;
    // A service that is slow keeps the views, and not whoever closes the loop.
    shared.tasks.spawn(async move {
        tokio::select! {
            () = let_services_take(&views.shared) => {}
            () = views.shared.closed.cancelled() => {}
        }
        drop(views);
    });
    // Slots, not records: a start that was admitted just before has one and may have no record yet.
    Ok(usize::try_from(shared.registry().ledger.running_of(owner)).unwrap_or(usize::MAX))
}

/// Ends the views of a loop that is being closed, also where nobody waits for that any more.
struct ViewsEnd {
    shared: Arc<Shared>,
    owner: Owner,
}

impl Drop for ViewsEnd {
    fn drop(&mut self) {
        self.shared.views.close(self.owner);
    }
}
