//! Rules of terminals: had where they are promised, one stream, a size, and input that is typed.

use procyard_core::{LeaderEnd, SIGINT};
use procyard_runner::{Process, ProcessRequest, RunnerErrorKind, Signal, StreamMode, TerminalSize};
use tokio::io::AsyncWriteExt as _;

use super::look::{Live, Seen, Verdict, begin, emptied, end_of, ensure, refusal, within};
use super::{Act, Stage, rules};

rules! {
    a_terminal_is_had_where_the_capabilities_say_so,
    a_terminal_has_one_output_and_always_an_input,
    a_terminal_has_the_size_that_it_was_given_last,
    a_resize_without_a_terminal_or_without_a_size_is_refused,
    a_resize_after_the_end_is_harmless,
    an_interrupt_of_a_terminal_is_its_interrupt_character,
    an_end_of_file_can_be_typed,
    what_a_terminal_admits_arrives_whole_and_what_it_refuses_not_at_all,
    a_killed_terminal_is_at_its_end,
}

const SIZE: TerminalSize = TerminalSize { rows: 31, cols: 97 };

fn on_terminal(stage: &dyn Stage, act: &Act) -> ProcessRequest {
    ProcessRequest { terminal: Some(SIZE), ..stage.request(act) }
}

/// Whether there are terminals to hold against the rule.
fn are_there(stage: &dyn Stage) -> bool {
    stage.runner().capabilities().terminals
}

async fn a_terminal_is_had_where_the_capabilities_say_so(stage: &dyn Stage) -> Verdict {
    if are_there(stage) {
        let process = begin(stage, on_terminal(stage, &Act::Stay)).await?;
        ensure!(process.stream_mode() == StreamMode::Terminal, "it has {:?}", process.stream_mode());
    } else {
        let error = refusal(stage, on_terminal(stage, &Act::Stay)).await?;
        ensure!(error.kind() == RunnerErrorKind::PtyUnavailable, "{error:?}");
    }
    Ok(())
}

async fn a_terminal_has_one_output_and_always_an_input(stage: &dyn Stage) -> Verdict {
    if !are_there(stage) {
        return Ok(());
    }
    let printing = Act::Exit { stdout: "to stdout ".to_owned(), stderr: "to stderr ".to_owned(), code: 0 };
    let mut live = Live::begin(stage, on_terminal(stage, &printing)).await?;
    ensure!(live.process.take_stderr().is_none(), "a terminal gave a standard error");
    ensure!(live.process.take_stdin().is_some(), "a terminal gave no input");
    let text = live.stdout.rest().await?;
    ensure!(text.contains("to stdout") && text.contains("to stderr"), "{text:?} was printed");
    Ok(())
}

async fn resize(process: &dyn Process, size: TerminalSize) -> Verdict {
    let resized = within("resize", process.resize(size)).await?;
    resized.map_err(|error| Seen(format!("a resize failed: {error:?}")))
}

async fn a_terminal_has_the_size_that_it_was_given_last(stage: &dyn Stage) -> Verdict {
    if !are_there(stage) {
        return Ok(());
    }
    let mut live = Live::begin(stage, on_terminal(stage, &Act::TellSize)).await?;
    live.stdout.until("size 31 97").await?;
    for (rows, cols) in [(50, 132), (1, 1), (9999, 12)] {
        resize(&*live.process, TerminalSize { rows, cols }).await?;
        live.stdout.until(&format!("size {rows} {cols}")).await?;
    }
    Ok(())
}

async fn a_resize_without_a_terminal_or_without_a_size_is_refused(stage: &dyn Stage) -> Verdict {
    let pipes = begin(stage, stage.request(&Act::Stay)).await?;
    let refused = within("resize", pipes.resize(SIZE)).await?;
    let named =
        refused.as_ref().is_err_and(|error| matches!(error.kind(), RunnerErrorKind::InvalidRequest(_)));
    ensure!(named, "a resize without a terminal was {refused:?}");
    if !are_there(stage) {
        return Ok(());
    }
    let mut live = Live::begin(stage, on_terminal(stage, &Act::TellSize)).await?;
    live.stdout.until("size 31 97").await?;
    for (rows, cols) in [(0, 80), (24, 0)] {
        let refused = within("resize", live.process.resize(TerminalSize { rows, cols })).await?;
        let named =
            refused.as_ref().is_err_and(|error| matches!(error.kind(), RunnerErrorKind::InvalidRequest(_)));
        ensure!(named, "a resize to {rows} rows and {cols} columns was {refused:?}");
    }
    Ok(())
}

async fn a_resize_after_the_end_is_harmless(stage: &dyn Stage) -> Verdict {
    if !are_there(stage) {
        return Ok(());
    }
    let live = Live::begin(stage, on_terminal(stage, &Act::print("done"))).await?;
    emptied(stage, &*live.process).await?;
    resize(&*live.process, TerminalSize::default()).await
}

async fn an_interrupt_of_a_terminal_is_its_interrupt_character(stage: &dyn Stage) -> Verdict {
    if !are_there(stage) {
        return Ok(());
    }
    let mut live = Live::begin(stage, on_terminal(stage, &Act::Stay)).await?;
    live.stdout.until("ready").await?;
    let delivery = live.signal(Signal::Interrupt).await?;
    ensure!(delivery.leader_alive, "the leader lives, and the interrupt met {delivery:?}");
    let end = end_of(&*live.process).await?;
    ensure!(end == Some(LeaderEnd::Signal(SIGINT)), "it ended with {end:?}");
    let late = live.signal(Signal::Interrupt).await?;
    ensure!(!late.leader_alive, "after the end an interrupt met {late:?}");
    Ok(())
}

async fn an_end_of_file_can_be_typed(stage: &dyn Stage) -> Verdict {
    if !are_there(stage) {
        return Ok(());
    }
    let mut live = Live::begin(stage, on_terminal(stage, &Act::Echo)).await?;
    let Some(mut input) = live.process.take_stdin() else {
        return Err(Seen("a terminal gave no input".to_owned()));
    };
    let typed = within("typing", input.write_all(b"typed\n")).await?;
    ensure!(typed.is_ok(), "typing failed: {typed:?}");
    live.stdout.until("typed").await?;
    let ended = within("end of file", input.shutdown()).await?;
    ensure!(ended.is_ok(), "typing an end of file failed: {ended:?}");
    let end = end_of(&*live.process).await?;
    ensure!(end == Some(LeaderEnd::Code(0)), "it ended with {end:?}");
    Ok(())
}

async fn what_a_terminal_admits_arrives_whole_and_what_it_refuses_not_at_all(stage: &dyn Stage) -> Verdict {
    if !are_there(stage) {
        return Ok(());
    }
    let mut live = Live::begin(stage, on_terminal(stage, &Act::CountLines)).await?;
    live.stdout.until("ready").await?;
    live.stdout.seen.clear();
    let Some(mut input) = live.process.take_stdin() else {
        return Err(Seen("a terminal gave no input".to_owned()));
    };
    for length in [0, 1, 4000, 4095, 4096, 5000, 100_000] {
        let text = [&vec![b'y'; length][..], b"\n"].concat();
        // Asked twice, since asking takes nothing into account.
        let asked = [(); 2].map(|()| live.process.would_admit_input(&text, false).is_ok());
        let admitted = live.process.admit_input(&text, false);
        ensure!(
            asked == [admitted.is_ok(); 2],
            "asked before, a line of {length} bytes was another matter: {asked:?}"
        );
        if let Err(error) = admitted {
            ensure!(error.kind() == RunnerErrorKind::InvalidRequest("data"), "{error:?}");
            ensure!(length > 1, "a line of {length} bytes was refused");
            continue;
        }
        let typed = within("typing", input.write_all(&text)).await?;
        ensure!(typed.is_ok(), "typing failed: {typed:?}");
        live.stdout.until("\n").await?;
        let counted = live.stdout.seen.trim().to_owned();
        ensure!(
            counted == length.to_string(),
            "of a line of {length} bytes that was admitted {counted} arrived"
        );
        live.stdout.seen.clear();
    }
    Ok(())
}

async fn a_killed_terminal_is_at_its_end(stage: &dyn Stage) -> Verdict {
    if !are_there(stage) {
        return Ok(());
    }
    let mut live = Live::begin(stage, on_terminal(stage, &Act::Accompanied(2))).await?;
    live.stdout.until("ready").await?;
    live.signal(Signal::Kill).await?;
    emptied(stage, &*live.process).await?;
    live.stdout.rest().await.map(drop)
}
