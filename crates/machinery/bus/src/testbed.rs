//! Testbeds, which the bus pauses and resumes.

use timeloom_time::{Instant, Virtual};

/// Clock and processes of one machine, as the bus commands them.
///
/// The bus calls [`pause`](Self::pause) and [`resume`](Self::resume) strictly in turn and never at
/// the same time, from any thread that requests or releases a hold. Neither function may request a
/// hold itself, because it would wait for its own return.
pub trait Testbed: Send + Sync {
    /// Stops the virtual clock, and then every process. Returns when all of them are stopped; the
    /// result is the virtual instant at which the clock stopped.
    ///
    /// # Errors
    /// Fails if the testbed cannot be paused. The testbed must then run as before.
    fn pause(&self) -> Result<Instant<Virtual>, TestbedError>;

    /// Lets the virtual clock continue from the instant at which it stopped, up to `until` before
    /// the next pause ([`Instant::FAR_FUTURE`] for no limit), and continues every process.
    ///
    /// # Errors
    /// Fails if the testbed cannot be resumed. Its state is then unknown, so the bus reports the
    /// error and refuses all further holds.
    fn resume(&self, until: Instant<Virtual>) -> Result<(), TestbedError>;

    /// Returns the present instant for a testbed that never pauses (time mode `real`), and `None`
    /// for others. For a testbed that never pauses, the bus commands nothing, and a hold has the
    /// instant of its request. A testbed must return `Some` either always or never.
    fn free_running(&self) -> Option<Instant<Virtual>> {
        None
    }
}

/// Error of a testbed or wire that could not execute a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TestbedError(String);

impl TestbedError {
    /// Creates an error with this reason, written without a full stop at the end.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Testbed of the time mode `real`, whose clock always runs.
pub struct FreeRunning<Clock>(Clock);

impl<Clock: Fn() -> Instant<Virtual> + Send + Sync> FreeRunning<Clock> {
    /// Creates a testbed. `clock` returns its present instant, and must never go back.
    pub fn new(clock: Clock) -> Self {
        Self(clock)
    }
}

impl<Clock: Fn() -> Instant<Virtual> + Send + Sync> Testbed for FreeRunning<Clock> {
    fn pause(&self) -> Result<Instant<Virtual>, TestbedError> {
        Ok((self.0)())
    }

    fn resume(&self, _until: Instant<Virtual>) -> Result<(), TestbedError> {
        Ok(())
    }

    fn free_running(&self) -> Option<Instant<Virtual>> {
        Some((self.0)())
    }
}
