//! What the line between machines commands on each.

use timeloom_time::{Duration, Instant, Virtual, Wall};

use crate::testbed::TestbedError;

/// The clock and the processes of one machine, as the agreement sees them. Called by
/// one thread, one after the other.
pub trait AgreedTestbed: Send + Sync {
    /// Stops the processes; the clock goes on.
    ///
    /// # Errors
    /// When it cannot be done.
    fn hold_alone(&self) -> Result<(), TestbedError>;

    /// Gives the clock a ceiling at `at_least`, or `lead` ahead, and no lower than what
    /// it shows. Returns where.
    ///
    /// # Errors
    /// When it cannot be done.
    fn close(
        &self,
        lead: Duration,
        at_least: Option<Instant<Virtual>>,
    ) -> Result<Instant<Virtual>, TestbedError>;

    /// Raises the ceiling, and returns when the clock shows `at` and the processes stand.
    ///
    /// # Errors
    /// When it cannot be done.
    fn stand(&self, at: Instant<Virtual>) -> Result<(), TestbedError>;

    /// Lets clock and processes go on from `from` as of `at`; waits until then.
    ///
    /// # Errors
    /// When it cannot be done.
    fn resume(&self, from: Instant<Virtual>, at: Instant<Wall>) -> Result<(), TestbedError>;

    /// Stops clock and processes for good.
    fn halt(&self);
}
