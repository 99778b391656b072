//! What the value of a key may be: its kind, its bounds, and how it is read from TOML and from plain text.
//!
//! Not for which keys there are.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use toml::Value;

use super::level;
use super::nearest::nearest;
use crate::limits::{Scope, size};

/// The names of a choice.
type Names = fn() -> Vec<String>;

/// What a value may be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Switch,
    /// A whole number.
    Number { least: u64, most: u64 },
    /// A number of bytes, or a text with a unit.
    Size { least: u64, most: u64 },
    /// One of these names.
    Choice(Names),
    /// A path; a relative one in a file is relative to the directory of the file.
    Path,
    /// An IP address and a port.
    Address,
    /// A list of texts.
    Names,
    /// A level of logs, or levels by module.
    Level,
}

impl Kind {
    pub(crate) const fn number(least: u64, most: u64) -> Self {
        Self::Number { least, most }
    }

    pub(crate) const fn size(least: u64, most: u64) -> Self {
        Self::Size { least, most }
    }

    pub(crate) const fn choice<T: ValueEnum>() -> Self {
        Self::Choice(names::<T>)
    }

    /// The value as this kind keeps it, or what it must be.
    pub(crate) fn admit(self, value: Value) -> Result<Value, String> {
        match (self, value) {
            (Kind::Switch, value @ Value::Boolean(_)) => Ok(value),
            (Kind::Number { least, most } | Kind::Size { least, most }, Value::Integer(number)) => {
                let fits = u64::try_from(number).is_ok_and(|number| (least..=most).contains(&number));
                if fits { Ok(Value::Integer(number)) } else { Err(self.must_be()) }
            }
            (Kind::Size { .. }, Value::String(text)) => {
                let bytes = size(&text).map_err(|problem| format!("`{text}` {problem}"))?;
                self.admit(Value::Integer(i64::try_from(bytes).map_err(|_| self.must_be())?))
            }
            (Kind::Choice(names), Value::String(text)) => {
                let names = names();
                if names.contains(&text) {
                    return Ok(Value::String(text));
                }
                Err(match nearest(&text, names.iter().map(String::as_str)) {
                    Some(meant) => format!("{}; did you mean `\"{meant}\"`?", self.must_be()),
                    None => self.must_be(),
                })
            }
            (Kind::Level, Value::String(text)) => level::check(&text).map(|()| Value::String(text)),
            (Kind::Address, Value::String(text)) => match text.parse::<SocketAddr>() {
                Ok(_) => Ok(Value::String(text)),
                Err(_) => Err(self.must_be()),
            },
            (Kind::Path, Value::String(text)) if !text.is_empty() => Ok(Value::String(text)),
            (Kind::Names, Value::Array(names)) if names.iter().all(Value::is_str) => Ok(Value::Array(names)),
            _ => Err(self.must_be()),
        }
    }

    /// From a text that is no TOML, as the environment and flags give it. A list is written with commas.
    pub(crate) fn parse_text(self, text: &str) -> Result<Value, String> {
        let value = match self {
            Kind::Switch => match text {
                "true" => Value::Boolean(true),
                "false" => Value::Boolean(false),
                _ => return Err(self.must_be()),
            },
            Kind::Number { .. } => Value::Integer(text.parse().map_err(|_| self.must_be())?),
            Kind::Names => {
                let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
                Value::Array(names.map(|name| Value::String(name.to_owned())).collect())
            }
            _ => Value::String(text.to_owned()),
        };
        self.admit(value)
    }

    /// From the text of a TOML value, as the table of keys has it.
    pub(crate) fn parse_toml(self, text: &str) -> Result<Value, String> {
        self.admit(text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?)
    }

    /// What it must be, as the end of a sentence.
    pub(crate) fn must_be(self) -> String {
        format!("must be {}", self.in_words())
    }

    /// What it is, in words.
    pub(crate) fn in_words(self) -> String {
        match self {
            Kind::Switch => "`true` or `false`".to_owned(),
            Kind::Number { least, most } => format!("a whole number from {least} to {most}"),
            Kind::Size { least, most } => {
                format!("a size from {} to {}, in bytes or as `\"64M\"`", bytes(least), bytes(most))
            }
            Kind::Choice(names) => {
                let names: Vec<_> = names().iter().map(|name| format!("`\"{name}\"`")).collect();
                format!("one of {}", names.join(", "))
            }
            Kind::Path => "a path".to_owned(),
            Kind::Address => "an IP address with a port, such as `\"127.0.0.1:7411\"`".to_owned(),
            Kind::Names => "a list of texts".to_owned(),
            Kind::Level => "a level, or levels by module".to_owned(),
        }
    }
}

/// A bound in the unit that it is a whole number of.
fn bytes(count: u64) -> String {
    let units = [(60, "E"), (50, "P"), (40, "T"), (30, "G"), (20, "M"), (10, "K")];
    let whole = units.into_iter().find(|(shift, _)| count > 0 && count.trailing_zeros() >= *shift);
    whole.map_or_else(|| count.to_string(), |(shift, unit)| format!("{}{unit}", count >> shift))
}

fn names<T: ValueEnum>() -> Vec<String> {
    T::value_variants()
        .iter()
        .filter_map(ValueEnum::to_possible_value)
        .map(|value| value.get_name().to_owned())
        .collect()
}

/// What a command's environment is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Environment {
    Inherit,
    Minimal,
}

/// Which containment is wished for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TierWish {
    Strongest,
    Cgroup,
    Subreaper,
    Pidns,
}

/// How procyard's own logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// A typed value. `None` when it is not of the type, which the table of keys excludes.
pub(crate) trait FromValue: Sized {
    fn from_value(value: Option<&Value>) -> Option<Self>;
}

impl FromValue for bool {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        value?.as_bool()
    }
}

impl FromValue for u64 {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        value?.as_integer()?.try_into().ok()
    }
}

impl FromValue for String {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        value?.as_str().map(str::to_owned)
    }
}

impl FromValue for PathBuf {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        value?.as_str().map(PathBuf::from)
    }
}

impl FromValue for SocketAddr {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        value?.as_str()?.parse().ok()
    }
}

impl FromValue for Vec<String> {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        value?.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        match value {
            None => Some(None),
            some => T::from_value(some).map(Some),
        }
    }
}

macro_rules! choices {
    ($($type:ty),+) => {$(
        impl FromValue for $type {
            fn from_value(value: Option<&Value>) -> Option<Self> {
                <Self as ValueEnum>::from_str(value?.as_str()?, false).ok()
            }
        }
    )+};
}

choices!(Environment, TierWish, LogFormat, Scope);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_admitted_by_kind_and_within_bounds() {
        for (kind, toml, admitted) in [
            (Kind::Switch, "true", true),
            (Kind::Switch, "1", false),
            (Kind::Switch, "\"true\"", false),
            (Kind::number(1, 10), "1", true),
            (Kind::number(1, 10), "0", false),
            (Kind::number(1, 10), "11", false),
            (Kind::number(1, 10), "-1", false),
            (Kind::number(1, 10), "1.5", false),
            (Kind::size(1, 1 << 20), "\"1M\"", true),
            (Kind::size(1, 1 << 20), "\"2M\"", false),
            (Kind::size(1, 1 << 20), "\"1X\"", false),
            (Kind::choice::<LogFormat>(), "\"json\"", true),
            (Kind::choice::<LogFormat>(), "\"JSON\"", false),
            (Kind::Address, "\"127.0.0.1:0\"", true),
            (Kind::Address, "\"localhost:80\"", false),
            (Kind::Path, "\"\"", false),
            (Kind::Names, "[\"a\"]", true),
            (Kind::Names, "[1]", false),
        ] {
            assert_eq!(kind.parse_toml(toml).is_ok(), admitted, "{kind:?} {toml}");
        }
    }

    #[test]
    fn plain_text_means_the_same_as_toml() {
        for (kind, text, toml) in [
            (Kind::Switch, "false", "false"),
            (Kind::number(1, 10), "7", "7"),
            (Kind::size(1, 1 << 20), "64K", "65536"),
            (Kind::size(1, 1 << 20), "65536", "65536"),
            (Kind::Names, "A_*, B", "[\"A_*\", \"B\"]"),
            (Kind::Names, "", "[]"),
            (Kind::Level, "warn,procyard=info", "\"warn,procyard=info\""),
        ] {
            assert_eq!(kind.parse_text(text), kind.parse_toml(toml), "{text}");
        }
        for (kind, text) in [(Kind::Switch, "yes"), (Kind::number(1, 10), "x"), (Kind::Level, "")] {
            assert!(kind.parse_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bounds_are_told_in_a_unit_that_fits() {
        for (count, text) in [(1, "1"), (1 << 20, "1M"), (3 << 30, "3G"), (1500, "1500"), (0, "0")] {
            assert_eq!(bytes(count), text);
        }
    }
}
