//! Waiting for events.

use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it. Far more than anything
/// needs, for machines that are busy with something else; more still where the
/// processor is emulated.
pub const PATIENCE: Duration = Duration::from_secs(if cfg!(target_arch = "x86_64") {
    120
} else {
    240
});

/// Looks until there is something, and returns it.
///
/// # Panics
/// When [`PATIENCE`] is at its end; `what` says what was waited for.
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

/// Asks until it is so.
///
/// # Panics
/// When [`PATIENCE`] is at its end; `what` says what was waited for.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}
