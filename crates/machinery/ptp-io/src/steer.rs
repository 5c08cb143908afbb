//! What a slave does to the machine's clock: nothing, unless asked.

use std::io;

use timeloom_sys::clock::{civil_frequency, set_civil_frequency, step_civil};
use timeloom_time::Duration;

/// A clock that can be disciplined.
pub trait Steering: Send {
    /// Adds `length`, once.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn step(&mut self, length: Duration) -> io::Result<()>;
    /// Runs it this many parts per billion faster than its oscillator.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn frequency(&mut self, ppb: f64) -> io::Result<()>;
}

/// The machine's civil clock, which all its programs live by.
#[derive(Debug)]
pub struct SystemClock(());

impl SystemClock {
    /// Takes the clock in hand. Nothing is changed yet.
    ///
    /// # Errors
    /// Without CAP_SYS_TIME.
    pub fn take() -> io::Result<Self> {
        // Reading needs no right; setting the frequency to what it is does.
        set_civil_frequency(civil_frequency()?)?;
        Ok(Self(()))
    }
}

impl Steering for SystemClock {
    fn step(&mut self, length: Duration) -> io::Result<()> {
        step_civil(length)
    }

    fn frequency(&mut self, ppb: f64) -> io::Result<()> {
        set_civil_frequency(scaled_ppm(ppb))
    }
}

/// Frequencies are parts per million, 16 bits after the point; the kernel
/// takes at most 500 of them.
fn scaled_ppm(ppb: f64) -> i64 {
    (ppb.clamp(-500_000.0, 500_000.0) * 65.536).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_are_scaled_and_bounded() {
        assert_eq!(scaled_ppm(1000.0), 65_536);
        assert_eq!(scaled_ppm(-1e9), -500 * 65_536);
    }
}
