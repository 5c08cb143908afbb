//! Polling for conditions, with a limit of time.

use std::time::{Duration, Instant};

/// Maximum duration of any wait in a test. It is far longer than any wait should take, because the
/// machine may be busy with other work; it is longer still where the processor is emulated.
pub const PATIENCE: Duration = Duration::from_secs(if cfg!(target_arch = "x86_64") {
    120
} else {
    240
});

/// Calls `look` repeatedly until it returns a value, and returns that value.
///
/// # Panics
/// Panics if there is no value after [`PATIENCE`]. `what` names the awaited object in the message.
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

/// Calls `is_so` repeatedly until it returns true.
///
/// # Panics
/// Panics if the result is still false after [`PATIENCE`]. `what` names the awaited condition in
/// the message.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}
