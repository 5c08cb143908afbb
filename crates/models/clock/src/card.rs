//! Clock of a network card: a PTP hardware clock with an oscillator of its own, which programs of
//! the host steer by `clock_adjtime` as they steer the clock of a real card.
//!
//! The card stamps frames, and a stamp is asked for after the frame has passed. The clock therefore
//! keeps its recent lines ([`RecentLines`]): a stamp shows what the clock showed at the instant of
//! the frame, even if it was steered or set since.

use std::collections::VecDeque;

use timeloom_time::{ClockMap, Core, Duration, Instant, Rate, Scale};

use crate::host::{HostClock, HostClockOptions, HostOscillator};
use crate::kernel::{KernelClockOptions, Timex, modes};
use crate::scale::{CardTime, HostTime};

/// Deviations of a card's clock from an ideal one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CardClockOptions {
    /// Oscillator that the card counts.
    pub oscillator: HostOscillator,
    /// Seed of the random errors of the oscillator.
    pub seed: u64,
    /// Reading of the clock at host time zero.
    pub start: Instant<CardTime>,
}

/// Error of a call that steers a card's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardError {
    /// EINVAL: the request is not valid.
    Invalid,
    /// ERANGE: the frequency offset exceeds [`GREATEST_OFFSET_PPB`].
    TooMuch,
    /// EOPNOTSUPP: the card cannot do that.
    NotSupported,
}

/// Greatest frequency offset to which a card can be steered, in parts per 10^9: that of the Intel
/// 82580 and its successors.
pub const GREATEST_OFFSET_PPB: i64 = 62_499_999;

/// Clock of a card. The argument `now` of every method is host time and must never decrease.
#[derive(Clone, Debug)]
pub struct CardClock {
    oscillator: HostClock,
    lines: RecentLines<HostTime, CardTime>,
    /// Frequency offset in ppm with 16 fractional bits, as last set.
    offset_ppm_16: i64,
}

impl CardClock {
    /// Returns the clock at host time zero.
    pub fn new(options: &CardClockOptions) -> Self {
        let mut oscillator = HostClock::new(&HostClockOptions {
            kernel: KernelClockOptions {
                raw: Instant::ZERO,
                monotonic: Instant::ZERO,
                realtime: Instant::ZERO,
                tai_s: 0,
                ticks_per_s: 250,
            },
            oscillator: options.oscillator,
            cycles: None,
            seed: options.seed,
        });
        let rate = oscillator.line(Instant::ZERO).core.rate;
        Self {
            oscillator,
            lines: RecentLines::new(ClockMap::new(Instant::ZERO, options.start, rate)),
            offset_ppm_16: 0,
        }
    }

    /// Returns what the clock showed at `then`, which may be before the latest change of its rate;
    /// `None` if the clock was changed too often since.
    pub fn shown(
        &mut self,
        now: Instant<HostTime>,
        then: Instant<HostTime>,
    ) -> Option<Instant<CardTime>> {
        self.advance(now);
        self.lines.at(then)
    }

    /// Returns the rate of the clock per host time.
    pub fn rate(&mut self, now: Instant<HostTime>) -> Rate {
        self.advance(now);
        self.lines.last().rate
    }

    /// Sets the clock.
    pub fn set(&mut self, now: Instant<HostTime>, shown: Instant<CardTime>) {
        self.advance(now);
        let rate = self.lines.last().rate;
        self.lines.push(ClockMap::new(now, shown, rate));
    }

    /// Executes `clock_adjtime` on the clock, as the kernel does for a card: it steps the clock
    /// (`ADJ_SETOFFSET`), sets its frequency offset (`ADJ_FREQUENCY`), or returns that offset.
    ///
    /// # Errors
    /// Fails with the error of the system call.
    pub fn adjust(&mut self, now: Instant<HostTime>, timex: &mut Timex) -> Result<(), CardError> {
        self.advance(now);
        if timex.modes & modes::SETOFFSET != 0 {
            let unit_ns = if timex.modes & modes::NANO != 0 {
                1
            } else {
                1_000
            };
            let part_ns = timex.time_part.checked_mul(unit_ns);
            let part_ns = part_ns.filter(|ns| (0..NS_PER_S).contains(ns));
            let step = part_ns.and_then(|ns| timex.time_s.checked_mul(NS_PER_S)?.checked_add(ns));
            let step = Duration::from_ns(step.ok_or(CardError::Invalid)?);
            let shown = self.lines.last().at(now) + step;
            self.set(now, shown);
        } else if timex.modes & modes::FREQUENCY != 0 {
            let offset_ppb = (i128::from(timex.freq) * 1_000) >> 16;
            if offset_ppb.abs() > GREATEST_OFFSET_PPB.into() {
                return Err(CardError::TooMuch);
            }
            self.offset_ppm_16 = timex.freq;
            let core = self.oscillator.line(now).core;
            let rate = self.steered(core);
            self.lines.push(self.lines.last().continued(now, rate));
        } else if timex.modes != 0 {
            return Err(CardError::NotSupported);
        } else {
            timex.freq = self.offset_ppm_16;
        }
        Ok(())
    }

    /// Starts a new line for every change of the oscillator's rate until `now`.
    fn advance(&mut self, now: Instant<HostTime>) {
        while let Some(at) = self.oscillator.next_wake().filter(|at| *at <= now) {
            let core = self.oscillator.line(at).core;
            let rate = self.steered(core);
            self.lines.push(self.lines.last().continued(at, rate));
        }
    }

    /// Returns the rate of the clock that counts `core`.
    fn steered(&self, core: ClockMap<HostTime, Core>) -> Rate {
        let millionths = (1_000_000 << 16) + self.offset_ppm_16;
        let factor = Rate::from_ratio(millionths.max(0).unsigned_abs(), 1_000_000 << 16);
        core.rate.times(factor.unwrap_or(Rate::ONE))
    }
}

/// The line of a clock that is in force, and those that were in force before.
#[derive(Clone, Debug)]
pub struct RecentLines<In: Scale, Out: Scale>(VecDeque<ClockMap<In, Out>>);

impl<In: Scale, Out: Scale> RecentLines<In, Out> {
    /// Starts with a line that was in force from the beginning.
    pub fn new(first: ClockMap<In, Out>) -> Self {
        Self(VecDeque::from([first]))
    }

    /// Adds a line, which is in force from its `in0` on.
    pub fn push(&mut self, line: ClockMap<In, Out>) {
        let last = self.last();
        if last.rate == line.rate && last.at(line.in0) == line.out0 {
            return;
        }
        if self.0.len() == MOST_LINES {
            self.0.pop_front();
        }
        self.0.push_back(line);
    }

    /// Returns the line in force.
    pub fn last(&self) -> ClockMap<In, Out> {
        self.0[self.0.len() - 1]
    }

    /// Returns what the clock showed at `then`; `None` if that was before the oldest line.
    pub fn at(&self, then: Instant<In>) -> Option<Instant<Out>> {
        let begun = self.0.iter().rev().find(|line| line.in0 <= then);
        begun.map(|line| line.at(then))
    }
}

/// Number of lines that are kept. A daemon steers a clock at most some hundred times a second, and
/// a stamp is read within milliseconds.
const MOST_LINES: usize = 1_024;
const NS_PER_S: i64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RateError;

    fn clock(frequency_ppb: i64) -> CardClock {
        CardClock::new(&CardClockOptions {
            oscillator: HostOscillator {
                frequency: RateError::from_ppb(frequency_ppb),
                ..HostOscillator::default()
            },
            seed: 5,
            start: Instant::from_ns(1_000),
        })
    }

    fn at_s(s: i64) -> Instant<HostTime> {
        Instant::from_ns(s * NS_PER_S)
    }

    fn shown_ns(clock: &mut CardClock, now: Instant<HostTime>) -> i64 {
        clock.shown(now, now).expect("now").as_ns()
    }

    #[test]
    fn a_stamp_is_the_clocks_reading_before_it_was_steered_and_set() {
        let mut clock = clock(50_000);
        let first = shown_ns(&mut clock, at_s(10));
        assert!((first - 10_000_501_000).abs() <= 1, "{first}");
        let mut timex = Timex {
            modes: modes::FREQUENCY,
            freq: -50 << 16,
            ..Timex::default()
        };
        clock.adjust(at_s(10), &mut timex).expect("50 ppm");
        let mut step = Timex {
            modes: modes::SETOFFSET | modes::NANO,
            time_s: -1,
            time_part: 999_999_000,
            ..Timex::default()
        };
        clock.adjust(at_s(20), &mut step).expect("a step of -1 us");
        let last = shown_ns(&mut clock, at_s(30));
        // (1 + 50 ppm) (1 - 50 ppm) = 1 - 2.5e-9.
        assert!(
            (last - (first + 20 * NS_PER_S - 1_000 - 50)).abs() <= 2,
            "{last}"
        );
        let then = clock.shown(at_s(30), at_s(5)).expect("recent").as_ns();
        assert!((then - 5_000_251_000).abs() <= 1, "{then}");
        let mut read = Timex::default();
        clock.adjust(at_s(30), &mut read).expect("a query");
        assert_eq!(read.freq, -50 << 16);
    }

    #[test]
    fn requests_that_a_card_cannot_fulfil_have_the_kernels_errors() {
        let mut clock = clock(0);
        let request = |modes, freq, time_part| Timex {
            modes,
            freq,
            time_part,
            ..Timex::default()
        };
        for (mut timex, error) in [
            (
                request(modes::FREQUENCY, 62_501 << 16, 0),
                CardError::TooMuch,
            ),
            (request(modes::FREQUENCY, i64::MIN, 0), CardError::TooMuch),
            (request(modes::OFFSET, 0, 0), CardError::NotSupported),
            (
                request(modes::SETOFFSET | modes::NANO, 0, NS_PER_S),
                CardError::Invalid,
            ),
            (request(modes::SETOFFSET, 0, i64::MAX), CardError::Invalid),
        ] {
            assert_eq!(clock.adjust(at_s(1), &mut timex), Err(error), "{timex:?}");
        }
        assert_eq!(shown_ns(&mut clock, at_s(2)), 2 * NS_PER_S + 1_000);
    }

    #[test]
    fn a_wandering_oscillator_defines_one_time_for_any_number_of_readings() {
        let options = CardClockOptions {
            oscillator: HostOscillator {
                wander: RateError::from_ppb(20),
                ..HostOscillator::default()
            },
            ..CardClockOptions::default()
        };
        let (mut often, mut seldom) = (CardClock::new(&options), CardClock::new(&options));
        for ms in (0..100_000).step_by(37) {
            let now = Instant::from_ns(ms * 1_000_000);
            shown_ns(&mut often, now);
        }
        let end = at_s(100);
        assert_eq!(shown_ns(&mut often, end), shown_ns(&mut seldom, end));
        let past = at_s(40);
        assert_eq!(often.shown(end, past), seldom.shown(end, past));
        assert_ne!(shown_ns(&mut seldom, end), end.as_ns());
    }
}
