//! The path from "the leader has ended" to "the tree is proven empty".
//!
//! Not for the record of the end: that is [finish](crate::finish).

use std::sync::Arc;
use std::time::Duration;

use procyard_core::{LeftoverAction, Leftovers};
use procyard_runner::{Signal, TreeProof};
use tokio::time::Instant;
use tracing::warn;

use crate::LeftoverPolicy;
use crate::actor::{Actor, until};
use crate::course::Waits;

/// How long the proof rests between attempts once it has failed.
const PROOF_PAUSE: Duration = Duration::from_secs(1);

impl Actor {
    /// Ends or awaits what outlived the leader, and proves the tree empty. Says what outlived it.
    pub(crate) async fn settle(&mut self) -> Option<Leftovers> {
        let leftovers = match self.leftovers {
            LeftoverPolicy::Wait => self.wait_for_leftovers().await,
            LeftoverPolicy::Kill => self.end_leftovers().await,
        };
        self.prove_empty().await;
        leftovers
    }

    async fn wait_for_leftovers(&mut self) -> Option<Leftovers> {
        let TreeProof::Survivors(count) = self.tree().await else { return None };
        while !self.stopping {
            if self.empties_before(None).await {
                break;
            }
        }
        let action = if self.stopping { LeftoverAction::Killed } else { LeftoverAction::Waited };
        Some(Leftovers { count, action })
    }

    async fn end_leftovers(&mut self) -> Option<Leftovers> {
        if self.stopping || self.output_settles().await {
            return None;
        }
        let TreeProof::Survivors(count) = self.tree().await else { return None };
        if !self.stopping {
            let _ = self.deliver(Signal::Terminate).await;
            let grace = Instant::now() + self.shared.limits.leftover_grace;
            while !self.stopping && Instant::now() < grace {
                if self.empties_before(Some(grace)).await {
                    break;
                }
            }
            // A stop that comes meanwhile does not give them longer.
            self.kill_at = self.kill_at.map(|due| due.min(grace));
        }
        Some(Leftovers { count, action: LeftoverAction::Killed })
    }

    /// What is known of the tree; a runner that does not answer within the proof bound cannot tell.
    async fn tree(&self) -> TreeProof {
        let asked = tokio::time::timeout(self.shared.limits.proof_bound, self.process.tree());
        asked.await.unwrap_or(TreeProof::Unknown)
    }

    /// Waits until the tree is empty, or its output was quiet, or the cap is reached: what the leader's pipeline
    /// still prints belongs to its output, and a member that has closed its output may be about to end. True when the
    /// tree is empty by then.
    async fn output_settles(&mut self) -> bool {
        let mut cap = Instant::now() + self.shared.limits.drain_cap;
        let process = Arc::clone(&self.process);
        let entry = Arc::clone(&self.entry);
        let mut output = entry.waiter(Waits::ForOutput);
        let mut seen = entry.course.standing().progress.total_bytes;
        let mut paused = self.drain.paused.clone();
        let mut quiet = Instant::now() + self.shared.limits.drain_quiet;
        loop {
            if *paused.borrow_and_update() {
                // A reader is behind, by its own choice: that is not quiet, and no time passes for the cap.
                let since = Instant::now();
                while *paused.borrow_and_update() && !self.stopping {
                    let happening = tokio::select! {
                        biased;
                        proof = process.emptied() => return proof == TreeProof::Empty,
                        changed = paused.changed() => {
                            if changed.is_err() {
                                return false;
                            }
                            continue;
                        }
                        happening = self.happening() => happening,
                    };
                    self.attend(happening).await;
                }
                cap += since.elapsed();
                quiet = Instant::now() + self.shared.limits.drain_quiet;
            }
            let happening = tokio::select! {
                biased;
                proof = process.emptied() => return proof == TreeProof::Empty,
                happening = self.happening() => happening,
                total = output.until(|standing| standing.output_beyond(seen)) => {
                    seen = total;
                    quiet = Instant::now() + self.shared.limits.drain_quiet;
                    if Instant::now() >= cap {
                        return false;
                    }
                    continue;
                }
                Ok(()) = paused.changed() => continue,
                () = until(Some(quiet.min(cap))) => return false,
            };
            self.attend(happening).await;
            if self.stopping {
                return false;
            }
        }
    }

    /// True when the tree is proven empty; false when something else happened, or `bound` has passed, or it can
    /// not be told.
    async fn empties_before(&mut self, bound: Option<Instant>) -> bool {
        let process = Arc::clone(&self.process);
        let emptied = async {
            match process.emptied().await {
                TreeProof::Empty => true,
                // It cannot be told now; ask again, but not in a spin.
                TreeProof::Unknown | TreeProof::Survivors(_) => {
                    tokio::time::sleep(PROOF_PAUSE).await;
                    false
                }
            }
        };
        let happening = tokio::select! {
            biased;
            empty = emptied => return empty,
            happening = self.happening() => happening,
            () = until(bound) => return false,
        };
        self.attend(happening).await;
        false
    }

    /// Kills what is left until the tree is proven empty. Until then nothing is given back and nothing is reported
    /// as stopped; after the bound it says so and goes on.
    async fn prove_empty(&mut self) {
        // A terminate that was asked for has its grace first; anything else is killed now.
        while self.kill_at.is_some() {
            if self.empties_before(None).await {
                return;
            }
        }
        loop {
            match self.tree().await {
                TreeProof::Empty => break,
                // What cannot be delivered now is delivered by the next attempt.
                TreeProof::Survivors(_) | TreeProof::Unknown => {
                    let _ = self.deliver(Signal::Kill).await;
                }
            }
            let bound = Instant::now() + self.shared.limits.proof_bound;
            while Instant::now() < bound {
                if self.empties_before(Some(bound)).await {
                    self.set_teardown_failed(false);
                    return;
                }
            }
            warn!(handle = ?self.entry.handle, "a tree is not proven empty; the attempt goes on");
            self.set_teardown_failed(true);
        }
        self.set_teardown_failed(false);
    }

    pub(crate) fn set_teardown_failed(&self, failed: bool) {
        self.entry.course.set_teardown_failed(failed);
    }
}
