//! A manifest as bytes: versions 1 and 2.
//!
//! Files of every version are read for ever. Version 2 is version 1 with fields that may be absent, so one reader has both;
//! a version that is more than that adds its own reader beside this one. A field that no version has is refused rather
//! than dropped: whoever adds one raises the version. What needs no field of version 2 is written as version 1.
//!
//! Not for files: bytes in, bytes out.

use crate::error::{LoadError, ManifestError};
use crate::record::{Manifest, VERSION};
use crate::sealed::{Unsealed, seal, unseal};

/// The longest manifest that is read or written, in bytes.
pub const MANIFEST_MAX: u64 = 1024 * 1024;

impl Manifest {
    /// The file of a manifest, after [`Manifest::check`]: readable JSON with a checksum.
    pub fn to_json(&self) -> Result<Vec<u8>, ManifestError> {
        self.check()?;
        let bytes = seal(self).map_err(|_| ManifestError::Invalid {
            field: "manifest",
            problem: "cannot be written as json",
        })?;
        if bytes.len() as u64 > MANIFEST_MAX {
            return Err(ManifestError::Invalid { field: "manifest", problem: "is too long" });
        }
        Ok(bytes)
    }

    /// Reads the file of a manifest, checksum, version and [`Manifest::check`] included. Accepts any bytes.
    pub fn from_json(bytes: &[u8]) -> Result<Self, LoadError> {
        if bytes.len() as u64 > MANIFEST_MAX {
            return Err(LoadError::Corrupt { why: "it is too long".to_owned() });
        }
        Self::decode(bytes.to_vec())
    }

    pub(crate) fn decode(bytes: Vec<u8>) -> Result<Self, LoadError> {
        let manifest: Self = unseal(bytes, u64::from(VERSION)).map_err(|unsealed| match unsealed {
            Unsealed::Corrupt(why) => LoadError::Corrupt { why },
            Unsealed::Newer(version) => LoadError::Newer { version },
        })?;
        manifest.check().map_err(|invalid| LoadError::Corrupt { why: invalid.to_string() })?;
        Ok(manifest)
    }
}
