//! What every row has: a body, readable JSON, under a checksum that binds it to its number.
//!
//! Not for columns that are looked up by: those repeat the body and are held against it where they are read.

use crc_fast::{CrcAlgorithm, Digest};
use procyard_core::{Handle, LoopId, Owner, SessionId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::JournalError;

/// The longest body, in bytes: a diagnostic of 512 bytes escaped as JSON, and the fields around it, stay far below.
const BODY_MAX: usize = 8 * 1024;

/// The text of a body.
pub(crate) fn seal(value: &impl Serialize) -> Result<String, JournalError> {
    let body = serde_json::to_string(value).map_err(|error| JournalError::Io(error.into()))?;
    if body.len() > BODY_MAX {
        return Err(JournalError::Invalid { field: "the record", problem: "is too long" });
    }
    Ok(body)
}

/// CRC32C over the number, as eight little-endian bytes, and the body.
pub(crate) fn checksum(number: i64, body: &str) -> i64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&number.to_le_bytes());
    digest.update(body.as_bytes());
    // 32 bits, so it is never negative.
    digest.finalize().cast_signed()
}

/// The value of a body, once its checksum holds.
pub(crate) fn unseal<T: DeserializeOwned>(number: i64, body: &str, sum: i64) -> Result<T, JournalError> {
    if checksum(number, body) != sum {
        return Err(JournalError::corrupt(format!("the checksum of row {number} does not hold")));
    }
    serde_json::from_str(body)
        .map_err(|error| JournalError::corrupt(format!("row {number} does not read: {error}")))
}

/// An owner as the two columns of the tables have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnerColumns {
    pub(crate) session: String,
    pub(crate) loop_id: String,
}

impl From<Owner> for OwnerColumns {
    fn from(owner: Owner) -> Self {
        Self { session: owner.session.to_string(), loop_id: owner.loop_id.to_string() }
    }
}

impl OwnerColumns {
    pub(crate) fn owner(&self) -> Result<Owner, JournalError> {
        match (self.session.parse::<SessionId>(), self.loop_id.parse::<LoopId>()) {
            (Ok(session), Ok(loop_id)) => Ok(Owner { session, loop_id }),
            _ => Err(JournalError::corrupt("an owner is no pair of uuids")),
        }
    }
}

/// Fails unless a column says what the body says.
pub(crate) fn agree(number: i64, what: &str, holds: bool) -> Result<(), JournalError> {
    if holds {
        Ok(())
    } else {
        Err(JournalError::corrupt(format!(
            "the {what} of row {number} is not the one that it was written with"
        )))
    }
}

/// The column of a handle.
pub(crate) fn handle_column(handle: &Handle) -> String {
    handle.reveal()
}

/// A number of the API as SQLite has it. Nothing is numbered beyond that range.
pub(crate) fn to_column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number of a table as the API has it.
pub(crate) fn from_column(number: i64) -> Result<u64, JournalError> {
    u64::try_from(number).map_err(|_| JournalError::corrupt("a number is negative"))
}
