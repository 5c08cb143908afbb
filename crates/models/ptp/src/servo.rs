//! Proportional-integral (PI) servo for a slave's clock.

use timeloom_time::Duration;
use timeloom_wire::TimeInterval;

use crate::Stamp;

/// Adjustment of the clock after a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServoOutput {
    /// No adjustment: there are not enough samples yet.
    Wait,
    /// Move the clock by this length, and set its frequency relative to the oscillator, in ppb.
    Step(Duration, f64),
    /// Set the frequency relative to the oscillator, in ppb.
    Frequency(f64),
}

/// PI servo as in linuxptp's `pi.c`. The first two samples give the drift and one step. Afterwards
/// the frequency is `kp · offset + ∫ ki · offset`, with constants per second of interval: kp = 0.7,
/// ki = 0.3 for intervals up to 1 s.
#[derive(Clone, Debug)]
pub struct PiServo {
    kp: f64,
    ki: f64,
    drift_ppb: f64,
    first: Option<(TimeInterval, Stamp)>,
    locked: bool,
    step_above: Duration,
}

/// Greatest frequency correction in ppb; no usable oscillator needs more.
const MAX_PPB: f64 = 900_000.0;

impl PiServo {
    /// Returns a servo that steps the clock once at the start, and later only if an offset exceeds
    /// `step_above` ([`Duration::MAX`] means never).
    pub const fn new(step_above: Duration) -> Self {
        Self {
            kp: 0.7,
            ki: 0.3,
            drift_ppb: 0.0,
            first: None,
            locked: false,
            step_above,
        }
    }

    /// Sets smaller constants for noisy software timestamps, as in linuxptp.
    pub const fn for_software_stamps(mut self) -> Self {
        self.kp = 0.1;
        self.ki = 0.001;
        self
    }

    /// Processes an offset (this clock minus the master) that was measured when this clock showed
    /// `at`.
    pub fn sample(&mut self, offset: TimeInterval, at: Stamp, interval: Duration) -> ServoOutput {
        let offset_ns = offset.as_ns_f64();
        let Some((first, first_at)) = self.first else {
            self.first = Some((offset, at));
            return ServoOutput::Wait;
        };
        if !self.locked {
            let elapsed_ns = (at - first_at).as_ns() as f64;
            if elapsed_ns <= 0.0 {
                self.first = Some((offset, at));
                return ServoOutput::Wait;
            }
            let drift = (offset - first).as_ns_f64() / elapsed_ns * 1e9;
            self.drift_ppb = (self.drift_ppb - drift).clamp(-MAX_PPB, MAX_PPB);
            self.locked = true;
            return ServoOutput::Step(Duration::from_ns(-offset.round_ns()), self.drift_ppb);
        }
        if offset.round_ns().unsigned_abs() > self.step_above.as_ns().unsigned_abs() {
            self.locked = false;
            self.first = Some((offset, at));
            return ServoOutput::Wait;
        }
        // Offsets are divided by intervals above one second, so that the loop is not faster than
        // its samples.
        let per_s = offset_ns / interval.as_s_f64().max(1.0);
        self.drift_ppb = (self.drift_ppb - self.ki * per_s).clamp(-MAX_PPB, MAX_PPB);
        ServoOutput::Frequency((self.drift_ppb - self.kp * per_s).clamp(-MAX_PPB, MAX_PPB))
    }
}
