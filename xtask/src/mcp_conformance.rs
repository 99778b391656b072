//! `mcp-conformance`: the official conformance suite of the protocol against the tools over streamable HTTP.
//!
//! Each scenario is run by itself and shown with its result. Most scenarios of the suite call tools, prompts and resources
//! that the suite's own example server has; those are not run, and named with that reason. The clients of the SDKs talk to
//! the same server afterwards. The suite needs Node; without it nothing is run, and that is said.

use std::process::Command;

use anyhow::{Context as _, bail};

use crate::command::{self, Serving};
use crate::mcp_node;

/// Scenarios that must pass.
const MUST_PASS: &[&str] = &[
    "server-initialize",
    "ping",
    "tools-list",
    "server-sse-multiple-streams",
    "resources-list",
    "dns-rebinding-protection",
];

/// Scenarios that are about what the suite's example server has and procyard has not.
const NOT_RUN: &[(&str, &[&str])] = &[
    (
        "calls a tool of the suite's example server",
        &[
            "tools-call-simple-text",
            "tools-call-image",
            "tools-call-audio",
            "tools-call-embedded-resource",
            "tools-call-mixed-content",
            "tools-call-with-logging",
            "tools-call-error",
            "tools-call-with-progress",
            "tools-call-sampling",
            "tools-call-elicitation",
            "json-schema-2020-12",
            "elicitation-sep1034-defaults",
            "elicitation-sep1330-enums",
            "server-sse-polling",
        ],
    ),
    (
        "reads or follows a resource of the suite's example server",
        &[
            "resources-read-text",
            "resources-read-binary",
            "resources-templates-read",
            "resources-subscribe",
            "resources-unsubscribe",
        ],
    ),
    (
        "asks for prompts, completions or log levels, which procyard does not offer",
        &[
            "logging-set-level",
            "completion-complete",
            "prompts-list",
            "prompts-get-simple",
            "prompts-get-with-args",
            "prompts-get-embedded-resource",
            "prompts-get-with-image",
        ],
    ),
];

/// The session of the TypeScript SDK, which the tests of the program use too.
const SESSION: &str = "crates/procyard/tests/sdk/client.mjs";

pub(crate) fn run() -> anyhow::Result<()> {
    if let Err(why) = mcp_node::node() {
        command::warn("the MCP conformance suite is not run", &why);
        return Ok(());
    }
    let modules = mcp_node::ensure()?;
    let suite = modules.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    all_are_known(&suite)?;
    // Built before it is started, so that its first line does not wait for that.
    command::run(&mut command::cargo(["build", "--package", "procyard", "--example", "mcp_http"]))?;
    let mut cargo = command::cargo(["run", "--quiet", "--package", "procyard", "--example", "mcp_http"]);
    let server = Serving::start(&mut cargo)?;
    let address = server.said().to_owned();
    let mut failed = Vec::new();
    let mut lines = Vec::new();
    for scenario in MUST_PASS {
        let mut node = Command::new("node");
        node.arg(&suite).args(["server", "--url", &address, "--scenario", scenario]);
        let passed = command::answer(&mut node).inspect_err(|error| eprintln!("{error:#}")).is_ok();
        lines.push(format!("{scenario:<32} {}", if passed { "passed" } else { "FAILED" }));
        if !passed {
            failed.push(*scenario);
        }
    }
    for (why, scenarios) in NOT_RUN {
        lines.extend(scenarios.iter().map(|scenario| format!("{scenario:<32} not run: {why}")));
    }
    println!("{}", lines.join("\n"));
    let mut session = Command::new("node");
    session.arg(command::root().join(SESSION)).arg(&modules).arg(&address);
    command::run(&mut session).context("the TypeScript SDK was not served over HTTP")?;
    drop(server);
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// A scenario that is new in the suite must be looked at before its version is used.
fn all_are_known(suite: &std::path::Path) -> anyhow::Result<()> {
    let listed = command::answer(Command::new("node").arg(suite).args(["list", "--server"]))?;
    let not_run = NOT_RUN.iter().flat_map(|(_, scenarios)| scenarios.iter());
    let known: Vec<_> = MUST_PASS.iter().chain(not_run).copied().collect();
    let unknown: Vec<_> = listed
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- "))
        .filter(|scenario| !known.contains(scenario))
        .collect();
    anyhow::ensure!(unknown.is_empty(), "the suite has scenarios that nobody has looked at: {unknown:?}");
    Ok(())
}
