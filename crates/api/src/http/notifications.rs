//! The inbox of an owner.
//!
//! Not for the notices that travel with results: they are the same, told in another way.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Notification;

/// Which notifications to show, and how long to wait for one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NotificationQuery {
    /// Only those behind this number: the `number` of the last one that was seen. Default 0: all that are not
    /// acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Longest page to return. Default 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
    /// Wait up to this many milliseconds when there is none. Default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 600_000))]
    pub wait_ms: Option<u64>,
}

/// A notification in the inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InboxNotification {
    /// Its place in the order, ascending.
    pub number: u64,
    /// Whether it was shown before.
    pub delivered: bool,
    /// What it says.
    #[serde(flatten)]
    pub notification: Notification,
}

/// A page of the inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotificationPage {
    /// In the order of completion: those that are not acknowledged.
    pub notifications: Vec<InboxNotification>,
    /// Whether there are more already.
    pub more: bool,
}
