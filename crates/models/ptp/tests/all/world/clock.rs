//! A simulated clock with its own oscillator.

use timeloom_ptp::Stamp;

/// Clock that shows `base + (1 + drift + steering) · (true − since)`.
#[derive(Clone, Debug)]
pub struct HardwareClock {
    base_ns: i64,
    since_ns: i64,
    drift_ppb: f64,
    steering_ppb: f64,
}

impl HardwareClock {
    /// Returns a clock that is `offset_ns` ahead of true time at the start and drifts by
    /// `drift_ppb`.
    pub fn new(offset_ns: i64, drift_ppb: f64) -> Self {
        Self {
            base_ns: offset_ns,
            since_ns: 0,
            drift_ppb,
            steering_ppb: 0.0,
        }
    }

    pub fn read(&self, true_ns: i64) -> i64 {
        let elapsed = true_ns - self.since_ns;
        let rate = (1.0 + self.drift_ppb * 1e-9) * (1.0 + self.steering_ppb * 1e-9) - 1.0;
        self.base_ns + elapsed + (elapsed as f64 * rate).round() as i64
    }

    pub fn stamp(&self, true_ns: i64) -> Stamp {
        Stamp::from_ns(self.read(true_ns))
    }

    pub fn step(&mut self, length_ns: i64) {
        self.base_ns += length_ns;
    }

    pub fn steer(&mut self, true_ns: i64, ppb: f64) {
        self.base_ns = self.read(true_ns);
        self.since_ns = true_ns;
        self.steering_ppb = ppb;
    }
}
