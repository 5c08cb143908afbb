//! The processor's cycle counter as a stopwatch.
//!
//! It continues while a virtual clock is stopped and is the same in every process, so that a
//! supervisor's and a guest's readings may be compared.

use std::time::{Duration, Instant};

pub(crate) use timeloom_page::ticks_ordered as now;

/// Length of a tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    ns_per_tick: f64,
}

impl Scale {
    /// Compares the counter with CLOCK_MONOTONIC over 50 ms: accurate to a few parts per million,
    /// far better than any figure needs.
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

    /// Converts ticks to nanoseconds.
    pub(crate) fn ns(self, ticks: f64) -> f64 {
        ticks * self.ns_per_tick
    }

    /// Returns the time from one reading to a later one, in nanoseconds.
    pub(crate) fn between_ns(self, from: u64, to: u64) -> f64 {
        self.ns(to.wrapping_sub(from) as i64 as f64)
    }
}
