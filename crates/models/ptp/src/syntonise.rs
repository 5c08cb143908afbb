//! Measurement of the rate of another clock relative to this one.

use std::collections::VecDeque;

use timeloom_wire::{TimeInterval, Timestamp};

use crate::Stamp;

/// Measures the rate of a remote clock relative to the local one from pairs of readings. It
/// compares the oldest and the newest pair of a window, so that noise is divided by the length of
/// the window.
#[derive(Clone, Debug)]
pub(crate) struct Syntoniser {
    window: VecDeque<(i64, TimeInterval, Stamp)>,
    length: usize,
    ppb: f64,
}

/// Greatest plausible rate difference in ppb. A greater one is an error of the measurement, not of
/// an oscillator.
const PLAUSIBLE_PPB: f64 = 500_000.0;

impl Syntoniser {
    pub(crate) const fn new(length: usize) -> Self {
        Self {
            window: VecDeque::new(),
            length,
            ppb: 0.0,
        }
    }

    /// Adds a pair of readings: the remote clock showed `remote + correction` when the local one
    /// showed `local`. `remote` and `correction` are separate, because an absolute time does not
    /// fit `TimeInterval`.
    pub(crate) fn sample(&mut self, remote: Timestamp, correction: TimeInterval, local: Stamp) {
        if let Some((_, _, last)) = self.window.back()
            && local <= *last
        {
            // The local clock was stepped, or one message overtook another.
            self.window.clear();
        }
        self.window.push_back((remote.as_ns(), correction, local));
        if self.window.len() > self.length {
            self.window.pop_front();
        }
        let (Some((r0, c0, l0)), Some((r1, c1, l1))) = (self.window.front(), self.window.back())
        else {
            return;
        };
        let local_ns = (*l1 - *l0).as_ns() as f64;
        if local_ns < 1e6 {
            return; // too short for a measurement
        }
        let remote_ns = r1.saturating_sub(*r0) as f64 + (*c1 - *c0).as_ns_f64();
        let ppb = (remote_ns - local_ns) / local_ns * 1e9;
        if ppb.abs() < PLAUSIBLE_PPB {
            self.ppb = ppb;
        }
    }

    pub(crate) fn forget(&mut self) {
        self.window.clear();
    }

    /// Returns remote rate / local rate − 1, in parts per 10^9; 0 before the first measurement.
    pub(crate) const fn ppb(&self) -> f64 {
        self.ppb
    }
}
