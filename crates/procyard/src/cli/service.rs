//! Verbs of the service, and those that talk to one.
//!
//! Not for what they do.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use procyard_api::{StopMode, StreamChoice};
use procyard_core::{Handle, SessionId, State};

use super::{DataDir, ServerOptions, seconds, written};
use crate::config::{ConfigOptions, nearest};
use crate::remote::attach::DetachKeys;

pub(super) const SERVE_EXAMPLES: &str = "\
Examples:
  procyard serve
  procyard serve --listen 127.0.0.1:0 --workspace ~/project
  curl --unix-socket ~/.local/state/procyard/procyard.sock http://localhost/health

On the Unix socket its own user needs no token. On TCP every request needs one: the admin token is in the data directory, and \
creates sessions; each session and loop gets a token of its own. SIGTERM and SIGINT end everything in order.

Exit codes: 0 it was stopped and everything is proven gone; 125 it could not begin, or something could not be proven gone.";

pub(super) const PS_EXAMPLES: &str = "\
Examples:
  procyard ps
  procyard ps --state running --json | jq -r '.processes[].process_id'

The first column is the handle that the other verbs take. On a terminal columns that there is no room for are left out.

Exit codes: 0 they were listed, also when there are none; 125 they were not.";

pub(super) const LOGS_EXAMPLES: &str = "\
Examples:
  procyard logs --tail 20 HANDLE
  procyard logs -f HANDLE | grep --line-buffered error

Exit codes: 0 all of it was written, with -f up to the end of the process; 125 it breaks off, for example because the service \
was stopped; 141 nobody read it any more.";

pub(super) const ATTACH_EXAMPLES: &str = "\
Keys go to the process as they are, ^C included. ctrl-p ctrl-q leaves it as it is. A process without a terminal is refused: \
follow that with `procyard logs -f`, and write to it with `procyard send`.

Examples:
  procyard attach HANDLE
  procyard attach --detach-keys ctrl-a,d HANDLE

Exit codes: 0 it was left; that of the process when it ended; 125 the service let go of it.";

pub(super) const SEND_EXAMPLES: &str = "\
Examples:
  procyard send HANDLE --newline 'print(6 * 7)'
  procyard send HANDLE --key ctrl-c
  echo y | procyard send HANDLE -
  procyard send HANDLE --eof - < large.sql

Standard input may be of any length and is passed on as it comes. A process that does not read is waited for, as by a \
pipe: what is sent when 1 MiB of earlier input is unread waits until some of it was read, at most for --timeout.

Exit codes: 0 all of it was accepted, which does not say that the process has read it; 125 not all of it was, and how many \
bytes were is said: they are the first ones. When the answer of the service is lost that is not known, and at least and at most \
how many it were is said: look what the process got before you send the rest.";

pub(super) const STOP_CODES: &str = "\
Exit codes: 0 all of it is proven gone, or the interrupt was delivered; 125 it is not, or there is no such process.

Example:
  procyard stop HANDLE --grace 30";

pub(super) const WAIT_EXAMPLES: &str = "\
Exit codes: that of the command; 128+n when signal n ended it; 124 when it, or the wait, timed out; 125 when it failed \
otherwise, or procyard did.

Example:
  procyard wait HANDLE --timeout 1.5h && echo fine";

pub(super) const EVENTS_EXAMPLES: &str = "\
Examples:
  procyard events HANDLE
  procyard events -f --session UUID --json

Give a HANDLE or --session, not both: a process is in one session.

Exit codes: 0 all of them were told, with -f up to the end of the process; 125 they break off, and with which --after they go \
on is said; 141 nobody read them any more.";

#[derive(Debug, Args)]
pub(crate) struct ServeOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,

    /// Say that it is ready, and errors, as lines of JSON on standard error
    #[arg(long)]
    pub(crate) json: bool,

    /// Where commands run that name no workdir [default: here]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) config: ConfigOptions,

    #[command(flatten)]
    pub(crate) data: DataDir,
}

/// Which service is talked to.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Service")]
pub(crate) struct RemoteOptions {
    /// The Unix socket of the service [default: server.socket, which is procyard.sock in the data directory]
    #[arg(long, value_name = "PATH", conflicts_with = "connect")]
    pub(crate) socket: Option<PathBuf>,

    /// The TCP address of the service; `$PROCYARD_TOKEN` holds the token
    #[arg(long, value_name = "ADDR", value_parser = written::address)]
    pub(crate) connect: Option<SocketAddr>,

    /// Say everything but output as JSON, errors too
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) config: ConfigOptions,

    #[command(flatten)]
    pub(crate) data: DataDir,
}

#[derive(Debug, Args)]
pub(crate) struct PsOptions {
    /// Only processes in this state
    #[arg(long, value_name = "STATE", value_parser = state)]
    pub(crate) state: Option<State>,

    /// Only processes of this session
    #[arg(long, value_name = "UUID")]
    pub(crate) session: Option<SessionId>,

    /// Show at most so many, newest first
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = written::whole::<u64>(1..=10_000))]
    pub(crate) limit: u64,

    #[command(flatten)]
    pub(crate) remote: RemoteOptions,
}

/// A process that is named.
#[derive(Debug, Clone, Args)]
pub(crate) struct Named {
    /// The process, as `procyard ps` and results name it
    #[arg(value_name = "HANDLE", allow_hyphen_values = true, value_parser = handle)]
    pub(crate) handle: Handle,
}

#[derive(Debug, Args)]
pub(crate) struct LogsOptions {
    #[command(flatten)]
    pub(crate) named: Named,

    /// Go on with what is printed until the process has ended
    #[arg(long, short)]
    pub(crate) follow: bool,

    /// Begin with the last so many lines, at most 4 MiB of them; with 0 behind what was printed so far
    #[arg(long, value_name = "N", value_parser = written::whole::<u64>(0..=written::MOST))]
    pub(crate) tail: Option<u64>,

    /// Only this stream
    #[arg(long, value_enum)]
    pub(crate) stream: Option<StreamName>,

    #[command(flatten)]
    pub(crate) remote: RemoteOptions,
}

/// A stream of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StreamName {
    Stdout,
    Stderr,
}

impl From<StreamName> for StreamChoice {
    fn from(name: StreamName) -> Self {
        match name {
            StreamName::Stdout => StreamChoice::Stdout,
            StreamName::Stderr => StreamChoice::Stderr,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct AttachOptions {
    #[command(flatten)]
    pub(crate) named: Named,

    /// Begin with what was printed before, as far as it is retained
    #[arg(long)]
    pub(crate) replay: bool,

    /// The keys that leave the process as it is: characters and ctrl-x, with commas
    #[arg(long, value_name = "KEYS", default_value = "ctrl-p,ctrl-q")]
    pub(crate) detach_keys: DetachKeys,

    #[command(flatten)]
    pub(crate) remote: RemoteOptions,
}

#[derive(Debug, Args)]
pub(crate) struct SendOptions {
    #[command(flatten)]
    pub(crate) named: Named,

    /// What is written to it; `-` takes standard input, of any length
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) text: Option<String>,

    /// Add a newline to the text
    #[arg(long, short)]
    pub(crate) newline: bool,

    /// Press this key afterwards, such as enter, esc, up, ctrl-c, f1; terminals only
    #[arg(long = "key", value_name = "KEY")]
    pub(crate) keys: Vec<String>,

    /// End its input afterwards
    #[arg(long)]
    pub(crate) eof: bool,

    /// Give up when its input is full and it has read nothing of it for so many seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds::patience)]
    pub(crate) timeout: Duration,

    #[command(flatten)]
    pub(crate) remote: RemoteOptions,
}

#[derive(Debug, Args)]
pub(crate) struct StopOptions {
    #[command(flatten)]
    pub(crate) named: Named,

    /// How it is stopped
    #[arg(long, value_enum, default_value = "terminate")]
    pub(crate) mode: StopName,

    /// How long it gets before it is killed, in seconds, such as 5 or 0.5; with m minutes [default:
    /// `processes.graceful_shutdown_ms` of the service]
    #[arg(long, value_name = "SECONDS", value_parser = seconds::grace)]
    pub(crate) grace: Option<Duration>,

    #[command(flatten)]
    pub(crate) remote: RemoteOptions,
}

/// How a process is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StopName {
    /// As ^C does; it may go on
    Interrupt,
    /// SIGTERM to all of it, then SIGKILL
    Terminate,
    /// SIGKILL to all of it
    Kill,
}

impl From<StopName> for StopMode {
    fn from(name: StopName) -> Self {
        match name {
            StopName::Interrupt => StopMode::Interrupt,
            StopName::Terminate => StopMode::Terminate,
            StopName::Kill => StopMode::Kill,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct WaitOptions {
    #[command(flatten)]
    pub(crate) named: Named,

    /// Give up after so many seconds, such as 90 or 0.5; with s, m, h or d behind it that unit, such as 10m; the process
    /// goes on
    #[arg(long, value_name = "SECONDS", value_parser = seconds::patience)]
    pub(crate) timeout: Option<Duration>,

    #[command(flatten)]
    pub(crate) remote: RemoteOptions,
}

#[derive(Debug, Args)]
pub(crate) struct EventsOptions {
    /// Only events of this process; not together with --session
    #[arg(value_name = "HANDLE", allow_hyphen_values = true, value_parser = handle)]
    pub(crate) handle: Option<Handle>,

    /// Go on with what happens, of a process until its end
    #[arg(long, short)]
    pub(crate) follow: bool,

    /// Only events behind this number
    #[arg(long, value_name = "SEQ", default_value_t = 0, value_parser = written::whole::<u64>(0..=written::MOST))]
    pub(crate) after: u64,

    /// Events of this session; not together with HANDLE [default: the only open session]
    #[arg(long, value_name = "UUID", conflicts_with = "handle")]
    pub(crate) session: Option<SessionId>,

    #[command(flatten)]
    pub(crate) remote: RemoteOptions,
}

/// A handle, or what one looks like and where they are listed.
pub(super) fn handle(text: &str) -> Result<Handle, String> {
    text.parse().map_err(|_| "a handle is 22 characters, as `procyard ps` lists them".to_owned())
}

fn state(name: &str) -> Result<State, String> {
    let known = State::ALL.map(State::as_str);
    State::ALL.into_iter().find(|state| state.as_str() == name).ok_or_else(|| match nearest(name, known) {
        Some(meant) => format!("there is no such state; did you mean `{meant}`?"),
        None => format!("there is no such state; there are {}", known.join(", ")),
    })
}
