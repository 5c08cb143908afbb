//! Computation of a reading from the words of a page and the value of the counter. This module
//! neither reads a counter nor maps a page; [`super::PageReader`] does.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use timeloom_clock::quality::Status;

use super::Reading;
use crate::shm::encode::{GOOD_FOR, MARKER, PageSegment};
use crate::shm::layout::{TimelinePage, WORDS};

/// Returns true if the host's oscillator has changed since the words were written, because the
/// session stopped or slowed that host alone. `marker` is `None` unless the page is that of a
/// guest's host.
#[inline(always)]
pub(super) fn is_displaced(marker: Option<u64>, then: u64) -> bool {
    marker.is_some_and(|marker| marker != then || marker & 1 == 1)
}

/// Returns the reading of a page whose host's oscillator has changed. If the page has no interval
/// anyway, its status remains.
pub(super) fn displaced(segment: &PageSegment) -> Reading {
    let said = Status::from_number(segment.status).unwrap_or(Status::NeverSynchronised);
    let status = if said.may_have_interval() {
        Status::Disrupted
    } else {
        said
    };
    Reading { status, ..VOID }
}

/// Reading without an interval.
pub(super) const VOID: Reading = Reading {
    estimate_ns: 0,
    below_ns: u64::MAX,
    above_ns: u64::MAX,
    status: Status::NeverSynchronised,
    bounded: false,
};

/// Inputs of a good reading, as separate fields so that the compiler keeps each word in a register.
/// (An array made by `map` went through the stack: it was stored in halves and loaded whole, and
/// the processor waited for its own stores.)
#[derive(Debug)]
pub(crate) struct ReadingInputs {
    pub(crate) counter0: u64,
    pub(crate) estimate0: u64,
    pub(crate) rate: u64,
    pub(crate) below: u64,
    pub(crate) above: u64,
    pub(crate) below_growth: u64,
    pub(crate) above_growth: u64,
    pub(crate) good_for: u64,
    pub(crate) marker: u64,
}

impl ReadingInputs {
    /// Number of the page's words that the line uses; they are the first ones.
    pub(crate) const WORDS: usize = MARKER + 1;

    #[inline(always)]
    pub(super) fn load(words: &[AtomicU64; WORDS]) -> Self {
        Self::from(|index| words[index].load(Relaxed))
    }

    pub(crate) fn of(words: &[u64; WORDS]) -> Self {
        Self::from(|index| words[index])
    }

    #[inline(always)]
    pub(crate) fn from(word: impl Fn(usize) -> u64) -> Self {
        Self {
            counter0: word(0),
            estimate0: word(1),
            rate: word(2),
            below: word(3),
            above: word(4),
            below_growth: word(5),
            above_growth: word(6),
            good_for: word(GOOD_FOR),
            marker: word(MARKER),
        }
    }

    /// Returns the reading when the counter is `now`; `None` unless it is a good one. Defined for
    /// all words: nothing here overflows, divides or panics.
    #[inline(always)]
    pub(super) fn good(&self, page: &TimelinePage, now: u64) -> Option<Reading> {
        self.good_while(page, now, now)
    }

    /// Returns the reading as [`Self::good`] does, for a page whose `alive_until` is in ticks of
    /// another counter. `alive_at` is the value of that counter at which the daemon must count as
    /// alive.
    #[inline(always)]
    pub(crate) fn good_while(
        &self,
        page: &TimelinePage,
        now: u64,
        alive_at: u64,
    ) -> Option<Reading> {
        // The marker is loaded after the counter in program order. The processor may load it
        // earlier. But a disruption of the counter (a migration, a restored snapshot) interrupts
        // this processor, and then a load that had run ahead of the interruption is repeated.
        let undisrupted = page.disruption_marker().load(Relaxed) == self.marker;
        let alive = alive_at <= page.alive_until().load(Relaxed);
        // The difference for a counter before the line's start wraps to a value far beyond the
        // line's end.
        let ticks = now.wrapping_sub(self.counter0);
        let good = undisrupted && alive && ticks < self.good_for;
        good.then(|| self.after(ticks))
    }

    /// Returns the reading `ticks` after the start of the line.
    #[inline(always)]
    fn after(&self, ticks: u64) -> Reading {
        Reading {
            estimate_ns: self.estimate0.wrapping_add(scaled(ticks, self.rate, 56)) as i64,
            below_ns: self
                .below
                .wrapping_add(scaled(ticks, self.below_growth, 64)),
            above_ns: self
                .above
                .wrapping_add(scaled(ticks, self.above_growth, 64)),
            status: Status::Ok,
            bounded: true,
        }
    }

    /// Returns the reading when the counter is `now`, even if it is not a good one.
    #[cfg(test)]
    pub(crate) fn at(&self, now: u64) -> Reading {
        self.after(now.wrapping_sub(self.counter0))
    }

    /// Returns the words from which the line was loaded.
    pub(crate) fn words(&self) -> [u64; Self::WORDS] {
        [
            self.counter0,
            self.estimate0,
            self.rate,
            self.below,
            self.above,
            self.below_growth,
            self.above_growth,
            self.good_for,
            self.marker,
        ]
    }
}

/// Returns the reading in all cases except that of a good one. The caller has already refused
/// values that no honest writer produces.
#[cold]
pub(super) fn doubtful(page: &TimelinePage, segment: &PageSegment, now: u64) -> Reading {
    let said = Status::from_number(segment.status).unwrap_or(Status::NeverSynchronised);
    let void = |status| Reading { status, ..VOID };
    if !said.may_have_interval() {
        return void(said);
    }
    let behind = segment.counter0.saturating_sub(now);
    let disrupted = page.disruption_marker().load(Relaxed) != segment.marker;
    if disrupted || behind > segment.backwards {
        return void(Status::Disrupted);
    }
    let status = if now > page.alive_until().load(Relaxed) {
        Status::DaemonDead
    } else if now > segment.fresh_until.min(segment.void_after) {
        Status::SourceLost
    } else {
        Status::Ok
    };
    if now > segment.void_after {
        return void(status);
    }
    // The counter of another core may be slightly behind. The line is then extrapolated backwards,
    // and both sides grow.
    let ticks = now.saturating_sub(segment.counter0);
    let (below_growth, above_growth) = (segment.below_growth_0_64, segment.above_growth_0_64);
    let back = scaled(behind, segment.rate_8_56, 56);
    let both = scaled(behind, below_growth.saturating_add(above_growth), 64).saturating_add(2);
    let moved = scaled(ticks, segment.rate_8_56, 56).wrapping_sub(back);
    let bound = |ns: u64, growth| {
        ns.saturating_add(scaled(ticks, growth, 64))
            .saturating_add(both)
    };
    Reading {
        estimate_ns: segment.estimate0_ns.wrapping_add(moved as i64),
        below_ns: bound(segment.below_ns, below_growth),
        above_ns: bound(segment.above_ns, above_growth),
        status,
        bounded: true,
    }
}

/// Returns `ticks * factor / 2^shift`, rounded down, modulo 2^64.
#[inline(always)]
fn scaled(ticks: u64, factor: u64, shift: u32) -> u64 {
    ((u128::from(ticks) * u128::from(factor)) >> shift) as u64
}
