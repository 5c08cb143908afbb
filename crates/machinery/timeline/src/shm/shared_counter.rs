//! Time-stamp counter that this domain shares with its virtual machines, except for an offset; and
//! the translation of pages to that counter.
//!
//! Outside of sessions it is the processor's counter, which the pages already use. In a session
//! that emulates the time-stamp counter, the emulated counter is a fixed linear function of the
//! host's CLOCK_MONOTONIC_RAW ([`timeloom_abi::ClockPage::tsc_at`]). The page of a host's timeline
//! uses that clock, so it can be translated to the counter; the rounding is added to its bounds. If
//! the session does not emulate the counter, a guest's counter continues while the session is
//! paused, so that no translation exists.
//!
//! The offset of the guest's own counter is the subject of [`crate::shm::CounterRelation`], not of this
//! module.

use timeloom_time::{Instant, Rate};

use crate::shm::counter::{CoreScale, PageCounter};
use crate::shm::domain::HostPage;
use crate::shm::{PageSegment, Refusal};

/// Counter that guests of virtual machines share with this program, with its rate.
#[derive(Clone, Copy, Debug)]
pub struct SharedCounter {
    scale: CoreScale,
    /// Conversion from the host's oscillator to the counter; present on a host of a session.
    emulated: Option<EmulatedTsc>,
}

/// Reason why virtual machines share no counter with this program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharedCounterError {
    /// Programs in this session read the machine's own counter.
    #[error(
        "this session leaves its programs the machine's own counter, by which a virtual machine's \
         time would not be the session's; emulate it: `tsc = \"emulate\"` under `[time]`, or \
         `timeloom exec --tsc emulate`"
    )]
    Native,
    /// The domain of this program cannot be determined.
    #[error("{0}")]
    Domain(Refusal),
    /// The processor's counter is not usable; the text states the reason.
    #[error("{0}")]
    Processor(String),
}

impl SharedCounter {
    /// Returns the counter of this program's domain. Outside of sessions this takes 40 ms, for
    /// comparing the counter with the kernel's clock.
    ///
    /// # Errors
    /// Fails with [`SharedCounterError`].
    pub fn here() -> Result<Self, SharedCounterError> {
        let Some(host) = HostPage::here().map_err(SharedCounterError::Domain)? else {
            return Self::of_processor();
        };
        let emulated = host.emulated_tsc().ok_or(SharedCounterError::Native)?;
        let rate =
            Rate::from_ratio(ONE_8_56, emulated.per_ns_8_56).ok_or(SharedCounterError::Native)?;
        Ok(Self {
            scale: CoreScale::new(Instant::ZERO, Instant::ZERO, rate),
            emulated: Some(emulated),
        })
    }

    #[cfg(target_arch = "x86_64")]
    fn of_processor() -> Result<Self, SharedCounterError> {
        let refused =
            |error: crate::shm::TscError| SharedCounterError::Processor(error.to_string());
        let tsc = crate::shm::TscClock::trusted().map_err(refused)?;
        tsc.calibrate().map(Self::from).map_err(refused)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn of_processor() -> Result<Self, SharedCounterError> {
        let what = "guests share a counter with their host only on x86-64 so far";
        Err(SharedCounterError::Processor(what.to_owned()))
    }

    /// Returns a map from the counter to a core clock. Only its rate has a meaning.
    pub fn scale(&self) -> &CoreScale {
        &self.scale
    }

    /// Returns the counter of those pages in this domain that can be passed to virtual machines.
    pub fn of_pages(&self) -> PageCounter {
        match self.emulated {
            None => PageCounter::Tsc,
            Some(_) => PageCounter::HostRaw,
        }
    }

    /// Translates a segment from the counter of this domain's pages to the shared counter.
    pub(crate) fn say(&self, segment: PageSegment) -> PageSegment {
        self.emulated.map_or(segment, |tsc| tsc.say(segment))
    }

    /// Returns the value of the shared counter when the counter of this domain's pages is `ticks`;
    /// at least 0 and at most 2^63.
    pub(crate) fn ticks_at(&self, ticks: u64) -> u64 {
        self.emulated.map_or(ticks, |tsc| tsc.limit_at(ticks))
    }
}

impl From<CoreScale> for SharedCounter {
    /// Uses the processor's counter, on which the pages are already based.
    fn from(scale: CoreScale) -> Self {
        let emulated = None;
        Self { scale, emulated }
    }
}

/// Counter that the programs of a session see: `tsc0` at the zero of the host's
/// CLOCK_MONOTONIC_RAW, modulo 2^64, plus `per_ns_8_56` ticks for each nanosecond of that clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EmulatedTsc {
    pub(crate) tsc0: u64,
    /// Ticks per nanosecond in 8.56 fixed point; not 0.
    pub(crate) per_ns_8_56: u64,
}

impl EmulatedTsc {
    /// Translates a line over nanoseconds of the host's oscillator to a line over the emulated
    /// counter.
    ///
    /// Both counters are truncated to whole numbers. A reading of one therefore determines the
    /// other with an error below one tick, and this happens twice: at the start of the line and at
    /// the reading.
    fn say(self, segment: PageSegment) -> PageSegment {
        let counter0 = self.at(segment.counter0);
        let void_after = self.limit_at(segment.void_after);
        let life = void_after.saturating_sub(counter0);
        let per_tick = |part: u64| (u128::from(part) << 56) / u128::from(self.per_ns_8_56);
        let narrow = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        // The tick counts twice, since a timeline may be slightly faster than the oscillator. The
        // rest is rounding of the estimate, of the growth and of the rate.
        let tick_ns = narrow(per_tick(1)).saturating_add(1);
        let rounding_ns = tick_ns.saturating_mul(2).saturating_add(2 + (life >> 56));
        PageSegment {
            counter0,
            rate_8_56: narrow(per_tick(segment.rate_8_56)),
            below_ns: segment.below_ns.saturating_add(rounding_ns),
            above_ns: segment.above_ns.saturating_add(rounding_ns),
            below_growth_0_64: narrow(per_tick(segment.below_growth_0_64)).saturating_add(1),
            above_growth_0_64: narrow(per_tick(segment.above_growth_0_64)).saturating_add(1),
            fresh_until: self.limit_at(segment.fresh_until),
            void_after,
            backwards: narrow(self.ticks_in(segment.backwards)),
            ..segment
        }
    }

    fn ticks_in(self, ns: u64) -> u128 {
        (u128::from(ns) * u128::from(self.per_ns_8_56)) >> 56
    }

    /// Returns the value that programs read when the host's oscillator is `raw_ns`.
    fn at(self, raw_ns: u64) -> u64 {
        self.tsc0.wrapping_add(self.ticks_in(raw_ns) as u64)
    }

    /// Converts a limit as [`Self::at`] does. The limit may be so far in the future that it means
    /// never.
    fn limit_at(self, raw_ns: u64) -> u64 {
        // `tsc0` is taken as signed, because a value before the zero of the clock means that the
        // counter had not begun yet.
        let zero = i128::from(self.tsc0 as i64);
        let ticks = i128::try_from(self.ticks_in(raw_ns)).unwrap_or(i128::MAX >> 1);
        zero.saturating_add(ticks).clamp(0, i128::from(i64::MAX)) as u64
    }
}

/// Rate of one tick per nanosecond in 8.56 fixed point.
const ONE_8_56: u64 = 1 << 56;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::shm::reader::ReadingInputs;
    use timeloom_clock::quality::Status;

    proptest! {
        /// At every instant of the oscillator, the interval of the translated page contains that of
        /// the original page and is hardly wider.
        #[test]
        fn a_line_by_the_counter_has_the_interval_of_the_page(
            tsc0 in (0_u64..1 << 60).prop_union(0_u64.wrapping_sub(1 << 50)..u64::MAX),
            // Rates from 100 MHz to 8 GHz.
            per_ns_8_56 in ONE_8_56 / 10..8 * ONE_8_56,
            (began, later) in (1_u64 << 52..1 << 56, 0_u64..1 << 42),
            steered_ppb in -1_000_000_i64..1_000_000,
            (below_ns, above_ns) in (0_u64..1 << 40, 0_u64..1 << 40),
            (below_ppb, above_ppb) in (0_u128..900_000, 0_u128..900_000),
        ) {
            let growth = |ppb: u128| ((ppb << 64) / 1_000_000_000) as u64;
            let page = PageSegment {
                counter0: began,
                estimate0_ns: 1 << 60,
                rate_8_56: ONE_8_56
                    .saturating_add_signed(ONE_8_56 as i64 / 1_000_000_000 * steered_ppb),
                below_ns,
                above_ns,
                below_growth_0_64: growth(below_ppb),
                above_growth_0_64: growth(above_ppb),
                fresh_until: began + (1 << 43),
                void_after: began + (1 << 44),
                backwards: 500,
                marker: 6,
                status: Status::Ok as u8,
            };
            let tsc = EmulatedTsc { tsc0, per_ns_8_56 };
            let said = tsc.say(page);
            // The counter must have begun, as from_words requires.
            prop_assume!(said.counter0 < u64::MAX >> 1);
            prop_assert_eq!(PageSegment::from_words(&said.to_words()), Ok(said));
            let raw_ns = began + later;
            let (exact, claimed) = (
                ReadingInputs::of(&page.to_words()).at(raw_ns),
                ReadingInputs::of(&said.to_words()).at(tsc.at(raw_ns)),
            );
            let ends = |it: crate::shm::Reading| (
                it.estimate_ns - it.below_ns as i64,
                it.estimate_ns + it.above_ns as i64,
            );
            let (exact, claimed) = (ends(exact), ends(claimed));
            prop_assert!(claimed.0 <= exact.0 && exact.1 <= claimed.1, "{:?} {:?}", exact, claimed);
            // Two ticks of at most 10 ns at either end, plus rounding that grows with time.
            prop_assert!(exact.0 - claimed.0 < 60 && claimed.1 - exact.1 < 60);
            // The translated page is good for the same time, to within a tick.
            let good_ns = |ticks: u64| (u128::from(ticks) << 56) / u128::from(per_ns_8_56);
            let good = good_ns(said.fresh_until - said.counter0);
            prop_assert!(good.abs_diff(1 << 43) <= 20, "{}", good);
        }
    }

    #[test]
    fn limits_of_never_and_before_the_counter_stay_the_same() {
        let tsc = EmulatedTsc {
            tsc0: 1_000_u64.wrapping_neg(),
            per_ns_8_56: 3 * ONE_8_56,
        };
        assert_eq!(tsc.limit_at(0), 0);
        assert_eq!(tsc.limit_at(1_000), 2_000);
        assert_eq!(tsc.limit_at(u64::MAX >> 1), u64::MAX >> 1);
    }
}
