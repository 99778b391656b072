//! The reply to a call, and what handing it to the transport means: notices are delivered, outcomes are learnt, a
//! foreground process has had its result seen.
//!
//! Not for the content of a reply: each tool makes its own.

use procyard_api::ErrorBody;
use procyard_core::{Handle, PublicError};
use procyard_supervisor::{Attendance, Telling};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::dialect::Claim;
use crate::notices::{Naming, News};
use crate::render;

/// What a tool answers, before the news of other processes is added.
pub(crate) struct Answer {
    /// The structured result.
    pub(crate) structured: Value,
    /// The rendering that a model reads.
    pub(crate) text: String,
    /// Processes whose outcome this answer tells.
    pub(crate) told: Vec<Handle>,
    /// Stops a foreground process whose callers are gone.
    pub(crate) attendance: Option<Attendance>,
    /// The process that outlives this call although nobody asked for that.
    pub(crate) left_running: Option<Handle>,
    /// Output that is not shown again once this was seen.
    pub(crate) read: Option<Claim>,
}

impl Answer {
    /// An answer that tells no outcome.
    pub(crate) fn new(result: &impl Serialize, text: String) -> Result<Self, PublicError> {
        let structured = serde_json::to_value(result).map_err(|_| {
            PublicError::new(procyard_core::ErrorCode::Internal, "the result could not be written")
        })?;
        Ok(Self { structured, text, told: Vec::new(), attendance: None, left_running: None, read: None })
    }

    /// The structured result as what it was made from.
    pub(crate) fn result<T: DeserializeOwned>(&self) -> Result<T, PublicError> {
        serde_json::from_value(self.structured.clone()).map_err(|_| unreadable())
    }

    /// The process that the structured result is of.
    pub(crate) fn process(&self) -> Result<Handle, PublicError> {
        let id = self.structured.get("process_id").and_then(Value::as_str);
        id.and_then(|id| id.parse().ok()).ok_or_else(unreadable)
    }

    /// The same, with an empty structured result.
    pub(crate) fn without_structure(self) -> Self {
        Self { structured: Value::Object(serde_json::Map::new()), ..self }
    }

    /// Tells the outcome of these processes.
    pub(crate) fn telling(self, told: Vec<Handle>) -> Self {
        Self { told, ..self }
    }
}

fn unreadable() -> PublicError {
    PublicError::new(procyard_core::ErrorCode::Internal, "the result could not be read")
}

/// The reply to a call.
///
/// While it exists, no other reply carries its notices or announces the outcomes that it tells. Dropping it without
/// [`Reply::handed_to_transport`] means that its caller never saw it: its notices and outcomes are announced by the next
/// result, and so is the outcome of a foreground process.
pub struct Reply {
    /// The structured result, or `{"error": {...}}`. Always an object. That of a tool without an output schema says
    /// nothing that the text does not.
    pub structured: Value,
    /// A short rendering of the same for a model, with the notices.
    pub text: String,
    /// Whether the call could not be carried out. A command that fails is a normal result.
    pub is_error: bool,
    /// The process that a foreground call handed over because it took too long to be waited for. A transport that has a
    /// form of its own for work that goes on may answer in that instead, and then does not hand this reply over.
    pub left_running: Option<Handle>,
    receipt: Receipt,
}

/// What becomes true when a reply is handed over.
struct Receipt {
    telling: Telling,
    attendance: Option<Attendance>,
    read: Option<Claim>,
}

impl Reply {
    pub(crate) fn new(mut telling: Telling, answer: Result<Answer, PublicError>, naming: Naming) -> Self {
        let Answer { mut structured, mut text, told, attendance, left_running, read } = match answer {
            Ok(answer) => answer,
            // The shape of an error has no room for notices: they come with the next result.
            Err(error) => {
                telling.tells(&[]);
                let text = render::without_notices(render::error(&error));
                let structured = serde_json::to_value(ErrorBody::from(error)).unwrap_or_default();
                return Self {
                    structured,
                    text,
                    is_error: true,
                    left_running: None,
                    receipt: Receipt { telling, attendance: None, read: None },
                };
            }
        };
        telling.tells(&told);
        let news = News::gather(&mut telling, naming);
        text = render::without_notices(text);
        text.push_str(&news.text);
        if !news.notifications.is_empty()
            && let Value::Object(object) = &mut structured
            && let Ok(notifications) = serde_json::to_value(&news.notifications)
        {
            object.insert("notifications".to_owned(), notifications);
        }
        let receipt = Receipt { telling, attendance, read };
        Self { structured, text, is_error: false, left_running, receipt }
    }

    /// The reply that tells how one process ended and nothing else: notices of others wait for the next result.
    pub(crate) fn of_one(mut telling: Telling, answer: Answer) -> Self {
        telling.tells(&answer.told);
        Self {
            structured: answer.structured,
            text: render::without_notices(answer.text),
            is_error: false,
            left_running: None,
            receipt: Receipt { telling, attendance: None, read: None },
        }
    }

    /// Says that the transport has the result. From then on its notices count as delivered, and the outcomes that it
    /// tells as learnt, so that they are not announced again. Does not block.
    pub fn handed_to_transport(&self) {
        let Receipt { telling, attendance, read } = &self.receipt;
        if let Some(attendance) = attendance {
            attendance.release();
        }
        if let Some(read) = read {
            read.seen();
        }
        telling.handed_over();
    }
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").field("is_error", &self.is_error).finish_non_exhaustive()
    }
}
