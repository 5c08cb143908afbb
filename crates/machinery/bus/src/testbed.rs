//! What the bus commands.

use timeloom_time::{Instant, Virtual};

/// The clock and the processes of one machine, as the bus sees them.
///
/// The bus calls [`pause`](Self::pause) and [`resume`](Self::resume) strictly
/// in turn, never two at a time, from whatever thread pulled or left the line.
/// Neither may take a hold itself: it would wait for its own return.
pub trait Testbed: Send + Sync {
    /// Stops the virtual clock, then every process. Returns when all stand,
    /// with the virtual instant at which the clock stopped.
    ///
    /// # Errors
    /// When it cannot be done; the testbed must then run as before.
    fn pause(&self) -> Result<Instant<Virtual>, TestbedError>;

    /// Lets the virtual clock go on from where it stopped, and every process.
    ///
    /// # Errors
    /// When it cannot be done. What runs then is unknown, so the bus refuses
    /// all further holds and reports it.
    fn resume(&self) -> Result<(), TestbedError>;

    /// `Some(present instant)` from a testbed that never stands still (time
    /// mode `real`); the bus then commands nothing and a hold carries the
    /// instant at which it was taken. The answer must be `Some` always or never.
    fn free_running(&self) -> Option<Instant<Virtual>> {
        None
    }
}

/// What a testbed or a wire says when it could not obey.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TestbedError(String);

impl TestbedError {
    /// The reason in words, without a final stop.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// The testbed of time mode `real`: its clock runs on whatever is asked.
pub struct FreeRunning<Clock>(Clock);

impl<Clock: Fn() -> Instant<Virtual> + Send + Sync> FreeRunning<Clock> {
    /// A testbed whose present instant `clock` tells; it must never step back.
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
