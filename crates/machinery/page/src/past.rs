//! The last changes of the clock, for readers that need its past values.
//!
//! The kernel stamps packets with the machine's time at their arrival, and a program may read the
//! stamp after a pause or a change of rate. The clock's value *at that time* does not follow from
//! the map in force now. The writer therefore stores the last lines from wall time to the page's
//! time here, newest last, in a ring.
//!
//! Readers take no lock. A line is written before the count that announces it, and a reader checks
//! the count again after it has read a line: a line that was overwritten in between is detected.

use core::marker::PhantomData;

use timeloom_time::{Instant, Rate, Scale, Wall};

use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicI64, AtomicU32, AtomicU64, LINES, fence};

/// The ring; part of the clock page, which shows the time `S`.
#[repr(C, align(1024))]
pub struct Past<S: Scale> {
    /// Number of lines ever recorded, modulo 2^32.
    count: AtomicU32,
    /// Number of changes of the dilation.
    dilations: AtomicU32,
    lines: [Line; LINES],
    /// Wall seconds per virtual second, as the bits of an `f64`. Unlike the lines, the value is the
    /// session's, without a host's oscillator.
    dilation: AtomicU64,
    scale: PhantomData<fn() -> S>,
}

/// The clock between two of its changes.
#[derive(Default)]
#[repr(C)]
struct Line {
    /// The machine's CLOCK_MONOTONIC at its start, in nanoseconds.
    wall0_ns: AtomicI64,
    /// Time on the page at that instant.
    shown0_ns: AtomicI64,
    /// Nanoseconds shown per wall nanosecond, in 20.44 fixed point.
    rate_20_44: AtomicU64,
}

impl<S: Scale> Default for Past<S> {
    /// Returns an empty ring.
    fn default() -> Self {
        Self {
            count: AtomicU32::new(0),
            dilations: AtomicU32::new(0),
            lines: core::array::from_fn(|_| Line::default()),
            dilation: AtomicU64::new(0),
            scale: PhantomData,
        }
    }
}

impl<S: Scale> Past<S> {
    /// Records that the clock has the rate `rate` from this point on. One writer only.
    pub fn record(&self, wall: Instant<Wall>, shows: Instant<S>, rate: Rate) {
        let count = self.count.load(Relaxed);
        // A reader that sees the values stored below also sees the present count, and therefore
        // that the oldest line is no longer valid.
        fence(Release);
        if let Some(line) = self.lines.get(count as usize % LINES) {
            line.wall0_ns.store(wall.as_ns(), Relaxed);
            line.shown0_ns.store(shows.as_ns(), Relaxed);
            let rate = u64::try_from(rate.to_bits() >> 20).unwrap_or(u64::MAX);
            line.rate_20_44.store(rate, Relaxed);
        }
        self.count.store(count.wrapping_add(1), Release);
    }

    /// Records the dilation, at the start and whenever it changes.
    pub fn set_dilation(&self, wall_per_virtual: f64) {
        self.dilation.store(wall_per_virtual.to_bits(), Relaxed);
        self.dilations.fetch_add(1, Release);
    }

    /// Returns the dilation in force, and true if there was another one before.
    pub fn dilation(&self) -> (f64, bool) {
        let changed = self.dilations.load(Acquire) > 1;
        (f64::from_bits(self.dilation.load(Relaxed)), changed)
    }

    /// Returns the time on the page at a past instant of the machine. Instants before the oldest
    /// stored line are treated as its start.
    pub fn at(&self, wall: Instant<Wall>) -> Instant<S> {
        let mut tries = 0;
        loop {
            tries += 1;
            if let Some(shown_ns) = self.look(wall.as_ns(), tries >= MOST_TRIES) {
                return Instant::from_ns(shown_ns);
            }
        }
    }

    /// Returns `None` if the ring wrapped around during the read, unless `anyhow`.
    fn look(&self, wall_ns: i64, anyhow: bool) -> Option<i64> {
        let count = self.count.load(Acquire);
        // Start of the line after the examined one.
        let mut ends_ns = i64::MAX;
        // One less than the capacity: the writer may be writing the next.
        let kept = (count as usize).min(LINES - 1) as u32;
        for back in 1..=kept {
            let number = count.wrapping_sub(back);
            let line = self.lines.get(number as usize % LINES)?;
            let wall0_ns = line.wall0_ns.load(Relaxed);
            let shown0_ns = line.shown0_ns.load(Relaxed);
            let rate = line.rate_20_44.load(Relaxed);
            fence(Acquire);
            let newer = self.count.load(Relaxed).wrapping_sub(number);
            if newer as usize >= LINES && !anyhow {
                return None;
            }
            if wall0_ns <= wall_ns {
                let elapsed = wall_ns.saturating_sub(wall0_ns);
                let advance = (i128::from(elapsed) * i128::from(rate)) >> 44;
                let advance = i64::try_from(advance).unwrap_or(i64::MAX);
                return Some(shown0_ns.saturating_add(advance).min(ends_ns));
            }
            ends_ns = shown0_ns;
        }
        Some(if ends_ns == i64::MAX { 0 } else { ends_ns })
    }
}

/// It is very unlikely that a reader is preempted in each of these tries.
const MOST_TRIES: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shown;

    fn past(lines: &[(i64, i64, Rate)]) -> Past<Shown> {
        let past = Past::default();
        for &(wall, shows, rate) in lines {
            past.record(Instant::from_ns(wall), Instant::from_ns(shows), rate);
        }
        past
    }

    #[test]
    fn an_instant_lies_on_the_line_of_its_time() {
        let half = Rate::from_ratio(1, 2).unwrap();
        let past = past(&[
            (1_000, 0, Rate::ONE),
            (2_000, 1_000, Rate::STOPPED),
            (5_000, 1_000, half),
        ]);
        for (wall, shown) in [
            (500, 0), // before the session
            (1_000, 0),
            (1_999, 999),
            (2_000, 1_000),
            (4_999, 1_000), // while it was stopped
            (5_000, 1_000),
            (6_000, 1_500),
        ] {
            assert_eq!(past.at(Instant::from_ns(wall)).as_ns(), shown, "at {wall}");
        }
    }

    #[test]
    fn a_line_does_not_reach_beyond_the_start_of_the_next() {
        // The next line was published with a floor: readers had seen slightly less.
        let past = past(&[(0, 0, Rate::ONE), (1_000, 990, Rate::ONE)]);
        assert_eq!(past.at(Instant::from_ns(999)).as_ns(), 990);
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let lines: Vec<_> = (0..100)
            .map(|i| (i * 1_000, i * 1_000, Rate::ONE))
            .collect();
        let past = past(&lines);
        assert_eq!(past.at(Instant::from_ns(99_500)).as_ns(), 99_500);
        let oldest = (100 - (LINES as i64 - 1)) * 1_000;
        assert_eq!(past.at(Instant::from_ns(oldest + 7)).as_ns(), oldest + 7);
        assert_eq!(
            past.at(Instant::from_ns(7)).as_ns(),
            oldest,
            "forgotten: as at the oldest"
        );
    }

    #[test]
    fn nothing_recorded_is_the_beginning() {
        assert_eq!(past(&[]).at(Instant::from_ns(77)).as_ns(), 0);
    }
}
