//! Serialisation of tests that leave orphaned resources on purpose, or that clean them up.

use std::fs::File;

/// Lock that excludes all other holders, in this test program and in others, until dropped.
#[derive(Debug)]
#[must_use = "the turn ends when this is dropped"]
pub struct OrphansTurn {
    /// Locked file; closing the descriptor releases the lock.
    _lock: File,
}

/// Waits for the lock that a test must hold while it runs `timeloom clean` or leaves orphans.
///
/// `timeloom clean` affects the whole machine: without the lock, it could remove orphans that
/// another test has left for its own `timeloom clean`.
///
/// # Panics
/// Panics if the lock file cannot be created.
pub fn orphans_turn() -> OrphansTurn {
    let path = std::env::temp_dir().join("timeloom-tests-orphans.lock");
    let lock = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    lock.lock().expect("a lock of the whole file");
    OrphansTurn { _lock: lock }
}
