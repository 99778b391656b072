//! `mcp-call`: a foreground Bash call of `true` through `procyard mcp`, from the request to its result.
//!
//! The program is the real one, with its journal, on the streams of a client; the baseline is the same start by the
//! supervisor alone. Not for what a command costs: see `start`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::Context as _;
use procyard_core::LimitSettings;
use procyard_host::TierChoice;
use serde_json::{Value, json};

use crate::report::{Figure, Must, Report, Unit};
use crate::scene::{Place, Scene};
use crate::spread::Spread;

const ROUNDS: usize = 20;
/// Calls of each kind in a round, which take turns; the round's sample is their median.
const CALLS: usize = 15;

const TRUE: &str = "/bin/true";

pub(crate) async fn measure(place: &Place) -> anyhow::Result<Report> {
    let scene = Scene::open(place, TierChoice::Strongest, LimitSettings::default()).await?;
    let mut client = Client::connect(place)?;
    let [mut starts, mut calls, mut looks] = [const { Vec::new() }; 3];
    for round in 0..=ROUNDS {
        let mut turns = [const { Vec::new() }; 3];
        for _ in 0..CALLS {
            let began = Instant::now();
            let handle = scene.start(&[TRUE.to_owned()]).await?;
            scene.exited(handle).await?;
            turns[0].push(began.elapsed().as_secs_f64());

            let began = Instant::now();
            let result = client.call("Bash", &json!({"argv": [TRUE]}))?;
            turns[1].push(began.elapsed().as_secs_f64());
            anyhow::ensure!(result["exit_code"] == 0, "a call did not end as it should: {result}");

            let began = Instant::now();
            client.call("ProcessList", &json!({"limit": 1}))?;
            turns[2].push(began.elapsed().as_secs_f64());
        }
        // The first round warms caches.
        if round > 0 {
            let [start, call, look] = turns.map(|turns| Spread::of(&turns).median);
            starts.push(start);
            calls.push(call);
            looks.push(look);
        }
    }
    client.leave()?;
    scene.close().await?;
    let over_start =
        Figure::ratio("Bash of `true` to its result", Unit::Seconds, &calls, "start to exited", &starts);
    let figures = vec![
        over_start.must(Must::AtMost(1.5)),
        Figure::plain("a call that starts nothing (ProcessList)", Unit::Seconds, Spread::of(&looks)),
    ];
    let work = format!(
        "a foreground Bash call of `true` over MCP, {ROUNDS} rounds of {CALLS} of each kind in turns"
    );
    Ok(Report::new("mcp-call", work, figures))
}

/// A client of `procyard mcp`, which speaks line by line.
struct Client {
    server: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    requests: u64,
}

impl Client {
    #[expect(clippy::disallowed_methods, reason = "the program that is measured")]
    fn connect(place: &Place) -> anyhow::Result<Self> {
        let mut server = Command::new(env!("CARGO_BIN_EXE_procyard"))
            .arg("mcp")
            .arg("--data-dir")
            .arg(place.path().join("mcp"))
            .args(["--workspace", "/"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = server.stdin.take().context("its input is a pipe")?;
        let output = BufReader::new(server.stdout.take().context("its output is a pipe")?);
        let mut client = Self { server, input, output, requests: 0 };
        let opening = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"},
        });
        client.ask("initialize", &opening)?;
        writeln!(client.input, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(client)
    }

    fn ask(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.requests += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.requests, "method": method, "params": params});
        self.input.write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let mut response: Value = serde_json::from_str(&line)?;
        anyhow::ensure!(response["id"] == self.requests, "not the answer: {line}");
        Ok(response["result"].take())
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> anyhow::Result<Value> {
        let mut result = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        Ok(result["structuredContent"].take())
    }

    fn leave(self) -> anyhow::Result<()> {
        let Self { mut server, input, .. } = self;
        drop(input);
        let status = server.wait()?;
        anyhow::ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }
}
