//! Rules of starting: a command that cannot be executed is an error of its kind, a start that is dropped leaves nothing,
//! and starts do not disturb each other.

use procyard_core::LeaderEnd;
use procyard_runner::{Process, ProcessRequest, RunnerErrorKind, Signal, SpawnFailure};

use super::look::{
    Live, MOMENTS, Reader, Seen, Verdict, abandoned, begin, emptied, end_of, ensure, living, refusal,
    signalled, within,
};
use super::{Act, Stage, rules};

rules! {
    a_missing_program_is_an_error_of_its_kind,
    a_file_that_is_no_program_is_an_error_of_its_kind,
    a_deleted_workdir_fails_that_start_alone,
    a_dropped_start_leaves_no_process,
    starts_at_the_same_time_each_have_their_own_output_and_status,
    processes_live_side_by_side,
}

/// An act that cannot be started fails like this, again and again, and does not spoil the next start.
async fn fails(stage: &dyn Stage, act: Act, expect: SpawnFailure) -> Verdict {
    for _ in 0..2 {
        let error = refusal(stage, stage.request(&act)).await?;
        ensure!(error.kind() == RunnerErrorKind::Spawn(expect), "{error:?} instead of {expect:?}");
    }
    ensure!(stage.living() == 0, "a start that failed has a process");
    let next = begin(stage, stage.request(&Act::print("next"))).await?;
    let end = end_of(&*next).await?;
    ensure!(end == Some(LeaderEnd::Code(0)), "the next start ended with {end:?}");
    Ok(())
}

async fn a_missing_program_is_an_error_of_its_kind(stage: &dyn Stage) -> Verdict {
    fails(stage, Act::MissingProgram, SpawnFailure::NotFound).await
}

async fn a_file_that_is_no_program_is_an_error_of_its_kind(stage: &dyn Stage) -> Verdict {
    fails(stage, Act::NotExecutable, SpawnFailure::NotExecutable).await
}

async fn a_deleted_workdir_fails_that_start_alone(stage: &dyn Stage) -> Verdict {
    let other = Live::ready(stage, Act::Stay).await?;
    let error = refusal(stage, stage.request(&Act::DeletedWorkdir)).await?;
    ensure!(error.kind() == RunnerErrorKind::Spawn(SpawnFailure::Workdir), "{error:?}");
    ensure!(stage.living() == 1, "{} live, not the one from before alone", stage.living());
    drop(other);
    living(stage, 0).await?;
    fails(stage, Act::DeletedWorkdir, SpawnFailure::Workdir).await
}

async fn a_dropped_start_leaves_no_process(stage: &dyn Stage) -> Verdict {
    for moment in MOMENTS {
        let prepared = within("prepare", stage.runner().prepare(stage.request(&Act::Stay))).await?;
        let prepared = prepared.map_err(|error| Seen(format!("prepare failed: {error:?}")))?;
        abandoned(prepared.start(), moment).await;
        // Never polled.
        let prepared = within("prepare", stage.runner().prepare(stage.request(&Act::Stay))).await?;
        drop(prepared.map(procyard_runner::PreparedProcess::start));
    }
    let next = Live::ready(stage, Act::Stay).await?;
    living(stage, 1).await?;
    next.signal(Signal::Kill).await?;
    emptied(stage, &*next.process).await
}

async fn starts_at_the_same_time_each_have_their_own_output_and_status(stage: &dyn Stage) -> Verdict {
    let mut requests: Vec<(u8, ProcessRequest)> = Vec::new();
    for number in 0..24 {
        let act = Act::Exit { stdout: format!("number {number}."), stderr: String::new(), code: number };
        requests.push((number, stage.request(&act)));
    }
    let runs = requests.into_iter().map(|(number, request)| async move {
        let mut process = begin(stage, request).await?;
        let mut stdout = Reader::new(process.take_stdout())?;
        let text = stdout.rest().await?;
        ensure!(text == format!("number {number}."), "{number} printed {text:?}");
        let end = end_of(&*process).await?;
        ensure!(end == Some(LeaderEnd::Code(number)), "{number} ended with {end:?}");
        emptied_alone(&*process).await
    });
    all(runs.collect()).await
}

/// Empty, while others of the stage live.
async fn emptied_alone(process: &dyn Process) -> Verdict {
    let proof = within("emptied", process.emptied()).await?;
    ensure!(proof == procyard_runner::TreeProof::Empty, "emptied said {proof:?}");
    Ok(())
}

async fn processes_live_side_by_side(stage: &dyn Stage) -> Verdict {
    let starts = (0..12).map(|_| stage.request(&Act::Stay)).collect::<Vec<_>>();
    let mut lives = Vec::new();
    for request in starts {
        let mut live = Live::begin(stage, request).await?;
        live.stdout.until("ready").await?;
        lives.push(live);
    }
    living(stage, 12).await?;
    let ends = lives.iter().map(|live| &*live.process).map(|process| async move {
        signalled(process, Signal::Kill).await?;
        emptied_alone(process).await
    });
    let ends = ends.collect();
    all(ends).await?;
    ensure!(stage.living() == 0, "{} still live", stage.living());
    Ok(())
}

/// Runs all at the same time, in one task; the first failure is the answer.
async fn all(futures: Vec<impl Future<Output = Verdict>>) -> Verdict {
    let mut running: Vec<_> = futures.into_iter().map(Box::pin).collect();
    std::future::poll_fn(move |cx| {
        let mut failed = None;
        running.retain_mut(|future| match future.as_mut().poll(cx) {
            std::task::Poll::Ready(verdict) => {
                failed = failed.take().or(verdict.err());
                false
            }
            std::task::Poll::Pending => true,
        });
        match failed {
            Some(seen) => std::task::Poll::Ready(Err(seen)),
            None if running.is_empty() => std::task::Poll::Ready(Ok(())),
            None => std::task::Poll::Pending,
        }
    })
    .await
}
