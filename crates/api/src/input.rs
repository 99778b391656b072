//! `ProcessInput`: writes to a running process.
//!
//! Not for the bytes of a key: the tool has that table.

use procyard_core::Handle;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{OutputResult, View, schema};

/// How `data` is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DataEncoding {
    /// As it is.
    #[default]
    Utf8,
    /// Standard base64 with padding.
    Base64,
}

/// Arguments of `ProcessInput`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputArguments {
    /// The process to write to: started with `stdin: true` or `tty: true`.
    #[schemars(schema_with = "schema::handle")]
    pub process_id: Handle,
    /// What to write, at most 1 MiB. No newline is added: end a line with one yourself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// `utf8` (default), or `base64` for bytes that are not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "utf8"))]
    pub data_encoding: Option<DataEncoding>,
    /// Keys to press after `data`, terminals only: enter tab esc space backspace up down left right home end pgup
    /// pgdn delete ctrl-a … ctrl-z f1 … f12.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub keys: Option<Vec<String>>,
    /// End of input, after `data` and `keys`: closes a pipe; types ^D in a terminal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub eof: bool,
    /// New rows of the terminal, together with `cols`; applied first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2000))]
    pub rows: Option<u16>,
    /// New columns of the terminal, together with `rows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2000))]
    pub cols: Option<u16>,
    /// Where the returned output begins. Default: the end of the output as it was before this input; what was incomplete
    /// there, such as half a character, is returned with the rest of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
    /// Wait up to this many milliseconds for output, and return it. The first output may only be the echo: add
    /// `quiet_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 600_000))]
    #[schemars(extend("default" = 0))]
    pub yield_time_ms: Option<u64>,
    /// After output came, wait until it has been quiet for this many milliseconds, within `yield_time_ms`. Needs
    /// `yield_time_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10_000))]
    #[schemars(extend("default" = 0))]
    pub quiet_ms: Option<u64>,
    /// `stream` (default): what was printed, in order. `screen`: what a person would see in the terminal after this
    /// input, in `screen` instead of `output`: for editors, pagers and other full-screen programs. Terminals only; give
    /// the program time to paint with `yield_time_ms` and `quiet_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "stream"))]
    pub view: Option<View>,
    /// Budget of `output` in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub limit_bytes: Option<u64>,
}

impl InputArguments {
    /// Nothing for this process yet: what is to be given is set beside it.
    pub const fn to(process_id: Handle) -> Self {
        Self {
            process_id,
            data: None,
            data_encoding: None,
            keys: None,
            eof: false,
            rows: None,
            cols: None,
            cursor: None,
            yield_time_ms: None,
            quiet_ms: None,
            view: None,
            limit_bytes: None,
        }
    }
}

/// Result of `ProcessInput`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InputResult {
    /// Bytes of this input that were accepted: all of them.
    pub accepted_bytes: u64,
    /// Bytes of this and earlier inputs that are not with the process yet, counted after the wait, when the answer is made.
    /// What its pipe or terminal holds for it counts as taken. What it never takes is told when that is certain, in
    /// `unread_input_bytes`.
    pub pending_bytes: u64,
    /// What the process has printed from `cursor` on.
    #[serde(flatten)]
    pub output: OutputResult,
}
