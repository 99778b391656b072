//! What follows from the configuration for the limits of a session, for its runner and for its tools.
//!
//! Not for what belongs to one verb only.

use procyard_core::{LimitSettings, Limits};
use procyard_host::{HostOptions, SignalScope, TierChoice};
use procyard_runner::{Environment, EnvironmentBase, ResourceLimits, Tier};
use procyard_tools::{CommandLines, ToolboxOptions};
use toml::Value;

use super::keys::{Config, Containment};
use super::kind::{Environment as EnvironmentChoice, TierWish};
use super::mistake::Mistake;
use super::sources::{Source, Values};
use crate::limits::Scope;

/// A key that is a limit: its path, the name of the limit, how it is set, and what came of it.
struct LimitKey {
    path: &'static str,
    field: &'static str,
    value: fn(&Config) -> u64,
    set: fn(&mut LimitSettings) -> &mut i64,
    effective: fn(&Limits) -> u64,
}

macro_rules! limit_keys {
    ($($section:ident.$key:ident $field:ident = $effective:expr;)+) => {
        const LIMIT_KEYS: &[LimitKey] = &[
            $(LimitKey {
                path: concat!(stringify!($section), ".", stringify!($key)),
                field: stringify!($field),
                value: |config| config.$section.$key,
                set: |settings| &mut settings.$field,
                effective: $effective,
            },)+
        ];
    };
}

limit_keys! {
    processes.max_concurrent running_per_session = |limits| limits.running_per_session.into();
    processes.max_concurrent_per_loop running_per_loop = |limits| limits.running_per_loop.into();
    processes.default_timeout_secs foreground_default_secs = |limits| limits.foreground_default.as_secs();
    processes.max_timeout_secs foreground_maximum_secs = |limits| limits.foreground_maximum.as_secs();
    processes.max_output_bytes spool_bytes = |limits| limits.spool_bytes;
    processes.inline_bytes inline_bytes = |limits| limits.inline_bytes;
    processes.graceful_shutdown_ms graceful_shutdown_ms =
        |limits| u64::try_from(limits.graceful_shutdown.as_millis()).unwrap_or(u64::MAX);
    retention.completed_per_session retained_per_session = |limits| limits.retained_per_session.into();
    retention.data_max_bytes spool_bytes_total = |limits| limits.spool_bytes_total;
}

/// The limits that the values ask for. A default that contradicts what is set gives way, and the values say so;
/// two that are set and contradict each other are refused.
pub(super) fn limits(config: &Config, values: &mut Values) -> Result<Limits, Mistake> {
    let mut settings = LimitSettings::default();
    for key in LIMIT_KEYS {
        if values.get(key.path).is_some_and(|(_, source)| *source != Source::Default) {
            *(key.set)(&mut settings) = i64::try_from((key.value)(config)).unwrap_or(i64::MAX);
        }
    }
    let limits = match settings.resolve() {
        Ok(limits) => limits,
        Err(refused) => return Err(in_our_words(&refused.to_string(), values)),
    };
    for key in LIMIT_KEYS {
        let effective = i64::try_from((key.effective)(&limits)).unwrap_or(i64::MAX);
        if let Some((value, source)) = values.get_mut(key.path)
            && *value != Value::Integer(effective)
        {
            *value = Value::Integer(effective);
            *source = Source::Adjusted;
        }
    }
    Ok(limits)
}

/// A refusal in terms of keys, with where each that it names was set.
fn in_our_words(refusal: &str, values: &Values) -> Mistake {
    let mut text = refusal.to_owned();
    let (mut keys, mut places) = (Vec::new(), Vec::new());
    for key in LIMIT_KEYS {
        let named = format!("`{}`", key.field);
        if let Some(at) = refusal.find(&named) {
            keys.push((at, key.path));
            text = text.replace(&named, &format!("`{}`", key.path));
            if let Some((_, source)) = values.get(key.path) {
                places.push(format!("{} is from {source}", key.path));
            }
        }
    }
    // What is said first is what is refused.
    keys.sort_unstable();
    Mistake::of(keys.into_iter().map(|(_, key)| key), format!("{text} ({})", places.join(", ")))
}

impl Config {
    /// How a session's runner is set up.
    pub(crate) fn host_options(&self) -> HostOptions {
        HostOptions {
            tier: self.containment.tier(),
            shell: self.processes.shell.clone(),
            env_filter: env_filter(&self.processes.env_filter),
            no_new_privs: self.containment.no_new_privs,
            signal_scope: match self.containment.signal_scope {
                Scope::Off => SignalScope::Off,
                Scope::Preferred => SignalScope::Preferred,
                Scope::Required => SignalScope::Required,
            },
            ..HostOptions::default()
        }
    }

    /// What each command is asked to keep to.
    pub(crate) fn resource_limits(&self) -> ResourceLimits {
        ResourceLimits {
            memory_max: self.containment.memory_max,
            // The key's bounds are those of the type.
            pids_max: self.containment.pids_max.map(|most| u32::try_from(most).unwrap_or(u32::MAX)),
            ..ResourceLimits::default()
        }
    }

    /// How tools start commands.
    pub(crate) fn toolbox_options(&self) -> ToolboxOptions {
        ToolboxOptions {
            environment: self.environment(),
            command_lines: self.command_lines(),
            shell: Some(self.shell()),
            limits: self.resource_limits(),
            ..ToolboxOptions::default()
        }
    }

    /// What the environment of commands is made of.
    pub(crate) fn environment(&self) -> Environment {
        let base = match self.processes.environment {
            EnvironmentChoice::Inherit => EnvironmentBase::Inherit,
            EnvironmentChoice::Minimal => EnvironmentBase::Minimal,
        };
        Environment { base, ..Environment::default() }
    }

    /// The shell, for those who start one by themselves.
    fn shell(&self) -> String {
        let configured = self.processes.shell.as_ref().map(|path| path.to_string_lossy().into_owned());
        configured.unwrap_or_else(|| procyard_host::default_shell().to_owned())
    }

    /// What becomes of command lines.
    pub(crate) fn command_lines(&self) -> CommandLines {
        if self.processes.allow_shell { CommandLines::Shell } else { CommandLines::Words }
    }
}

impl Containment {
    fn tier(&self) -> TierChoice {
        match self.tier {
            TierWish::Strongest => TierChoice::Strongest,
            TierWish::Cgroup => TierChoice::Require(Tier::CGROUP),
            TierWish::Subreaper => TierChoice::Require(Tier::SUBREAPER),
            TierWish::Pidns => TierChoice::Require(Tier::PIDNS),
        }
    }
}

/// What commands do not inherit: what is configured, and never the token of a service.
fn env_filter(configured: &[String]) -> Vec<String> {
    configured.iter().map(String::as_str).chain([crate::remote::TOKEN]).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits_with(settings: &[(&str, i64)]) -> (Result<Limits, Mistake>, Values) {
        let mut values = super::super::sources::defaults().unwrap();
        for (path, value) in settings {
            values.insert((*path).to_owned(), (Value::Integer(*value), Source::Flag("--set")));
        }
        let config = super::super::sources::typed(&values).unwrap();
        (limits(&config, &mut values), values)
    }

    #[test]
    fn the_defaults_of_the_keys_are_those_of_the_limits() {
        for key in LIMIT_KEYS {
            let declared = super::super::keys::find(key.path).unwrap();
            let default = declared.kind.parse_toml(declared.default.unwrap()).unwrap();
            let effective = i64::try_from((key.effective)(&Limits::default())).unwrap();
            assert_eq!(default, Value::Integer(effective), "{}", key.path);
        }
    }

    #[test]
    fn a_default_gives_way_and_the_values_say_so() {
        let (limits, values) = limits_with(&[("processes.max_concurrent", 2)]);
        assert_eq!(limits.unwrap().running_per_loop, 2);
        assert_eq!(values["processes.max_concurrent_per_loop"], (Value::Integer(2), Source::Adjusted));
    }

    #[test]
    fn settings_that_contradict_are_refused_by_the_names_of_their_keys() {
        let settings = [("processes.max_concurrent", 2), ("processes.max_concurrent_per_loop", 3)];
        let refused = limits_with(&settings).0.unwrap_err();
        assert_eq!(refused.keys(), ["processes.max_concurrent_per_loop", "processes.max_concurrent"]);
        let refused = refused.to_string();
        for part in
            ["`processes.max_concurrent_per_loop` is 3", "`processes.max_concurrent`", "is from --set"]
        {
            assert!(refused.contains(part), "{refused}");
        }
    }
}
