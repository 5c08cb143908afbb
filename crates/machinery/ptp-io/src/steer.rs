//! Steering of the machine's clock by a slave, which happens only on request.

use std::io;

use timeloom_sys::clock::{civil_frequency, set_civil_frequency, step_civil};
use timeloom_time::Duration;

/// A clock that can be disciplined.
pub trait DisciplinedClock: Send {
    /// Adds `length` to the clock, once.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    fn step(&mut self, length: Duration) -> io::Result<()>;
    /// Sets the clock's frequency to `ppb` parts per billion above that of its oscillator.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    fn frequency(&mut self, ppb: f64) -> io::Result<()>;
}

/// System clock of the machine (CLOCK_REALTIME), which all its programs use.
#[derive(Debug)]
pub struct SteeredSystemClock(());

impl SteeredSystemClock {
    /// Takes control of the clock without changing it yet.
    ///
    /// # Errors
    /// Fails without the capability CAP_SYS_TIME.
    pub fn take() -> io::Result<Self> {
        // Reading the frequency needs no permission. Setting it, even to its present value, does.
        set_civil_frequency(civil_frequency()?)?;
        Ok(Self(()))
    }
}

impl DisciplinedClock for SteeredSystemClock {
    fn step(&mut self, length: Duration) -> io::Result<()> {
        step_civil(length)
    }

    fn frequency(&mut self, ppb: f64) -> io::Result<()> {
        set_civil_frequency(scaled_ppm(ppb))
    }
}

/// Converts a frequency to the kernel's unit: parts per million with 16 fractional bits, limited to
/// 500 ppm.
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
