//! Bash arguments, checked completely, as what is to be done.
//!
//! Not for doing it: see `bash`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use procyard_api::{BashArguments, LeftoverChoice};
use procyard_core::{ErrorCode, Limits, PublicError};
use procyard_runner::{CommandSpec, Environment, StdinMode, TerminalSize};
use procyard_supervisor::{CommandRecord, IdempotencyRecord, LeftoverPolicy};
use sha2::{Digest, Sha256};

use crate::escape;
use crate::toolbox::{CommandLines, Lasting, ToolboxOptions};
use crate::words::words;

/// Bytes of a command line, or of all arguments together.
const COMMAND_MAX: usize = 64 << 10;

/// Bytes of text for standard input.
const INPUT_MAX: usize = 1 << 20;

/// How long a call stays with its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// To its end.
    Foreground,
    /// So long; then it is handed over.
    Yielded(Duration),
    /// Not at all, or only to see how it begins.
    Background(Duration),
}

/// A start that passed every check.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) command: CommandSpec,
    pub(crate) record: CommandRecord,
    pub(crate) workdir: PathBuf,
    pub(crate) environment: Environment,
    pub(crate) mode: Mode,
    pub(crate) deadline: Option<Duration>,
    /// The deadline is the default one, not the caller's wish.
    pub(crate) default_deadline: bool,
    pub(crate) terminal: Option<TerminalSize>,
    pub(crate) stdin: StdinMode,
    pub(crate) input: Option<Vec<u8>>,
    pub(crate) limit: usize,
    pub(crate) spool_ceiling: Option<u64>,
    pub(crate) leftovers: LeftoverPolicy,
    pub(crate) stall_window: Option<Duration>,
    pub(crate) warnings: Vec<String>,
}

impl Plan {
    /// Checks the arguments.
    pub(crate) fn new(
        arguments: BashArguments,
        options: &ToolboxOptions,
        limits: &Limits,
        lasting: Lasting,
    ) -> Result<Self, PublicError> {
        refuse_lasting(&arguments, lasting)?;
        let mode = match (arguments.background, arguments.yield_time_ms.map(Duration::from_millis)) {
            (true, wait) => Mode::Background(wait.unwrap_or_default()),
            (false, Some(wait)) => Mode::Yielded(wait),
            (false, None) => Mode::Foreground,
        };
        let command = command(&arguments, options.command_lines)?;
        let warnings = warnings(&command, lasting);
        let workdir = workdir(&arguments, options)?;
        let environment = environment(&arguments, options)?;
        let (terminal, stdin) = streams(&arguments)?;
        let (deadline, default_deadline) = deadline(arguments.timeout, mode, limits, lasting)?;
        if let Some(ceiling) = arguments.max_output_bytes
            && ceiling > limits.spool_bytes
        {
            let message = format!("may not exceed the configured {}", limits.spool_bytes);
            return Err(PublicError::argument("max_output_bytes", message));
        }
        let limit = arguments.limit_bytes.unwrap_or(limits.inline_bytes);
        let record = record(&command, &workdir, &arguments);
        Ok(Self {
            command,
            record,
            workdir,
            environment,
            mode,
            deadline,
            default_deadline,
            terminal,
            stdin,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            spool_ceiling: arguments.max_output_bytes,
            leftovers: match arguments.leftovers.unwrap_or_default() {
                LeftoverChoice::Kill => LeftoverPolicy::Kill,
                LeftoverChoice::Wait => LeftoverPolicy::Wait,
            },
            stall_window: arguments.stall_ms.map(Duration::from_millis),
            input: arguments.input.map(String::into_bytes),
            warnings,
        })
    }
}

/// What outlives its call is refused where it cannot be ended or announced.
fn refuse_lasting(arguments: &BashArguments, lasting: Lasting) -> Result<(), PublicError> {
    let asked = [
        ("background", arguments.background),
        ("yield_time_ms", arguments.yield_time_ms.is_some()),
        ("stall_ms", arguments.stall_ms.is_some()),
    ];
    let Some((field, _)) = asked.into_iter().find(|(_, asked)| *asked) else { return Ok(()) };
    let (code, why) = match lasting {
        Lasting::Possible => return Ok(()),
        Lasting::Uncontained => (
            ErrorCode::LifetimeEnforcementUnavailable,
            "nothing here can end everything that a command starts, so no command may outlive its call",
        ),
        Lasting::Unannounced => (
            ErrorCode::ProcessNotificationsUnsupported,
            "this session cannot announce that a command has ended, so no command may outlive its call",
        ),
    };
    Err(PublicError::new(code, format!("{why}; leave out `{field}`")).field(field))
}

fn command(arguments: &BashArguments, lines: CommandLines) -> Result<CommandSpec, PublicError> {
    let fits = |field: &str, bytes: usize| {
        if bytes > COMMAND_MAX {
            let message = format!(
                "has {bytes} bytes, at most {COMMAND_MAX} are possible; write it to a file and run that"
            );
            return Err(PublicError::argument(field, message));
        }
        Ok(())
    };
    match (&arguments.command, &arguments.argv) {
        (Some(line), None) => {
            refuse_nul("command", line)?;
            fits("command", line.len())?;
            match lines {
                CommandLines::Shell => Ok(CommandSpec::Shell(line.clone())),
                CommandLines::Words => {
                    let words = words(line);
                    words
                        .map(CommandSpec::Argv)
                        .map_err(|refused| PublicError::argument("command", refused.to_string()))
                }
            }
        }
        (None, Some(argv)) => {
            for argument in argv {
                refuse_nul("argv", argument)?;
            }
            fits("argv", argv.iter().map(String::len).sum())?;
            if argv.first().is_none_or(String::is_empty) {
                return Err(PublicError::argument(
                    "argv",
                    "the first entry is the program and must not be empty",
                ));
            }
            Ok(CommandSpec::Argv(argv.clone()))
        }
        (Some(_), Some(_)) => Err(PublicError::argument("argv", "give `command` or `argv`, not both")),
        (None, None) => Err(PublicError::argument("command", "give `command` or `argv`")),
    }
}

fn refuse_nul(field: &str, text: &str) -> Result<(), PublicError> {
    if text.contains('\0') { Err(PublicError::argument(field, "must not contain NUL")) } else { Ok(()) }
}

fn warnings(command: &CommandSpec, lasting: Lasting) -> Vec<String> {
    let attempts = match command {
        CommandSpec::Shell(line) => escape::attempts(line),
        CommandSpec::Argv(argv) => {
            argv.first().map(|program| escape::attempts_of_program(program)).unwrap_or_default()
        }
    };
    let instead = match lasting {
        Lasting::Possible => "leave it out and use background: true",
        Lasting::Uncontained | Lasting::Unannounced => "leave it out",
    };
    attempts
        .into_iter()
        .map(|word| {
            format!(
                "`{word}` does not take a process out of supervision, it ends with the command; {instead}"
            )
        })
        .collect()
}

fn workdir(arguments: &BashArguments, options: &ToolboxOptions) -> Result<PathBuf, PublicError> {
    match &arguments.workdir {
        None => Ok(options.workspace.clone()),
        Some(path) => {
            refuse_nul("workdir", path)?;
            // An absolute path replaces the workspace.
            Ok(options.workspace.join(path))
        }
    }
}

fn environment(arguments: &BashArguments, options: &ToolboxOptions) -> Result<Environment, PublicError> {
    let mut environment = options.environment.clone();
    for (name, value) in arguments.env.iter().flatten() {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(PublicError::argument(
                "env",
                "a name must not be empty and must not contain `=` or NUL",
            ));
        }
        refuse_nul("env", value)?;
        environment.changes.insert(name.into(), Some(value.into()));
    }
    Ok(environment)
}

fn streams(arguments: &BashArguments) -> Result<(Option<TerminalSize>, StdinMode), PublicError> {
    if !arguments.tty {
        for (field, given) in [("rows", arguments.rows), ("cols", arguments.cols)] {
            if given.is_some() {
                return Err(PublicError::argument(field, "needs tty: true"));
            }
        }
    }
    if let Some(input) = &arguments.input {
        if arguments.stdin || arguments.tty {
            let message =
                "is followed by end of file, so it does not go with `stdin` or `tty`; use ProcessInput there";
            return Err(PublicError::argument("input", message));
        }
        if input.len() > INPUT_MAX {
            let message = format!("must have at most {INPUT_MAX} bytes, has {}", input.len());
            return Err(PublicError::argument("input", message));
        }
    }
    let size = TerminalSize::default();
    let terminal = arguments.tty.then(|| TerminalSize {
        rows: arguments.rows.unwrap_or(size.rows),
        cols: arguments.cols.unwrap_or(size.cols),
    });
    let open = arguments.stdin || arguments.tty || arguments.input.is_some();
    Ok((terminal, if open { StdinMode::Open } else { StdinMode::Null }))
}

/// The deadline, and whether it is the default one.
fn deadline(
    timeout: Option<u64>,
    mode: Mode,
    limits: &Limits,
    lasting: Lasting,
) -> Result<(Option<Duration>, bool), PublicError> {
    let asked = timeout.map(Duration::from_secs);
    if mode != Mode::Foreground {
        return Ok((asked.filter(|asked| !asked.is_zero()), false));
    }
    let maximum = limits.foreground_maximum;
    match asked {
        None => Ok((Some(limits.foreground_default), true)),
        Some(asked) if asked.is_zero() || asked > maximum => {
            let mut message = format!("must be between 1 and {} in the foreground", maximum.as_secs());
            if lasting == Lasting::Possible {
                message.push_str("; use background: true for what takes longer");
            }
            Err(PublicError::argument("timeout", message))
        }
        Some(asked) => Ok((Some(asked), false)),
    }
}

fn record(command: &CommandSpec, workdir: &std::path::Path, arguments: &BashArguments) -> CommandRecord {
    let workdir = workdir.to_string_lossy();
    let mut record = match command {
        CommandSpec::Shell(line) => CommandRecord::line(line, &workdir),
        CommandSpec::Argv(argv) => CommandRecord::argv(argv, &workdir),
    };
    if let Some(label) = arguments.description.as_deref().filter(|label| !label.is_empty()) {
        record = record.labelled(label);
    }
    record.idempotency = arguments
        .idempotency_key
        .as_ref()
        .map(|key| IdempotencyRecord { key: key.clone(), digest: digest(arguments) });
    record
}

/// A digest of the arguments but for the key: the same arguments have the same, however they were written.
fn digest(arguments: &BashArguments) -> String {
    let keyless = BashArguments { idempotency_key: None, ..arguments.clone() };
    let value = serde_json::to_value(&keyless).unwrap_or_default();
    // Sorted by name, whatever the map of the JSON library does.
    let sorted: BTreeMap<&String, &serde_json::Value> = value.as_object().into_iter().flatten().collect();
    let mut hasher = Sha256::new();
    for (name, value) in sorted {
        hasher.update(name.as_bytes());
        hasher.update([0]);
        hasher.update(value.to_string().as_bytes());
        hasher.update([0]);
    }
    URL_SAFE_NO_PAD.encode(hasher.finalize())
}

#[cfg(test)]
mod tests {
    use procyard_core::LimitSettings;
    use serde_json::json;

    use super::*;

    fn plan_where(lasting: Lasting, arguments: serde_json::Value) -> Result<Plan, PublicError> {
        let limits = LimitSettings::default().resolve().unwrap();
        let options = ToolboxOptions { workspace: "/ws".into(), ..ToolboxOptions::default() };
        Plan::new(serde_json::from_value(arguments).unwrap(), &options, &limits, lasting)
    }

    fn plan(arguments: serde_json::Value) -> Result<Plan, PublicError> {
        plan_where(Lasting::Possible, arguments)
    }

    #[test]
    fn arguments_that_do_not_go_together_are_refused_by_name() {
        for (arguments, field) in [
            (json!({}), "command"),
            (json!({"command": "true", "argv": ["true"]}), "argv"),
            (json!({"argv": [""]}), "argv"),
            (json!({"argv": ["a", "b\0"]}), "argv"),
            (json!({"argv": ["x".repeat(40_000), "x".repeat(40_000)]}), "argv"),
            (json!({"command": "a\0b"}), "command"),
            (json!({"command": "é".repeat(40_000)}), "command"),
            (json!({"command": "true", "timeout": 0}), "timeout"),
            (json!({"command": "true", "timeout": 601}), "timeout"),
            (json!({"command": "true", "rows": 10}), "rows"),
            (json!({"command": "true", "cols": 10}), "cols"),
            (json!({"command": "cat", "input": "x", "stdin": true}), "input"),
            (json!({"command": "cat", "input": "x", "tty": true}), "input"),
            (json!({"command": "cat", "input": "é".repeat(600_000)}), "input"),
            (json!({"command": "true", "env": {"": "x"}}), "env"),
            (json!({"command": "true", "env": {"A=B": "x"}}), "env"),
            (json!({"command": "true", "env": {"A": "\0"}}), "env"),
            (json!({"command": "true", "workdir": "a\0"}), "workdir"),
            (json!({"command": "true", "max_output_bytes": 67_108_865}), "max_output_bytes"),
        ] {
            let error = plan(arguments).expect_err("refused");
            assert_eq!(
                (error.code, error.field.as_deref()),
                (ErrorCode::InvalidArguments, Some(field)),
                "{error}"
            );
        }
    }

    #[test]
    fn where_no_shell_may_be_used_a_line_is_words_and_nothing_else() {
        let plan = |line: &str| {
            let options = ToolboxOptions { command_lines: CommandLines::Words, ..ToolboxOptions::default() };
            let arguments = serde_json::from_value(json!({"command": line})).unwrap();
            Plan::new(arguments, &options, &Limits::default(), Lasting::Possible)
        };
        let words = vec!["echo".to_owned(), "a b".to_owned()];
        assert_eq!(plan("echo 'a b'").unwrap().command, CommandSpec::Argv(words));
        let error = plan("echo a > b").expect_err("refused");
        assert_eq!((error.code, error.field.as_deref()), (ErrorCode::InvalidArguments, Some("command")));
    }

    #[test]
    fn a_timeout_means_what_its_mode_says() {
        let check = |arguments, seconds: Option<u64>, default| {
            let plan = plan(arguments).unwrap();
            assert_eq!((plan.deadline, plan.default_deadline), (seconds.map(Duration::from_secs), default));
        };
        check(json!({"command": "true"}), Some(120), true);
        check(json!({"command": "true", "timeout": 600}), Some(600), false);
        check(json!({"command": "true", "background": true}), None, false);
        check(json!({"command": "true", "background": true, "timeout": 0}), None, false);
        check(json!({"command": "true", "yield_time_ms": 5, "timeout": 0}), None, false);
        check(json!({"command": "true", "yield_time_ms": 5, "timeout": 7000}), Some(7000), false);
    }

    #[test]
    fn how_long_a_call_stays_follows_from_two_arguments() {
        let mode = |arguments| plan(arguments).unwrap().mode;
        assert_eq!(mode(json!({"command": "true"})), Mode::Foreground);
        assert_eq!(
            mode(json!({"command": "true", "yield_time_ms": 5})),
            Mode::Yielded(Duration::from_millis(5))
        );
        assert_eq!(mode(json!({"command": "true", "background": true})), Mode::Background(Duration::ZERO));
        let both = json!({"command": "true", "background": true, "yield_time_ms": 5});
        assert_eq!(mode(both), Mode::Background(Duration::from_millis(5)));
    }

    #[test]
    fn what_may_not_outlive_its_call_is_refused_with_the_reason() {
        for (lasting, code) in [
            (Lasting::Uncontained, ErrorCode::LifetimeEnforcementUnavailable),
            (Lasting::Unannounced, ErrorCode::ProcessNotificationsUnsupported),
        ] {
            for (name, value) in
                [("background", json!(true)), ("yield_time_ms", json!(0)), ("stall_ms", json!(1000))]
            {
                let error =
                    plan_where(lasting, json!({"command": "true", name: value})).expect_err("refused");
                assert_eq!((error.code, error.field.as_deref()), (code, Some(name)));
            }
            assert!(plan_where(lasting, json!({"command": "true"})).is_ok());
        }
    }

    #[test]
    fn a_workdir_is_relative_to_the_workspace() {
        let workdir = |arguments| plan(arguments).unwrap().workdir;
        assert_eq!(workdir(json!({"command": "true"})), PathBuf::from("/ws"));
        assert_eq!(workdir(json!({"command": "true", "workdir": "a/b"})), PathBuf::from("/ws/a/b"));
        assert_eq!(workdir(json!({"command": "true", "workdir": "/tmp"})), PathBuf::from("/tmp"));
    }

    #[test]
    fn the_digest_is_of_the_arguments_and_not_of_their_spelling() {
        let digest = |arguments| plan(arguments).unwrap().record.idempotency.unwrap().digest;
        let one = digest(json!({"command": "true", "idempotency_key": "a", "env": {"A": "1", "B": "2"}}));
        let same = json!({"env": {"B": "2", "A": "1"}, "background": false, "idempotency_key": "b", "command": "true"});
        assert_eq!(one, digest(same));
        for other in [
            json!({"command": "false", "idempotency_key": "a", "env": {"A": "1", "B": "2"}}),
            json!({"command": "true", "idempotency_key": "a", "env": {"A": "1"}}),
            json!({"command": "true", "idempotency_key": "a", "env": {"A": "1", "B": "2"}, "tty": true}),
            json!({"argv": ["true"], "idempotency_key": "a", "env": {"A": "1", "B": "2"}}),
        ] {
            assert_ne!(one, digest(other));
        }
    }

    #[test]
    fn an_attempt_to_leave_is_warned_of_with_the_better_way() {
        let warnings = plan(json!({"command": "nohup ./serve &"})).unwrap().warnings;
        assert_eq!(warnings.len(), 2);
        assert!(warnings.iter().all(|warning| warning.contains("background: true")), "{warnings:?}");
        let warnings = plan_where(Lasting::Uncontained, json!({"argv": ["setsid", "x"]})).unwrap().warnings;
        assert!(warnings.len() == 1 && !warnings[0].contains("background"), "{warnings:?}");
    }
}
