//! Waiting for events.

use std::time::{Duration, Instant};

/// Maximum duration of any wait in a test. Far more than is ever needed, for machines that are busy
/// with other work; even more if the processor is emulated.
pub const PATIENCE: Duration = Duration::from_secs(if cfg!(target_arch = "x86_64") {
    120
} else {
    240
});

/// Calls `look` until it returns a value, and returns that.
///
/// # Panics
/// Panics after [`PATIENCE`]; `what` is the object of the wait for the message.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "waited {PATIENCE:?} in vain for {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Calls `is_so` until it returns true.
///
/// # Panics
/// Panics after [`PATIENCE`]; `what` is the object of the wait for the message.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}
