//! Steering of the machine's clock by a slave; none unless requested.

use std::io;

use timeloom_sys::clock::{civil_frequency, set_civil_frequency, step_civil};
use timeloom_time::Duration;

/// A clock that can be disciplined.
pub trait Steering: Send {
    /// Adds `length`, once.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    fn step(&mut self, length: Duration) -> io::Result<()>;
    /// Sets its frequency to this many parts per billion above its oscillator's.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    fn frequency(&mut self, ppb: f64) -> io::Result<()>;
}

/// Civil clock of the machine, which all its programs use.
#[derive(Debug)]
pub struct SystemClock(());

impl SystemClock {
    /// Takes control of the clock, without changing anything yet.
    ///
    /// # Errors
    /// Fails without CAP_SYS_TIME.
    pub fn take() -> io::Result<Self> {
        // Reading needs no permission; setting the frequency to its current value does.
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

/// Converts to the kernel's unit: parts per million with 16 fractional bits, limited to 500 ppm.
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
