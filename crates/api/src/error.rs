//! The error body, the same for a tool result and for an HTTP response.
//!
//! Not for deciding what an error says: that is [`PublicError`]'s maker.

use procyard_core::PublicError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// What a call that could not be carried out answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// What is wrong and what to do next.
    #[schemars(schema_with = "schema::error")]
    pub error: PublicError,
}

impl From<PublicError> for ErrorBody {
    fn from(error: PublicError) -> Self {
        Self { error }
    }
}
