//! The time-stamp counter as shared with the virtual machines of this domain, up to an offset, and
//! the translation of pages to it.
//!
//! Outside of sessions it is the processor's, which the pages use already. In a session that
//! emulates it, the counter is a fixed linear function of the host's CLOCK_MONOTONIC_RAW
//! ([`timeloom_page::ClockPage::tsc_at`]). So the page of a host's timeline, which uses that clock,
//! can be translated to the counter, with the rounding added to its bounds. If a session does not
//! emulate the counter, a guest's counter continues while the session is paused: there is no
//! relation between the two.
//!
//! The guest's own offset is not part of this module ([`crate::Relation`]).

use timeloom_time::{Instant, Rate};

use crate::counter::{CoreScale, PageCounter};
use crate::domain::HostPage;
use crate::{PageSegment, Refusal};

/// Counter that guests share with this program, and its rate.
#[derive(Clone, Copy, Debug)]
pub struct SharedCounter {
    scale: CoreScale,
    /// On a host of a session: conversion of its oscillator to the counter.
    emulated: Option<EmulatedTsc>,
}

/// Reason why guests share no counter with this program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotShared {
    /// The session leaves programs the machine's own counter.
    #[error(
        "this session leaves its programs the machine's own counter, by which a virtual machine's \
         time would not be the session's; emulate it: `tsc = \"emulate\"` under `[time]`, or \
         `timeloom exec --tsc emulate`"
    )]
    Native,
    /// The domain of this program is unknown.
    #[error("{0}")]
    Domain(Refusal),
    /// The processor's counter is not usable, and the reason.
    #[error("{0}")]
    Processor(String),
}

impl SharedCounter {
    /// Returns the counter of this program's domain. Takes 40 ms outside of sessions, to compare it
    /// with the kernel's clock.
    ///
    /// # Errors
    /// Fails with [`NotShared`].
    pub fn here() -> Result<Self, NotShared> {
        let Some(host) = HostPage::here().map_err(NotShared::Domain)? else {
            return Self::of_processor();
        };
        let emulated = host.emulated_tsc().ok_or(NotShared::Native)?;
        let rate = Rate::from_ratio(ONE_8_56, emulated.per_ns_8_56).ok_or(NotShared::Native)?;
        Ok(Self {
            scale: CoreScale::new(Instant::ZERO, Instant::ZERO, rate),
            emulated: Some(emulated),
        })
    }

    #[cfg(target_arch = "x86_64")]
    fn of_processor() -> Result<Self, NotShared> {
        let refused = |error: crate::TscError| NotShared::Processor(error.to_string());
        let tsc = crate::Tsc::trusted().map_err(refused)?;
        tsc.calibrate().map(Self::from).map_err(refused)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn of_processor() -> Result<Self, NotShared> {
        let what = "guests share a counter with their host only on x86-64 so far";
        Err(NotShared::Processor(what.to_owned()))
    }

    /// Returns a line of the counter to a core clock, of which only the rate is meaningful.
    pub fn scale(&self) -> &CoreScale {
        &self.scale
    }

    /// Returns the counter of those pages of this domain that can be passed to guests.
    pub fn of_pages(&self) -> PageCounter {
        match self.emulated {
            None => PageCounter::Tsc,
            Some(_) => PageCounter::HostRaw,
        }
    }

    /// Translates a page of this domain to the shared counter.
    pub(crate) fn say(&self, segment: PageSegment) -> PageSegment {
        self.emulated.map_or(segment, |tsc| tsc.say(segment))
    }

    /// Returns the shared counter's value when a page's is `ticks`; 0 to 2^63.
    pub(crate) fn ticks_at(&self, ticks: u64) -> u64 {
        self.emulated.map_or(ticks, |tsc| tsc.limit_at(ticks))
    }
}

impl From<CoreScale> for SharedCounter {
    /// Uses the processor's counter, which pages use already.
    fn from(scale: CoreScale) -> Self {
        let emulated = None;
        Self { scale, emulated }
    }
}

/// Counter as seen by a session's programs: this many ticks at the zero of the host's
/// CLOCK_MONOTONIC_RAW, modulo 2^64, and `per_ns_8_56` more for each nanosecond of that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EmulatedTsc {
    pub(crate) tsc0: u64,
    /// Ticks per nanosecond, 8.56 fixed point; not 0.
    pub(crate) per_ns_8_56: u64,
}

impl EmulatedTsc {
    /// Translates a line by nanoseconds of the host's oscillator to one by the counter.
    ///
    /// Both counters are truncated to whole numbers, so that a reading of the one determines the
    /// other to less than a tick's time, twice: at the start of the line and at the reading.
    fn say(self, segment: PageSegment) -> PageSegment {
        let counter0 = self.at(segment.counter0);
        let void_after = self.limit_at(segment.void_after);
        let life = void_after.saturating_sub(counter0);
        let per_tick = |part: u64| (u128::from(part) << 56) / u128::from(self.per_ns_8_56);
        let narrow = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        // Twice, since a timeline may be slightly faster than the oscillator. And roundings: of the
        // estimate, of the growth, of the rate.
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

    /// Returns the value at this nanosecond, as read by programs.
    fn at(self, raw_ns: u64) -> u64 {
        self.tsc0.wrapping_add(self.ticks_in(raw_ns) as u64)
    }

    /// Converts a limit as [`Self::at`] does; it may be so far that it means never.
    fn limit_at(self, raw_ns: u64) -> u64 {
        // Signed: before the zero of its clock the counter had not begun, either.
        let zero = i128::from(self.tsc0 as i64);
        let ticks = i128::try_from(self.ticks_in(raw_ns)).unwrap_or(i128::MAX >> 1);
        zero.saturating_add(ticks).clamp(0, i128::from(i64::MAX)) as u64
    }
}

/// Rate of one tick per nanosecond.
const ONE_8_56: u64 = 1 << 56;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reader::Line;
    use timeloom_clock::quality::Status;

    proptest! {
        /// At every instant of the oscillator, the interval of the translated page contains that of
        /// the page, and is hardly wider.
        #[test]
        fn a_line_by_the_counter_claims_what_the_page_does(
            tsc0 in (0_u64..1 << 60).prop_union(0_u64.wrapping_sub(1 << 50)..u64::MAX),
            // 100 MHz to 8 GHz.
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
            // A counter that has begun, as from_words requires.
            prop_assume!(said.counter0 < u64::MAX >> 1);
            prop_assert_eq!(PageSegment::from_words(&said.to_words()), Ok(said));
            let raw_ns = began + later;
            let (exact, claimed) = (
                Line::of(&page.to_words()).at(raw_ns),
                Line::of(&said.to_words()).at(tsc.at(raw_ns)),
            );
            let ends = |it: crate::Reading| (
                it.estimate_ns - it.below_ns as i64,
                it.estimate_ns + it.above_ns as i64,
            );
            let (exact, claimed) = (ends(exact), ends(claimed));
            prop_assert!(claimed.0 <= exact.0 && exact.1 <= claimed.1, "{:?} {:?}", exact, claimed);
            // Two ticks of at most 10 ns at either end, and roundings that grow.
            prop_assert!(exact.0 - claimed.0 < 60 && claimed.1 - exact.1 < 60);
            // It is good for as long, to a tick.
            let good_ns = |ticks: u64| (u128::from(ticks) << 56) / u128::from(per_ns_8_56);
            let good = good_ns(said.fresh_until - said.counter0);
            prop_assert!(good.abs_diff(1 << 43) <= 20, "{}", good);
        }
    }

    #[test]
    fn what_means_never_and_what_was_before_the_counter_stay_so() {
        let tsc = EmulatedTsc {
            tsc0: 1_000_u64.wrapping_neg(),
            per_ns_8_56: 3 * ONE_8_56,
        };
        assert_eq!(tsc.limit_at(0), 0);
        assert_eq!(tsc.limit_at(1_000), 2_000);
        assert_eq!(tsc.limit_at(u64::MAX >> 1), u64::MAX >> 1);
    }
}
