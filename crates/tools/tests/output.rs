//! Reading and waiting, on a scripted runner.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use common::{Yard, call, code, id, owner};
use procyard_core::Limits;
use procyard_supervisor::Services;
use procyard_testkit::{Script, ScriptedRunner};
use serde_json::{Value, json};
use tokio::time::Instant;

fn texts(results: &Value) -> Vec<&str> {
    results["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["output"].as_str().unwrap_or_default())
        .collect()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn a_read_tells_what_there_is_and_how_the_process_is() {
    let yard = Yard::new(Script::new().stdout("\x1b[1mup\x1b[0m\n")).await;
    let process = yard.background().await;
    let result = yard.output(&process, json!({"wait": "any"})).await;
    assert_eq!(
        (&result["status"], &result["output"], &result["stdin"]),
        (&json!("running"), &json!("up\n"), &json!("none"))
    );
    assert_eq!(
        (&result["start_cursor"], &result["next_cursor"], &result["total_bytes"]),
        (&json!(0), &json!(11), &json!(11))
    );
    assert_eq!(
        (&result["normalized"], &result["binary"], &result["gap"]),
        (&json!(true), &json!(false), &json!(false))
    );
    assert_eq!(result["artifact"], json!({"id": process, "encoding": "base64"}));
    let exact = yard.output(&process, json!({"encoding": "base64"})).await;
    assert_eq!(exact["output"], "G1sxbXVwG1swbQo=");
}

#[tokio::test(start_paused = true)]
async fn streams_are_told_apart_and_cursors_stay_combined() {
    let script = Script::new().stdout("out\n").pause(seconds(1)).stderr("err\n").pause(seconds(1)).exit(0);
    let yard = Yard::new(script).await;
    let process = id(&yard.bash(json!({})).await);
    assert_eq!(yard.output(&process, json!({})).await["output"], "out\nerr\n");
    let only = yard.output(&process, json!({"stream": "stderr"})).await;
    assert_eq!((&only["output"], &only["next_cursor"]), (&json!("err\n"), &json!(8)));
    let only = yard.output(&process, json!({"stream": "stdout"})).await;
    assert_eq!((&only["output"], &only["next_cursor"]), (&json!("out\n"), &json!(8)));
}

#[tokio::test(start_paused = true)]
async fn tails_and_cursors_begin_where_they_say() {
    let yard = Yard::new(Script::new().stdout("one\ntwo\nthree\n").exit(0)).await;
    let process = id(&yard.bash(json!({})).await);
    for (arguments, output) in [
        (json!({"tail_lines": 1}), "three\n"),
        (json!({"tail_lines": 2, "limit_bytes": 7}), "\nthree\n"),
        (json!({"tail_bytes": 4}), "ree\n"),
        (json!({"cursor": 8}), "three\n"),
        (json!({"cursor": 14}), ""),
        (json!({"cursor": 4, "limit_bytes": 4}), "two\n"),
    ] {
        assert_eq!(yard.output(&process, arguments.clone()).await["output"], output, "{arguments}");
    }
    let ahead = yard.output(&process, json!({"cursor": 15})).await;
    assert_eq!((code(&ahead), &ahead["error"]["field"]), ("cursor_ahead", &json!("cursor")));
    assert_eq!(code(&yard.output(&process, json!({"cursor": 15, "wait": "any"})).await), "cursor_ahead");
}

#[tokio::test(start_paused = true)]
async fn a_wait_wakes_for_what_a_read_shows_and_not_before() {
    let script = Script::new()
        .pause(seconds(1))
        .stdout("\x1b[3")
        .pause(seconds(1))
        .stdout(b"1m\xe6\x97")
        .pause(seconds(1));
    let yard = Yard::new(script.stdout("\x1b[0m")).await;
    let process = yard.background().await;
    let began = Instant::now();
    let result = yard.output(&process, json!({"wait": "any", "timeout_ms": 60_000})).await;
    assert_eq!(result["output"], "\u{fffd}", "only the third write shows something");
    assert!((3..4).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_times_out_says_that_it_runs_and_ends_nothing() {
    let yard = Yard::new(Script::new()).await;
    let process = yard.background().await;
    for until in ["output", "exit"] {
        let began = Instant::now();
        let result = yard.output(&process, json!({"wait": "any", "until": until, "timeout_ms": 2000})).await;
        assert_eq!((&result["status"], &result["output"]), (&json!("running"), &json!("")));
        assert!((2..3).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_pattern_is_found_across_chunks_where_it_begins() {
    let yard = Yard::new(Script::new().stdout("listening on po").pause(seconds(2)).stdout("rt 8080\n")).await;
    let process = yard.background().await;
    let ask = json!({"wait": "any", "until": "match", "pattern": r"port (\d+)"});
    let reply = call(&yard.tools, "ProcessOutput", common::with(json!({"process_id": process}), ask)).await;
    assert_eq!(reply.structured["matched"], json!({"cursor": 13, "text": "port 8080"}));
    assert!(reply.text.contains("matched at cursor 13"), "{}", reply.text);
    let none = json!({"wait": "any", "until": "match", "pattern": "absent", "timeout_ms": 1000});
    assert!(yard.output(&process, none).await.get("matched").is_none());
    let bad = yard.output(&process, json!({"wait": "any", "until": "match", "pattern": "("})).await;
    assert_eq!((code(&bad), &bad["error"]["field"]), ("invalid_arguments", &json!("pattern")));
}

#[tokio::test(start_paused = true)]
async fn a_match_that_is_shown_in_part_says_so() {
    let yard = Yard::new(Script::new().stdout("xxééé\n")).await;
    let process = yard.background().await;
    for (limit, matched) in [
        (8, json!({"cursor": 2, "text": "ééé"})),
        (6, json!({"cursor": 2, "text": "ééé"})),
        (5, json!({"cursor": 2, "text": "éé", "truncated": true})),
        (1, json!({"cursor": 2, "text": "", "truncated": true})),
    ] {
        let ask = json!({"wait": "any", "until": "match", "pattern": "é+", "limit_bytes": limit});
        assert_eq!(yard.output(&process, ask).await["matched"], matched, "{limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_process_ends_a_wait_for_a_pattern() {
    let yard = Yard::new(Script::new().pause(seconds(3)).stdout("done").exit(0)).await;
    let process = yard.background().await;
    let ask = json!({"wait": "any", "until": "match", "pattern": "^done$", "timeout_ms": 60_000});
    let result = yard.output(&process, ask).await;
    assert_eq!((&result["status"], &result["matched"]["text"]), (&json!("exited"), &json!("done")));
}

#[tokio::test(start_paused = true)]
async fn quiet_gives_whole_answers() {
    let millis = Duration::from_millis(100);
    let script =
        Script::new().stdout("a").pause(millis).stdout("b").pause(millis).stdout("c").pause(seconds(60));
    let yard = Yard::new(script).await;
    let process = yard.background().await;
    let result = yard.output(&process, json!({"wait": "any", "quiet_ms": 500})).await;
    assert_eq!(result["output"], "abc");
}

#[tokio::test(start_paused = true)]
async fn any_and_all_wait_for_what_they_say() {
    let yard = Yard::new(Script::new().pause(seconds(2)).stdout("a\n").exit(0)).await;
    yard.runner.then(Script::new().pause(seconds(5)).stdout("b\n").exit(0));
    let (a, b) = (yard.background().await, yard.background().await);
    let began = Instant::now();
    let any = yard.call("ProcessOutput", json!({"process_ids": [b, a], "wait": "any"})).await;
    assert_eq!(texts(&any), ["", "a\n"]);
    let all = yard
        .call("ProcessOutput", json!({"process_ids": [b, a], "wait": "all", "cursors": {a.clone(): 2}}))
        .await;
    assert_eq!(texts(&all), ["b\n", ""]);
    assert!((5..6).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn of_several_processes_each_fails_by_itself() {
    let yard = Yard::new(Script::new().stdout("a\n").exit(0)).await;
    let process = id(&yard.bash(json!({})).await);
    let missing = "BBBBBBBBBBBBBBBBBBBBBA";
    let ids = json!([process, missing]);
    let results =
        yard.call("ProcessOutput", json!({"process_ids": ids, "wait": "all", "until": "exit"})).await;
    assert_eq!(texts(&results), ["a\n", ""]);
    assert_eq!(
        (code(&results["results"][1]), &results["results"][1]["process_id"]),
        ("not_found", &json!(missing))
    );
    let ahead = json!({"process_ids": ids, "cursors": {process.clone(): 99}, "wait": "any"});
    let results = yard.call("ProcessOutput", ahead).await;
    assert_eq!(code(&results["results"][0]), "cursor_ahead");
}

#[tokio::test(start_paused = true)]
async fn a_foreign_process_and_a_missing_one_are_the_same() {
    let yard = Yard::new(Script::new().stdout("mine\n").exit(0)).await;
    let process = id(&yard.bash(json!({})).await);
    let missing = "AAAAAAAAAAAAAAAAAAAAAA".to_owned();
    let other = yard.tools_of(owner(2));
    for (tool, arguments) in [
        ("ProcessOutput", json!({})),
        ("ProcessOutput", json!({"wait": "any", "until": "exit"})),
        ("ProcessOutput", json!({"cursor": 3})),
        ("ProcessOutput", json!({"tail_lines": 3})),
        ("ProcessInput", json!({"data": "x"})),
        ("ProcessInput", json!({"keys": ["up"]})),
        ("ProcessStop", json!({})),
    ] {
        let mut answers = Vec::new();
        for id in [&process, &missing] {
            let reply = call(&other, tool, common::with(arguments.clone(), json!({"process_id": id}))).await;
            assert_eq!(code(&reply.structured), "not_found", "{tool} {arguments}");
            answers.push((
                reply.structured.to_string().replace(id.as_str(), "ID"),
                reply.text.replace(id.as_str(), "ID"),
            ));
        }
        assert_eq!(answers[0], answers[1], "{tool} {arguments}");
    }
    assert_eq!(call(&other, "ProcessList", json!({})).await.structured, json!({"processes": []}));
}

#[tokio::test(start_paused = true)]
async fn progress_lines_collapse_unless_they_are_asked_for() {
    let bar = (1..=500).map(|percent| format!("\r{percent}%")).collect::<Vec<_>>().concat();
    let yard = Yard::new(Script::new().stdout(bar + "\rdone \n").exit(0)).await;
    let process = id(&yard.bash(json!({})).await);
    let shown = yard.output(&process, json!({})).await;
    assert!(shown["output"].as_str().unwrap().len() < 20, "{shown}");
    let raw = yard.output(&process, json!({"collapse": false})).await;
    assert!(raw["output"].as_str().unwrap().contains("\r250%"), "{raw}");
}

#[tokio::test(start_paused = true)]
async fn a_cursor_beyond_the_end_is_named_as_it_was_given() {
    let yard = Yard::new(Script::new().stdout("abc").exit(0)).await;
    let process = yard.background().await;
    yard.ended(&process).await;
    let one = yard.output(&process, json!({"cursor": 4})).await;
    assert_eq!((code(&one), &one["error"]["field"]), ("cursor_ahead", &json!("cursor")));
    for wait in [json!({}), json!({"wait": "all"})] {
        let asked = json!({"process_ids": [process], "cursors": {&process: 4}});
        let several = yard.call("ProcessOutput", common::with(asked, wait)).await;
        let failed = &several["results"][0];
        assert_eq!((code(failed), &failed["error"]["field"]), ("cursor_ahead", &json!("cursors")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_tail_and_a_cursor_inside_a_character_begin_at_the_same_place() {
    let yard = Yard::new(Script::new().stdout("日本語").exit(0)).await;
    let process = yard.background().await;
    yard.ended(&process).await;
    for bytes in 1..=9 {
        let tail = yard.output(&process, json!({"tail_bytes": bytes})).await;
        let page = yard.output(&process, json!({"cursor": 9 - bytes})).await;
        for field in ["output", "start_cursor", "next_cursor", "normalized"] {
            assert_eq!(tail[field], page[field], "{field} of the last {bytes} bytes");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_without_an_end_is_shown_and_read_on_at_its_cursor() {
    let line: String = (b'a'..=b'z').cycle().take(400_000).map(char::from).collect::<String>() + "日本語";
    let yard = Yard::new(Script::new().stdout(&line).exit(0)).await;
    let result = yard.bash(json!({})).await;
    let output = result["output"].as_str().unwrap();
    assert!(output.starts_with("abcdef") && output.ends_with("日本語"), "{}", output.len());
    let (mut joined, mut cursor) = (String::new(), 0);
    while cursor < line.len() {
        let page = yard.output(&id(&result), json!({"cursor": cursor, "limit_bytes": 99_999})).await;
        let text = page["output"].as_str().unwrap();
        assert!(!text.is_empty() && text.len() <= 99_999);
        joined.push_str(text);
        cursor = usize::try_from(page["next_cursor"].as_u64().unwrap()).unwrap();
    }
    assert!(joined == line);
}

#[tokio::test(start_paused = true)]
async fn binary_output_is_flagged_and_exact_in_base64() {
    let bytes = b"\x7fELF\x02\x01\0\0\xff\xfe\x80";
    let yard = Yard::new(Script::new().stdout(bytes).exit(0)).await;
    let reply = call(&yard.tools, "Bash", json!({"command": "cat a.out"})).await;
    assert_eq!((&reply.structured["binary"], &reply.structured["normalized"]), (&json!(true), &json!(true)));
    let process = id(&reply.structured);
    let text = call(&yard.tools, "ProcessOutput", json!({"process_id": process})).await;
    assert!(text.text.contains("read it with encoding base64"), "{}", text.text);
    assert_eq!(text.structured["artifact"], json!({"id": process, "encoding": "base64"}));
    let exact = yard.output(&process, json!({"encoding": "base64"})).await;
    assert_eq!(exact["output"], "f0VMRgIBAAD//oA=");
}

#[tokio::test(start_paused = true)]
async fn a_wait_at_damaged_output_ends_at_once_and_a_pattern_is_found_behind_it() {
    let limits = Limits { window_bytes: 1000, ..Limits::default() };
    let printed = [&b"x".repeat(60_000)[..], b"needle"].concat();
    let runner = ScriptedRunner::new(Script::new().stdout(printed));
    let yard = Yard::within(limits, runner, Services::discard(), None).await;
    let process = yard.background().await;
    yard.output(&process, json!({"cursor": 60_005, "wait": "any", "timeout_ms": 60_000})).await;
    damage(yard.place.path(), 16_384 + 100);
    let began = Instant::now();
    // The first block of output is intact, the second one is not.
    let read = yard.output(&process, json!({"cursor": 10, "limit_bytes": 1_000_000})).await;
    let cursor = read["next_cursor"].as_u64().unwrap();
    assert!((16_000..16_400).contains(&cursor), "{cursor}");
    let wait = json!({"cursor": cursor, "wait": "any", "timeout_ms": 600_000});
    assert_eq!(code(&yard.output(&process, wait).await), "spool_corrupt");
    let found = json!({"wait": "any", "until": "match", "pattern": "needle", "timeout_ms": 600_000});
    let result = yard.output(&process, found).await;
    assert_eq!(result["matched"], json!({"cursor": 60_000, "text": "needle"}));
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// Changes a byte of the one file below a directory that is as large as a spool's segment.
fn damage(place: &Path, offset: u64) {
    let mut places = vec![place.to_owned()];
    while let Some(place) = places.pop() {
        for entry in std::fs::read_dir(place).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                places.push(entry.path());
            } else if entry.metadata().unwrap().len() > offset {
                let file = std::fs::OpenOptions::new().read(true).write(true).open(entry.path()).unwrap();
                let mut byte = [0];
                file.read_exact_at(&mut byte, offset).unwrap();
                file.write_all_at(&[!byte[0]], offset).unwrap();
                return;
            }
        }
    }
    panic!("there is no segment");
}
