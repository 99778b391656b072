//! The `procyard` program: runs and supervises long-running commands for AI agents.
//!
//! Not for behaviour: this is configuration and wiring of the crates that have it.

mod caught;
mod cli;
mod config;
mod data_dir;
mod doctor;
mod exit;
mod export;
mod gc;
mod hosted;
mod journal;
mod limits;
mod log;
mod man;
mod mcp;
mod pages;
mod problem;
mod remote;
mod run;
mod say;
mod serve;
mod session;
mod summary;
mod table;
mod terminal;

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ContextKind;

use crate::cli::{Cli, Command, usage};
use crate::say::{Voice, say};

fn main() -> ExitCode {
    // In a process that was started as a guardian this never returns; it must come before anything else.
    procyard_host::enter();
    procyard_host::survive_file_size_limit();
    procyard_host::use_all_descriptors();
    procyard_host::bound_allocator();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misused(error),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return exit::fault(&anyhow::Error::new(error).context("the runtime could not be started"));
        }
    };
    let code = runtime.block_on(async {
        match cli.command {
            Command::Run(options) => run::run(options).await,
            Command::Mcp(options) => mcp::mcp(options).await,
            Command::Serve(options) => serve::serve(options).await,
            Command::Ps(options) => remote::ps(options).await,
            Command::Logs(options) => remote::logs(options).await,
            Command::Attach(options) => remote::attach(options).await,
            Command::Send(options) => remote::send(options).await,
            Command::Stop(options) => remote::stop(options).await,
            Command::Wait(options) => remote::wait(options).await,
            Command::Events(options) => remote::events(options).await,
            Command::Doctor(options) => doctor::doctor(options).await,
            Command::Export(options) => export::export(options).await,
            Command::Gc(options) => gc::gc(options).await,
            Command::Config(options) => config::show(&options),
            Command::Completions(options) => man::completions(&options),
            Command::Man(options) => man::man(&options),
        }
    });
    // A pending read of standard input cannot be cancelled; nothing else is left to wait for.
    runtime.shutdown_background();
    code
}

/// Help and version are asked for, and whoever reads them may have had enough; anything else is a usage error.
fn misused(mut error: clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return match error.print() {
            Err(unwritten) if unwritten.kind() != std::io::ErrorKind::BrokenPipe => {
                exit::fault(&anyhow::Error::new(unwritten).context("standard output cannot be written"))
            }
            _ => ExitCode::SUCCESS,
        };
    }
    let arguments: Vec<_> = std::env::args_os().skip(1).take_while(|argument| argument != "--").collect();
    let is_run = arguments.first().is_some_and(|verb| verb == "run");
    let unknown = is_run && error.kind() == clap::error::ErrorKind::UnknownArgument;
    let misspelt = error.get(ContextKind::SuggestedArg).is_some();
    let quote = unknown && !misspelt;
    if unknown {
        // It would have `run` take one argument behind the dashes and leave the rest in front of them.
        error.remove(ContextKind::Suggested);
    }
    if arguments.iter().any(|argument| argument == "--json") {
        return exit::fault_as(&usage::refusal(&error, quote), Voice::Json);
    }
    let _ = error.print();
    if quote {
        say(usage::QUOTE);
    }
    exit::FAULT.into()
}
