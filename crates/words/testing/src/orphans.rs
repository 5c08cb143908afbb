//! Tests that leave orphans on purpose, or clean up orphans, one at a time.

use std::fs::File;

/// Until it is dropped nobody else has it, in this test program or another one.
#[derive(Debug)]
#[must_use = "the turn ends when this is dropped"]
pub struct OrphansTurn {
    /// Locked; the lock goes with the descriptor.
    _lock: File,
}

/// Waits for the turn of a test that runs `timeloom clean`.
///
/// That command looks at the whole machine. What one test has left for its own `clean`,
/// another test's would take away.
///
/// # Panics
/// When the file that is locked cannot be made.
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
