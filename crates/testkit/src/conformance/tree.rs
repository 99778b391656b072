//! Rules of the tree: counted while it lives, empty only when it is, and ended by dropping and closing.

use procyard_core::{LeaderEnd, SIGKILL};
use procyard_runner::{Signal, TreeProof};

use super::look::{
    Live, MOMENTS, Verdict, abandoned, begin, briefly, emptied, end_of, ensure, living, within,
};
use super::{Act, Stage, rules};

rules! {
    a_living_tree_is_counted,
    a_tree_is_not_empty_while_a_descendant_lives,
    a_tree_that_ended_is_proven_empty_and_stays_so,
    emptied_does_not_resolve_while_anything_lives,
    emptied_resolves_also_after_it_was_dropped,
    a_dropped_process_takes_its_tree_along,
    close_ends_the_tree_and_says_so,
    close_may_be_dropped_and_asked_for_again,
}

async fn a_living_tree_is_counted(stage: &dyn Stage) -> Verdict {
    for descendants in [0, 1, 4] {
        let act = if descendants == 0 { Act::Stay } else { Act::Accompanied(descendants) };
        let live = Live::ready(stage, act).await?;
        let proof = within("tree", live.process.tree()).await?;
        let counted = matches!(proof, TreeProof::Survivors(count) if count > descendants);
        ensure!(counted, "{proof:?} for a leader and {descendants} descendants");
        live.signal(Signal::Kill).await?;
        emptied(stage, &*live.process).await?;
    }
    Ok(())
}

async fn a_tree_is_not_empty_while_a_descendant_lives(stage: &dyn Stage) -> Verdict {
    let process = begin(stage, stage.request(&Act::Leave { descendants: 2, code: 0 })).await?;
    within("wait", process.wait()).await?;
    for _ in 0..10 {
        let proof = within("tree", process.tree()).await?;
        ensure!(matches!(proof, TreeProof::Survivors(2..)), "{proof:?} while two descendants live");
    }
    ensure!(stage.living() == 2, "{} live, not two descendants", stage.living());
    Ok(())
}

async fn a_tree_that_ended_is_proven_empty_and_stays_so(stage: &dyn Stage) -> Verdict {
    let process = begin(stage, stage.request(&Act::print("done"))).await?;
    emptied(stage, &*process).await?;
    for _ in 0..2 {
        let proof = within("tree", process.tree()).await?;
        ensure!(proof == TreeProof::Empty, "tree said {proof:?}");
        emptied(stage, &*process).await?;
    }
    Ok(())
}

async fn emptied_does_not_resolve_while_anything_lives(stage: &dyn Stage) -> Verdict {
    let live = Live::ready(stage, Act::Stay).await?;
    let early = briefly(live.process.emptied()).await;
    ensure!(early.is_none(), "the leader lives, and emptied said {early:?}");
    live.signal(Signal::Kill).await?;
    emptied(stage, &*live.process).await?;
    let left = begin(stage, stage.request(&Act::Leave { descendants: 1, code: 0 })).await?;
    within("wait", left.wait()).await?;
    let early = briefly(left.emptied()).await;
    ensure!(early.is_none(), "a descendant lives, and emptied said {early:?}");
    Ok(())
}

async fn emptied_resolves_also_after_it_was_dropped(stage: &dyn Stage) -> Verdict {
    let live = Live::ready(stage, Act::Accompanied(1)).await?;
    for moment in MOMENTS {
        abandoned(live.process.emptied(), moment).await;
    }
    live.signal(Signal::Kill).await?;
    abandoned(live.process.emptied(), MOMENTS[0]).await;
    emptied(stage, &*live.process).await
}

async fn a_dropped_process_takes_its_tree_along(stage: &dyn Stage) -> Verdict {
    for act in [Act::Stay, Act::Endure, Act::Accompanied(2)] {
        let mut live = Live::ready(stage, act.clone()).await?;
        ensure!(stage.living() > 0, "{act:?} has no process");
        drop(live.process);
        living(stage, 0).await?;
        live.stdout.rest().await?;
    }
    let left = begin(stage, stage.request(&Act::Leave { descendants: 2, code: 0 })).await?;
    within("wait", left.wait()).await?;
    drop(left);
    living(stage, 0).await
}

async fn close_ends_the_tree_and_says_so(stage: &dyn Stage) -> Verdict {
    for act in [Act::Accompanied(2), Act::Endure] {
        let mut live = Live::ready(stage, act).await?;
        for _ in 0..2 {
            let proof = within("close", live.process.close()).await?;
            ensure!(proof == TreeProof::Empty, "close said {proof:?}");
            ensure!(stage.living() == 0, "close said Empty while {} lived", stage.living());
        }
        let end = end_of(&*live.process).await?;
        ensure!(end == Some(LeaderEnd::Signal(SIGKILL)), "after close wait says {end:?}");
        live.stdout.rest().await?;
    }
    Ok(())
}

async fn close_may_be_dropped_and_asked_for_again(stage: &dyn Stage) -> Verdict {
    for moment in MOMENTS {
        let live = Live::ready(stage, Act::Accompanied(1)).await?;
        abandoned(live.process.close(), moment).await;
        let proof = within("close", live.process.close()).await?;
        ensure!(proof == TreeProof::Empty, "close said {proof:?}");
        living(stage, 0).await?;
    }
    Ok(())
}
