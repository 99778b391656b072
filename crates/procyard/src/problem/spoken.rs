//! What the service says in the words of its tools, in those of the command line.
//!
//! The service answers models, programs and people with the same texts, and names what a model would use. A person is told
//! the verb and the option instead. Not for the codes of errors: those are the same everywhere.

/// Words of the tools, and what a person types. How a process is started is for whoever starts it, which no verb that
/// talks to the service does: of that only what follows is told. What is longer comes first.
const WORDS: &[(&str, &str)] = &[
    (
        "was started without stdin; start it with stdin: true or tty: true",
        "was started without standard input, so it takes none",
    ),
    (
        "keys need a terminal; start it with tty: true, or send `data`",
        "keys need a terminal, and it was started without one; send a text",
    ),
    ("has no terminal; start it with tty: true", "was started without a terminal"),
    (
        "send shorter lines, or use stdin: true instead of tty: true",
        "send shorter lines: it was started with a terminal",
    ),
    ("ProcessList", "`procyard ps`"),
    ("ProcessOutput", "`procyard logs`"),
    ("ProcessInput", "`procyard send`"),
    ("ProcessStop", "`procyard stop`"),
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
    use procyard_supervisor::{StdinClosed, SupervisorError};

    use crate::problem;

    #[test]
    fn a_person_is_told_verbs_and_options_and_no_names_of_tools() {
        let keys = "keys need a terminal; start it with tty: true, or send `data`";
        for (error, expect, field) in [
            (SupervisorError::NotFound.public(), "there is no such process; `procyard ps` shows yours", None),
            (
                PublicError::new(ErrorCode::PtyUnavailable, keys).field("keys"),
                "keys need a terminal, and it was started without one; send a text",
                Some("--key"),
            ),
            (
                PublicError::argument("data", "to read only, use ProcessOutput"),
                "to read only, use `procyard logs`",
                Some("TEXT"),
            ),
            (PublicError::argument("cursor", "is too large"), "is too large", Some("cursor")),
            (
                SupervisorError::StdinClosed(StdinClosed::Never).public(),
                "the process was started without standard input, so it takes none",
                None,
            ),
            (
                SupervisorError::NoTerminal.public(),
                "the process was started without a terminal",
                Some("rows"),
            ),
            (
                PublicError::argument("data", "send shorter lines, or use stdin: true instead of tty: true"),
                "send shorter lines: it was started with a terminal",
                Some("TEXT"),
            ),
        ] {
            let refused = ClientError::Refused { status: 400, error, retry_after: None };
            let told = problem::public(&anyhow::Error::new(refused));
            assert_eq!((told.message.as_str(), told.field.as_deref()), (expect, field));
        }
    }

    #[test]
    fn what_the_service_did_not_say_is_left_as_it_is() {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        let unreachable = ClientError::Unreachable { address: "/home/me/ProcessListX".to_owned(), source };
        let ours = problem::refused(ErrorCode::NotFound, "there is no /home/me/ProcessInput");
        for error in [unreachable.into(), ours] {
            let told = problem::public(&error);
            assert!(told.message.contains("/home/me/Process"), "{}", told.message);
            assert_eq!(told.message, problem::words(&error));
        }
        let setting = problem::public(&PublicError::argument("data", "is no section").into());
        assert_eq!(setting.field.as_deref(), Some("data"));
    }
}
