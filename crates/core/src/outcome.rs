//! What a terminal process carries.
//!
//! Not for what is still changing: a running process has a state and bounds, and nothing here.

use serde::{Deserialize, Serialize};

use crate::{Reason, SignalNumber, Verdict, WaitStatus};

/// The most that a diagnostic may hold, in bytes of UTF-8.
pub const DIAGNOSTIC_MAX: usize = 512;

/// The diagnostic of a process whose shim died without reporting a status.
pub const SUPERVISION_LOST: &str = "supervision_lost";

/// What was done with descendants that outlived the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftoverAction {
    /// They were ended.
    Killed,
    /// They were waited for.
    Waited,
}

/// Descendants that outlived the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leftovers {
    /// How many there were when the leader's output had settled.
    pub count: u32,
    /// What was done with them.
    pub action: LeftoverAction,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Why.
    pub reason: Reason,
    /// The exit code: with `exited`, and only there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// The signal that ended the leader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalNumber>,
    /// Why it failed or was lost; at most [`DIAGNOSTIC_MAX`] bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnostic: Option<String>,
    /// Whether a terminate needed SIGKILL for some member of the tree.
    #[serde(default)]
    pub escalated: bool,
    /// Descendants that outlived the leader, where some did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftovers: Option<Leftovers>,
    /// Input that was accepted and never taken, in bytes.
    #[serde(default)]
    pub unread_input: u64,
    /// The raw wait status; private to the record, shown to no model and no client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_status: Option<WaitStatus>,
}

impl Outcome {
    /// The outcome of a verdict, without leftovers or diagnostic.
    pub fn of(verdict: &Verdict, wait_status: Option<WaitStatus>) -> Self {
        Self {
            reason: verdict.reason,
            exit_code: verdict.exit_code,
            signal: verdict.signal,
            diagnostic: None,
            escalated: verdict.escalated,
            leftovers: None,
            unread_input: 0,
            wait_status,
        }
    }

    /// An outcome that only has a reason and a diagnostic, cut to [`DIAGNOSTIC_MAX`] bytes at a character.
    pub fn diagnosed(reason: Reason, diagnostic: &str) -> Self {
        Self {
            reason,
            exit_code: None,
            signal: None,
            diagnostic: Some(cut(diagnostic, DIAGNOSTIC_MAX).to_owned()),
            escalated: false,
            leftovers: None,
            unread_input: 0,
            wait_status: None,
        }
    }
}

/// The longest prefix of `text` that fits `max` bytes and ends at a character.
pub fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_is_cut_at_a_character() {
        let long = format!("{}é", "x".repeat(DIAGNOSTIC_MAX - 1));
        let outcome = Outcome::diagnosed(Reason::Failed, &long);
        assert_eq!(outcome.diagnostic.as_deref(), Some("x".repeat(DIAGNOSTIC_MAX - 1).as_str()));
    }
}
