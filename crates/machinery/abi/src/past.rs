//! Past changes of the clock, for readers that need an earlier value of it.
//!
//! The kernel stamps packets with the machine's time at their arrival, and a program may read the
//! stamp after a pause or a change of rate. The clock's value *at that time* does not follow from
//! the map in force now. The writer therefore stores the last linear maps ("lines") from wall time
//! to page time here, in a ring.
//!
//! Readers take no lock. The writer stores a line before it increments the count that announces it.
//! A reader checks the count again after it has read a line, and so detects a line that was
//! overwritten in between.

use core::marker::PhantomData;

use timeloom_time::{Instant, Rate, Scale, Wall};

use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicI64, AtomicU32, AtomicU64, LINES, fence};

/// Ring of past lines; a part of the clock page, whose time has the scale `S`.
#[repr(C, align(1024))]
pub struct Past<S: Scale> {
    /// Number of lines ever recorded, modulo 2^32.
    count: AtomicU32,
    /// Number of times that the dilation was set, including the first time.
    dilations: AtomicU32,
    lines: [PastLine; LINES],
    /// Dilation: wall seconds per virtual second, as the bits of an `f64`. The lines include the
    /// error of a host's oscillator; this value, the session's, does not.
    dilation: AtomicU64,
    scale: PhantomData<fn() -> S>,
}

/// Linear map from wall time to page time, valid between two changes of the clock.
#[derive(Default)]
#[repr(C)]
struct PastLine {
    /// The machine's CLOCK_MONOTONIC at the start of the line, in nanoseconds.
    wall0_ns: AtomicI64,
    /// Time on the page at the start of the line, in nanoseconds.
    shown0_ns: AtomicI64,
    /// Nanoseconds of page time per wall nanosecond, in 20.44 fixed point.
    rate_20_44: AtomicU64,
}

impl<S: Scale> Default for Past<S> {
    /// Returns an empty ring.
    fn default() -> Self {
        Self {
            count: AtomicU32::new(0),
            dilations: AtomicU32::new(0),
            lines: core::array::from_fn(|_| PastLine::default()),
            dilation: AtomicU64::new(0),
            scale: PhantomData,
        }
    }
}

impl<S: Scale> Past<S> {
    /// Records that the page shows `shows` at the wall instant `wall`, and has the rate `rate` from
    /// then on. Only one thread may write.
    pub fn record(&self, wall: Instant<Wall>, shows: Instant<S>, rate: Rate) {
        let count = self.count.load(Relaxed);
        // A reader that sees any value stored below also sees a count at least as high as the one
        // loaded here, and therefore detects that the oldest line is no longer valid.
        fence(Release);
        if let Some(line) = self.lines.get(count as usize % LINES) {
            line.wall0_ns.store(wall.as_ns(), Relaxed);
            line.shown0_ns.store(shows.as_ns(), Relaxed);
            let rate = u64::try_from(rate.to_bits() >> 20).unwrap_or(u64::MAX);
            line.rate_20_44.store(rate, Relaxed);
        }
        self.count.store(count.wrapping_add(1), Release);
    }

    /// Records the dilation, in wall seconds per virtual second. Called at the start and at every
    /// change.
    pub fn set_dilation(&self, wall_per_virtual: f64) {
        self.dilation.store(wall_per_virtual.to_bits(), Relaxed);
        self.dilations.fetch_add(1, Release);
    }

    /// Returns the dilation in force, and true if it has changed since the start.
    pub fn dilation(&self) -> (f64, bool) {
        let changed = self.dilations.load(Acquire) > 1;
        (f64::from_bits(self.dilation.load(Relaxed)), changed)
    }

    /// Returns the time on the page at a past instant of the machine's CLOCK_MONOTONIC. An instant
    /// before the oldest stored line gives the start of that line.
    pub fn at(&self, wall: Instant<Wall>) -> Instant<S> {
        let mut tries = 0;
        loop {
            tries += 1;
            if let Some(shown_ns) = self.look(wall.as_ns(), tries >= MOST_TRIES) {
                return Instant::from_ns(shown_ns);
            }
        }
    }

    /// Returns the page time at `wall_ns`. Returns `None` if the writer overwrote the line during
    /// the read, unless `anyhow` is true.
    fn look(&self, wall_ns: i64, anyhow: bool) -> Option<i64> {
        let count = self.count.load(Acquire);
        // Page time at the start of the line that follows the examined one.
        let mut ends_ns = i64::MAX;
        // One line less than the capacity: the writer may be overwriting the oldest.
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

/// Number of tries after which [`Past::at`] accepts a line that may have been overwritten. It is
/// very unlikely that a reader is preempted in each of these tries.
const MOST_TRIES: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageTime;

    fn past(lines: &[(i64, i64, Rate)]) -> Past<PageTime> {
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
        // The second line was published with a floor: readers had seen slightly less than it shows.
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
