//! What the service says in the words of its tools, in those of the command line.
//!
//! The service answers models, programs and people with the same texts, and names what a model would use. A person is told
//! the verb and the option instead. Not for the codes of errors: those are the same everywhere.

/// Words of the tools, and what a person types.
const WORDS: &[(&str, &str)] = &[
    ("ProcessList", "`procyard ps`"),
    ("ProcessOutput", "`procyard logs`"),
    ("ProcessInput", "`procyard send`"),
    ("ProcessStop", "`procyard stop`"),
    ("or send `data`", "or send a text"),
];

/// Arguments of the tools, and the options that stand for them.
const FIELDS: &[(&str, &str)] = &[
    ("data", "TEXT"),
    ("keys", "--key"),
    ("eof", "--eof"),
    ("grace_ms", "--grace"),
    ("after_seq", "--after"),
];

/// A text as a person is told it.
pub(super) fn text(said: &str) -> String {
    WORDS.iter().fold(said.to_owned(), |text, (tool, verb)| text.replace(tool, verb))
}

/// The name of an argument as a person types it.
pub(super) fn field(name: String) -> String {
    let option = FIELDS.iter().find(|(argument, _)| *argument == name);
    option.map_or(name, |(_, option)| (*option).to_owned())
}

#[cfg(test)]
mod tests {
    use procyard_client::ClientError;
    use procyard_core::{ErrorCode, PublicError};
    use procyard_supervisor::SupervisorError;

    use crate::problem;

    #[test]
    fn a_person_is_told_verbs_and_options_and_no_names_of_tools() {
        let keys = "keys need a terminal; start it with tty: true, or send `data`";
        for (error, expect, field) in [
            (SupervisorError::NotFound.public(), "there is no such process; `procyard ps` shows yours", None),
            (
                PublicError::new(ErrorCode::PtyUnavailable, keys).field("keys"),
                "keys need a terminal; start it with tty: true, or send a text",
                Some("--key"),
            ),
            (
                PublicError::argument("data", "to read only, use ProcessOutput"),
                "to read only, use `procyard logs`",
                Some("TEXT"),
            ),
            (PublicError::argument("log.level", "is no level"), "is no level", Some("log.level")),
        ] {
            let refused = ClientError::Refused { status: 400, error, retry_after: None };
            let told = problem::public(&anyhow::Error::new(refused));
            assert_eq!((told.message.as_str(), told.field.as_deref()), (expect, field));
        }
    }
}
