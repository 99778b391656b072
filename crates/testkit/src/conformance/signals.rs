//! Rules of signals: whom each reaches, what is said of it, and that a late one harms nobody.

use procyard_core::{LeaderEnd, SIGINT, SIGKILL, SIGTERM};
use procyard_runner::{Delivery, Signal, TreeProof};

use super::look::{
    Live, MOMENTS, Verdict, abandoned, begin, emptied, end_of, ensure, living, signalled, within,
};
use super::{Act, Stage, rules};

rules! {
    an_interrupt_is_sigint_to_the_leader,
    terminate_reaches_the_whole_tree,
    the_leader_answers_terminate_with_its_own_code,
    what_ignores_polite_signals_lives_until_it_is_killed,
    a_kill_ends_the_whole_tree,
    a_kill_reaches_what_outlived_the_leader,
    a_delivery_tells_whom_it_met,
    signals_after_the_end_are_harmless_and_say_so,
    a_signal_does_not_leave_its_tree,
    a_dropped_signal_leaves_the_process_answering,
}

const ALL: [Signal; 3] = [Signal::Interrupt, Signal::Terminate, Signal::Kill];

async fn an_interrupt_is_sigint_to_the_leader(stage: &dyn Stage) -> Verdict {
    let live = Live::ready(stage, Act::Stay).await?;
    let delivery = live.signal(Signal::Interrupt).await?;
    ensure!(delivery.leader_alive && delivery.processes >= 1, "{delivery:?}");
    let end = end_of(&*live.process).await?;
    ensure!(end == Some(LeaderEnd::Signal(SIGINT)), "it ended with {end:?}");
    emptied(stage, &*live.process).await
}

async fn terminate_reaches_the_whole_tree(stage: &dyn Stage) -> Verdict {
    let live = Live::ready(stage, Act::Accompanied(2)).await?;
    live.signal(Signal::Terminate).await?;
    let end = end_of(&*live.process).await?;
    ensure!(end == Some(LeaderEnd::Signal(SIGTERM)), "it ended with {end:?}");
    emptied(stage, &*live.process).await?;
    let left = Live::begin(stage, stage.request(&Act::Leave { descendants: 2, code: 0 })).await?;
    within("wait", left.process.wait()).await?;
    left.signal(Signal::Terminate).await?;
    emptied(stage, &*left.process).await
}

async fn the_leader_answers_terminate_with_its_own_code(stage: &dyn Stage) -> Verdict {
    let live = Live::ready(stage, Act::Answer(9)).await?;
    live.signal(Signal::Terminate).await?;
    let end = end_of(&*live.process).await?;
    ensure!(end == Some(LeaderEnd::Code(9)), "it ended with {end:?}");
    Ok(())
}

async fn what_ignores_polite_signals_lives_until_it_is_killed(stage: &dyn Stage) -> Verdict {
    let live = Live::ready(stage, Act::Endure).await?;
    for signal in [Signal::Terminate, Signal::Interrupt] {
        let delivery = live.signal(signal).await?;
        ensure!(delivery.leader_alive, "{signal:?} met {delivery:?}");
        let proof = within("tree", live.process.tree()).await?;
        ensure!(matches!(proof, TreeProof::Survivors(_)), "after {signal:?} the tree was {proof:?}");
    }
    ensure!(stage.living() == 1, "{} live, not the one that ignores", stage.living());
    live.signal(Signal::Kill).await?;
    let end = end_of(&*live.process).await?;
    ensure!(end == Some(LeaderEnd::Signal(SIGKILL)), "it ended with {end:?}");
    emptied(stage, &*live.process).await
}

async fn a_kill_ends_the_whole_tree(stage: &dyn Stage) -> Verdict {
    let mut live = Live::ready(stage, Act::Accompanied(3)).await?;
    live.signal(Signal::Kill).await?;
    let end = end_of(&*live.process).await?;
    ensure!(end == Some(LeaderEnd::Signal(SIGKILL)), "it ended with {end:?}");
    emptied(stage, &*live.process).await?;
    live.stdout.rest().await.map(drop)
}

async fn a_kill_reaches_what_outlived_the_leader(stage: &dyn Stage) -> Verdict {
    let process = begin(stage, stage.request(&Act::Leave { descendants: 3, code: 4 })).await?;
    within("wait", process.wait()).await?;
    ensure!(stage.living() == 3, "{} live, not three descendants", stage.living());
    signalled(&*process, Signal::Kill).await?;
    emptied(stage, &*process).await?;
    let end = end_of(&*process).await?;
    ensure!(end == Some(LeaderEnd::Code(4)), "the leader had exited with 4, and wait says {end:?}");
    Ok(())
}

async fn a_delivery_tells_whom_it_met(stage: &dyn Stage) -> Verdict {
    for signal in [Signal::Terminate, Signal::Kill] {
        let live = Live::ready(stage, Act::Accompanied(2)).await?;
        let delivery = live.signal(signal).await?;
        ensure!(delivery.leader_alive, "the leader lives, and {signal:?} met {delivery:?}");
        ensure!(delivery.processes >= 3, "{signal:?} met {delivery:?}, not a leader and two descendants");
        let left = begin(stage, stage.request(&Act::Leave { descendants: 2, code: 0 })).await?;
        within("wait", left.wait()).await?;
        let delivery = signalled(&*left, signal).await?;
        ensure!(!delivery.leader_alive, "the leader has ended, and {signal:?} met {delivery:?}");
        ensure!(delivery.processes >= 2, "{signal:?} met {delivery:?}, not two descendants");
    }
    Ok(())
}

async fn signals_after_the_end_are_harmless_and_say_so(stage: &dyn Stage) -> Verdict {
    let act = Act::Exit { stdout: String::new(), stderr: String::new(), code: 2 };
    let process = begin(stage, stage.request(&act)).await?;
    emptied(stage, &*process).await?;
    for signal in ALL {
        let delivery = signalled(&*process, signal).await?;
        let nobody = Delivery { leader_alive: false, processes: 0 };
        ensure!(delivery == nobody, "after the end {signal:?} met {delivery:?}");
    }
    let end = end_of(&*process).await?;
    ensure!(end == Some(LeaderEnd::Code(2)), "it had exited with 2, and wait says {end:?}");
    Ok(())
}

async fn a_signal_does_not_leave_its_tree(stage: &dyn Stage) -> Verdict {
    for signal in ALL {
        let bystander = Live::ready(stage, Act::Accompanied(1)).await?;
        let target = Live::ready(stage, Act::Stay).await?;
        living(stage, 3).await?;
        target.signal(signal).await?;
        let proof = within("emptied", target.process.emptied()).await?;
        ensure!(proof == TreeProof::Empty, "emptied said {proof:?}");
        let proof = within("tree", bystander.process.tree()).await?;
        ensure!(matches!(proof, TreeProof::Survivors(2..)), "{signal:?} reached another tree: {proof:?}");
        ensure!(stage.living() == 2, "{signal:?} left {} of another tree's two", stage.living());
        bystander.signal(Signal::Kill).await?;
        emptied(stage, &*bystander.process).await?;
    }
    Ok(())
}

async fn a_dropped_signal_leaves_the_process_answering(stage: &dyn Stage) -> Verdict {
    for signal in ALL {
        for moment in MOMENTS {
            let live = Live::ready(stage, Act::Stay).await?;
            abandoned(live.process.signal(signal), moment).await;
            live.signal(Signal::Kill).await?;
            emptied(stage, &*live.process).await?;
            within("wait", live.process.wait()).await?;
        }
    }
    Ok(())
}
