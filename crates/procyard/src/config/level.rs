//! What `log.level` may say: a level, or levels by module.
//!
//! `tracing` takes any word for the name of a module and would say nothing of a level that is misspelt. Not for logging.

use tracing_subscriber::EnvFilter;

use super::nearest::nearest;
use crate::log::OURS;

/// The words that there are.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Whether this can be a level, or what is wrong with it.
pub(super) fn check(text: &str) -> Result<(), String> {
    let directives: Vec<_> = text.split(',').map(str::trim).collect();
    if directives.iter().all(|directive| directive.is_empty()) {
        return Err("must not be empty".to_owned());
    }
    for directive in directives.into_iter().filter(|directive| !directive.is_empty()) {
        match level_of(directive) {
            Part::Level(word) if !is_level(word) => return Err(no_level(word)),
            Part::Level(_) | Part::Spans => {}
        }
        let named = directive.split(['=', '[']).next().unwrap_or_default().trim();
        if !named.is_empty() && !is_level(named) && !named.starts_with(OURS) {
            return Err(format!(
                "names `{named}`, which is none of procyard's own modules; no others are ever shown, because they could show \
                 output, input or tokens"
            ));
        }
    }
    EnvFilter::try_new(text)
        .map(drop)
        .map_err(|_| format!("`{text}` is not right; write for example {EXAMPLE}"))
}

const EXAMPLE: &str = "`info` or `warn,procyard=debug`";

/// What of a directive has to be a level.
enum Part<'t> {
    Level(&'t str),
    /// It names spans, and all that happens in them is told.
    Spans,
}

fn level_of(directive: &str) -> Part<'_> {
    match directive.rsplit_once('=') {
        // An equals sign inside of braces belongs to a field of a span.
        Some((_, level)) if !level.contains(['}', ']']) => Part::Level(level.trim()),
        None if !directive.contains('[') => Part::Level(directive),
        _ => Part::Spans,
    }
}

fn is_level(word: &str) -> bool {
    LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word))
}

fn no_level(word: &str) -> String {
    if let Some(level) = nearest(word, LEVELS) {
        return format!("`{word}` is no level; did you mean `{level}`?");
    }
    let module = word.contains("::") || word.starts_with("procyard");
    let hint = if module { format!("; of a module, write `{word}=info`") } else { String::new() };
    format!("`{word}` is no level; there are {}{hint}", LEVELS.map(|level| format!("`{level}`")).join(", "))
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_level_is_one_that_there_is() {
        for text in [
            "off",
            "info",
            "INFO",
            "warn,procyard=info",
            "warn,procyard_server::http=debug",
            "procyard_supervisor[process]=trace",
            "procyard_supervisor[process{handle=a}]=trace",
            "[process]",
            "warn,",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn a_misspelt_level_is_refused_with_what_was_meant() {
        for (text, expect) in [
            ("inof", "`inof` is no level; did you mean `info`?"),
            ("warn,procyard=debgu", "`debgu` is no level; did you mean `debug`?"),
            ("warning", "did you mean `warn`?"),
            ("verbose", "there are `off`, `error`, `warn`, `info`, `debug`, `trace`"),
            ("procyard_server::http", "of a module, write `procyard_server::http=info`"),
            ("procyard=", "`` is no level"),
            (",", "must not be empty"),
            ("procyard[b=info", "is not right"),
            ("rmcp=trace", "names `rmcp`"),
            ("warn,hyper::proto=debug", "names `hyper::proto`"),
            ("h2[frames]=trace", "names `h2`"),
        ] {
            let refused = check(text).expect_err(text);
            assert!(refused.contains(expect), "{text}: {refused}");
        }
    }
}
