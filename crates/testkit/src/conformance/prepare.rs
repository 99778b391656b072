//! Rules of preparing: nothing is spawned, everything is validated and told truthfully.

use procyard_runner::{
    CommandSpec, PreparedProcess, ProcessRequest, RunnerErrorKind, StdinMode, TerminalSize,
};

use super::look::{
    MOMENTS, Seen, Verdict, abandoned, begin, briefly, emptied, end_of, ensure, refusal, within,
};
use super::{Act, Stage, rules};

rules! {
    preparing_spawns_nothing,
    a_dropped_preparation_releases_everything,
    an_invalid_request_is_refused_and_its_field_named,
    the_capabilities_do_not_change,
    what_is_prepared_is_contained_as_the_capabilities_say,
    a_command_writes_no_more_than_its_effective_access_says,
}

async fn prepared(stage: &dyn Stage, request: ProcessRequest) -> Verdict<Box<dyn PreparedProcess>> {
    let prepared = within("prepare", stage.runner().prepare(request)).await?;
    prepared.map_err(|error| Seen(format!("a right request was refused: {error:?}")))
}

async fn preparing_spawns_nothing(stage: &dyn Stage) -> Verdict {
    let kept = prepared(stage, stage.request(&Act::Stay)).await?;
    let appeared = briefly(async {
        while stage.living() == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    });
    ensure!(appeared.await.is_none(), "{} processes live, and nothing was started", stage.living());
    drop(kept);
    Ok(())
}

async fn a_dropped_preparation_releases_everything(stage: &dyn Stage) -> Verdict {
    let terminals = stage.runner().capabilities().terminals;
    for number in 0..64 {
        let mut request = stage.request(&Act::Stay);
        request.stdin = StdinMode::Open;
        request.terminal = (terminals && number % 2 == 0).then(TerminalSize::default);
        drop(prepared(stage, request.clone()).await?);
        abandoned(stage.runner().prepare(request), MOMENTS[number % MOMENTS.len()]).await;
    }
    let process = begin(stage, stage.request(&Act::print("next"))).await?;
    emptied(stage, &*process).await
}

async fn an_invalid_request_is_refused_and_its_field_named(stage: &dyn Stage) -> Verdict {
    let right = || stage.request(&Act::Stay);
    let argv = |words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        ProcessRequest { command: CommandSpec::Argv(words), ..right() }
    };
    let mut cases = vec![
        ("argv", argv(&[])),
        ("argv", argv(&["echo", "a\0b"])),
        ("command", ProcessRequest { command: CommandSpec::Shell("a\0b".to_owned()), ..right() }),
        ("workdir", ProcessRequest { workdir: "relative".into(), ..right() }),
        ("workdir", ProcessRequest { workdir: "/a\0b".into(), ..right() }),
    ];
    for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "\0")] {
        let mut wrong = right();
        wrong.environment.changes.insert(name.into(), Some(value.into()));
        cases.push(("env", wrong));
    }
    for (nice, score) in [(Some(20), None), (Some(-21), None), (None, Some(1001)), (None, Some(-1001))] {
        let mut wrong = right();
        wrong.limits.nice = nice;
        wrong.limits.oom_score_adj = score;
        cases.push(("limits", wrong));
    }
    for (field, rows, cols) in [("rows", 0, 80), ("cols", 24, 0)] {
        cases.push((field, ProcessRequest { terminal: Some(TerminalSize { rows, cols }), ..right() }));
    }
    for (field, wrong) in cases {
        match within("prepare", stage.runner().prepare(wrong.clone())).await? {
            Ok(_) => return Err(Seen(format!("{wrong:?} was prepared"))),
            Err(error) => {
                let named = error.kind() == RunnerErrorKind::InvalidRequest(field);
                ensure!(named, "{error:?} instead of an invalid {field} for {wrong:?}");
            }
        }
    }
    ensure!(stage.living() == 0, "a request that was refused has a process");
    Ok(())
}

async fn the_capabilities_do_not_change(stage: &dyn Stage) -> Verdict {
    let before = stage.runner().capabilities();
    for act in [Act::print("one"), Act::MissingProgram, Act::print("two")] {
        let refused = refusal(stage, stage.request(&act)).await;
        ensure!(refused.is_ok() == (act == Act::MissingProgram), "{act:?}: {refused:?}");
        let now = stage.runner().capabilities();
        ensure!(now == before, "{before:?} became {now:?}");
    }
    Ok(())
}

async fn what_is_prepared_is_contained_as_the_capabilities_say(stage: &dyn Stage) -> Verdict {
    let Some(promised) = stage.runner().capabilities().tier else { return Ok(()) };
    let tier = prepared(stage, stage.request(&Act::Stay)).await?.tier();
    ensure!(tier == promised, "prepared with {tier}, the capabilities say {promised}");
    Ok(())
}

async fn a_command_writes_no_more_than_its_effective_access_says(stage: &dyn Stage) -> Verdict {
    use procyard_core::{LeaderEnd, WorkspaceAccess};
    let file = stage.workspace().join("written-by-a-command");
    let prepared = prepared(stage, stage.request(&Act::Write(file.clone()))).await?;
    let access = prepared.effective_access();
    let may_write = match &access {
        WorkspaceAccess::ReadOnly => false,
        WorkspaceAccess::ScopedWrite { paths } => paths.iter().any(|path| file.starts_with(path)),
        WorkspaceAccess::BroadWrite => true,
    };
    let process = within("start", prepared.start()).await?;
    let process = process.map_err(|error| Seen(format!("the start failed: {error:?}")))?;
    let end = end_of(&*process).await?;
    let wrote = end == Some(LeaderEnd::Code(0));
    ensure!(may_write || !wrote, "it wrote, and the effective access is {access:?}");
    ensure!(!may_write || wrote, "it could not write ({end:?}), and the effective access is {access:?}");
    Ok(())
}
