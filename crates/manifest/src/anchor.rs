//! The anchor of a session's directory: whose it is and what made it, checked before anything else is believed.
//!
//! Not for configuration: ceilings are recorded here, and set elsewhere.

use procyard_core::SessionId;
use procyard_store::{Dir, read_file, replace_file};
use serde::{Deserialize, Serialize};

use crate::error::SessionError;
use crate::sealed::{Unsealed, seal, unseal};

pub(crate) const ANCHOR: &str = "anchor.json";
const VERSION: u64 = 1;
const ANCHOR_MAX: u64 = 16 * 1024;
const PROVIDER_MAX: usize = 256;

/// The most that a session's output may take on disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ceilings {
    /// For one process.
    pub spool_bytes: u64,
    /// For all together.
    pub spool_bytes_total: u64,
}

/// What a session's directory is opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnchorSettings {
    /// Who keeps the records; a directory of another provider is refused. 1 to 256 bytes.
    pub provider: String,
    /// The ceilings in force. Others than the recorded ones are recorded anew.
    pub ceilings: Ceilings,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Anchor {
    version: u64,
    session: SessionId,
    provider: String,
    ceilings: Ceilings,
}

impl AnchorSettings {
    pub(crate) fn check(&self) -> Result<(), SessionError> {
        let fits = (1..=PROVIDER_MAX).contains(&self.provider.len());
        if fits { Ok(()) } else { Err(SessionError::Settings { problem: "the provider has 1 to 256 bytes" }) }
    }
}

/// Checks the anchor of `dir`; the recorded ceilings, or `None` where there is no anchor.
pub(crate) fn verify(
    dir: &dyn Dir,
    session: SessionId,
    settings: &AnchorSettings,
) -> Result<Option<Ceilings>, SessionError> {
    let bytes = match read_file(dir, ANCHOR, ANCHOR_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
            return Err(SessionError::Corrupt { why: "it is too long".to_owned() });
        }
        Err(error) => return Err(error.into()),
    };
    let anchor: Anchor = unseal(bytes, VERSION).map_err(|unsealed| match unsealed {
        Unsealed::Corrupt(why) => SessionError::Corrupt { why },
        Unsealed::Newer(version) => SessionError::Newer { version },
    })?;
    if anchor.session != session {
        return Err(SessionError::Foreign { what: "session" });
    }
    if anchor.provider != settings.provider {
        return Err(SessionError::Foreign { what: "provider" });
    }
    Ok(Some(anchor.ceilings))
}

/// Writes the anchor, durably.
pub(crate) fn write(
    dir: &dyn Dir,
    session: SessionId,
    settings: &AnchorSettings,
) -> Result<(), SessionError> {
    let anchor = Anchor {
        version: VERSION,
        session,
        provider: settings.provider.clone(),
        ceilings: settings.ceilings,
    };
    let bytes = seal(&anchor).map_err(|error| SessionError::Corrupt { why: error.to_string() })?;
    Ok(replace_file(dir, ANCHOR, &bytes)?)
}
