//! Defaults, file, environment, flags: each overrides the one before, and every value remembers where it is from.
//!
//! Not for what values mean.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use clap::Args;
use procyard_core::Limits;
use toml::Value;

use super::keys::{Config, KEYS, Key, find};
use super::kind::Kind;
use super::mistake::Mistake;
use super::{effect, file};

/// What every variable of a key begins with, and what is between its section and its name.
const PREFIX: &str = "PROCYARD_";
const BETWEEN: &str = "__";

/// The other name of `PROCYARD_LOG__LEVEL`.
const LOG_LEVEL: &str = "PROCYARD_LOG";

const CONFIG_HELP: &str = "The configuration file [default: $PROCYARD_CONFIG, else procyard/config.toml in $XDG_CONFIG_HOME or ~/.config, where there is one]";

/// Options of every verb that is configured.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Configuration")]
pub(crate) struct ConfigOptions {
    /// The configuration file.
    #[arg(long, value_name = "FILE", help = CONFIG_HELP)]
    pub(crate) config: Option<PathBuf>,

    /// Override one key of the configuration, such as `processes.inline_bytes=64K`
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// A flag of a verb that stands for a key.
#[derive(Debug, Clone)]
pub(crate) struct Flag {
    /// As it is typed.
    pub(crate) name: &'static str,
    /// The key's path.
    pub(crate) key: &'static str,
    pub(crate) value: String,
}

/// Where a value is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Default,
    /// A default that gave way to an explicit counterpart.
    Adjusted,
    File {
        path: PathBuf,
        line: usize,
    },
    Variable(String),
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::Adjusted => f.write_str("default, adjusted to what is set"),
            Source::File { path, line } => write!(f, "{}:{line}", path.display()),
            Source::Variable(name) => write!(f, "${name}"),
            Source::Flag(name) => f.write_str(name),
        }
    }
}

/// Values by the path of their key, each with where it is from. A key that is unset is not here.
pub(crate) type Values = BTreeMap<String, (Value, Source)>;

/// The effective configuration.
#[derive(Debug, Clone)]
pub(crate) struct Effective {
    pub(crate) config: Config,
    pub(crate) limits: Limits,
    pub(crate) values: Values,
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
}

impl ConfigOptions {
    /// Brings everything together. A [`Mistake`] says where it is, and which key is at fault; it is `invalid_settings`.
    pub(crate) fn load(&self, flags: Vec<Flag>) -> anyhow::Result<Effective> {
        self.gathered(flags).map_err(anyhow::Error::from)
    }

    fn gathered(&self, flags: Vec<Flag>) -> Result<Effective, Mistake> {
        let file = file::locate(self.config.as_deref())?;
        let (mut values, mut mistakes) = (defaults()?, Vec::new());
        if let Some(path) = &file {
            let settings = file::read(path).unwrap_or_else(|wrong| {
                mistakes.extend(wrong);
                Vec::new()
            });
            for setting in settings {
                let source = Source::File { path: path.clone(), line: setting.line };
                values.insert(setting.key.path(), (setting.value, source));
            }
        }
        // Names and values that are no text are nobody's settings.
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        mistakes.extend(override_by_environment(&mut values, variables));
        for text in &self.set {
            let done = match text.split_once('=') {
                Some((path, value)) => set(&mut values, path.trim(), value, Source::Flag("--set"))
                    .map_err(|problem| problem.at("--set: ")),
                None => Err(Mistake::of(["--set"], format!("--set {text}: write KEY=VALUE"))),
            };
            mistakes.extend(done.err());
        }
        for flag in flags {
            let done = set(&mut values, flag.key, &flag.value, Source::Flag(flag.name))
                .map_err(|problem| problem.at(format_args!("{}: ", flag.name)));
            mistakes.extend(done.err());
        }
        // Whether values go together can be said only of right ones.
        Mistake::together(mistakes)?;
        let limits = effect::limits(&typed(&values)?, &mut values)?;
        Ok(Effective { config: typed(&values)?, limits, values, file })
    }
}

/// The values as the types of their keys.
pub(super) fn typed(values: &Values) -> anyhow::Result<Config> {
    let plain = values.iter().map(|(path, (value, _))| (path.clone(), value.clone())).collect();
    Config::from_values(&plain)
}

pub(super) fn defaults() -> anyhow::Result<Values> {
    let mut values = Values::new();
    for key in KEYS {
        if let Some(default) = key.default {
            let value = key.kind.parse_toml(default);
            let value =
                value.map_err(|problem| anyhow::anyhow!("the default of {} {problem}", key.path()))?;
            values.insert(key.path(), (value, Source::Default));
        }
    }
    Ok(values)
}

/// Sets what variables say, and gives every mistake in them.
fn override_by_environment(
    values: &mut Values,
    variables: impl Iterator<Item = (String, String)>,
) -> Vec<Mistake> {
    let mut variables: Vec<_> = variables
        .filter(|(name, value)| {
            let names_a_key = name.strip_prefix(PREFIX).is_some_and(|rest| rest.contains(BETWEEN));
            // An empty variable is as good as none.
            let meant = names_a_key || name == LOG_LEVEL || key_of_one_underscore(name).is_some();
            meant && !value.is_empty()
        })
        .collect();
    // The short name comes before the long one, which so overrides it.
    variables.sort();
    let mut mistakes = Vec::new();
    for (name, value) in variables {
        if let Some(key) = key_of_one_underscore(&name) {
            let text = format!(
                "the variable {name} is nobody's; section and key have two underscores between them: {}",
                key.variable()
            );
            mistakes.push(Mistake::of([key.path()], text));
            continue;
        }
        let path = if name == LOG_LEVEL {
            "log.level".to_owned()
        } else {
            name[PREFIX.len()..].to_lowercase().replacen(BETWEEN, ".", 1)
        };
        let done = set(values, &path, &value, Source::Variable(name.clone()))
            .map_err(|problem| problem.at(format_args!("the variable {name}: ")));
        mistakes.extend(done.err());
    }
    mistakes
}

/// The key that a variable means whose section and name have one underscore between them instead of two.
fn key_of_one_underscore(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.variable().replacen(BETWEEN, "_", 1) == name)
}

fn set(values: &mut Values, path: &str, text: &str, source: Source) -> Result<(), Mistake> {
    let wrong = |text| Mistake::of([path], text);
    let key: &Key = find(path).ok_or_else(|| wrong(file::unknown(path)))?;
    let mut value = key.kind.parse_text(text).map_err(|problem| wrong(format!("`{path}` {problem}")))?;
    if let (Kind::Path, Value::String(path)) = (key.kind, &value) {
        let absolute = std::path::absolute(path).map_err(|error| wrong(format!("`{path}`: {error}")))?;
        value = Value::String(absolute.to_string_lossy().into_owned());
    }
    values.insert(key.path(), (value, source));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Result<Values, Mistake> {
        let mut values = defaults()?;
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Mistake::together(override_by_environment(&mut values, variables))?;
        Ok(values)
    }

    #[test]
    fn a_variable_overrides_and_is_remembered() {
        let values = environment(&[
            ("PROCYARD_PROCESSES__MAX_CONCURRENT", "7"),
            ("PROCYARD_CONTAINMENT__MEMORY_MAX", "1G"),
            ("PROCYARD_DATA", "/nowhere"),
            ("PROCYARD_SERVER__LISTEN", ""),
        ])
        .unwrap();
        let source = Source::Variable("PROCYARD_PROCESSES__MAX_CONCURRENT".to_owned());
        assert_eq!(values["processes.max_concurrent"], (Value::Integer(7), source));
        assert_eq!(values["containment.memory_max"].0, Value::Integer(1 << 30));
        assert!(!values.contains_key("server.listen"));
    }

    #[test]
    fn the_long_name_of_the_log_level_overrides_the_short_one() {
        let level = |variables: &[(&str, &str)]| environment(variables).unwrap()["log.level"].0.clone();
        let text = |text: &str| Value::String(text.to_owned());
        assert_eq!(level(&[("PROCYARD_LOG", "info")]), text("info"));
        assert_eq!(level(&[("PROCYARD_LOG__LEVEL", "warn"), ("PROCYARD_LOG", "info")]), text("warn"));
    }

    #[test]
    fn a_variable_that_is_wrong_is_refused_by_name() {
        for (name, value, expect) in [
            ("PROCYARD_PROCESSES__MAX_CONCURENT", "7", "did you mean `processes.max_concurrent`?"),
            ("PROCYARD_PROCESSES__MAX_CONCURRENT", "many", "must be a whole number from 1 to 10000"),
            ("PROCYARD_LOG__FORMAT", "xml", "must be one of"),
            ("PROCYARD_LOG_FORMAT", "json", "PROCYARD_LOG__FORMAT"),
            ("PROCYARD_PROCESSES_MAX_CONCURRENT", "7", "PROCYARD_PROCESSES__MAX_CONCURRENT"),
            ("PROCYARD_LOG", "inof", "did you mean `info`?"),
            (
                "PROCYARD_SERVR__LISTEN",
                "x",
                "no section `servr`; did you mean `server`, and `server.listen`?",
            ),
        ] {
            let error = environment(&[(name, value)]).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(name) && text.contains(expect), "{text}");
            assert_eq!(error.keys().len(), 1, "{error:?}");
        }
    }
}
