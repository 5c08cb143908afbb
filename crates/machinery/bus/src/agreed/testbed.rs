//! Testbed of a line between machines, which executes the orders of the agreement.

use timeloom_time::{Dilation, Duration, Instant, Virtual, Wall};

use crate::testbed::TestbedError;

/// Resumption of one machine's clock and processes at the end of an agreed pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalResumption {
    /// Virtual instant from which the clock continues.
    pub from: Instant<Virtual>,
    /// Wall instant, on this machine, at which the clock continues.
    pub at: Instant<Wall>,
    /// Dilation of the clock from then on.
    pub dilation: Dilation,
    /// Virtual instant that the clock does not pass before the next pause;
    /// [`Instant::FAR_FUTURE`] if there is none.
    pub until: Instant<Virtual>,
}

/// Clock and processes of one machine, as commanded by the agreement. One thread calls these
/// functions, one after the other, except [`Self::wait_for`].
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

    /// Continues clock and processes as `resumption` states. Waits for its wall instant.
    ///
    /// # Errors
    /// Fails if the clock cannot have this dilation, or if the clock or the processes cannot be
    /// continued.
    fn resume(&self, resumption: LocalResumption) -> Result<(), TestbedError>;

    /// Waits until the clock shows `at`, or until `give_up` returns true. `give_up` is called after
    /// each change of the clock. Returns true if the clock shows `at`. Another thread than that of
    /// the other functions calls this one.
    fn wait_for(&self, at: Instant<Virtual>, give_up: &dyn Fn() -> bool) -> bool;

    /// Makes [`Self::wait_for`] call `give_up`.
    fn wake(&self);

    /// Stops the clock and the processes permanently.
    fn halt(&self);
}
