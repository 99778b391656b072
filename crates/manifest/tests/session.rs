//! The session directory: whose it is, who may write there, what it is refused for.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{admitted, session};
use procyard_core::SessionId;
use procyard_manifest::{
    AnchorSettings, Ceilings, LoadError, ManifestError, SessionError, SessionRoot, manifest_name,
};
use tempfile::TempDir;

fn settings() -> AnchorSettings {
    let ceilings = Ceilings { spool_bytes: 64 << 20, spool_bytes_total: 2 << 30 };
    AnchorSettings { provider: "files".to_owned(), ceilings }
}

fn open(data: &TempDir) -> Result<SessionRoot, SessionError> {
    SessionRoot::open_or_create(data.path(), session(), settings(), Duration::ZERO)
}

fn anchor(data: &TempDir) -> PathBuf {
    SessionRoot::path_of(data.path(), session()).join("anchor.json")
}

#[test]
fn a_session_directory_is_made_private_and_found_again() {
    let data = tempfile::tempdir().unwrap();
    assert!(SessionRoot::list_sessions(data.path()).unwrap().is_empty());
    let missing = SessionRoot::open(data.path(), session(), settings(), Duration::ZERO);
    assert!(matches!(missing, Err(SessionError::Missing)));
    let root = open(&data).unwrap();
    root.manifests().create(&admitted(1)).unwrap();
    drop(root);
    let path = SessionRoot::path_of(data.path(), session());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&path), mode(&path.join("anchor.json")), mode(&path.join("lock"))),
        (0o700, 0o600, 0o600)
    );
    let again = SessionRoot::open(data.path(), session(), settings(), Duration::ZERO).unwrap();
    assert_eq!(again.session(), session());
    assert_eq!(again.manifests().scan().unwrap().manifests, [admitted(1)]);
    fs::create_dir(data.path().join("sessions/not-a-session")).unwrap();
    fs::write(data.path().join("sessions/51515151-5151-4151-9151-515151515152"), "").unwrap();
    assert_eq!(SessionRoot::list_sessions(data.path()).unwrap(), [session()]);
}

#[test]
fn a_session_has_one_holder_until_the_last_descriptor_of_its_lock_is_closed() {
    let data = tempfile::tempdir().unwrap();
    let root = open(&data).unwrap();
    assert!(matches!(open(&data), Err(SessionError::Locked)));
    let guardian = root.lock_descriptor().unwrap();
    drop(root);
    assert!(matches!(open(&data), Err(SessionError::Locked)), "the guardian still holds it");
    drop(guardian);
    open(&data).unwrap();
}

#[test]
fn the_lock_is_waited_for_and_no_longer_than_asked() {
    let data = tempfile::tempdir().unwrap();
    let root = open(&data).unwrap();
    let began = Instant::now();
    let bound = Duration::from_millis(100);
    let waited = SessionRoot::open_or_create(data.path(), session(), settings(), bound);
    assert!(matches!(waited, Err(SessionError::Locked)));
    assert!(began.elapsed() >= bound);
    thread::scope(|scope| {
        let path = data.path();
        let second = scope
            .spawn(move || SessionRoot::open_or_create(path, session(), settings(), Duration::from_secs(30)));
        drop(root);
        second.join().unwrap().unwrap();
    });
}

/// Run by the next test in a process of its own: holds a session until its standard input ends.
#[test]
#[ignore = "the other half of `a_session_is_locked_against_another_process`"]
fn holds_a_session_for_its_parent() {
    let data = PathBuf::from(std::env::var_os("HELD_DATA").unwrap());
    let root = SessionRoot::open_or_create(&data, session(), settings(), Duration::ZERO).unwrap();
    println!("\nheld");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    drop(root);
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the lock is between processes, so the test needs a second one"
)]
fn a_session_is_locked_against_another_process() {
    let data = tempfile::tempdir().unwrap();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "holds_a_session_for_its_parent", "--ignored", "--nocapture"])
        .env("HELD_DATA", data.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(holder.stdout.take().unwrap());
    assert!(output.lines().any(|line| line.unwrap() == "held"), "the holder says when it holds it");
    assert!(matches!(open(&data), Err(SessionError::Locked)));
    // The sudden death of a holder gives the lock back.
    holder.kill().unwrap();
    holder.wait().unwrap();
    open(&data).unwrap();
}

#[test]
fn a_directory_of_another_provider_or_session_is_refused() {
    let data = tempfile::tempdir().unwrap();
    drop(open(&data).unwrap());
    let other = AnchorSettings { provider: "memory".to_owned(), ..settings() };
    let opened = SessionRoot::open_or_create(data.path(), session(), other, Duration::ZERO);
    assert!(matches!(opened, Err(SessionError::Foreign { what: "provider" })));

    let stranger = SessionId::from_random([0x52; 16]);
    let path = SessionRoot::path_of(data.path(), stranger);
    fs::create_dir(&path).unwrap();
    fs::copy(anchor(&data), path.join("anchor.json")).unwrap();
    let opened = SessionRoot::open_or_create(data.path(), stranger, settings(), Duration::ZERO);
    assert!(matches!(opened, Err(SessionError::Foreign { what: "session" })));
}

#[test]
fn a_damaged_later_or_lost_anchor_is_three_different_errors() {
    let data = tempfile::tempdir().unwrap();
    let root = open(&data).unwrap();
    root.manifests().create(&admitted(1)).unwrap();
    drop(root);
    let whole = fs::read(anchor(&data)).unwrap();
    for offset in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[offset] ^= 0x10;
        fs::write(anchor(&data), damaged).unwrap();
        assert!(matches!(open(&data), Err(SessionError::Corrupt { .. })), "byte {offset}");
    }
    fs::write(anchor(&data), r#"{"version": 2, "session": 7}"#).unwrap();
    assert!(matches!(open(&data), Err(SessionError::Newer { version: 2 })));
    fs::remove_file(anchor(&data)).unwrap();
    assert!(matches!(open(&data), Err(SessionError::AnchorMissing)));
    fs::write(anchor(&data), whole).unwrap();
    open(&data).unwrap();
}

#[test]
fn an_anchor_of_version_1_is_written_as_it_always_was() {
    let data = tempfile::tempdir().unwrap();
    drop(open(&data).unwrap());
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1/anchor.json");
    assert_eq!(fs::read_to_string(anchor(&data)).unwrap(), fs::read_to_string(fixture).unwrap());
}

#[test]
fn what_a_crash_left_of_a_new_directory_is_completed() {
    let data = tempfile::tempdir().unwrap();
    let path = SessionRoot::path_of(data.path(), session());
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("lock"), "").unwrap();
    fs::write(path.join(".tmp-0011223344556677"), "{").unwrap();
    drop(open(&data).unwrap());
    assert!(anchor(&data).exists());
}

#[test]
fn other_ceilings_are_recorded_anew() {
    let data = tempfile::tempdir().unwrap();
    drop(open(&data).unwrap());
    let lower = Ceilings { spool_bytes: 4321, ..settings().ceilings };
    let changed = AnchorSettings { ceilings: lower, ..settings() };
    drop(SessionRoot::open_or_create(data.path(), session(), changed, Duration::ZERO).unwrap());
    assert!(fs::read_to_string(anchor(&data)).unwrap().contains("4321"));
}

#[test]
fn a_provider_without_a_name_is_refused_before_anything_is_made() {
    let data = tempfile::tempdir().unwrap();
    let nameless = AnchorSettings { provider: String::new(), ..settings() };
    let opened = SessionRoot::open_or_create(data.path(), session(), nameless, Duration::ZERO);
    assert!(matches!(opened, Err(SessionError::Settings { .. })));
    assert!(SessionRoot::list_sessions(data.path()).unwrap().is_empty());
}

#[test]
fn a_session_directory_that_is_a_link_is_not_entered() {
    let (data, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(data.path().join("sessions")).unwrap();
    symlink(elsewhere.path(), SessionRoot::path_of(data.path(), session())).unwrap();
    assert!(matches!(open(&data), Err(SessionError::Io(_))));
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[test]
fn a_manifest_of_another_session_is_neither_saved_nor_loaded() {
    let data = tempfile::tempdir().unwrap();
    let stranger = SessionId::from_random([0x52; 16]);
    let root = SessionRoot::open_or_create(data.path(), stranger, settings(), Duration::ZERO).unwrap();
    let manifests = root.manifests();
    let refused = manifests.create(&admitted(1));
    assert!(matches!(refused, Err(ManifestError::Invalid { field: "owner", .. })));
    let handle = admitted(1).identity.handle;
    let path = SessionRoot::path_of(data.path(), stranger).join(manifest_name(&handle));
    fs::write(path, admitted(1).to_json().unwrap()).unwrap();
    assert!(matches!(manifests.load(&handle), Err(LoadError::Corrupt { .. })));
}
