//! The tokens of loops: 256 random bits each, kept as their SHA-256 in a private directory, so that they outlive the
//! service and nobody who reads the directory has one.
//!
//! One file for each, named after the hash: minting and revoking is making and removing a file, and nothing else can be
//! damaged by it. A token has as much entropy as its hash, so that a plain hash is enough. Not for the administrator's.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use procyard_core::{LoopId, Owner, SessionId};
use rand::TryRng as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The SHA-256 of a token.
pub(crate) type Digest = [u8; 32];

/// What a file holds is far shorter.
const FILE_MAX: u64 = 4096;

/// The hash under which a token is kept.
pub(crate) fn digest(token: &str) -> Digest {
    Sha256::digest(token.as_bytes()).into()
}

/// A new token of 256 random bits behind a prefix by which people and scanners tell what it is.
pub(crate) fn random_token(prefix: &str) -> io::Result<String> {
    let mut bytes = [0; 32];
    rand::rngs::SysRng
        .try_fill_bytes(&mut bytes)
        .map_err(|_| io::Error::other("the random source failed"))?;
    Ok(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// Whose a token is, as its file says.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    version: u32,
    owner: Owner,
}

const VERSION: u32 = 1;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MintError {
    /// The session has as many as it may.
    #[error("the session has {0} tokens, as many as it may")]
    Full(usize),
    /// The loop or its session was closed meanwhile.
    #[error("the loop was closed while its token was made")]
    Revoked,
    /// It could not be recorded.
    #[error(transparent)]
    Unwritten(#[from] io::Error),
}

/// The valid tokens of all sessions.
pub(crate) struct Tokens {
    directory: PathBuf,
    /// Tokens of one session.
    limit: usize,
    /// Guards what is valid; held for a lookup or a change in memory, never across a file operation.
    valid: Mutex<HashMap<Digest, Owner>>,
    /// Guards what is not valid any more and still on disk, where a restart would find it; held as the other.
    revoked: Mutex<HashMap<Digest, Owner>>,
}

impl Tokens {
    /// Reads the directory, or makes it. A file that does not read is left alone, and its token is not valid. Blocking.
    pub(crate) fn open(directory: &Path, limit: usize) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mut valid = HashMap::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(digest) = name.to_str().and_then(parse_name) else {
                if name.to_string_lossy().ends_with(".new") {
                    // Of a mint that a crash interrupted: nobody was given its token.
                    fs::remove_file(entry.path())?;
                }
                continue;
            };
            match read(&entry.path()) {
                Ok(owner) => {
                    valid.insert(digest, owner);
                }
                Err(error) => tracing::warn!(%error, "a token's file does not read; its token is not valid"),
            }
        }
        Ok(Self {
            directory: directory.to_owned(),
            limit: limit.max(1),
            valid: Mutex::new(valid),
            revoked: Mutex::default(),
        })
    }

    fn valid(&self) -> MutexGuard<'_, HashMap<Digest, Owner>> {
        self.valid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn revoked(&self) -> MutexGuard<'_, HashMap<Digest, Owner>> {
        self.revoked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose token has this hash.
    pub(crate) fn owner(&self, digest: &Digest) -> Option<Owner> {
        self.valid().get(digest).copied()
    }

    /// Makes a token of this owner. When this returns, it is on disk. Blocking.
    pub(crate) fn mint(&self, owner: Owner) -> Result<String, MintError> {
        let token = random_token("pyt_")?;
        let digest = digest(&token);
        {
            let mut valid = self.valid();
            if valid.values().filter(|of| of.session == owner.session).count() >= self.limit {
                return Err(MintError::Full(self.limit));
            }
            // It takes its place before it is recorded; nobody knows it yet.
            valid.insert(digest, owner);
        }
        let recorded = self.record(&digest, owner);
        if recorded.is_err() {
            self.valid().remove(&digest);
        }
        recorded?;
        if self.valid().contains_key(&digest) {
            return Ok(token);
        }
        // Revoked before its file was there to be removed.
        self.revoked().insert(digest, owner);
        self.clear()?;
        Err(MintError::Revoked)
    }

    fn record(&self, digest: &Digest, owner: Owner) -> io::Result<()> {
        let name = name_of(digest);
        let temporary = self.directory.join(format!("{name}.new"));
        let text = serde_json::to_vec(&Kept { version: VERSION, owner }).map_err(io::Error::other)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&temporary, self.directory.join(name))?;
        self.sync()
    }

    /// Removes from disk what is revoked. What cannot be removed is tried again by the next call.
    fn clear(&self) -> io::Result<()> {
        let revoked: Vec<_> = self.revoked().keys().copied().collect();
        if revoked.is_empty() {
            return Ok(());
        }
        let (mut removed, mut failed) = (Vec::new(), None);
        for digest in revoked {
            match fs::remove_file(self.directory.join(name_of(&digest))) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => failed = Some(error),
                _ => removed.push(digest),
            }
        }
        self.sync()?;
        self.revoked().retain(|digest, _| !removed.contains(digest));
        failed.map_or(Ok(()), Err)
    }

    /// The loops of a session that have a token, with how many.
    pub(crate) fn loops(&self, session: SessionId) -> BTreeMap<LoopId, u64> {
        let mut loops = BTreeMap::new();
        for owner in self.valid().values().filter(|owner| owner.session == session) {
            *loops.entry(owner.loop_id).or_default() += 1;
        }
        loops
    }

    /// Makes every token of this loop invalid: at once in memory, and on disk when this returns, together with what could
    /// not be removed from there before. Whether there was any. Blocking.
    pub(crate) fn revoke_loop(&self, owner: Owner) -> io::Result<bool> {
        self.revoke(|of| of == owner)
    }

    /// Makes every token of a session invalid, as [`Tokens::revoke_loop`] does. Blocking.
    pub(crate) fn revoke_session(&self, session: SessionId) -> io::Result<bool> {
        self.revoke(|of| of.session == session)
    }

    fn revoke(&self, which: impl Fn(Owner) -> bool) -> io::Result<bool> {
        let any = {
            let mut valid = self.valid();
            let mut revoked = self.revoked();
            revoked.extend(valid.extract_if(|_, owner| which(*owner)));
            revoked.values().any(|owner| which(*owner))
        };
        self.clear()?;
        Ok(any)
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

fn read(path: &Path) -> io::Result<Owner> {
    let mut text = Vec::new();
    File::open(path)?.take(FILE_MAX).read_to_end(&mut text)?;
    let kept: Kept = serde_json::from_slice(&text)?;
    if kept.version != VERSION {
        return Err(io::Error::other("it has a later format"));
    }
    Ok(kept.owner)
}

fn name_of(digest: &Digest) -> String {
    let mut name = String::with_capacity(2 * digest.len());
    for byte in digest {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

fn parse_name(name: &str) -> Option<Digest> {
    let mut digest = Digest::default();
    if name.len() != 2 * digest.len() || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (place, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&name[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(session: u8, loop_id: u8) -> Owner {
        Owner { session: SessionId::from_random([session; 16]), loop_id: LoopId::from_random([loop_id; 16]) }
    }

    #[test]
    fn a_token_outlives_the_service_and_is_nowhere_in_its_directory() {
        let place = tempfile::tempdir().unwrap();
        let token = Tokens::open(place.path(), 100).unwrap().mint(owner(1, 2)).unwrap();
        let again = Tokens::open(place.path(), 100).unwrap();
        assert_eq!(again.owner(&digest(&token)), Some(owner(1, 2)));
        assert_eq!(again.owner(&digest("pyt_guess")), None);
        for entry in fs::read_dir(place.path()).unwrap() {
            let entry = entry.unwrap();
            assert!(!entry.file_name().to_string_lossy().contains(&token[4..]));
            assert!(!fs::read_to_string(entry.path()).unwrap().contains(&token[4..]));
        }
    }

    #[test]
    fn revoking_reaches_what_it_names_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(place.path(), 100).unwrap();
        let minted: Vec<_> = [owner(1, 1), owner(1, 1), owner(1, 2), owner(2, 1)]
            .map(|owner| (owner, digest(&tokens.mint(owner).unwrap())))
            .into();
        assert_eq!(
            tokens.loops(owner(1, 1).session).into_values().collect::<Vec<_>>().iter().sum::<u64>(),
            3
        );
        tokens.revoke_loop(owner(1, 1)).unwrap();
        let known = |tokens: &Tokens| minted.iter().map(|(_, token)| tokens.owner(token)).collect::<Vec<_>>();
        assert_eq!(known(&tokens), [None, None, Some(owner(1, 2)), Some(owner(2, 1))]);
        tokens.revoke_session(owner(1, 1).session).unwrap();
        assert_eq!(known(&tokens), [None, None, None, Some(owner(2, 1))]);
        assert_eq!(known(&Tokens::open(place.path(), 100).unwrap()), known(&tokens));
    }

    #[test]
    fn a_session_has_so_many_tokens_and_a_revoked_one_makes_room() {
        let place = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(place.path(), 2).unwrap();
        tokens.mint(owner(1, 1)).unwrap();
        tokens.mint(owner(1, 2)).unwrap();
        assert!(matches!(tokens.mint(owner(1, 2)), Err(MintError::Full(2))));
        tokens.mint(owner(2, 1)).unwrap();
        tokens.revoke_loop(owner(1, 1)).unwrap();
        tokens.mint(owner(1, 3)).unwrap();
        let again = Tokens::open(place.path(), 2).unwrap();
        assert!(matches!(again.mint(owner(1, 1)), Err(MintError::Full(2))), "those of before count");
    }

    #[test]
    fn a_token_that_could_not_be_removed_is_removed_when_it_is_asked_for_again() {
        let place = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(place.path(), 100).unwrap();
        let [stuck, gone] = [1, 2].map(|loop_id| digest(&tokens.mint(owner(1, loop_id)).unwrap()));
        // A directory in its place is what no file removal takes away.
        let (file, aside) = (place.path().join(name_of(&stuck)), place.path().join("aside"));
        fs::rename(&file, &aside).unwrap();
        fs::create_dir(&file).unwrap();
        tokens.revoke_session(owner(1, 1).session).unwrap_err();
        assert_eq!((tokens.owner(&stuck), tokens.owner(&gone)), (None, None));
        assert!(!place.path().join(name_of(&gone)).exists(), "the others are removed");
        tokens.revoke_session(owner(1, 1).session).unwrap_err();
        fs::remove_dir(&file).unwrap();
        fs::rename(&aside, &file).unwrap();
        assert!(tokens.revoke_session(owner(1, 1).session).unwrap(), "there was one left");
        assert!(!tokens.revoke_session(owner(1, 1).session).unwrap());
        assert_eq!(Tokens::open(place.path(), 100).unwrap().owner(&stuck), None);
    }

    #[test]
    fn what_is_damaged_is_not_valid_and_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let token = Tokens::open(place.path(), 100).unwrap().mint(owner(1, 1)).unwrap();
        let file = place.path().join(name_of(&digest(&token)));
        fs::write(&file, "{").unwrap();
        fs::write(place.path().join("half.new"), "").unwrap();
        let tokens = Tokens::open(place.path(), 100).unwrap();
        assert_eq!(tokens.owner(&digest(&token)), None);
        assert!(file.exists());
        assert!(!place.path().join("half.new").exists());
    }
}
