//! What `procyard mcp` answers to lines that are not what they should be, and to lines that only look odd.

use serde_json::{Value, json};

use crate::client::{Client, WITH_INITIALIZE};
use crate::running::{Running, within};
use crate::scene::{Scene, eventually};

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const INVALID_PARAMS: i64 = -32602;

fn connected() -> (Scene, Client) {
    let scene = Scene::new();
    let mut client = Client::silent(&scene, &[]);
    client.initialize(WITH_INITIALIZE);
    (scene, client)
}

/// Everything that one line is answered with before a request behind it is.
fn said(client: &mut Client, line: impl AsRef<[u8]>) -> Vec<Value> {
    client.write(line);
    client.unasked();
    client.take_unasked()
}

/// A line is refused under an id, and nothing else is said.
#[track_caller]
fn refused(client: &mut Client, line: impl AsRef<[u8]>, code: i64, id: &Value, why: &str) {
    let shown = String::from_utf8_lossy(line.as_ref()).chars().take(100).collect::<String>();
    let said = said(client, line);
    let [answer] = said.as_slice() else { panic!("{shown}: {said:?}") };
    assert_eq!(answer.get("id"), Some(id), "{shown}: {answer}");
    assert_eq!(answer["error"]["code"], code, "{shown}: {answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains(why), "{shown}: {message}");
}

#[track_caller]
fn ignored(client: &mut Client, line: impl AsRef<[u8]>) {
    let shown = String::from_utf8_lossy(line.as_ref()).into_owned();
    assert_eq!(said(client, line), Vec::<Value>::new(), "{shown}");
}

#[test]
fn a_line_that_is_not_json_is_a_parse_error_and_the_session_goes_on() {
    let (_scene, mut client) = connected();
    for line in [
        &b"this is not JSON"[..],
        b"{",
        b"}",
        b"\xFF\xFE\x00\x01",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\0",
        b"\0",
        br#"{"jsonrpc":"2.0","id":1,"method":"ping"} {"jsonrpc":"2.0","id":2,"method":"ping"}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":}}"#,
        b"{'jsonrpc':'2.0'}",
    ] {
        refused(&mut client, line, PARSE_ERROR, &Value::Null, "JSON");
    }
    client.learn_tools();
    assert_eq!(client.call("Bash", json!({"command": "echo alive"}))["output"], "alive\n");
    assert_eq!(client.leave_and_wait().0.code(), Some(0));
}

#[test]
fn json_that_is_no_request_is_an_invalid_request() {
    let (_scene, mut client) = connected();
    for (line, why) in [
        ("null", "object"),
        ("42", "object"),
        ("\"text\"", "object"),
        ("[]", "batch"),
        ("{}", "method"),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, "id"),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "id"),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, "id"),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, "id"),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "id"),
        (r#"{"jsonrpc":"2.0","id":18446744073709551616,"method":"ping"}"#, "id"),
    ] {
        refused(&mut client, line, INVALID_REQUEST, &Value::Null, why);
    }
    // What says its id is answered under it.
    for (line, id, why) in [
        (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, json!(7), "jsonrpc"),
        (r#"{"id":"seven","method":"ping"}"#, json!("seven"), "jsonrpc"),
        (r#"{"jsonrpc":"2.0","id":7}"#, json!(7), "method"),
        (r#"{"jsonrpc":"2.0","id":7,"method":5}"#, json!(7), "method"),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","result":{}}"#, json!(7), "result"),
        (r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"ping"}"#, json!(u64::MAX), "id"),
    ] {
        refused(&mut client, line, INVALID_REQUEST, &id, why);
    }
}

#[test]
fn what_asks_for_nothing_is_never_answered_however_wrong_it_is() {
    let (_scene, mut client) = connected();
    for line in [
        "",
        "   ",
        "\r",
        r#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":99,"result":5}"#,
        r#"{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"as it came"}}"#,
        r#"{"jsonrpc":"2.0","error":5}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/unheard-of"}"#,
        r#"{"jsonrpc":"2.0","method":"no/such/thing","params":[]}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"12345"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{}}}"#,
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"Bash","arguments":{"command":"echo"}}}"#,
    ] {
        ignored(&mut client, line);
    }
}

#[test]
fn parameters_that_do_not_fit_are_refused_by_the_name_of_the_field() {
    let (_scene, mut client) = connected();
    for (method, params, why) in [
        ("tools/call", json!([]), "params must be an object, not an array"),
        ("tools/call", json!("Bash"), "params must be an object, not a string"),
        ("tools/list", json!([1]), "params must be an object"),
        ("no/such/method", json!([]), "params must be an object"),
        ("tools/call", json!({"name": "Bash", "_meta": 5}), "params._meta must be an object"),
        ("tools/call", json!({}), "name"),
        ("tools/call", json!({"name": 5}), "params.name"),
        ("tools/call", json!({"name": "Bash", "arguments": []}), "params.arguments"),
        ("tools/call", json!({"name": "Bash", "arguments": "true"}), "params.arguments"),
        ("tools/list", json!({"cursor": 5}), "params.cursor"),
        ("tools/list", json!({"cursor": "forged"}), "cursor"),
        ("resources/list", json!({"cursor": "forged"}), "cursor"),
        ("resources/templates/list", json!({"cursor": "forged"}), "cursor"),
        ("resources/read", json!({"uri": []}), "params.uri"),
        ("resources/subscribe", json!({}), "uri"),
        ("tasks/get", json!({"taskId": 5}), "params.taskId"),
        ("initialize", json!({}), "protocolVersion"),
    ] {
        let error = client.refused(method, params.clone());
        assert_eq!(error["code"], INVALID_PARAMS, "{method} {params}: {error}");
        assert!(error["message"].as_str().unwrap().contains(why), "{method} {params}: {error}");
    }
    // No parameters, said in as many words, are none.
    client.ask("tools/list", Value::Null);
    let unknown = client.refused("no/such/method", json!({}));
    assert_eq!(unknown["code"], -32601);
}

#[test]
fn a_session_that_is_not_open_yet_names_the_field_too() {
    let scene = Scene::new();
    let mut client = Client::silent(&scene, &[]);
    for (method, params, why) in [
        ("initialize", json!({"protocolVersion": 5}), "params.protocolVersion"),
        ("initialize", json!([]), "params must be an object"),
        ("tools/call", json!({"name": "Bash", "arguments": []}), "params.arguments"),
    ] {
        let error = client.refused(method, params.clone());
        assert_eq!(error["code"], INVALID_PARAMS, "{method} {params}: {error}");
        assert!(error["message"].as_str().unwrap().contains(why), "{method} {params}: {error}");
    }
    client.ask("ping", json!({}));
    // Whatever else comes first is refused, and harms nothing.
    client.refused("tools/list", json!({}));
    client.refused("no/such/method", json!({}));
    client.initialize(WITH_INITIALIZE);
    client.ask("tools/list", json!({}));
}

#[test]
fn an_id_that_is_in_use_is_refused_and_the_first_call_goes_on() {
    let (scene, mut client) = connected();
    std::fs::write(scene.path().join("wait"), "").unwrap();
    let line = "eval \"$RECORD\"; while [ -e wait ]; do read -t 0.05 <> <(:); done; echo first";
    let call = |id: Value, command: &str| {
        let params = json!({"name": "Bash", "arguments": {"command": command}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    for id in [json!(1000), json!("1000")] {
        std::fs::write(scene.path().join("wait"), "").unwrap();
        client.write(call(id.clone(), line));
        scene.wait_for_records(1);
        refused(&mut client, call(id.clone(), "echo second"), INVALID_REQUEST, &id, "in use");
        std::fs::remove_file(scene.path().join("wait")).unwrap();
        let first = client.message("the first answer", |message| message["id"] == id);
        assert_eq!(first["result"]["structuredContent"]["output"], "first\n", "{first}");
        // From then on the id is nobody's.
        client.write(call(id.clone(), "echo third"));
        let third = client.message("the third answer", |message| message["id"] == id);
        assert_eq!(third["result"]["structuredContent"]["output"], "third\n", "{third}");
    }
}

#[test]
fn an_id_that_was_cancelled_may_be_used_again_at_once() {
    let (_scene, mut client) = connected();
    for round in 0..50 {
        let call = |command: &str| {
            let params = json!({"name": "Bash", "arguments": {"command": command}});
            json!({"jsonrpc": "2.0", "id": "again", "method": "tools/call", "params": params}).to_string()
        };
        client.write(call("exec sleep 1000"));
        client.notify("notifications/cancelled", json!({"requestId": "again"}));
        client.write(call(&format!("echo {round}")));
        let answer = client.message("the answer to the second", |message| message["id"] == "again");
        assert_eq!(answer["result"]["structuredContent"]["output"], format!("{round}\n"), "{answer}");
    }
}

#[test]
fn where_there_are_no_batches_one_is_refused_and_nobody_in_it_waits_for_an_answer() {
    let batch = json!([
        {"jsonrpc": "2.0", "id": 7, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "seven", "method": "tools/call", "params": {"name": "Bash"}},
        {"jsonrpc": "2.0", "id": 8, "result": {}},
        {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
        5,
    ]);
    let many: Vec<_> = (0..10_000).map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "ping"})).collect();
    // Before anything is agreed upon, too.
    for version in [None, Some("2025-06-18"), Some(WITH_INITIALIZE)] {
        let scene = Scene::new();
        let mut client = Client::silent(&scene, &[]);
        if let Some(version) = version {
            client.initialize(version);
        }
        let refused: Vec<_> = said(&mut client, batch.to_string());
        let ids: Vec<_> = refused.iter().map(|answer| &answer["id"]).collect();
        assert_eq!(ids, [&json!(7), &json!("seven")], "{version:?}: {refused:?}");
        assert!(refused.iter().all(|answer| answer["error"]["code"] == INVALID_REQUEST), "{refused:?}");
        // Where nobody waits, or far too many do, the batch is answered as one.
        for batch in [json!([]), json!([1, 2, 3]), json!(many)] {
            self::refused(
                &mut client,
                batch.to_string(),
                INVALID_REQUEST,
                &Value::Null,
                "one message a line",
            );
        }
    }
}

#[test]
fn a_line_that_is_too_long_is_refused_under_its_id_where_it_says_one() {
    let (_scene, mut client) = connected();
    let long = "x".repeat(9 << 20);
    refused(&mut client, &long, INVALID_REQUEST, &Value::Null, "8388608");
    let call = |id: &str| format!(r#"{{"jsonrpc":"2.0",{id}"method":"ping","params":{{"a":"{long}"}}}}"#);
    refused(&mut client, call(r#""id":7,"#), INVALID_REQUEST, &json!(7), "8388608");
    refused(&mut client, call(r#""id":"seven","#), INVALID_REQUEST, &json!("seven"), "8388608");
    refused(&mut client, call(""), INVALID_REQUEST, &Value::Null, "8388608");
}

#[test]
fn what_json_allows_and_nobody_can_read_is_a_parse_error_under_its_id() {
    let (_scene, mut client) = connected();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for value in [r#""\ud800""#, "1e999", &deep] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{{"a":{value}}}}}"#);
        refused(&mut client, line, PARSE_ERROR, &json!(7), "JSON");
    }
}

#[test]
fn lines_that_only_look_odd_are_read() {
    let (_scene, mut client) = connected();
    for (line, id) in [
        (&b"\xEF\xBB\xBF{\"jsonrpc\":\"2.0\",\"id\":\"bom\",\"method\":\"ping\"}"[..], "bom"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"crlf\",\"method\":\"ping\"}\r", "crlf"),
        (b"  \t{ \"jsonrpc\" : \"2.0\", \"id\" : \"space\", \"method\" : \"ping\" }  ", "space"),
        (b"{\"method\":\"\\u0070ing\",\"id\":\"\\u0065scape\",\"jsonrpc\":\"2.0\"}", "escape"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"first\",\"id\":\"twice\",\"method\":\"ping\"}", "twice"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"more\",\"method\":\"ping\",\"more\":[1,{}]}", "more"),
        ("{\"jsonrpc\":\"2.0\",\"id\":\"\u{1F600}\",\"method\":\"ping\"}".as_bytes(), "\u{1F600}"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"\",\"method\":\"ping\"}", ""),
        (br#"{"jsonrpc":"2.0","id":"pair","method":"ping","params":{"a":"\ud83d\ude00","b":1e300}}"#, "pair"),
    ] {
        client.write(line);
        let answer = client.message("an answer", |message| message["id"] == id);
        assert_eq!(answer["result"], json!({}), "{id}: {answer}");
    }
    for id in [0, -1, i64::MIN, i64::MAX] {
        client.write(json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string());
        client.message("an answer", |message| message["id"] == id);
    }
}

#[test]
fn progress_is_told_under_tokens_of_both_types() {
    let (scene, mut client) = connected();
    for token in [json!(7), json!("seven"), json!("7")] {
        std::fs::write(scene.path().join("wait"), "").unwrap();
        let command = "echo line; while [ -e wait ]; do read -t 0.05 <> <(:); done";
        let call =
            json!({"name": "Bash", "arguments": {"command": command}, "_meta": {"progressToken": token}});
        let id = client.request("tools/call", call);
        let progress = client.message("progress", |message| message["method"] == "notifications/progress");
        assert_eq!(progress["params"]["progressToken"], token, "{progress}");
        std::fs::remove_file(scene.path().join("wait")).unwrap();
        client.response(id);
        client.unasked();
        client.take_unasked();
    }
}

#[test]
fn a_session_can_be_greeted_again() {
    let scene = Scene::new();
    let mut client = Client::silent(&scene, &[]);
    for version in ["2025-03-26", "2025-11-25", "2024-11-05"] {
        assert_eq!(client.initialize(version)["protocolVersion"], version);
        let tools = client.ask("tools/list", json!({}));
        assert_eq!(tools["tools"].as_array().unwrap().len(), 5);
    }
    assert_eq!(client.initialize("1999-12-31")["protocolVersion"], WITH_INITIALIZE);
    client.ask("ping", json!({}));
}

#[test]
fn a_request_that_the_end_of_the_input_follows_is_answered() {
    let scene = Scene::new();
    let mut server = Running::spawn(&mut scene.procyard(["mcp"]));
    server.write(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    let ended = server.wait();
    assert_eq!(ended.code(), 0, "{ended:?}");
    let answer: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!((&answer["id"], &answer["result"]), (&json!(1), &json!({})), "{answer}");
}

#[test]
fn an_input_that_ends_in_the_middle_of_a_line_ends_the_server_in_order() {
    let scene = Scene::new();
    let mut server = Running::spawn(&mut scene.procyard(["mcp"]));
    server.write(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"na"#);
    let ended = server.wait();
    assert_eq!(ended.code(), 0, "{ended:?}");
    for line in ended.stdout().lines() {
        let answer: Value = serde_json::from_str(line).unwrap();
        assert_eq!(answer["error"]["code"], PARSE_ERROR, "{answer}");
    }
}

#[test]
fn ten_thousand_requests_sent_at_once_are_answered_each() {
    let (_scene, mut client) = connected();
    let mut wanted: Vec<i64> = Vec::new();
    let mut lines = Vec::new();
    for number in 0..10_000 {
        let id = 1_000_000 + number;
        let (method, params) = match number % 10 {
            0 => ("tools/call", json!({"name": "ProcessList", "arguments": {}})),
            1 => ("resources/list", json!({})),
            _ => ("ping", json!({})),
        };
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        lines.extend_from_slice(request.to_string().as_bytes());
        lines.push(b'\n');
        wanted.push(id);
    }
    client.write(&lines[..lines.len() - 1]);
    let mut answered: Vec<i64> = (0..wanted.len())
        .map(|_| {
            let answer = client.message("an answer", |message| message["id"].as_i64() >= Some(1_000_000));
            assert!(answer["result"].is_object(), "{answer}");
            answer["id"].as_i64().unwrap()
        })
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, wanted);
}

/// A client that asks and does not read costs a bounded amount of memory, and can still be left by a signal.
#[test]
fn answers_that_nobody_reads_are_bounded() {
    let scene = Scene::new();
    let mut server = Running::spawn(&mut scene.procyard_heeding_signals(["mcp"]));
    let _unread = server.take_stdout();
    eventually("it runs", || (!scene.sessions().is_empty()).then_some(()));
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    server.write(format!("{hello}\n").as_bytes());
    // The answers are several GiB, and the requests are more than a pipe holds and is read ahead.
    let mut stdin = server.stdin.take().unwrap();
    let sending = std::thread::spawn(move || {
        use std::io::Write as _;
        for id in 1..100_000 {
            let list = json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"});
            if stdin.write_all(format!("{list}\n").as_bytes()).is_err() {
                return false;
            }
        }
        true
    });
    let mut last = 0;
    eventually("it takes no more", || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let now = server.resident_memory();
        let same = now == last;
        last = now;
        same.then_some(())
    });
    let used = server.peak_memory();
    assert!(used < 256 << 20, "{} MiB", used >> 20);
    server.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(server.end().code(), Some(0));
    assert!(!within(move || sending.join().unwrap()), "the requests were not all taken");
}
