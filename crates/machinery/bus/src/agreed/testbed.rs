//! Commands of the line between machines to the testbed of each.

use timeloom_time::{Duration, Instant, Virtual, Wall};

use crate::testbed::TestbedError;

/// Clock and processes of one machine, as commanded by the agreement. Called by one thread, one
/// call after the other.
pub trait AgreedTestbed: Send + Sync {
    /// Stops the processes; the clock continues.
    ///
    /// # Errors
    /// Fails if the processes cannot be stopped.
    fn hold_alone(&self) -> Result<(), TestbedError>;

    /// Sets a ceiling for the clock at `at_least`, or `lead` ahead, and no lower than its present
    /// value. Returns the ceiling.
    ///
    /// # Errors
    /// Fails if the ceiling cannot be set.
    fn close(
        &self,
        lead: Duration,
        at_least: Option<Instant<Virtual>>,
    ) -> Result<Instant<Virtual>, TestbedError>;

    /// Raises the ceiling, and returns when the clock is at `at` and the processes are stopped.
    ///
    /// # Errors
    /// Fails if that cannot be done.
    fn stand(&self, at: Instant<Virtual>) -> Result<(), TestbedError>;

    /// Continues clock and processes from `from` as of `at`; waits until then.
    ///
    /// # Errors
    /// Fails if they cannot be continued.
    fn resume(&self, from: Instant<Virtual>, at: Instant<Wall>) -> Result<(), TestbedError>;

    /// Stops clock and processes permanently.
    fn halt(&self);
}
