//! Testbeds, which the bus commands.

use timeloom_time::{Instant, Virtual};

/// Clock and processes of one machine, as commanded by the bus.
///
/// The bus calls [`pause`](Self::pause) and [`resume`](Self::resume) strictly in turn, never two at
/// a time, from any thread that pulled or released the line. Neither may take a hold itself: it
/// would wait for its own return.
pub trait Testbed: Send + Sync {
    /// Stops the virtual clock, then every process. Returns when all are stopped, with the virtual
    /// instant at which the clock stopped.
    ///
    /// # Errors
    /// Fails if that cannot be done; the testbed must then run as before.
    fn pause(&self) -> Result<Instant<Virtual>, TestbedError>;

    /// Continues the virtual clock at the instant where it stopped, and every process.
    ///
    /// # Errors
    /// Fails if that cannot be done. The state is then unknown, so the bus refuses all further
    /// holds and reports it.
    fn resume(&self) -> Result<(), TestbedError>;

    /// Returns `Some(present instant)` for a testbed that never pauses (time mode `real`); the bus
    /// then commands nothing and a hold carries the instant at which it was taken. The answer must
    /// be `Some` always or never.
    fn free_running(&self) -> Option<Instant<Virtual>> {
        None
    }
}

/// Error of a testbed or wire that could not obey.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TestbedError(String);

impl TestbedError {
    /// Creates an error with a reason, without a final stop.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Testbed of time mode `real`: its clock always runs.
pub struct FreeRunning<Clock>(Clock);

impl<Clock: Fn() -> Instant<Virtual> + Send + Sync> FreeRunning<Clock> {
    /// Creates a testbed whose present instant is `clock`, which must never step back.
    pub fn new(clock: Clock) -> Self {
        Self(clock)
    }
}

impl<Clock: Fn() -> Instant<Virtual> + Send + Sync> Testbed for FreeRunning<Clock> {
    fn pause(&self) -> Result<Instant<Virtual>, TestbedError> {
        Ok((self.0)())
    }

    fn resume(&self) -> Result<(), TestbedError> {
        Ok(())
    }

    fn free_running(&self) -> Option<Instant<Virtual>> {
        Some((self.0)())
    }
}
