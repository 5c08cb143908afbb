//! Reading the clock: the hottest code of the project.

use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::fence;

use crate::layout::{ClockPage, MapCopy};

impl ClockPage {
    /// Reads virtual time and `field` of the map in force, consistently.
    ///
    /// `counter` reads the page's counter; it is called inside the window.
    /// When the writer stays in its window for longer than any scheduling
    /// delay explains ([`PATIENCE`] turns), it is taken for dead and the last
    /// published map is used.
    #[inline(always)]
    pub fn read<T>(&self, counter: impl Fn() -> u64, field: impl Fn(&MapCopy) -> T) -> (i64, T) {
        let mut turns = 0u32;
        loop {
            let sequence = self.sequence.load(Acquire);
            if sequence & 1 == 1 && turns < PATIENCE {
                turns += 1;
                core::hint::spin_loop();
                continue;
            }
            let active = self.active.load(Relaxed) & 1;
            // Masked above, so the index is in range without a check.
            let copy = if active == 0 { &self.copies[0] } else { &self.copies[1] };
            let counter0 = copy.counter0.load(Relaxed);
            let virtual0_ns = copy.virtual0_ns.load(Relaxed);
            let rate = copy.rate_8_56.load(Relaxed);
            let value = field(copy);
            let now = counter();
            fence(Acquire);
            if self.sequence.load(Relaxed) == sequence {
                return (virtual0_ns.wrapping_add(advance_ns(now, counter0, rate)), value);
            }
        }
    }
}

/// Virtual nanoseconds between `counter0` and `now`.
///
/// A counter a few ticks behind `counter0` (another core's, before the kernel
/// has aligned it) counts as no time, not as 2^64 ticks.
#[inline(always)]
fn advance_ns(now: u64, counter0: u64, rate_8_56: u64) -> i64 {
    let ticks = now.saturating_sub(counter0);
    ((u128::from(ticks) * u128::from(rate_8_56)) >> 56) as i64
}

/// Turns of the waiting loop before the writer is taken for dead: around a
/// second of spinning, far beyond a scheduler's delay.
const PATIENCE: u32 = 1 << 25;
