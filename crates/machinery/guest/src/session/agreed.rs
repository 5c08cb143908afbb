//! Pauses of a session at an instant that is agreed on with the sessions of other machines.

use timeloom_time::{Dilation, Duration, Instant, Virtual, Wall};

use super::Session;
use crate::error::GuestError;
use crate::supervise::supervisor::PATIENCE;

impl Session {
    /// Stops all processes while the clock continues. In this state the initiator of a pause waits
    /// for the other machines; its programs are stopped.
    ///
    /// # Errors
    /// Fails if some processes cannot be stopped in time.
    pub fn freeze_alone(&self) -> Result<(), GuestError> {
        let _change = self.lock();
        self.supervisor.freezer.freeze(PATIENCE)
    }

    /// Lets the clock continue to `at`, and stops all processes when it shows `at`.
    ///
    /// # Errors
    /// Fails if some processes cannot be stopped in time, or if another caller has paused the
    /// clock.
    pub fn stand_at(&self, at: Instant<Virtual>) -> Result<(), GuestError> {
        self.clock.raise_bound(at);
        self.clock.wait_for_bound(at);
        let stood = self.pause()?;
        match stood == at {
            true => Ok(()),
            false => Err(GuestError::Usage(format!(
                "the session's clock is paused at {}, not at the agreed {}",
                stood - Instant::ZERO,
                at - Instant::ZERO
            ))),
        }
    }

    /// Resumes clock and processes at the wall instant `at`, after waiting for it; the clock
    /// continues from `from` with this dilation as if it had been resumed at exactly `at`, and does
    /// not pass `until` before the next pause. Returns the delay of the actual resumption after
    /// `at`.
    ///
    /// # Errors
    /// Fails if the clock cannot have this dilation, or if the processes cannot be resumed.
    pub fn resume_as_of(
        &self,
        from: Instant<Virtual>,
        at: Instant<Wall>,
        dilation: Dilation,
        until: Instant<Virtual>,
    ) -> Result<Duration, GuestError> {
        if self.clock.dilation() != dilation.factor() {
            self.dilate(dilation.factor())?;
        }
        let _change = self.lock();
        let left = at - timeloom_sys::wall_now() - Duration::from_us(200);
        if !left.is_negative() {
            std::thread::sleep(std::time::Duration::from_nanos(left.as_ns() as u64));
        }
        let late = self.clock.resume_as_of(from, at, until);
        self.supervisor.freezer.thaw()?;
        Ok(late)
    }
}
