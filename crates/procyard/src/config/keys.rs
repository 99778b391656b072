//! The table of keys: every one with its kind, its default, an example, and what it is for. The documentation is written
//! from this.
//!
//! Each key is a field of the typed configuration, and the compiler warns of a field that nothing reads. Not for what
//! follows from a value.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use toml::Value;

use super::kind::{Environment, FromValue, Kind, LogFormat, TierWish};
use crate::limits::Scope;

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) section: &'static str,
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// As TOML; nothing where the key is unset by default.
    pub(crate) default: Option<&'static str>,
    /// As TOML.
    pub(crate) example: &'static str,
    /// What it is for, one line of text each.
    pub(crate) doc: &'static [&'static str],
}

impl Key {
    /// As it is written on the command line and in messages.
    pub(crate) fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// The environment variable that overrides it.
    pub(crate) fn variable(&self) -> String {
        format!("PROCYARD_{}__{}", self.section, self.name).to_uppercase()
    }
}

/// A section and what it is about.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static [&'static str],
}

/// Declares sections and keys, and the typed configuration with a field for each.
macro_rules! keys {
    ($(
        $(#[doc = $about:literal])+
        [$section:ident] $Section:ident {
            $(
                $(#[doc = $doc:literal])+
                $key:ident: $type:ty = $kind:expr, $default:expr, $example:literal;
            )+
        }
    )+) => {
        pub(crate) const SECTIONS: &[Section] = &[
            $(Section { name: stringify!($section), doc: &[$($about),+] },)+
        ];

        pub(crate) const KEYS: &[Key] = &[
            $($(Key {
                section: stringify!($section),
                name: stringify!($key),
                kind: $kind,
                default: $default,
                example: $example,
                doc: &[$($doc),+],
            },)+)+
        ];

        /// The effective configuration.
        #[derive(Debug, Clone)]
        pub(crate) struct Config {
            $($(#[doc = $about])+ pub(crate) $section: $Section,)+
        }

        $(
            $(#[doc = $about])+
            #[derive(Debug, Clone)]
            pub(crate) struct $Section {
                $($(#[doc = $doc])+ pub(crate) $key: $type,)+
            }
        )+

        impl Config {
            /// From a value for every key that has one, each as its kind admits it.
            pub(crate) fn from_values(values: &BTreeMap<String, Value>) -> anyhow::Result<Self> {
                Ok(Self {
                    $($section: $Section {
                        $($key: typed(values, concat!(stringify!($section), ".", stringify!($key)))?,)+
                    },)+
                })
            }
        }
    };
}

fn typed<T: FromValue>(values: &BTreeMap<String, Value>, path: &str) -> anyhow::Result<T> {
    T::from_value(values.get(path)).ok_or_else(|| anyhow::anyhow!("{path} has no value of its type"))
}

const TIB: u64 = 1 << 40;

keys! {
    /// Commands: whether, how many, how long, and how much of their output is kept.
    [processes] Processes {
        /// Whether commands may be started. Where not, the tools that read, stop and list remain.
        enabled: bool = Kind::Switch, Some("true"), "false";
        /// Commands that run at the same time in one session.
        max_concurrent: u64 = Kind::number(1, 10_000), Some("32"), "64";
        /// Commands that run at the same time in one loop of a session. At most `max_concurrent`.
        max_concurrent_per_loop: u64 = Kind::number(1, 10_000), Some("8"), "16";
        /// How long a foreground command may run whose call does not say, in seconds. At most `max_timeout_secs`.
        default_timeout_secs: u64 = Kind::number(1, 86_400), Some("120"), "300";
        /// How long a foreground command may ask to run, in seconds.
        max_timeout_secs: u64 = Kind::number(1, 86_400), Some("600"), "1800";
        /// Output that is kept on disk for one command; of more, the oldest goes, but for the first 16 KiB. At most `retention.data_max_bytes`.
        max_output_bytes: u64 = Kind::size(64 << 10, TIB), Some("67108864"), "\"256M\"";
        /// Output inside one result, where its call does not say.
        inline_bytes: u64 = Kind::size(1, 1 << 20), Some("32768"), "\"64K\"";
        /// Whether a shell may carry out command lines. Where not, they are split into words as a POSIX shell does it,
        /// and a line that holds anything that only a shell can do is refused.
        allow_shell: bool = Kind::Switch, Some("true"), "false";
        /// The shell of command lines, started as `shell -c LINE`. Unset: `bash` where `PATH` has it, else `sh`.
        shell: Option<PathBuf> = Kind::Path, None, "\"/bin/dash\"";
        /// What the environment of commands is made of: all of procyard's own, or `PATH`, `HOME`, `USER`, `LANG`, `LC_*`,
        /// `TMPDIR`, `SHELL` and `TZ` of it.
        environment: Environment = Kind::choice::<Environment>(), Some("\"inherit\""), "\"minimal\"";
        /// Variables that commands do not inherit, by name; `*` is any text, and case does not matter. What a call sets
        /// is never filtered.
        env_filter: Vec<String> = Kind::Names, Some("[]"), "[\"*_TOKEN\", \"AWS_*\"]";
        /// What a command gets between SIGTERM and SIGKILL, in milliseconds.
        graceful_shutdown_ms: u64 = Kind::number(1, 600_000), Some("5000"), "10000";
    }

    /// What commands are contained in, and what they may take. `procyard doctor` says what this machine can do.
    [containment] Containment {
        /// The tier: `strongest` is the stronger of `cgroup` and `subreaper` that there is.
        tier: TierWish = Kind::choice::<TierWish>(), Some("\"strongest\""), "\"cgroup\"";
        /// Whether nothing is started where the named tier is not to be had; where not, the strongest that there is takes its
        /// place. Nothing is ever started where there is none at all.
        require: bool = Kind::Switch, Some("true"), "false";
        /// The most memory that a command and all it starts may take together, swap included.
        memory_max: Option<u64> = Kind::size(1, 1 << 62), None, "\"2G\"";
        /// The most processes and threads that a command and all it starts may be together.
        pids_max: Option<u64> = Kind::number(1, u32::MAX as u64), None, "512";
        /// Whether commands are kept from gaining privileges by set-user-ID programs, such as sudo.
        no_new_privs: bool = Kind::Switch, Some("false"), "true";
        /// Whether commands are kept from signalling what is not of their own tree, procyard above all; takes `no_new_privs`
        /// with it. `required` starts nothing where the kernel cannot.
        signal_scope: Scope = Kind::choice::<Scope>(), Some("\"off\""), "\"preferred\"";
    }

    /// What is kept of commands that have ended.
    [retention] Retention {
        /// Ended commands that a session keeps; least recently used ones go first.
        completed_per_session: u64 = Kind::number(1, 100_000), Some("100"), "500";
        /// How long an ended session is kept, in days; 0 removes it at the next start of a server.
        log_days: u64 = Kind::number(0, 36_500), Some("14"), "30";
        /// Output that one session keeps on disk altogether; least recently used ended commands go first. A command that runs
        /// counts with all that it may keep, so that nothing is left for ended ones while `max_concurrent` of them run, unless this is
        /// more than as many times `processes.max_output_bytes`.
        data_max_bytes: u64 = Kind::size(64 << 10, 1024 * TIB), Some("2147483648"), "\"20G\"";
    }

    /// Where the service is found, and for how many it is.
    [server] Server {
        /// The Unix socket. Unset: `procyard.sock` in the data directory.
        socket: Option<PathBuf> = Kind::Path, None, "\"/run/procyard/procyard.sock\"";
        /// A TCP address to be found at as well, with tokens; port 0 picks one. Unset: none.
        listen: Option<SocketAddr> = Kind::Address, None, "\"127.0.0.1:7411\"";
        /// Names, `name` or `name:port`, by which MCP clients reach the service beside those of this machine and the address that
        /// it listens on: what they send as `Host`. Where that is `0.0.0.0` or `[::]`, the addresses of the machine are to be named.
        hosts: Vec<String> = Kind::Names, Some("[]"), "[\"yard.example\", \"10.0.0.7:7411\"]";
        /// Web pages, `https://name:port`, that may use MCP over HTTP beside those of this machine: what a browser sends as
        /// `Origin`.
        origins: Vec<String> = Kind::Names, Some("[]"), "[\"https://app.example\"]";
        /// The file of the admin token, made with mode 0600 at the first start. Unset: `admin.token` in the data directory.
        admin_token_file: Option<PathBuf> = Kind::Path, None, "\"/etc/procyard/admin.token\"";
        /// Sessions that are open at the same time. One more is refused until one is ended.
        max_sessions: u64 = Kind::number(1, 10_000), Some("256"), "1000";
        /// Valid tokens of one session, and so its loops, since each has one. One more is refused until a loop is closed.
        max_tokens_per_session: u64 = Kind::number(1, 100_000), Some("1024"), "64";
    }

    /// What procyard itself says on standard error. Never output, input, values of variables, or tokens.
    [log] Log {
        /// Lines for people or lines of JSON.
        format: LogFormat = Kind::choice::<LogFormat>(), Some("\"text\""), "\"json\"";
        /// What is told: `off`, `error`, `warn`, `info`, `debug`, `trace`, or levels by module of procyard's own such as
        /// `warn,procyard=info`. `PROCYARD_LOG` is another name of its variable.
        level: String = Kind::Level, Some("\"error\""), "\"info\"";
    }
}

/// The key of this path.
pub(crate) fn find(path: &str) -> Option<&'static Key> {
    let (section, name) = path.split_once('.')?;
    KEYS.iter().find(|key| key.section == section && key.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_and_every_example_is_admitted_and_changes_something() {
        for key in KEYS {
            let example =
                key.kind.parse_toml(key.example).unwrap_or_else(|why| panic!("{}: {why}", key.path()));
            let default = key.default.map(|default| key.kind.parse_toml(default).unwrap());
            assert_ne!(Some(example), default, "{}", key.path());
        }
    }

    #[test]
    fn every_key_has_a_value_of_its_type_set_or_unset() {
        let value = |text: Option<&str>, key: &Key| Some((key.path(), key.kind.parse_toml(text?).unwrap()));
        Config::from_values(&KEYS.iter().filter_map(|key| value(key.default, key)).collect()).unwrap();
        Config::from_values(&KEYS.iter().filter_map(|key| value(Some(key.example), key)).collect()).unwrap();
    }
}
