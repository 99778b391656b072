//! What is wrong with a command line, for programs.
//!
//! Not for people: clap tells those.

use clap::error::{ContextKind, ContextValue};
use procyard_core::{ErrorCode, PublicError};

/// What somebody who forgot the quotes or the dashes is told.
pub(crate) const QUOTE: &str = "a shell line is one argument, so quote it; a program with arguments comes after `--`: procyard run -- ls -la";

/// A usage error in the one form that errors have.
pub(crate) fn refusal(error: &clap::Error, quote: bool) -> anyhow::Error {
    let text = error.to_string();
    // What follows is how the verb is called, which help says.
    let told = text.split("\n\nUsage:").next().unwrap_or_default();
    let told = told.split("\n\nFor more information").next().unwrap_or_default();
    let told = told.strip_prefix("error: ").unwrap_or(told).split_whitespace().collect::<Vec<_>>().join(" ");
    let message = if quote { format!("{told}; {QUOTE}") } else { told };
    let refusal = PublicError::new(ErrorCode::InvalidArguments, message);
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => refusal.field(name(argument)),
        Some(ContextValue::Strings(arguments)) => match arguments.first() {
            Some(argument) => refusal.field(name(argument)),
            None => refusal,
        },
        _ => refusal,
    }
    .into()
}

/// `--state <STATE>` is the argument `--state`, `<HANDLE>` is `HANDLE`.
fn name(argument: &str) -> &str {
    argument.split_whitespace().next().unwrap_or_default().trim_matches(['<', '>', '[', ']', '.'])
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::Cli;
    use crate::problem;

    #[test]
    fn a_usage_error_names_the_argument_and_says_no_more_than_what_is_wrong() {
        let refused = |arguments: &[&str]| {
            let error = Cli::try_parse_from(arguments).expect_err("it is wrong");
            problem::public(&refusal(&error, false))
        };
        for (arguments, field, expect) in [
            (vec!["procyard", "ps", "--state", "runing"], "--state", "did you mean `running`?"),
            (vec!["procyard", "ps", "--limit", "0"], "--limit", "must be a whole number from 1 to 10000"),
            (vec!["procyard", "wait"], "HANDLE", "were not provided"),
            (vec!["procyard", "events", "--after", "18446744073709551615"], "--after", "to 9007199254740991"),
            (vec!["procyard", "run", "--pids-max", "5000000000", "ls"], "--pids-max", "from 1 to 4294967295"),
            (vec!["procyard", "ps", "--limti", "3"], "--limti", "unexpected argument"),
        ] {
            let error = refused(&arguments);
            assert_eq!((error.code, error.field.as_deref()), (ErrorCode::InvalidArguments, Some(field)));
            assert!(error.message.contains(expect) && !error.message.contains("Usage"), "{}", error.message);
        }
    }
}
