//! The tools without an MCP client.
//!
//! Not for the tools' own arguments and results: those are in their schemas.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One tool, as a model is told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// When to use it and when not.
    pub description: String,
    /// The JSON schema of its arguments.
    pub input_schema: Map<String, Value>,
    /// The JSON schema of its result, error included.
    pub output_schema: Map<String, Value>,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether it may destroy something.
    pub destructive: bool,
    /// Whether calling it again changes nothing more.
    pub idempotent: bool,
}

/// The tools of this token's loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolList {
    /// Each of them.
    pub tools: Vec<ToolInfo>,
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InvokeRequest {
    /// The tool.
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    /// Its arguments, as its schema has them. Default: none.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// What a tool answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InvokeReply {
    /// The structured result.
    pub structured: Map<String, Value>,
    /// The rendering that a model reads.
    pub text: String,
}
