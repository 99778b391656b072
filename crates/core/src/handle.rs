//! The opaque capability that is the only way to reach a process.
//!
//! Not for authority: a handle says *which* process, the [`Owner`](crate::Owner) says who may.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How often [`Handle::generate`] tries again when the caller says that a handle is taken.
pub const GENERATE_RETRIES: usize = 8;

/// Length of a handle's text: 16 bytes as unpadded URL-safe base64 (RFC 4648, section 5).
pub const HANDLE_TEXT_LEN: usize = 22;

/// 128 random bits that name one process for ever. No PID, path, time or owner is inside.
///
/// The text form is a secret between procyard and the owner: [`fmt::Debug`] shows four characters only, there is
/// no `Display`, and [`Handle::reveal`] is the one way to the whole text.
///
/// ```
/// use procyard_core::Handle;
///
/// let handle: Handle = "AAECAwQFBgcICQoLDA0ODw".parse().unwrap();
/// assert_eq!(handle.reveal(), "AAECAwQFBgcICQoLDA0ODw");
/// assert_eq!(format!("{handle:?}"), "AAEC…");
/// assert!("AAECAwQFBgcICQoLDA0ODx".parse::<Handle>().is_err(), "stray bits are not canonical");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle([u8; 16]);

/// Why no handle could be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// The random source failed.
    #[error("the random source failed")]
    Random,
    /// Every candidate was taken. With a working random source this does not happen.
    #[error("no free handle after {GENERATE_RETRIES} retries")]
    Collision,
}

/// A text that is not a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a handle: expected {HANDLE_TEXT_LEN} characters of unpadded url-safe base64")]
pub struct ParseHandleError;

impl Handle {
    /// Makes a handle from `random`, which fills 16 bytes from the operating system's CSPRNG and says whether it
    /// could, retrying at most [`GENERATE_RETRIES`] times while `exists` says that the candidate is taken.
    pub fn generate(
        mut random: impl FnMut(&mut [u8; 16]) -> bool,
        mut exists: impl FnMut(&Handle) -> bool,
    ) -> Result<Self, GenerateError> {
        for _ in 0..=GENERATE_RETRIES {
            let mut bytes = [0; 16];
            if !random(&mut bytes) {
                return Err(GenerateError::Random);
            }
            let handle = Self(bytes);
            if !exists(&handle) {
                return Ok(handle);
            }
        }
        Err(GenerateError::Collision)
    }

    /// The handle with these 16 bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The whole text, for the wire and for file names; never for logs.
    pub fn reveal(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }
}

impl FromStr for Handle {
    type Err = ParseHandleError;

    fn from_str(text: &str) -> Result<Self, ParseHandleError> {
        if text.len() != HANDLE_TEXT_LEN {
            return Err(ParseHandleError);
        }
        let mut bytes = [0; 16];
        match URL_SAFE_NO_PAD.decode_slice(text, &mut bytes) {
            Ok(16) => Ok(Self(bytes)),
            _ => Err(ParseHandleError),
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.reveal();
        write!(f, "{}…", &text[..4])
    }
}

impl Serialize for Handle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.reveal())
    }
}

impl<'de> Deserialize<'de> for Handle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
