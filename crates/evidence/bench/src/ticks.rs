//! The processor's cycle counter, used as a stopwatch.
//!
//! The counter continues while a virtual clock is stopped, and is the same in every process, so
//! that readings of the supervisor and of a guest can be compared.

use std::time::{Duration, Instant};

pub(crate) use timeloom_abi::ticks_ordered as now;

/// Length of a tick of the counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    ns_per_tick: f64,
}

impl Scale {
    /// Measures the counter against CLOCK_MONOTONIC for 50 ms. The result is accurate to a few
    /// parts per million, far better than any figure needs.
    ///
    /// Must be called in a process outside of any session.
    pub(crate) fn calibrate() -> Self {
        let (ticks, wall) = (now(), Instant::now());
        std::thread::sleep(Duration::from_millis(50));
        let (ticks, wall) = (now() - ticks, wall.elapsed());
        Self {
            ns_per_tick: wall.as_nanos() as f64 / ticks as f64,
        }
    }

    /// Converts a number of ticks to nanoseconds.
    pub(crate) fn ns(self, ticks: f64) -> f64 {
        ticks * self.ns_per_tick
    }

    /// Returns the time in nanoseconds between two readings of the counter.
    pub(crate) fn between_ns(self, from: u64, to: u64) -> f64 {
        self.ns(to.wrapping_sub(from) as i64 as f64)
    }
}
