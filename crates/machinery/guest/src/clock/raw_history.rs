//! History of a host's oscillator. It maps a guest's reading of CLOCK_MONOTONIC_RAW to the
//! session's virtual time.

use std::collections::VecDeque;

use timeloom_time::{ClockMap, Core, Duration, Instant, Virtual};

/// Linear maps from the session's virtual time to CLOCK_MONOTONIC_RAW, oldest first. A new one
/// begins at each change of the oscillator or of the rate of the host's own time.
#[derive(Default)]
pub(super) struct RawHistory {
    lines: VecDeque<ClockMap<Virtual, Core>>,
}

impl RawHistory {
    /// Adds the map in force from virtual time `line.in0` on, unless it continues the last one.
    pub(super) fn add(&mut self, line: ClockMap<Virtual, Core>) {
        let continues = self.lines.back().is_some_and(|last| {
            let apart = last.at(line.in0) - line.out0;
            last.rate == line.rate && apart <= ROUNDING && apart >= -ROUNDING
        });
        if continues {
            return;
        }
        if self.lines.len() == MOST {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// Returns the first virtual time at which the oscillator showed `raw`. If the oscillator stood
    /// still at `raw`, returns the end of that interval, where guests continue. Returns `None` if
    /// `raw` is older than the history.
    pub(super) fn first_showing(&self, raw: Instant<Core>) -> Option<Instant<Virtual>> {
        let after = self.lines.partition_point(|line| line.out0 <= raw);
        let line = self.lines.get(after.checked_sub(1)?)?;
        let next = self.lines.get(after);
        let at = line.first_reaching(raw).or(next.map(|next| next.in0))?;
        Some(next.map_or(at, |next| at.min(next.in0)))
    }
}

/// Maximum number of stored maps. An oscillator changes at most many times a second, and readings
/// are looked up within seconds.
const MOST: usize = 4096;

/// Maximum difference, caused by rounding, of two maps that agree.
const ROUNDING: Duration = Duration::from_ns(50);

#[cfg(test)]
mod tests {
    use timeloom_time::Rate;

    use super::*;

    fn line(at_ns: i64, raw_ns: i64, rate: Rate) -> ClockMap<Virtual, Core> {
        ClockMap::new(Instant::from_ns(at_ns), Instant::from_ns(raw_ns), rate)
    }

    #[test]
    fn a_reading_is_found_again_across_a_hold_and_a_change_of_rate() {
        let half = Rate::from_ratio(1, 2).unwrap();
        let mut history = RawHistory::default();
        history.add(line(1_000, 50_000, Rate::ONE));
        history.add(line(2_000, 51_000, Rate::ONE)); // continues
        history.add(line(3_000, 52_000, Rate::STOPPED)); // held
        history.add(line(9_000, 52_000, half));
        assert_eq!(history.lines.len(), 3);
        let at = |raw_ns| {
            history
                .first_showing(Instant::from_ns(raw_ns))
                .map(Instant::as_ns)
        };
        assert_eq!(at(49_999), None);
        assert_eq!(at(50_000), Some(1_000));
        assert_eq!(at(51_999), Some(2_999));
        assert_eq!(at(52_001), Some(9_002));
    }

    #[test]
    fn the_history_is_bounded() {
        let mut history = RawHistory::default();
        for step in 0..2 * MOST as i64 {
            history.add(line(1_000 * step, 2_000 * step, Rate::ONE));
        }
        assert_eq!(history.lines.len(), MOST);
        assert_eq!(history.first_showing(Instant::from_ns(0)), None);
    }
}
