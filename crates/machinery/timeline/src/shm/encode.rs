//! Encoding of a segment as the words of a page.

use timeloom_clock::RateError;
use timeloom_clock::quality::Status;
use timeloom_clock::timeline::Segment;
use timeloom_time::{Instant, Rate};

use crate::shm::counter::CoreScale;
use crate::shm::layout::{WORDS, sum};
use crate::shm::refusal::Refusal;

/// Segment in units of counter ticks, so that a reader needs one multiplication and no division.
/// The order of the fields is the order of the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSegment {
    /// Value of the counter at the start of the line.
    pub counter0: u64,
    /// Estimate at the start of the line, in nanoseconds of the timeline.
    pub estimate0_ns: i64,
    /// Nanoseconds of the timeline per tick, 8.56 fixed point, rounded down.
    pub rate_8_56: u64,
    /// Maximum distance of true time before the estimate at the start of the line, in nanoseconds,
    /// including all rounding.
    pub below_ns: u64,
    /// Maximum distance of true time after the estimate at the start of the line, in nanoseconds,
    /// including all rounding.
    pub above_ns: u64,
    /// Growth of `below_ns` in nanoseconds per tick, in 0.64 fixed point, rounded up.
    pub below_growth_0_64: u64,
    /// Growth of `above_ns` in nanoseconds per tick, in 0.64 fixed point, rounded up.
    pub above_growth_0_64: u64,
    /// Value of the counter until which the last answer of the sources counts as fresh.
    pub fresh_until: u64,
    /// Value of the counter after which the segment has no interval.
    pub void_after: u64,
    /// Maximum number of ticks by which a reader's counter may be before `counter0`. A counter
    /// further behind has gone backwards.
    pub backwards: u64,
    /// Disruption marker of the machine when the segment was created.
    pub marker: u64,
    /// Number of a [`Status`].
    pub status: u8,
}

impl PageSegment {
    /// Converts `segment` to ticks; `scale` is the map from the counter to the segment's core
    /// clock.
    ///
    /// All errors of the conversion are added to the bounds. The start is moved to a whole tick and
    /// a whole nanosecond (2 ns). The rate is rounded down to 2^-56 ns per tick, which adds up to
    /// `ticks to live * 2^-56`.
    pub fn new(segment: &Segment, scale: &CoreScale) -> Self {
        let ticks = |core| {
            scale
                .first_reaching(core)
                .map_or(u64::MAX >> 1, Instant::as_ticks)
        };
        let counter0 = ticks(segment.origin.core);
        let core0 = scale.at(Instant::from_ticks(counter0));
        let start = segment.interval_at(core0);
        let void_after = ticks(segment.void_after).saturating_sub(1);
        let life = u128::from(void_after.saturating_sub(counter0));
        // One nanosecond more for the reader, which rounds the growth down.
        let rounding_ns = 4 + (life >> 56) as u64;
        let ns = |length: timeloom_time::Duration| length.as_ns().max(0) as u64;
        let back_ns = segment.watch.backwards.as_ns().max(0) as u64;
        Self {
            counter0,
            estimate0_ns: start.estimate().as_ns(),
            rate_8_56: to_8_56(scale.rate.times(segment.map.rate)),
            below_ns: ns(start.below()).saturating_add(rounding_ns),
            above_ns: ns(start.above()).saturating_add(rounding_ns),
            below_growth_0_64: per_tick_up(segment.below_growth, scale.rate),
            above_growth_0_64: per_tick_up(segment.above_growth, scale.rate),
            fresh_until: ticks(segment.fresh_until).saturating_sub(1),
            void_after,
            backwards: scale.rate.units_until(back_ns).unwrap_or(0),
            marker: segment.origin.marker,
            status: segment.status as u8,
        }
    }

    /// Returns the number of ticks after `counter0` during which a reading is good, as far as the
    /// segment determines it. A reader then needs only one comparison for the counter. The result
    /// is 0 unless the status is [`Status::Ok`].
    fn good_for(&self) -> u64 {
        let last = self.fresh_until.min(self.void_after);
        if self.status != Status::Ok as u8 || last < self.counter0 {
            return 0;
        }
        (last - self.counter0).saturating_add(1)
    }

    /// Encodes the words. The last word is the sum of the others. The first eight words are one
    /// cache line and contain all inputs of a good reading.
    pub fn to_words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[..USED].copy_from_slice(&[
            self.counter0,
            self.estimate0_ns as u64,
            self.rate_8_56,
            self.below_ns,
            self.above_ns,
            self.below_growth_0_64,
            self.above_growth_0_64,
            self.good_for(),
            self.marker,
            self.fresh_until,
            self.void_after,
            self.backwards,
            u64::from(self.status),
        ]);
        words[WORDS - 1] = sum(&words[..WORDS - 1]);
        words
    }

    /// Decodes the words of a page that may be damaged or hostile.
    ///
    /// # Errors
    /// Fails if the sum is wrong, or if a word has a value that no honest writer produces.
    pub fn from_words(words: &[u64; WORDS]) -> Result<Self, Refusal> {
        if words[WORDS - 1] != sum(&words[..WORDS - 1]) {
            return Err(Refusal::Sum);
        }
        let status = u8::try_from(words[12]).unwrap_or(u8::MAX);
        let status = Status::from_number(status).ok_or(Refusal::Absurd("status"))?;
        let segment = Self {
            counter0: words[0],
            estimate0_ns: words[1] as i64,
            rate_8_56: words[2],
            below_ns: words[3],
            above_ns: words[4],
            below_growth_0_64: words[5],
            above_growth_0_64: words[6],
            marker: words[MARKER],
            fresh_until: words[9],
            void_after: words[10],
            backwards: words[11],
            status: status as u8,
        };
        if words[GOOD_FOR] != segment.good_for() {
            return Err(Refusal::Absurd("limit"));
        }
        if status.may_have_interval() {
            segment.check()?;
        }
        Ok(segment)
    }

    fn check(&self) -> Result<(), Refusal> {
        let ten_years_ns = 315_360_000_000_000_000;
        let absurd = |what, wrong| {
            if wrong {
                Err(Refusal::Absurd(what))
            } else {
                Ok(())
            }
        };
        // 5 MHz … 10 GHz correspond to 200 … 0.1 ns per tick.
        absurd(
            "rate",
            !(ONE_8_56 / 10..=200 * ONE_8_56).contains(&self.rate_8_56),
        )?;
        absurd("bound", self.below_ns.max(self.above_ns) > ten_years_ns)?;
        // The limit is a thousandth of the elapsed time, many times the error of any oscillator.
        let most = u128::from(self.rate_8_56) * 256 / 1000;
        let growth = self.below_growth_0_64.max(self.above_growth_0_64);
        absurd("growth", u128::from(growth) > most)?;
        absurd(
            "counter",
            self.counter0 > u64::MAX >> 1 || self.void_after > u64::MAX >> 1,
        )?;
        let life = self.void_after.saturating_sub(self.counter0);
        let life_ns = (u128::from(life) * u128::from(self.rate_8_56)) >> 56;
        absurd("time to live", life_ns > u128::from(ten_years_ns))?;
        absurd(
            "estimate",
            self.estimate0_ns.unsigned_abs() > i64::MAX as u64 - 2 * ten_years_ns,
        )
    }
}

/// Number of words in use, not counting the sum.
const USED: usize = 13;

/// Index of the word that states for how many ticks a reading is good.
pub(crate) const GOOD_FOR: usize = 7;

/// Index of the word with the disruption marker.
pub(crate) const MARKER: usize = 8;

/// Rate of one nanosecond per tick in 8.56 fixed point.
const ONE_8_56: u64 = 1 << 56;

fn to_8_56(rate: Rate) -> u64 {
    u64::try_from(rate.to_bits() >> 8).unwrap_or(u64::MAX)
}

/// Converts a growth per nanosecond to a growth per tick. The result is rounded up, with one unit
/// more for the rounding of `ns_per_tick`.
fn per_tick_up(growth: RateError, ns_per_tick: Rate) -> u64 {
    let ppt = growth.as_ppt().max(0) as u128;
    let bits = ns_per_tick
        .to_bits()
        .saturating_mul(ppt)
        .div_ceil(1_000_000_000_000);
    u64::try_from(bits.saturating_add(1)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader checks only the word at `GOOD_FOR`, so this word must follow from the others.
    #[test]
    fn the_validity_of_a_reading_follows_from_the_other_words() {
        let good = PageSegment {
            counter0: 1_000,
            estimate0_ns: 5,
            rate_8_56: ONE_8_56,
            below_ns: 10,
            above_ns: 10,
            below_growth_0_64: 0,
            above_growth_0_64: 0,
            fresh_until: 1_400,
            void_after: 1_300,
            backwards: 0,
            marker: 0,
            status: Status::Ok as u8,
        };
        let good_for = |segment: &PageSegment| segment.to_words()[GOOD_FOR];
        assert_eq!(good_for(&good), 301, "the last tick is 1300");
        let over = PageSegment {
            void_after: 999,
            ..good
        };
        assert_eq!(good_for(&over), 0);
        let lost = PageSegment {
            status: Status::SourceLost as u8,
            ..good
        };
        assert_eq!(good_for(&lost), 0);
        let mut words = good.to_words();
        words[GOOD_FOR] += 1;
        words[WORDS - 1] = sum(&words[..WORDS - 1]);
        let refused = PageSegment::from_words(&words);
        assert_eq!(refused, Err(Refusal::Absurd("limit")));
    }
}
