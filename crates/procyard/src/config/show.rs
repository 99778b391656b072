//! `procyard config`: every key with its effective value and where that is from.
//!
//! Not for changing anything.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::json;

use super::keys::{KEYS, Key, SECTIONS};
use super::sources::Effective;
use crate::cli::ShowConfigOptions;
use crate::exit;
use crate::say::{Voice, give};

/// Prints it, as TOML that could be a file or as JSON.
pub(crate) fn show(options: &ShowConfigOptions) -> ExitCode {
    let shown = options.config.load(options.server.flags()).and_then(|effective| {
        give(if options.json { as_json(&effective) } else { as_toml(&effective, options.explain) })
    });
    match shown {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => exit::fault_as(&error, Voice::of(options.json)),
    }
}

// Writing to a text does not fail.
fn as_toml(effective: &Effective, explain: bool) -> String {
    let mut text = match &effective.file {
        Some(file) => format!("# File: {}\n", file.display()),
        None => "# No file.\n".to_owned(),
    };
    for section in SECTIONS {
        text.push('\n');
        if explain {
            text.push_str(&comment(section.doc));
        }
        let _ = writeln!(text, "[{}]", section.name);
        let keys: Vec<_> = KEYS.iter().filter(|key| key.section == section.name).collect();
        let lines: Vec<_> = keys.iter().map(|key| line(key, effective)).collect();
        let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0);
        for (key, (line, source)) in keys.iter().zip(lines) {
            if explain {
                let (kind, variable) = (key.kind.in_words(), key.variable());
                let (doc, example) = (comment(key.doc), key.example);
                let _ = writeln!(text, "\n{doc}# Is {kind}; for example: {example}. Variable: {variable}");
            }
            let _ = writeln!(text, "{line:<width$}  # {source}");
        }
    }
    text
}

/// A key with its value, and where that is from.
fn line(key: &Key, effective: &Effective) -> (String, String) {
    match effective.values.get(&key.path()) {
        Some((value, source)) => (format!("{} = {value}", key.name), source.to_string()),
        None => (format!("# {} is unset", key.name), "default".to_owned()),
    }
}

fn comment(lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines {
        let _ = writeln!(text, "# {}", line.trim());
    }
    text
}

fn as_json(effective: &Effective) -> String {
    let keys = KEYS.iter().map(|key| {
        let path = key.path();
        let (value, source) = match effective.values.get(&path) {
            Some((value, source)) => (json!(value), source.to_string()),
            None => (serde_json::Value::Null, "default".to_owned()),
        };
        (path, json!({"value": value, "source": source}))
    });
    let keys: serde_json::Map<_, _> = keys.collect();
    let file = effective.file.as_ref().map(|file| file.to_string_lossy());
    format!("{}\n", json!({"file": file, "keys": keys}))
}
