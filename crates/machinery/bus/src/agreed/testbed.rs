//! Testbed of a line between machines, which executes the orders of the agreement.

use timeloom_time::{Dilation, Duration, Instant, Virtual, Wall};

use crate::testbed::TestbedError;

/// Clock and processes of one machine, as commanded by the agreement. One thread calls these
/// functions, one after the other.
pub trait AgreedTestbed: Send + Sync {
    /// Stops the processes; the clock continues.
    ///
    /// # Errors
    /// Fails if the processes cannot be stopped.
    fn hold_alone(&self) -> Result<(), TestbedError>;

    /// Sets a ceiling that the virtual clock does not pass. The ceiling is at `at_least` or `lead`
    /// (virtual time) ahead of the clock, and not below the clock's present value. Returns the ceiling.
    ///
    /// # Errors
    /// Fails if the ceiling cannot be set.
    fn close(
        &self,
        lead: Duration,
        at_least: Option<Instant<Virtual>>,
    ) -> Result<Instant<Virtual>, TestbedError>;

    /// Raises the ceiling to `at`. Returns when the clock has reached `at` and the processes are
    /// stopped.
    ///
    /// # Errors
    /// Fails if the clock or the processes cannot be stopped there.
    fn stand(&self, at: Instant<Virtual>) -> Result<(), TestbedError>;

    /// Continues the processes at wall time `at`, when the clock continues from `from` with this
    /// dilation. Waits until `at`.
    ///
    /// # Errors
    /// Fails if the clock cannot have this dilation, or if the clock or the processes cannot be
    /// continued.
    fn resume(
        &self,
        from: Instant<Virtual>,
        at: Instant<Wall>,
        dilation: Dilation,
    ) -> Result<(), TestbedError>;

    /// Stops the clock and the processes permanently.
    fn halt(&self);
}
