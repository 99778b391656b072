//! A terminal over a `WebSocket`: bytes as binary messages, everything else as text messages that hold JSON.
//!
//! Not for the bytes themselves.

use procyard_core::{PublicError, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Where an attachment begins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachQuery {
    /// Output from here on is sent. Default: what is printed from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
}

/// What a client asks for in a text message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum AttachCommand {
    /// A new size of the terminal.
    Resize {
        /// Rows.
        rows: u16,
        /// Columns.
        cols: u16,
    },
    /// End of input.
    Eof,
}

/// What the service says in a text message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AttachReport {
    /// The output goes on at another place: what is between is no longer retained.
    Gap {
        /// The first missing byte.
        from: u64,
        /// Where the output goes on.
        until: u64,
    },
    /// The last message of the client was not carried out.
    Refused {
        /// Why.
        #[schemars(schema_with = "schema::error")]
        error: PublicError,
    },
    /// The process has ended, and all its output was sent. The connection is closed then.
    Ended {
        /// How it ended.
        #[schemars(schema_with = "schema::state")]
        state: State,
        /// The exit code of an exited process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<u8>,
        /// The end of the output.
        total_bytes: u64,
    },
}
