//! What went wrong, in the one form that programs read: the error body of the service and of the tools.
//!
//! Not for who is told: that is `exit` and `say`.

mod spoken;

use std::error::Error;

use procyard_client::ClientError;
use procyard_core::{Effects, ErrorCode, PublicError};
use procyard_host::HostError;
use procyard_journal::JournalError;
use procyard_manifest::{LoadError, SessionError};
use procyard_runner::RunnerError;
use procyard_server::http::ServiceError;
use procyard_supervisor::SupervisorError;
use serde_json::{Value, json};

use crate::config::Mistake;

/// Something that this program refuses or cannot do, with its code.
pub(crate) fn refused(code: ErrorCode, message: impl Into<String>) -> anyhow::Error {
    PublicError::new(code, message).into()
}

/// Every cause of an error once, outermost first, for a person. A text that has its cause in it already is not given that
/// again.
pub(crate) fn words(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain() {
        // Its code is for programs.
        let cause = match (cause.downcast_ref::<PublicError>(), cause.downcast_ref::<ClientError>()) {
            (Some(public), _) => public.message.clone(),
            (_, Some(error)) => told_by(error).message,
            _ => cause.to_string(),
        };
        let cause = without_number(&cause);
        if words.is_empty() {
            words.push_str(cause);
        } else if !words.contains(cause) {
            words.push_str(": ");
            words.push_str(cause);
        }
    }
    words
}

/// A system's error without its number, which only those look for who know the text already.
pub(crate) fn without_number(text: &str) -> &str {
    match text.rsplit_once(" (os error ") {
        Some((text, number)) if number.ends_with(')') => text,
        _ => text,
    }
}

/// What the service said, in the words and with the options of the command line.
pub(crate) fn told(said: &PublicError) -> PublicError {
    PublicError {
        message: spoken::text(&said.message),
        field: said.field.clone().map(spoken::field),
        ..said.clone()
    }
}

/// The same of an answer. What the client itself says has no names of tools, and may have paths, which stay as they are.
pub(crate) fn told_by(error: &ClientError) -> PublicError {
    error.refusal().map_or_else(|| error.public(), told)
}

/// The error as a program reads it: the code of its innermost cause that has one, and the words that a person reads.
pub(crate) fn public(error: &anyhow::Error) -> PublicError {
    let known = error.chain().filter_map(known).last();
    let known = known.unwrap_or_else(|| PublicError::new(ErrorCode::Internal, ""));
    PublicError { message: words(error), ..known }
}

/// The same as JSON. Where several settings are at fault, `fields` names all of them.
pub(crate) fn as_json(error: &anyhow::Error) -> Value {
    let mut value = json!(public(error));
    let mistake = error.chain().find_map(|cause| cause.downcast_ref::<Mistake>());
    if let Some(several) = mistake.map(Mistake::keys).filter(|keys| keys.len() > 1) {
        value["fields"] = json!(several);
    }
    value
}

/// A cause that has a code.
fn known(cause: &(dyn Error + 'static)) -> Option<PublicError> {
    let said = |code| Some(PublicError::new(code, ""));
    if let Some(error) = cause.downcast_ref::<PublicError>() {
        Some(error.clone())
    } else if let Some(mistake) = cause.downcast_ref::<Mistake>() {
        let key = mistake.keys().first().cloned();
        Some(PublicError { field: key, ..PublicError::new(ErrorCode::InvalidSettings, "") })
    } else if let Some(error) = cause.downcast_ref::<ClientError>() {
        Some(told_by(error))
    } else if let Some(error) = cause.downcast_ref::<SupervisorError>() {
        Some(error.public())
    } else if let Some(error) = cause.downcast_ref::<RunnerError>() {
        Some(error.public())
    } else if let Some(error) = cause.downcast_ref::<HostError>() {
        said(match error {
            HostError::LifetimeEnforcementUnavailable(_) => ErrorCode::LifetimeEnforcementUnavailable,
            HostError::InvalidSetting(_) => ErrorCode::InvalidSettings,
            _ => ErrorCode::ProcessSetupFailed,
        })
    } else if let Some(error) = cause.downcast_ref::<SessionError>() {
        match error {
            SessionError::Missing => said(ErrorCode::NotFound),
            SessionError::Locked => Some(PublicError::new(ErrorCode::Conflict, "").retryable()),
            SessionError::Corrupt { .. } => said(ErrorCode::ManifestCorrupt),
            _ => said(ErrorCode::StorageUnavailable),
        }
    } else if let Some(error) = cause.downcast_ref::<LoadError>() {
        said(match error {
            LoadError::Missing => ErrorCode::NotFound,
            LoadError::Io(_) => ErrorCode::StorageUnavailable,
            _ => ErrorCode::ManifestCorrupt,
        })
    } else if cause.is::<JournalError>() {
        said(ErrorCode::StorageUnavailable)
    } else if let Some(error) = cause.downcast_ref::<ServiceError>() {
        match error {
            ServiceError::AdminToken(_) | ServiceError::Tokens(_) => said(ErrorCode::InvalidSettings),
            ServiceError::Left(left) => {
                let proven = left.unproven == 0;
                let code = if proven { ErrorCode::StorageUnavailable } else { ErrorCode::TeardownFailed };
                Some(PublicError::new(code, "").effects(Effects::Started))
            }
            _ => said(ErrorCode::Internal),
        }
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let io = || std::io::Error::other("the file holds no token");
        let doubled =
            anyhow::Error::new(ServiceError::AdminToken(io())).context("the service does not begin");
        assert_eq!(
            words(&doubled),
            "the service does not begin: the admin token cannot be used: the file holds no token"
        );
        let plain = anyhow::Error::new(io()).context("it cannot be read");
        assert_eq!(words(&plain), "it cannot be read: the file holds no token");
    }

    #[test]
    fn an_error_has_the_code_of_its_innermost_cause_and_the_words_of_all() {
        let inner: anyhow::Result<()> = Err(refused(ErrorCode::NotFound, "there is no such process"));
        let error = public(&inner.context("nothing was sent").unwrap_err());
        assert_eq!(
            (error.code, &*error.message),
            (ErrorCode::NotFound, "nothing was sent: there is no such process")
        );
        assert_eq!(words(&refused(ErrorCode::NotFound, "there is none")), "there is none");
        let locked = public(&anyhow::Error::new(SessionError::Locked));
        assert!(locked.retryable && locked.code == ErrorCode::Conflict);
        assert_eq!(public(&anyhow::anyhow!("something")).code, ErrorCode::Internal);
    }
}
