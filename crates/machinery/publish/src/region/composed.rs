//! The line of a host's page in the guest's own counter: the page's words and the relation
//! of the counters made into one, once for each publication of either.
//!
//! Reading by it is what reading a page is: one line, one counter. Without it a reader
//! translates its counter at each reading, which cost it twice as much (`timeloom bench
//! vm`). What a composed line claims contains what the translation would have claimed.
//! It is kept in the reader, for all its threads; it is no truth of its own: where one of
//! the two has changed, or anything is not as it was, the caller translates again.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, fence};

use crate::latch::Latch;
use crate::reader::Line;
use crate::{PageReader, Reading, Relation};

/// Words of a composed line: the line's own, and how far the host's counter may be ahead,
/// what it was made from, and the region's generation.
const WORDS: usize = Line::WORDS + 3;
const AHEAD: usize = Line::WORDS;
const MADE_FROM: usize = Line::WORDS + 1;
const GENERATION: usize = Line::WORDS + 2;

/// Place for one composed line; at first there is none.
#[derive(Debug)]
pub(super) struct Composed {
    latch: Latch<WORDS>,
    /// Whether somebody is writing.
    is_taken: AtomicBool,
}

/// Which publications a line is made from: the page's and the relation's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MadeFrom {
    pub(super) page: u32,
    pub(super) relation: u32,
}

impl MadeFrom {
    #[inline(always)]
    fn to_word(self) -> u64 {
        u64::from(self.page) | u64::from(self.relation) << 32
    }
}

impl Composed {
    pub(super) fn new() -> Self {
        Self {
            // No counter is within a line that is good for no tick.
            latch: Latch::new([0; WORDS]),
            is_taken: AtomicBool::new(false),
        }
    }

    /// The reading, if there is a line of just these publications and all is well.
    /// `generation` is looked at after the counter: what moved that has changed it before.
    #[inline(always)]
    pub(super) fn read(
        &self,
        page: &PageReader,
        now: MadeFrom,
        own: impl Fn() -> u64,
        generation: impl Fn() -> u64,
    ) -> Option<Reading> {
        let sequence = self.latch.sequence();
        // The counter last: with the words in hand it is used at once.
        let taken = self.latch.read_at(sequence, |words| {
            let word = |index: usize| words[index].load(Relaxed);
            let beside = [word(AHEAD), word(MADE_FROM), word(GENERATION)];
            (Line::from(word), beside, own())
        });
        let (line, [ahead, made_from, measured], own) = taken?;
        if made_from != now.to_word() {
            return None;
        }
        let reading = line.good_while(page.page(), own, own.wrapping_add(ahead))?;
        fence(Acquire);
        (generation() == measured).then_some(reading)
    }

    /// Keeps a line. Somebody else who does so at the same time has one as good.
    pub(super) fn keep(&self, line: &OwnLine, made_from: MadeFrom) {
        if self.is_taken.swap(true, Acquire) {
            return;
        }
        let mut words = [0; WORDS];
        words[..Line::WORDS].copy_from_slice(&line.line.words());
        words[AHEAD] = line.ahead;
        words[MADE_FROM] = made_from.to_word();
        words[GENERATION] = line.generation;
        self.latch.publish(words);
        self.is_taken.store(false, Release);
    }
}

/// A page's line by another counter.
pub(super) struct OwnLine {
    line: Line,
    /// The host's counter is ahead of the guest's by no more than this, modulo 2^64, as long
    /// as the line is good.
    ahead: u64,
    generation: u64,
}

impl OwnLine {
    /// The line that begins where the guest's counter shows `own`; `None` where the page's
    /// is not good then. `tick_8_56` is what a tick lasts at most, in nanoseconds.
    pub(super) fn of(line: &Line, relation: &Relation, own: u64, tick_8_56: u64) -> Option<Self> {
        let translated = relation.translate(own);
        let ticks = translated.latest.wrapping_sub(line.counter0);
        let left = line.good_for.checked_sub(ticks)?.min(LONGEST);
        let half_ns = half_ns(translated.width, tick_8_56);
        let more = |part: u64, growth: u64| {
            let part = part.wrapping_add(scaled(ticks, growth, 64));
            // Two are rounded here and one at each reading.
            part.saturating_add(half_ns).saturating_add(3)
        };
        // Both ends of what is not known go apart by this, and once more by the same since
        // the estimate is where the latest would be. Small: a relation is sound.
        let apart = scaled(relation.growth_0_64, tick_8_56, 56).saturating_mul(2);
        let grown = scaled(left, relation.growth_0_64, 64).saturating_add(2);
        let moved = scaled(ticks, line.rate, 56).wrapping_sub(half_ns);
        Some(Self {
            line: Line {
                counter0: own,
                estimate0: line.estimate0.wrapping_add(moved),
                rate: line.rate,
                below: more(line.below, line.below_growth),
                above: more(line.above, line.above_growth),
                below_growth: line.below_growth.saturating_add(apart + 1),
                above_growth: line.above_growth.saturating_add(apart + 1),
                good_for: left.saturating_sub(grown),
                marker: line.marker,
            },
            ahead: translated.latest.wrapping_sub(own).wrapping_add(grown),
            generation: relation.generation,
        })
    }
}

/// Half of what is not known, in nanoseconds, rounded up.
#[inline(always)]
pub(super) fn half_ns(width: u64, tick_8_56: u64) -> u64 {
    let ns = (u128::from(width) * u128::from(tick_8_56)) >> 56;
    u64::try_from(ns / 2 + 2).unwrap_or(u64::MAX >> 1)
}

fn scaled(ticks: u64, factor: u64, shift: u32) -> u64 {
    u64::try_from((u128::from(ticks) * u128::from(factor)) >> shift).unwrap_or(u64::MAX)
}

/// Ticks, some ten seconds or more: then a line is made anew. What the relation grows until
/// then is small beside what a daemon shows that it lives for.
const LONGEST: u64 = 1 << 35;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the translation claims, at whatever instant the line is good, the line
        /// claims too, and hardly more.
        #[test]
        fn a_line_claims_what_the_translation_does(
            (low, width) in (-1_i64 << 40..1 << 40, 0_i64..1 << 24),
            measured_ago in 0_u64..1 << 36,
            drift_ppb in 0_u32..=1_000_000,
            rate in 1_u64 << 53..1 << 57,
            (below, above) in (0_u64..1 << 30, 0_u64..1 << 30),
            (below_growth, above_growth) in (0_u64..1 << 50, 0_u64..1 << 50),
            (before, good_for) in (0_u64..1 << 34, 1_u64 << 34..1 << 40),
            (own, later) in (1_u64 << 50..1 << 60, 0_u64..1 << 36),
        ) {
            let relation = Relation {
                low,
                high: low + width,
                measured_at: own - measured_ago,
                growth_0_64: ((u128::from(drift_ppb) << 64) / 1_000_000_000) as u64,
                generation: 7,
            };
            // As regions say it: a thousandth more than it is.
            let tick_8_56 = rate + rate / 1000;
            let line = Line {
                counter0: relation.translate(own).latest - before,
                estimate0: 1 << 60,
                rate,
                below,
                above,
                below_growth,
                above_growth,
                good_for,
                marker: 3,
            };
            let made = OwnLine::of(&line, &relation, own, tick_8_56).expect("it is good");
            prop_assume!(later < made.line.good_for);
            let at = own + later;
            let translated = relation.translate(at);
            // It is good no longer than the page's line, and alive no longer.
            prop_assert!(translated.latest - line.counter0 < line.good_for);
            prop_assert!(translated.latest <= at.wrapping_add(made.ahead));
            let by_page = line.at(translated.latest);
            let half = half_ns(translated.width, tick_8_56) as i64;
            let estimate = by_page.estimate_ns - half;
            let exact = [
                estimate - (by_page.below_ns as i64 + half),
                estimate + by_page.above_ns as i64 + half,
            ];
            let own = made.line.at(at);
            let claimed = [
                own.estimate_ns - own.below_ns as i64,
                own.estimate_ns + own.above_ns as i64,
            ];
            prop_assert!(claimed[0] <= exact[0] && exact[1] <= claimed[1]);
            // What the relation has grown since, twice, and roundings.
            let grown = scaled(scaled(later, relation.growth_0_64, 64), tick_8_56, 56) as i64;
            prop_assert!(exact[0] - claimed[0] <= 3 * grown + 10);
            prop_assert!(claimed[1] - exact[1] <= 3 * grown + 10);
        }
    }
}
