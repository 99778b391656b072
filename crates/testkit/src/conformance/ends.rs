//! Rules of `wait`: the leader's own end, whoever else lives, however often it is asked for.

use procyard_core::{LeaderEnd, SIGKILL, SignalNumber};
use procyard_runner::{Signal, TreeProof};

use super::look::{
    Live, MOMENTS, Verdict, abandoned, begin, briefly, emptied, end_of, ensure, signalled, within,
};
use super::{Act, Stage, rules};

rules! {
    wait_tells_the_code_of_the_leader,
    wait_tells_the_signal_that_ended_the_leader,
    wait_does_not_resolve_while_the_leader_lives,
    wait_does_not_wait_for_descendants,
    wait_gives_the_same_again,
    wait_resolves_while_another_signals,
    a_dropped_wait_loses_nothing,
}

async fn wait_tells_the_code_of_the_leader(stage: &dyn Stage) -> Verdict {
    for code in [0, 1, 2, 126, 127, 130, 137, 255] {
        let act = Act::Exit { stdout: String::new(), stderr: String::new(), code };
        let process = begin(stage, stage.request(&act)).await?;
        let end = end_of(&*process).await?;
        ensure!(end == Some(LeaderEnd::Code(code)), "code {code} was told as {end:?}");
    }
    Ok(())
}

async fn wait_tells_the_signal_that_ended_the_leader(stage: &dyn Stage) -> Verdict {
    for number in [1, 6, 9, 11, 15] {
        let process = begin(stage, stage.request(&Act::Die(number))).await?;
        let end = end_of(&*process).await?;
        let expect = SignalNumber::new(number).map(LeaderEnd::Signal);
        ensure!(end == expect, "signal {number} was told as {end:?}");
    }
    Ok(())
}

async fn wait_does_not_resolve_while_the_leader_lives(stage: &dyn Stage) -> Verdict {
    let live = Live::ready(stage, Act::Stay).await?;
    let early = briefly(live.process.wait()).await;
    ensure!(early.is_none(), "the leader lives, and wait said {early:?}");
    Ok(())
}

async fn wait_does_not_wait_for_descendants(stage: &dyn Stage) -> Verdict {
    let process = begin(stage, stage.request(&Act::Leave { descendants: 1, code: 5 })).await?;
    let end = end_of(&*process).await?;
    ensure!(end == Some(LeaderEnd::Code(5)), "it ended with {end:?}");
    ensure!(stage.living() == 1, "{} live, not the descendant", stage.living());
    Ok(())
}

async fn wait_gives_the_same_again(stage: &dyn Stage) -> Verdict {
    let act = Act::Exit { stdout: String::new(), stderr: String::new(), code: 3 };
    let process = begin(stage, stage.request(&act)).await?;
    let first = within("wait", process.wait()).await?;
    let second = within("wait again", process.wait()).await?;
    ensure!(first == second, "first {first:?}, then {second:?}");
    emptied(stage, &*process).await?;
    within("close", process.close()).await?;
    let third = within("wait after close", process.wait()).await?;
    ensure!(first == third, "first {first:?}, after close {third:?}");
    Ok(())
}

async fn wait_resolves_while_another_signals(stage: &dyn Stage) -> Verdict {
    let live = Live::ready(stage, Act::Stay).await?;
    let (end, delivered) = tokio::join!(end_of(&*live.process), signalled(&*live.process, Signal::Kill));
    delivered?;
    let end = end?;
    ensure!(end == Some(LeaderEnd::Signal(SIGKILL)), "it ended with {end:?}");
    Ok(())
}

async fn a_dropped_wait_loses_nothing(stage: &dyn Stage) -> Verdict {
    let live = Live::ready(stage, Act::Answer(6)).await?;
    for moment in MOMENTS {
        abandoned(live.process.wait(), moment).await;
        abandoned(live.process.emptied(), moment).await;
        abandoned(live.process.tree(), moment).await;
    }
    live.signal(Signal::Terminate).await?;
    let end = end_of(&*live.process).await?;
    ensure!(end == Some(LeaderEnd::Code(6)), "it ended with {end:?}");
    let proof = within("emptied", live.process.emptied()).await?;
    ensure!(proof == TreeProof::Empty, "emptied said {proof:?}");
    Ok(())
}
