//! Composed lines: the line of a host's page, expressed in the guest's own counter. A composed line
//! is computed from the page's words and the relation of the two counters, once for each
//! publication of either.
//! Reading with a composed line is like reading a page: one line and one counter. Without it, a
//! reader translates its counter at each reading, which doubles the cost (`timeloom bench vm`). The
//! interval of a composed line contains the interval that the translation would give. The reader
//! caches the line for all its threads. The cache is never authoritative: if the page, the relation
//! or anything else has changed, the caller translates again.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, fence};

use crate::shm::latch::Latch;
use crate::shm::reader::ReadingInputs;
use crate::shm::{CounterRelation, PageReader, Reading};

/// Number of words of a composed line. The words of the line itself come first.
const WORDS: usize = ReadingInputs::WORDS + 3;
/// Index of the word with the maximum lead of the host's counter.
const AHEAD: usize = ReadingInputs::WORDS;
/// Index of the word with the sequences of the publications from which the line was computed.
const MADE_FROM: usize = ReadingInputs::WORDS + 1;
/// Index of the word with the region's generation.
const GENERATION: usize = ReadingInputs::WORDS + 2;

/// Cache for one composed line; empty at first.
#[derive(Debug)]
pub(super) struct Composed {
    latch: Latch<WORDS>,
    /// True while a thread is storing a line.
    is_taken: AtomicBool,
}

/// Sequences of the two publications from which a line is computed: the page's and the relation's.
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
            // A line that is good for zero ticks matches no counter.
            latch: Latch::new([0; WORDS]),
            is_taken: AtomicBool::new(false),
        }
    }

    /// Returns the reading; `None` if the cached line is not of these publications, or if the
    /// reading is not good. `generation` is loaded after the counter. When the counter is moved,
    /// the generation changes first, so the reading detects it.
    #[inline(always)]
    pub(super) fn read(
        &self,
        page: &PageReader,
        now: MadeFrom,
        own: impl Fn() -> u64,
        generation: impl Fn() -> u64,
    ) -> Option<Reading> {
        let sequence = self.latch.sequence();
        // The counter is read last, so that the loaded words are used immediately.
        let taken = self.latch.read_at(sequence, |words| {
            let word = |index: usize| words[index].load(Relaxed);
            let beside = [word(AHEAD), word(MADE_FROM), word(GENERATION)];
            (ReadingInputs::from(word), beside, own())
        });
        let (line, [ahead, made_from, measured], own) = taken?;
        if made_from != now.to_word() {
            return None;
        }
        let reading = line.good_while(page.page(), own, own.wrapping_add(ahead))?;
        fence(Acquire);
        (generation() == measured).then_some(reading)
    }

    /// Stores a line in the cache. If another thread is storing one, this line is dropped, because
    /// the other one is as good.
    pub(super) fn keep(&self, line: &OwnLine, made_from: MadeFrom) {
        if self.is_taken.swap(true, Acquire) {
            return;
        }
        let mut words = [0; WORDS];
        words[..ReadingInputs::WORDS].copy_from_slice(&line.line.words());
        words[AHEAD] = line.ahead;
        words[MADE_FROM] = made_from.to_word();
        words[GENERATION] = line.generation;
        self.latch.publish(words);
        self.is_taken.store(false, Release);
    }
}

/// Line of a host's page, expressed in the guest's counter.
pub(super) struct OwnLine {
    line: ReadingInputs,
    /// Maximum lead of the host's counter over the guest's while the line is good, modulo 2^64.
    ahead: u64,
    generation: u64,
}

impl OwnLine {
    /// Composes the line that begins when the guest's counter is `own`; `None` if the page's line
    /// is not good at that instant. `tick_8_56` is the maximum length of a tick, in nanoseconds.
    pub(super) fn of(
        line: &ReadingInputs,
        relation: &CounterRelation,
        own: u64,
        tick_8_56: u64,
    ) -> Option<Self> {
        let translated = relation.translate(own);
        let ticks = translated.latest.wrapping_sub(line.counter0);
        let left = line.good_for.checked_sub(ticks)?.min(LONGEST);
        let half_ns = half_ns(translated.width, tick_8_56);
        let more = |part: u64, growth: u64| {
            let part = part.wrapping_add(scaled(ticks, growth, 64));
            // Two values are rounded here, and one at each reading.
            part.saturating_add(half_ns).saturating_add(3)
        };
        // Both ends of the uncertainty grow by this amount. The bounds grow by the same amount once
        // more, since the estimate is that of the latest possible value. The growth is small,
        // because a relation is sound.
        let apart = scaled(relation.growth_0_64, tick_8_56, 56).saturating_mul(2);
        let grown = scaled(left, relation.growth_0_64, 64).saturating_add(2);
        let moved = scaled(ticks, line.rate, 56).wrapping_sub(half_ns);
        Some(Self {
            line: ReadingInputs {
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

/// Returns half of the uncertainty `width`, converted from ticks to nanoseconds and rounded up.
#[inline(always)]
pub(super) fn half_ns(width: u64, tick_8_56: u64) -> u64 {
    let ns = (u128::from(width) * u128::from(tick_8_56)) >> 56;
    u64::try_from(ns / 2 + 2).unwrap_or(u64::MAX >> 1)
}

fn scaled(ticks: u64, factor: u64, shift: u32) -> u64 {
    u64::try_from((u128::from(ticks) * u128::from(factor)) >> shift).unwrap_or(u64::MAX)
}

/// Maximum age of a composed line in ticks (ten seconds or more), after which a new line is
/// composed. Until then the relation grows by little compared with the time for which a daemon
/// counts as alive.
const LONGEST: u64 = 1 << 35;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// At every instant at which the line is good, its interval contains the interval of the
        /// translation and is hardly wider.
        #[test]
        fn a_line_has_the_interval_of_the_translation(
            (low, width) in (-1_i64 << 40..1 << 40, 0_i64..1 << 24),
            measured_ago in 0_u64..1 << 36,
            drift_ppb in 0_u32..=1_000_000,
            rate in 1_u64 << 53..1 << 57,
            (below, above) in (0_u64..1 << 30, 0_u64..1 << 30),
            (below_growth, above_growth) in (0_u64..1 << 50, 0_u64..1 << 50),
            (before, good_for) in (0_u64..1 << 34, 1_u64 << 34..1 << 40),
            (own, later) in (1_u64 << 50..1 << 60, 0_u64..1 << 36),
        ) {
            let relation = CounterRelation {
                low,
                high: low + width,
                measured_at: own - measured_ago,
                growth_0_64: ((u128::from(drift_ppb) << 64) / 1_000_000_000) as u64,
                generation: 7,
            };
            // Regions state this value, which exceeds the true one by a thousandth.
            let tick_8_56 = rate + rate / 1000;
            let line = ReadingInputs {
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
            // The composed line is not good, nor its daemon alive, for longer than with the page's
            // line.
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
            // The growth of the relation since then, twice, and the rounding.
            let grown = scaled(scaled(later, relation.growth_0_64, 64), tick_8_56, 56) as i64;
            prop_assert!(exact[0] - claimed[0] <= 3 * grown + 10);
            prop_assert!(claimed[1] - exact[1] <= 3 * grown + 10);
        }
    }
}
