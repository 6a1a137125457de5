//! The data directory: who may use it, and what is said when something is wrong with it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use bellwether_core::waist::Family;
use bellwether_store::{DiskEngine, Engine, OpenError};

use support::{commit, count, key, put, small};

#[test]
fn a_new_directory_is_its_owners_alone() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("a/b");
    DiskEngine::open(small(&dir)).unwrap();
    let mode = fs::metadata(&dir).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(fs::read_to_string(dir.join("FORMAT")).unwrap(), "bellwether store 1\n");
}

#[test]
fn a_second_server_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let first = DiskEngine::open(small(dir.path())).unwrap();
    let error = DiskEngine::open(small(dir.path())).err().unwrap();
    assert!(matches!(error, OpenError::InUse(_)));
    assert!(error.to_string().contains("another bellwether server uses this data directory"));
    drop(first);
    DiskEngine::open(small(dir.path())).unwrap();
}

/// A process that is being started has the files of the one that starts it for a moment, and a lock
/// is held by whoever has its file.
#[test]
fn a_directory_is_free_once_closed_though_processes_are_being_started() {
    let dir = tempfile::tempdir().unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                Command::new("true").status().unwrap();
            }
        });
        let refused = (0..100).find_map(|_| match DiskEngine::open(small(dir.path())) {
            Ok(engine) => engine.close().err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        });
        over.store(true, Ordering::Relaxed);
        assert_eq!(refused, None);
    });
}

#[test]
fn an_unknown_format_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    drop(DiskEngine::open(small(dir.path())).unwrap());
    fs::write(dir.path().join("FORMAT"), "bellwether store 2\n").unwrap();
    let error = DiskEngine::open(small(dir.path())).err().unwrap();
    assert!(matches!(&error, OpenError::Format { found, .. } if found == "bellwether store 2"));
    assert!(error.to_string().contains("use the version of bellwether that wrote it"));
}

#[test]
fn a_database_without_a_format_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    drop(DiskEngine::open(small(dir.path())).unwrap());
    fs::remove_file(dir.path().join("FORMAT")).unwrap();
    let error = DiskEngine::open(small(dir.path())).err().unwrap();
    assert!(matches!(error, OpenError::Foreign(_)));
    assert!(dir.path().join("db").exists());
}

#[test]
fn a_creation_that_was_cut_short_starts_over() {
    let dir = tempfile::tempdir().unwrap();
    drop(DiskEngine::open(small(dir.path())).unwrap());
    fs::rename(dir.path().join("FORMAT"), dir.path().join("FORMAT.new")).unwrap();
    fs::remove_dir_all(dir.path().join("db/keyspaces")).unwrap();
    let engine = DiskEngine::open(small(dir.path())).unwrap();
    let term = engine.acquire(1).unwrap();
    commit(&engine, 1, term, vec![put(Family::Job, key(1, &[1]), "v")]).unwrap();
    drop(engine);
    let engine = DiskEngine::open(small(dir.path())).unwrap();
    assert_eq!(count(&engine, Family::Job, 1), 1);
}

#[test]
fn a_file_in_the_way_is_an_error_that_names_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    fs::write(&path, "not a directory").unwrap();
    let error = DiskEngine::open(small(&path)).err().unwrap();
    assert!(matches!(error, OpenError::Io { .. }));
    assert!(error.to_string().contains(path.to_str().unwrap()));
}
