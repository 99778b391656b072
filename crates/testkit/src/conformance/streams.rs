//! Rules of the streams: whole, apart, given once, and at their end when the last holder is gone.

use procyard_core::LeaderEnd;
use procyard_runner::{Process, ProcessRequest, Signal, StdinMode, StreamMode};
use tokio::io::AsyncWriteExt as _;

use super::look::{Live, Reader, Seen, Verdict, begin, emptied, end_of, ensure, signalled, within};
use super::{Act, Stage, rules};

rules! {
    stdout_and_stderr_are_whole_and_apart,
    each_stream_is_given_once,
    output_is_there_after_the_leader_has_ended,
    output_of_any_length_arrives,
    output_does_not_end_while_a_descendant_holds_it,
    output_ends_when_its_last_holder_is_gone,
    stdin_is_at_its_end_unless_asked_for,
    open_stdin_arrives_and_shutting_it_down_is_its_end,
    dropping_stdin_is_its_end,
    admitted_input_arrives_whole,
}

const CODE: u8 = 7;

fn printing() -> Act {
    Act::Exit { stdout: "to stdout\n".to_owned(), stderr: "to stderr\n".to_owned(), code: CODE }
}

fn open(stage: &dyn Stage, act: &Act) -> ProcessRequest {
    ProcessRequest { stdin: StdinMode::Open, ..stage.request(act) }
}

async fn stdout_and_stderr_are_whole_and_apart(stage: &dyn Stage) -> Verdict {
    let mut process = begin(stage, stage.request(&printing())).await?;
    ensure!(process.stream_mode() == StreamMode::Pipes, "asked for pipes, got {:?}", process.stream_mode());
    let (mut stdout, mut stderr) = (Reader::new(process.take_stdout())?, Reader::new(process.take_stderr())?);
    let (stdout, stderr) = (stdout.rest().await?, stderr.rest().await?);
    ensure!(stdout == "to stdout\n", "stdout was {stdout:?}");
    ensure!(stderr == "to stderr\n", "stderr was {stderr:?}");
    Ok(())
}

async fn each_stream_is_given_once(stage: &dyn Stage) -> Verdict {
    let mut process = begin(stage, open(stage, &Act::Stay)).await?;
    let given = [process.take_stdout().is_some(), process.take_stderr().is_some()];
    ensure!(given == [true; 2] && process.take_stdin().is_some(), "a stream was not given at all");
    process.activities();
    let again = [process.take_stdout().is_some(), process.take_stderr().is_some()];
    ensure!(again == [false; 2], "an output was given twice");
    ensure!(process.take_stdin().is_none(), "the input was given twice");
    ensure!(process.activities().is_none(), "activities were given twice");
    Ok(())
}

async fn output_is_there_after_the_leader_has_ended(stage: &dyn Stage) -> Verdict {
    let mut process = begin(stage, stage.request(&printing())).await?;
    let end = end_of(&*process).await?;
    ensure!(end == Some(LeaderEnd::Code(CODE)), "it ended with {end:?}");
    emptied(stage, &*process).await?;
    for (end, expect) in [(process.take_stdout(), "to stdout\n"), (process.take_stderr(), "to stderr\n")] {
        let mut output = Reader::new(end)?;
        let text = output.rest().await?;
        ensure!(text == expect, "{text:?} was left of {expect:?}");
    }
    Ok(())
}

async fn output_of_any_length_arrives(stage: &dyn Stage) -> Verdict {
    const BYTES: usize = 3_000_001;
    let mut process = begin(stage, stage.request(&Act::Flood(BYTES))).await?;
    let mut stdout = Reader::new(process.take_stdout())?;
    let text = stdout.rest().await?;
    ensure!(text.len() == BYTES, "{} of {BYTES} bytes arrived", text.len());
    ensure!(text.bytes().all(|byte| byte == b'x'), "other bytes than those that were printed arrived");
    Ok(())
}

async fn output_does_not_end_while_a_descendant_holds_it(stage: &dyn Stage) -> Verdict {
    let mut live = Live::begin(stage, stage.request(&Act::Leave { descendants: 1, code: CODE })).await?;
    let end = end_of(&*live.process).await?;
    ensure!(end == Some(LeaderEnd::Code(CODE)), "it ended with {end:?}");
    ensure!(!live.stdout.ends_briefly().await?, "stdout ended while a descendant held it");
    let mut stderr = Reader::new(live.process.take_stderr())?;
    ensure!(!stderr.ends_briefly().await?, "stderr ended while a descendant held it");
    Ok(())
}

async fn output_ends_when_its_last_holder_is_gone(stage: &dyn Stage) -> Verdict {
    let mut live = Live::begin(stage, stage.request(&Act::Leave { descendants: 2, code: 0 })).await?;
    within("wait", live.process.wait()).await?;
    signalled(&*live.process, Signal::Kill).await?;
    emptied(stage, &*live.process).await?;
    live.stdout.rest().await?;
    Reader::new(live.process.take_stderr())?.rest().await?;
    Ok(())
}

async fn stdin_is_at_its_end_unless_asked_for(stage: &dyn Stage) -> Verdict {
    let mut live = Live::begin(stage, stage.request(&Act::Echo)).await?;
    ensure!(live.process.take_stdin().is_none(), "an input was given that nobody asked for");
    let text = live.stdout.rest().await?;
    ensure!(text.is_empty(), "{text:?} was read from an empty input");
    let end = end_of(&*live.process).await?;
    ensure!(end == Some(LeaderEnd::Code(0)), "it ended with {end:?}");
    Ok(())
}

fn stdin(process: &mut dyn Process) -> Verdict<procyard_runner::Input> {
    process.take_stdin().ok_or_else(|| Seen("the input that was asked for was not given".to_owned()))
}

async fn type_in(input: &mut procyard_runner::Input, bytes: &[u8]) -> Verdict {
    let written = within("writing input", input.write_all(bytes)).await?;
    written.map_err(|error| Seen(format!("writing input failed: {error}")))
}

async fn echoed(live: &mut Live, expect: &str) -> Verdict {
    let text = live.stdout.rest().await?;
    ensure!(text == expect, "{text:?} came back");
    let end = end_of(&*live.process).await?;
    ensure!(end == Some(LeaderEnd::Code(0)), "it ended with {end:?}");
    Ok(())
}

async fn open_stdin_arrives_and_shutting_it_down_is_its_end(stage: &dyn Stage) -> Verdict {
    let mut live = Live::begin(stage, open(stage, &Act::Echo)).await?;
    let mut input = stdin(&mut *live.process)?;
    type_in(&mut input, b"one ").await?;
    live.stdout.until("one ").await?;
    type_in(&mut input, b"two").await?;
    let shut = within("shutting the input down", input.shutdown()).await?;
    ensure!(shut.is_ok(), "shutting the input down failed: {shut:?}");
    echoed(&mut live, "one two").await
}

async fn dropping_stdin_is_its_end(stage: &dyn Stage) -> Verdict {
    let mut live = Live::begin(stage, open(stage, &Act::Echo)).await?;
    let mut input = stdin(&mut *live.process)?;
    type_in(&mut input, b"typed").await?;
    drop(input);
    echoed(&mut live, "typed").await
}

async fn admitted_input_arrives_whole(stage: &dyn Stage) -> Verdict {
    let mut live = Live::begin(stage, open(stage, &Act::CountLines)).await?;
    live.stdout.until("ready").await?;
    let mut input = stdin(&mut *live.process)?;
    for length in [0, 1, 4095, 4096, 60_000] {
        let text = [&vec![b'y'; length][..], b"\n"].concat();
        let admitted = live.process.admit_input(&text, false);
        ensure!(admitted.is_ok(), "a pipe has no line editing, and yet: {admitted:?}");
        live.stdout.seen.clear();
        type_in(&mut input, &text).await?;
        live.stdout.until("\n").await?;
        let counted = live.stdout.seen.trim();
        ensure!(counted == length.to_string(), "of a line of {length} bytes {counted} arrived");
    }
    Ok(())
}
