//! What a private directory promises: names stay inside, links are not followed, modes are private.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::io::{ErrorKind, IoSlice};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use procyard_store::{Access, Dir, Entry, EntryKind, FsDir, read_file, replace_file, sweep_temporaries};
use tempfile::TempDir;

fn store() -> (TempDir, Arc<dyn Dir>) {
    let place = tempfile::tempdir().unwrap();
    let dir = FsDir::open(place.path()).unwrap();
    (place, dir)
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

fn write(dir: &dyn Dir, name: &str, bytes: &[u8]) {
    dir.create_file(name).unwrap().write_all_at(bytes, 0).unwrap();
}

#[test]
fn directories_are_made_for_the_owner_alone_and_files_too() {
    let (place, dir) = store();
    dir.create_dir("d").unwrap().create_file("f").unwrap();
    FsDir::create_all(&place.path().join("p/q")).unwrap();
    assert_eq!(mode(&place.path().join("d")), 0o700);
    assert_eq!(mode(&place.path().join("d/f")), 0o600);
    assert_eq!(mode(&place.path().join("p")), 0o700);
    assert_eq!(mode(&place.path().join("p/q")), 0o700);
}

#[test]
fn a_name_that_would_leave_the_directory_is_refused_everywhere() {
    let (_place, dir) = store();
    for name in ["..", ".", "", "a/b", "/etc", "a\0"] {
        let errors = [
            dir.create_dir(name).unwrap_err(),
            dir.open_dir(name).unwrap_err(),
            dir.remove_dir(name).unwrap_err(),
            dir.create_file(name).unwrap_err(),
            dir.open_file(name, Access::Read).unwrap_err(),
            dir.rename(name, "x").unwrap_err(),
            dir.rename("x", name).unwrap_err(),
            dir.remove_file(name).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name:?}");
        }
    }
}

#[test]
fn a_symbolic_link_is_not_followed() {
    let (place, dir) = store();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), b"secret").unwrap();
    symlink(outside.path().join("secret"), place.path().join("file")).unwrap();
    symlink(outside.path(), place.path().join("dir")).unwrap();
    assert!(dir.open_file("file", Access::Read).is_err());
    assert!(dir.open_file("file", Access::ReadWrite).is_err());
    assert_eq!(dir.create_file("file").unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert!(dir.open_dir("dir").is_err());
    let mut kinds: Vec<_> = dir.list().unwrap();
    kinds.sort_by(|a, b| a.name.cmp(&b.name));
    let other = |name: &str| Entry { name: name.to_owned(), kind: EntryKind::Other };
    assert_eq!(kinds, [other("dir"), other("file")]);
}

#[test]
fn what_is_not_a_regular_file_is_not_opened_and_does_not_block() {
    let (place, dir) = store();
    let _socket = std::os::unix::net::UnixListener::bind(place.path().join("socket")).unwrap();
    dir.create_dir("d").unwrap();
    assert!(dir.open_file("socket", Access::Read).is_err());
    assert!(dir.open_file("d", Access::Read).is_err());
    write(&*dir, "f", b"");
    assert!(dir.open_dir("f").is_err());
}

#[test]
fn creating_what_exists_says_so_and_opening_what_does_not_too() {
    let (_place, dir) = store();
    dir.create_dir("d").unwrap();
    write(&*dir, "f", b"");
    assert_eq!(dir.create_dir("d").unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(dir.create_file("f").unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(dir.open_dir("x").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(dir.open_file("x", Access::ReadWrite).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(dir.remove_file("x").unwrap_err().kind(), ErrorKind::NotFound);
    dir.open_dir("d").unwrap().create_file("inner").unwrap();
    assert_eq!(dir.remove_dir("d").unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    dir.open_dir("d").unwrap().remove_file("inner").unwrap();
    dir.remove_dir("d").unwrap();
    assert_eq!(dir.list().unwrap().len(), 1);
}

#[test]
fn a_file_is_read_and_written_at_offsets() {
    let (_place, dir) = store();
    let file = dir.create_file("f").unwrap();
    file.write_all_at(b"world", 6).unwrap();
    let taken = file.write_vectored_at(&[IoSlice::new(b"hel"), IoSlice::new(b"lo ")], 0).unwrap();
    assert_eq!(taken, 6);
    assert_eq!(file.len().unwrap(), 11);
    file.sync().unwrap();
    let mut buf = [0; 5];
    assert_eq!(dir.open_file("f", Access::Read).unwrap().read_at(&mut buf, 6).unwrap(), 5);
    assert_eq!(&buf, b"world");
    file.set_len(5).unwrap();
    assert_eq!(file.read_at(&mut buf, 5).unwrap(), 0);
    assert_eq!(read_file(&*dir, "f", 5).unwrap(), b"hello");
    assert!(dir.open_file("f", Access::Read).unwrap().write_all_at(b"x", 0).is_err());
}

#[test]
fn a_lock_is_held_once_and_by_every_duplicate() {
    let (_place, dir) = store();
    let first = dir.create_file("lock").unwrap();
    assert!(first.try_lock().unwrap());
    let second = dir.open_file("lock", Access::ReadWrite).unwrap();
    assert!(!second.try_lock().unwrap());
    let duplicate = first.descriptor().unwrap().unwrap();
    drop(first);
    assert!(!second.try_lock().unwrap());
    drop(duplicate);
    assert!(second.try_lock().unwrap());
}

#[test]
fn a_file_longer_than_its_bound_is_not_read() {
    let (_place, dir) = store();
    write(&*dir, "f", b"12345");
    assert_eq!(read_file(&*dir, "f", 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
    assert_eq!(read_file(&*dir, "f", 5).unwrap(), b"12345");
}

#[test]
fn a_replaced_file_is_old_or_new_and_leaves_no_temporary() {
    let (_place, dir) = store();
    replace_file(&*dir, "f", b"old").unwrap();
    let held = dir.open_file("f", Access::Read).unwrap();
    replace_file(&*dir, "f", b"new!").unwrap();
    let mut buf = [0; 8];
    assert_eq!(held.read_at(&mut buf, 0).unwrap(), 3, "a reader keeps what it opened");
    assert_eq!(read_file(&*dir, "f", 100).unwrap(), b"new!");
    // A directory cannot be replaced by a file: the rename fails, and the temporary goes.
    dir.create_dir("d").unwrap();
    assert!(replace_file(&*dir, "d", b"x").is_err());
    let mut names: Vec<_> = dir.list().unwrap().into_iter().map(|entry| entry.name).collect();
    names.sort();
    assert_eq!(names, ["d", "f"]);
}

#[test]
fn sweeping_removes_temporaries_and_nothing_else() {
    let (_place, dir) = store();
    write(&*dir, ".tmp-1", b"torn");
    write(&*dir, ".tmp-2", b"");
    write(&*dir, "tmp-3", b"kept");
    dir.create_dir(".tmp-dir").unwrap();
    assert_eq!(sweep_temporaries(&*dir).unwrap(), 2);
    assert_eq!(sweep_temporaries(&*dir).unwrap(), 0);
    assert_eq!(dir.list().unwrap().len(), 2);
}

#[test]
fn a_held_directory_survives_the_renaming_of_its_path() {
    let place = tempfile::tempdir().unwrap();
    let dir = FsDir::create_all(&place.path().join("a")).unwrap();
    std::fs::rename(place.path().join("a"), place.path().join("b")).unwrap();
    write(&*dir, "f", b"");
    assert!(place.path().join("b/f").exists());
}
