//! The administrator's token, in a file that only its user can read.
//!
//! Not for loops' tokens: those are kept hashed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use subtle::ConstantTimeEq as _;

use super::tokens::{Digest, digest, random_token};

/// A file that is longer is none of ours.
const FILE_MAX: u64 = 4096;

/// Fewer characters could be guessed.
const LENGTH_MIN: usize = 32;

/// What a caller's token is held against.
pub(crate) struct AdminToken(Digest);

impl AdminToken {
    /// Reads the token, or makes one where there is no file. A file that others can read, or that holds no token, is an
    /// error and is left as it is. Blocking.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        match File::open(path) {
            Ok(file) => Self::read(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::make(path),
            Err(error) => Err(error),
        }
    }

    fn read(file: File) -> io::Result<Self> {
        if file.metadata()?.mode() & 0o077 != 0 {
            let message = "the admin token's file can be read by others; make it mode 0600, or remove it to get another";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        let mut text = String::new();
        file.take(FILE_MAX).read_to_string(&mut text)?;
        let token = text.trim();
        if token.len() < LENGTH_MIN {
            let message = "the admin token's file holds no token; remove it to get one";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(Self(digest(token)))
    }

    /// Whoever sees the file sees all of it: it gets its name last.
    fn make(path: &Path) -> io::Result<Self> {
        let token = random_token("pya_")?;
        let temporary = path.with_extension("token.new");
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(format!("{token}\n").as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        if let Some(directory) = path.parent() {
            File::open(directory)?.sync_all()?;
        }
        Ok(Self(digest(&token)))
    }

    /// Whether this is the token; takes the same time whatever is given.
    pub(crate) fn is(&self, given: &Digest) -> bool {
        self.0.ct_eq(given).into()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_token_is_made_once_for_its_user_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("admin.token");
        let made = AdminToken::open(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let read = AdminToken::open(&path).unwrap();
        for token in [made, read] {
            assert!(token.is(&digest(text.trim())));
            assert!(!token.is(&digest("pya_another")));
        }
    }

    #[test]
    fn a_file_that_is_no_secret_is_refused_and_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("admin.token");
        for (content, mode) in
            [("x".repeat(64), 0o644), (String::new(), 0o600), ("short\n".to_owned(), 0o600)]
        {
            fs::write(&path, &content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(AdminToken::open(&path).is_err(), "{content:?} {mode:o}");
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
    }
}
