//! Serialisation of tests that leave orphans intentionally, or clean up orphans.

use std::fs::File;

/// Exclusive right, in this test program and all others, until it is dropped.
#[derive(Debug)]
#[must_use = "the turn ends when this is dropped"]
pub struct OrphansTurn {
    /// Locked; the lock is released with the descriptor.
    _lock: File,
}

/// Waits for the exclusive right to run `timeloom clean`.
///
/// That command affects the whole machine. It would remove what another test has left for its own
/// `clean`.
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
