//! The checks and chores of this workspace, run as `cargo xtask VERB`.
//!
//! Each verb is a file of its own beside this one. A new verb is a file with a `run` function, a
//! variant of [`Verb`] and a line in [`Verb::run`]; if a change must pass it, a step in [`ci`] too.
//! What a verb checks and why is written in `docs/checks.md`.
//!
//! Nothing here is part of what the workspace ships, so no layer may depend on it.

mod api;
mod bench;
mod ci;
mod clippy;
mod command;
mod deny;
mod doc;
mod docs;
mod fmt;
mod fuzz;
mod layers;
mod mcp_conformance;
mod mcp_node;
mod mcp_sdk;
mod mutants;
mod nightly;
mod python_env;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The checks and chores of this workspace.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

/// What can be asked for.
#[derive(Subcommand)]
enum Verb {
    /// Run every check that a change must pass, and show what each took
    Ci(ci::Args),
    /// Check the formatting
    Fmt,
    /// Check what each crate depends on, and who may lift the guarded lints
    Layers(layers::Args),
    /// Check that the tests which the pages of docs/ name exist, and that docs/tools.md says what the schemas say
    Docs(docs::Args),
    /// Lint every target of every crate, warnings denied
    Clippy,
    /// Run the whole test suite, doc tests too
    Test(test::Args),
    /// Build the public documentation, warnings denied
    Doc,
    /// Check licences, bans and sources of the dependencies
    Deny(deny::Args),
    /// Measure what procyard costs, against baselines of the same run
    Bench(bench::Args),
    /// Change the code a little at a time and see which changes no test notices
    Mutants(mutants::Args),
    /// Feed a target with inputs made from the code's coverage
    Fuzz(fuzz::Args),
    /// Try the whole HTTP API with requests made of its document
    Api(api::Args),
    /// Run the long settings of the tests, in release
    Nightly(nightly::Args),
    /// Make the environments that the tests with the official MCP SDKs run in
    McpSdk,
    /// Run the official MCP conformance suite against the tools over HTTP
    McpConformance,
}

impl Verb {
    fn run(&self) -> anyhow::Result<()> {
        match self {
            Self::Ci(args) => ci::run(args),
            Self::Fmt => fmt::run(),
            Self::Layers(args) => layers::run(args),
            Self::Docs(args) => docs::run(args),
            Self::Clippy => clippy::run(),
            Self::Test(args) => test::run(args),
            Self::Doc => doc::run(),
            Self::Deny(args) => deny::run(args),
            Self::Bench(args) => bench::run(args),
            Self::Mutants(args) => mutants::run(args),
            Self::Fuzz(args) => fuzz::run(args),
            Self::Api(args) => api::run(args),
            Self::Nightly(args) => nightly::run(args),
            Self::McpSdk => mcp_sdk::run(),
            Self::McpConformance => mcp_conformance::run(),
        }
    }
}

fn main() -> ExitCode {
    match Cli::parse().verb.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
