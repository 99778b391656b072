//! The command line: verbs, options, and their help.
//!
//! Not for what the verbs do: each has its own file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use procyard_core::{Handle, LoopId, SessionId};
use procyard_tools::Dialect;

mod seconds;
mod service;
pub(crate) mod usage;
pub(crate) mod written;

pub(crate) use service::{
    AttachOptions, EventsOptions, LogsOptions, PsOptions, RemoteOptions, SendOptions, ServeOptions,
    StopOptions, WaitOptions,
};

use crate::config::{ConfigOptions, Flag};
use crate::limits::LimitOptions;

/// Run and supervise long-running commands for AI agents.
#[derive(Debug, Parser)]
#[command(name = "procyard", version, propagate_version = true, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The exit codes of every verb; those of `run` and `wait` are the command's where there is one.
const EXIT_CODES: &str = "\
Exit codes: 0 it was done; 125 procyard itself failed or was called wrongly; 141 nobody read the output any more (logs, \
events, export, run, attach). `run`, `wait` and `attach` give the code of the command, 128+n when signal n ended it, 124 when it timed out; \
`run` 126 when it is not executable and 127 when it was not found. `doctor` gives 1 where nothing can contain commands or the data directory is not fit.

With --json results are JSON on standard output, and a failure is one line on standard error, \
{\"error\": {\"code\", \"message\", \"field\", \"retryable\", \"effects\"}}, the same as from the service.";

const RUN_USAGE: &str = "\
procyard run [OPTIONS] 'LINE'
       procyard run [OPTIONS] -- PROGRAM [ARGUMENTS]...";

const RUN_EXAMPLES: &str = "\
Examples:
  procyard run 'cargo build 2>&1 | tail -5'
  procyard run --timeout 10m -- make -j4 test
  procyard run --memory-max 2G --pids-max 200 ./untried.sh
  procyard run 'setsid sleep 1000 & echo the sleep is ended, too'

^C interrupts the command, a second one terminates it, a third one kills it; with --tty it is typed to the \
command each time, as every key is. SIGTERM, SIGHUP and SIGQUIT terminate it. \
Whatever the command leaves running is ended with it, also when procyard itself is killed.

When nobody reads the output any more, as of `procyard run yes | head`, the command is ended without a word.

Exit codes: that of the command; 128+n when signal n ended it; 124 when it timed out; 125 when procyard itself failed; 126 \
when the command is not executable; 127 when it was not found; 141 when nobody read the output any more.";

const EVENTS_USAGE: &str = "\
procyard events [OPTIONS] [HANDLE]
       procyard events [OPTIONS] --session UUID";

const DOCTOR_CODES: &str = "\
Exit codes: 0 commands can be contained, and their records kept; 1 nothing can contain commands, so none would be started, or \
the data directory cannot be written or is refused by `procyard serve`, since others can write there; 125 procyard itself failed.

The data directory is tried with a file of 64 KiB that has no name and is gone at once.";

const GC_CODES: &str = "\
Exit codes: 0 all of it was removed; 125 something could not be removed.";

const MCP_EXAMPLES: &str = "\
Example entry for a client's configuration:
  { \"mcpServers\": { \"procyard\": { \"command\": \"procyard\", \"args\": [\"mcp\"] } } }";

const EXPORT_EXAMPLES: &str = "\
Examples:
  procyard export --format raw HANDLE > output.log
  procyard export --format asciicast HANDLE > session.cast && asciinema play session.cast

Exit codes: 0 all of it was written, with what is missing said on standard error; 125 it was not; 141 nobody read it any more.";

const COMPLETIONS_EXAMPLES: &str = "\
Example:
  procyard completions bash > ~/.local/share/bash-completion/completions/procyard";

const MAN_EXAMPLES: &str = "\
Examples:
  procyard man | man -l -
  procyard man --dir ~/.local/share/man/man1 && man procyard-run";

const CONFIG_EXAMPLES: &str = "\
Examples:
  procyard config --explain > config.toml
  PROCYARD_LOG__LEVEL=info procyard config --json | jq .keys

Exit codes: 0 all of it is right; 125 it is not, and every mistake of the file, the variables and --set is told; with --json `field` names the key, and where \
there are several, `fields` all of them.";

const DATA_DIR_HELP: &str = "Where sessions are kept [default: $PROCYARD_DATA, else $XDG_STATE_HOME/procyard, else ~/.local/state/procyard]";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Supervise one command here: stream its output, then say in one line how it ended.
    #[command(after_help = RUN_EXAMPLES, override_usage = RUN_USAGE)]
    Run(RunOptions),
    /// Serve the tools over MCP on standard input and output.
    #[command(after_help = MCP_EXAMPLES)]
    Mcp(McpOptions),
    /// Serve many sessions over HTTP, on a Unix socket and, where it is asked for, TCP.
    #[command(after_help = service::SERVE_EXAMPLES)]
    Serve(ServeOptions),
    /// List the processes of a running service.
    #[command(after_help = service::PS_EXAMPLES)]
    Ps(PsOptions),
    /// Write the output of a process, exactly as it was printed.
    #[command(after_help = service::LOGS_EXAMPLES)]
    Logs(LogsOptions),
    /// Be at the terminal of a process.
    #[command(after_help = service::ATTACH_EXAMPLES)]
    Attach(AttachOptions),
    /// Give input to a process.
    #[command(after_help = service::SEND_EXAMPLES)]
    Send(SendOptions),
    /// Stop a process with everything it started.
    #[command(after_help = service::STOP_CODES)]
    Stop(StopOptions),
    /// Wait for the end of a process; the exit code is its own.
    #[command(after_help = service::WAIT_EXAMPLES)]
    Wait(WaitOptions),
    /// Say what happened to processes, from the journal.
    #[command(after_help = service::EVENTS_EXAMPLES, override_usage = EVENTS_USAGE)]
    Events(EventsOptions),
    /// Say what this machine can do for contained commands, and what would make it better.
    #[command(after_help = DOCTOR_CODES)]
    Doctor(DoctorOptions),
    /// Write the record of a process, from whatever session it is in.
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(ExportOptions),
    /// Remove sessions that ended long ago.
    #[command(after_help = GC_CODES)]
    Gc(GcOptions),
    /// Show the effective configuration, and where each value is from.
    #[command(after_help = CONFIG_EXAMPLES)]
    Config(ShowConfigOptions),
    /// Write the completions of this command line for a shell.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsOptions),
    /// Write the manual page, or all of them.
    #[command(after_help = MAN_EXAMPLES)]
    Man(ManOptions),
}

/// Where sessions are kept.
#[derive(Debug, Clone, Args)]
pub(crate) struct DataDir {
    /// Where sessions are kept.
    #[arg(long, value_name = "DIR", help = DATA_DIR_HELP)]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// A command line, run by a shell
    #[arg(value_name = "LINE", conflicts_with = "argv", required_unless_present = "argv")]
    pub(crate) line: Option<String>,

    /// A program and its arguments, after `--`, which no shell sees
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) argv: Vec<String>,

    /// Give the command a terminal
    #[arg(long)]
    pub(crate) tty: bool,

    /// End the command after this many seconds, such as 90 or 0.5; with s, m, h or d behind it that unit, such as 10m
    #[arg(long, value_name = "SECONDS", value_parser = seconds::deadline)]
    pub(crate) timeout: Option<Duration>,

    /// Where the command runs [default: here]
    #[arg(long, value_name = "DIR")]
    pub(crate) workdir: Option<PathBuf>,

    /// Give the command an empty standard input instead of passing this one through, of which procyard may read more
    /// than the command does
    #[arg(long)]
    pub(crate) no_stdin: bool,

    /// Say how it ended, or why it could not be started, as one line of JSON on standard error
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) limits: LimitOptions,

    #[command(flatten)]
    pub(crate) config: ConfigOptions,

    #[command(flatten)]
    pub(crate) data: DataDir,
}

#[derive(Debug, Args)]
pub(crate) struct McpOptions {
    /// The session; a named one is restored [default: a new one]
    #[arg(long, value_name = "UUID")]
    pub(crate) session: Option<SessionId>,

    /// The loop inside the session that owns what is started [default: a new one]
    #[arg(long = "loop", value_name = "UUID")]
    pub(crate) loop_id: Option<LoopId>,

    /// Where commands run that name no workdir [default: here]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,

    /// The names, arguments and result texts that the tools have: procyard's own, or those that a model knows already
    #[arg(long, value_enum, default_value = "native")]
    pub(crate) dialect: DialectName,

    /// Hand a foreground call over after this many seconds, before the client gives up on it; 0 never does
    #[arg(long, value_name = "SECONDS", default_value_t = 50, value_parser = written::whole::<u64>(0..=86_400))]
    pub(crate) auto_yield: u64,

    #[command(flatten)]
    pub(crate) limits: LimitOptions,

    #[command(flatten)]
    pub(crate) config: ConfigOptions,

    #[command(flatten)]
    pub(crate) data: DataDir,
}

/// The vocabulary of the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DialectName {
    /// procyard's own tools
    Native,
    /// Those of the Codex CLI
    Codex,
    /// Those of Claude Code
    Claude,
}

impl From<DialectName> for Dialect {
    fn from(name: DialectName) -> Self {
        match name {
            DialectName::Native => Self::Native,
            DialectName::Codex => Self::Codex,
            DialectName::Claude => Self::Claude,
        }
    }
}

/// What contains commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TierName {
    /// A cgroup for each command, and a subreaper above it
    Cgroup,
    /// A subreaper above each command
    Subreaper,
    /// A PID namespace for each command: numbers of processes and /proc are others inside, and without root's privileges
    /// setuid programs such as sudo have none
    Pidns,
}

/// What a record is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Exactly the bytes that were printed
    Raw,
    /// Safe text, without escape sequences
    Text,
    /// One JSON object a line: the process, each run of output with its stream and time, the end
    Jsonl,
    /// A terminal recording, asciicast version 2
    Asciicast,
}

#[derive(Debug, Args)]
pub(crate) struct ExportOptions {
    /// The process, as `procyard ps` and results name it
    #[arg(value_name = "HANDLE", allow_hyphen_values = true, value_parser = service::handle)]
    pub(crate) handle: Handle,

    /// What the record is written as
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: ExportFormat,

    /// Say what is missing, and errors, as lines of JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) data: DataDir,
}

#[derive(Debug, Args)]
pub(crate) struct GcOptions {
    /// Say it as one line of JSON, errors too
    #[arg(long)]
    pub(crate) json: bool,

    /// How long ago a session must have ended, in days [default: `retention.log_days`, which is 14]
    #[arg(long, value_name = "DAYS", value_parser = written::whole::<u64>(0..=36_500))]
    pub(crate) older_than: Option<u64>,

    #[command(flatten)]
    pub(crate) config: ConfigOptions,

    #[command(flatten)]
    pub(crate) data: DataDir,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorOptions {
    /// Say it as one line of JSON, errors too
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) config: ConfigOptions,

    #[command(flatten)]
    pub(crate) data: DataDir,
}

#[derive(Debug, Args)]
pub(crate) struct ShowConfigOptions {
    /// Say of each key what it is for, what it may be, and give an example
    #[arg(long, conflicts_with = "json")]
    pub(crate) explain: bool,

    /// As one line of JSON, errors too
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) server: ServerOptions,

    #[command(flatten)]
    pub(crate) config: ConfigOptions,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsOptions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManOptions {
    /// Write the pages of all verbs into this directory, instead of the first page to standard output
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// Where the service is found.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServerOptions {
    /// The Unix socket of the service [default: procyard.sock in the data directory]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,

    /// Be found at this TCP address, too, with tokens; port 0 picks one
    #[arg(long, value_name = "ADDR", value_parser = written::address)]
    pub(crate) listen: Option<SocketAddr>,
}

impl ServerOptions {
    /// The flags that stand for keys.
    pub(crate) fn flags(&self) -> Vec<Flag> {
        let given = [
            (
                "--socket",
                "server.socket",
                self.socket.as_ref().map(|path| path.to_string_lossy().into_owned()),
            ),
            ("--listen", "server.listen", self.listen.map(|address| address.to_string())),
        ];
        given.into_iter().filter_map(|(name, key, value)| Some(Flag { name, key, value: value? })).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
