//! A notification: news of one process for its owner, as it is recorded.
//!
//! Not for rendering: whoever shows one looks up what else there is to say. It holds no command text and no output.

use procyard_core::{EventKind, Handle, NotificationId, Reason, State, Timestamp, matrix_admits};
use serde::{Deserialize, Serialize};

use crate::JournalError;

/// What a notification is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum NotificationKind {
    /// The process became terminal, or a restore found it lost.
    Completed,
    /// The process printed nothing for its stall window.
    Stalled {
        /// How long it had been quiet, in milliseconds.
        quiet_ms: u64,
        /// How many bytes it had printed.
        total_bytes: u64,
    },
}

/// News of a process for its owner. Metadata only.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NotificationRecord {
    /// Stable over every retry and delivery.
    pub id: NotificationId,
    /// Which process.
    pub handle: Handle,
    /// What it is about.
    #[serde(flatten)]
    pub kind: NotificationKind,
    /// The state that the process had or got.
    pub state: State,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// With which code it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// When it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
}

/// How far a notification has come. It only goes forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Delivery {
    /// Nobody was told.
    Pending,
    /// It was handed to the owner's transport.
    Delivered,
    /// The owner said that it has it.
    Acknowledged,
}

impl Delivery {
    pub(crate) const ALL: [Delivery; 3] = [Delivery::Pending, Delivery::Delivered, Delivery::Acknowledged];

    /// The word that the table has for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Delivery::Pending => "pending",
            Delivery::Delivered => "delivered",
            Delivery::Acknowledged => "acknowledged",
        }
    }

    pub(crate) fn from_column(word: &str) -> Result<Self, JournalError> {
        Self::ALL
            .into_iter()
            .find(|delivery| delivery.as_str() == word)
            .ok_or_else(|| JournalError::corrupt("a notification is in no state"))
    }
}

impl NotificationRecord {
    /// Checks that state, reason, code and times go together: a completion says what the lifecycle matrix lets the
    /// event of that end say, a stall speaks of a process that goes on.
    pub fn check(&self) -> Result<(), JournalError> {
        let ensure = |holds: bool, field, problem| {
            if holds { Ok(()) } else { Err(JournalError::Invalid { field, problem }) }
        };
        match self.kind {
            NotificationKind::Completed => {
                let lost = self.state == State::LostOnRestore;
                let kind = if lost { EventKind::Lost } else { EventKind::Completed };
                ensure(
                    matrix_admits(kind, self.state, self.reason),
                    "the reason",
                    "does not go with the state",
                )?;
                ensure(self.finished_at.is_some(), "finished_at", "is missing")?;
                let exited = self.state == State::Exited;
                ensure(self.exit_code.is_some() == exited, "exit_code", "is there exactly for what exited")
            }
            NotificationKind::Stalled { .. } => {
                ensure(!self.state.is_terminal(), "the state", "of what stalls is not terminal")?;
                ensure(self.reason.is_none(), "the reason", "is of an end")?;
                ensure(self.exit_code.is_none(), "exit_code", "is of an end")?;
                ensure(self.finished_at.is_none(), "finished_at", "is of an end")
            }
        }
    }

    /// The last time that it carries, by which it ages.
    pub(crate) fn at(&self) -> Timestamp {
        self.finished_at.or(self.started_at).unwrap_or(Timestamp::from_unix_micros(0))
    }
}
