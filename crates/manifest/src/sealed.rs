//! JSON that says which version wrote it and shows that it is undamaged.
//!
//! A sealed file is one pretty-printed JSON object whose first member is `version` and whose last is `checksum`:
//! CRC32C (RFC 3720, section 12.1) over everything before the comma that precedes it. Any tool reads it; an edit
//! by hand, a flipped bit and a torn write show.
//!
//! Not for deciding what the object means: records check themselves.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use procyard_core::{DIAGNOSTIC_MAX, cut};

const BEFORE: &[u8] = b",\n  \"checksum\": \"";
const AFTER: &[u8] = b"\"\n}\n";
const DIGITS: usize = 8;

/// Why bytes are not a sealed object that this version reads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unsealed {
    /// Damaged, or never one.
    Corrupt(String),
    /// Written by a version that came later.
    Newer(u64),
}

/// The member that is read before anything else is believed.
#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

/// Encodes and seals. `value` is a struct with at least one field, so its JSON ends in a line with a brace.
pub(crate) fn seal<T: Serialize>(value: &T) -> serde_json::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    let body = bytes.strip_suffix(b"\n}").map_or(bytes.len(), <[u8]>::len);
    bytes.truncate(body);
    let checksum = format!("{:08x}", crc_fast::crc32_iscsi(&bytes));
    bytes.extend_from_slice(BEFORE);
    bytes.extend_from_slice(checksum.as_bytes());
    bytes.extend_from_slice(AFTER);
    Ok(bytes)
}

enum Seal {
    /// Whole; the body is this long.
    Whole(usize),
    Broken,
    /// Not there, which is damage unless a later version seals in another way.
    Absent,
}

/// Opens what [`seal`] made, for readers of versions 1 to `newest`.
///
/// The version is read before the rest is understood, so a later one is told apart from damage whatever else it
/// changed.
pub(crate) fn unseal<T: DeserializeOwned>(mut bytes: Vec<u8>, newest: u64) -> Result<T, Unsealed> {
    let seal = inspect(&bytes);
    if matches!(seal, Seal::Broken) {
        return Err(corrupt("the checksum does not match"));
    }
    let Versioned { version } = parse(&bytes)?;
    match (version, seal) {
        (0, _) => Err(corrupt("version 0 was never written")),
        (later, _) if later > newest => Err(Unsealed::Newer(later)),
        (_, Seal::Whole(body)) => {
            bytes.truncate(body);
            bytes.push(b'}');
            parse(&bytes)
        }
        (_, Seal::Broken | Seal::Absent) => Err(corrupt("the checksum is missing")),
    }
}

fn inspect(bytes: &[u8]) -> Seal {
    let Some((body, seal)) = bytes
        .len()
        .checked_sub(BEFORE.len() + DIGITS + AFTER.len())
        .and_then(|body| bytes.split_at_checked(body))
    else {
        return Seal::Absent;
    };
    let digits = seal.strip_prefix(BEFORE).and_then(|rest| rest.strip_suffix(AFTER));
    match digits {
        None => Seal::Absent,
        Some(digits) if digits == format!("{:08x}", crc_fast::crc32_iscsi(body)).as_bytes() => {
            Seal::Whole(body.len())
        }
        Some(_) => Seal::Broken,
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unsealed> {
    serde_json::from_slice(bytes).map_err(|error| corrupt(&error.to_string()))
}

fn corrupt(why: &str) -> Unsealed {
    Unsealed::Corrupt(cut(why, DIAGNOSTIC_MAX).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Value {
        version: u64,
        text: String,
    }

    fn value(version: u64) -> Value {
        Value { version, text: "a \"quoted\"\nline".to_owned() }
    }

    #[test]
    fn what_is_sealed_opens_and_is_plain_json() {
        let bytes = seal(&value(1)).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(json["version"], 1);
        assert_eq!(json["checksum"].as_str().map(str::len), Some(DIGITS));
        assert_eq!(unseal(bytes, 1), Ok(value(1)));
    }

    #[test]
    fn a_later_version_is_told_apart_from_damage_however_it_is_sealed() {
        assert_eq!(unseal::<Value>(seal(&value(9)).unwrap(), 1), Err(Unsealed::Newer(9)));
        let otherwise = br#"{"text": {"now": ["an", "object"]}, "version": 2, "signature": "x"}"#.to_vec();
        assert_eq!(unseal::<Value>(otherwise, 1), Err(Unsealed::Newer(2)));
    }

    #[test]
    fn what_was_never_sealed_is_corrupt() {
        for bytes in [&b""[..], b"{}", b"null", b"\xff\xfe", br#"{"version": 1, "text": "x"}"#, b"[1]"] {
            assert!(matches!(unseal::<Value>(bytes.to_vec(), 1), Err(Unsealed::Corrupt(_))), "{bytes:?}");
        }
        let zero = seal(&value(0)).unwrap();
        assert!(matches!(unseal::<Value>(zero, 1), Err(Unsealed::Corrupt(_))));
    }
}
