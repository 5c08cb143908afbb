//! `chronyd` as a source, by its command protocol. chronyd reports the offset of the system clock,
//! so it makes no difference here if it steers that clock or not (`-x`).
//!
//! chronyd does not detect that its machine was held, and fits one line through samples from before
//! and after. That line is near neither, and the error that chronyd states does not include this.
//! An update of chronyd after the machine was held is therefore no evidence that chronyd is right.
//! So when the machine was held, suspended or replaced, this module orders chronyd to drop its
//! measurements (`chronyc reset sources`, chrony 4.0 and later). chronyd then drops exchanges under
//! way as well, and is unsynchronised until it has new measurements.
//!
//! chronyd accepts this order by its Unix socket only. By UDP this module can only watch until no
//! old sample is left, which may take until all of the 64 samples that chronyd keeps per source are
//! replaced.

use std::sync::Arc;

use timeloom_clock::timeline::{Disturbance, Era, Exchange, LocalNow, WatchLimits};
use timeloom_clock::{Core, RateError};
use timeloom_time::{Duration, Instant};
use timeloom_timeline::shm::PageCounter;

use super::chrony_codec::{self, Question, Tracking};
use super::chrony_link::{Chronyd, NoAnswer};
use super::realtime_line::{STEERED, check_even};
use super::{FromUtc, Source, SourceFailure, SourceSample};
use crate::LocalClock;
use crate::config::{ChronyConfig, TimelineConfig};
use crate::local_clock::Pair;

pub(super) struct Chrony {
    clock: Arc<LocalClock>,
    /// Maximum error of chronyd's frequency estimate between its updates.
    drift: RateError,
    from_utc: FromUtc,
    chronyd: Chronyd,
    /// State of the machine when `memory` was last determined.
    seen: LocalNow,
    memory: Memory,
}

/// Dependence of chronyd's answers on measurements from before this machine was held, suspended or
/// replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// No such measurement is left.
    New,
    /// Possible dependence: chronyd may still use samples, but none older than this instant.
    Old(Instant<Core>),
    /// All samples were newer than the event when they were checked at this instant. An answer may
    /// still be from before that check.
    Renewed(Instant<Core>),
}

impl Chrony {
    pub(super) fn new(
        config: ChronyConfig,
        timeline: &TimelineConfig,
        clock: Arc<LocalClock>,
    ) -> Self {
        let mut seen = clock.now();
        if clock.kind() == PageCounter::HostRaw {
            // A session's hosts begin with the marker 0. A disruption of this host before this
            // daemon started affected the host's chronyd too.
            seen.marker = 0;
        }
        let stated = config.drift_ppb.map(RateError::from_ppb);
        Self {
            drift: stated.unwrap_or(timeline.oscillator().max_error),
            from_utc: FromUtc::of(timeline),
            chronyd: Chronyd::new(config.address),
            clock,
            seen,
            memory: Memory::New,
        }
    }

    /// Orders chronyd to drop its measurements from before `now`.
    fn renew(&mut self, now: LocalNow) -> Result<(), SourceFailure> {
        let reset = self.chronyd.ask(Question::Reset, chrony_codec::is_reset);
        self.memory = match reset {
            Ok(()) => Memory::New,
            Err(NoAnswer::Refused(_)) => Memory::Old(now.core),
            Err(NoAnswer::Failed(why)) => return Err(why),
        };
        self.seen = now;
        if self.memory == Memory::New {
            return Err(SourceFailure::because(
                "chronyd was just told to measure again, since this machine was held, suspended \
                 or replaced",
            ));
        }
        Ok(())
    }

    /// Checks that all samples that chronyd keeps are newer than `since`.
    fn check_samples(&mut self, since: Instant<Core>) -> Result<(), SourceFailure> {
        let sources = self.chronyd.ask(Question::Count, chrony_codec::count)?;
        if sources > MOST_SOURCES {
            return Err(SourceFailure(format!("chronyd has {sources} sources")));
        }
        for source in 0..sources {
            // The core clock is read before the request: if a sample arrives in between, the
            // computed time of the last sample is then too old and not too new.
            let asked = self.clock.core();
            let heard_s = self
                .chronyd
                .ask(Question::SourceData(source), chrony_codec::heard_s)?;
            let stats = self
                .chronyd
                .ask(Question::SourceStats(source), chrony_codec::source_stats)?;
            let back = Duration::from_s(i64::from(heard_s) + i64::from(stats.span_s)) + ROUNDED;
            if stats.samples > 0 && lengthened(back) >= asked - since {
                return Err(SourceFailure(format!(
                    "chronyd still uses measurements from before this machine was held, suspended \
                     or replaced (its source {source}), and takes no orders by UDP: give the path \
                     of its Unix socket as `address`, or run `chronyc reset sources`"
                )));
            }
        }
        self.memory = Memory::Renewed(self.clock.core());
        Ok(())
    }
}

impl Source for Chrony {
    fn ask(&mut self, era: Era) -> Result<SourceSample, SourceFailure> {
        let tai_offset = self.from_utc.now()?;
        let now = self.clock.now();
        let happened = self.seen.disturbance_until(&now, &WatchLimits::default());
        if matches!(
            happened,
            Some(Disturbance::Migrated | Disturbance::Suspended)
        ) {
            self.renew(now)?;
        }
        self.seen = now;
        if let Memory::Old(since) = self.memory {
            self.check_samples(since)?;
        }
        let before = self.clock.realtime();
        let tracking = self
            .chronyd
            .ask(Question::Tracking, chrony_codec::tracking)?;
        let after = self.clock.realtime();
        check_even(&before, &after)?;
        if self.clock.marker() != now.marker {
            return Err(SourceFailure::because(
                "this machine was held or replaced while chronyd was asked",
            ));
        }
        let sample = interpret(&tracking, era, (&before, &after), tai_offset, self.drift)?;
        if let Memory::Renewed(since) = self.memory {
            if lengthened(age(&tracking, &after)) >= after.before - since {
                return Err(SourceFailure::because(
                    "chronyd has received nothing from its sources since its earlier measurements \
                     were discarded",
                ));
            }
            self.memory = Memory::New;
        }
        Ok(sample)
    }
}

/// Converts an answer of chronyd to a sample. The answer was given between the two readings of the
/// system clock; the sample is at the second reading.
fn interpret(
    tracking: &Tracking,
    era: Era,
    (before, after): (&Pair, &Pair),
    tai_offset: Duration,
    drift: RateError,
) -> Result<SourceSample, SourceFailure> {
    if !tracking.synchronised {
        return Err(SourceFailure::because(
            "chronyd is not in step with any source",
        ));
    }
    let correction_ns = tracking.correction_s * 1e9;
    let utc_ns = after.other_ns.saturating_add(correction_ns as i64);
    let age = age(tracking, after);
    if age < -Duration::from_s(1) {
        return Err(SourceFailure::because(
            "chronyd's last update lies in the future",
        ));
    }
    // The kernel may have slewed the clock since the answer was given. chronyd's numbers have 24
    // significant bits.
    let moved = STEERED.over_up(after.after - before.before);
    let cut_ns = correction_ns.abs() / 8e6 + 2.0;
    let ns_up = |s: f64| Duration::from_ns((s * 1e9 * (1.0 + 1e-6)).ceil() as i64);
    let shows = Instant::from_ns(utc_ns) + tai_offset;
    let error = ns_up(tracking.root_dispersion_s)
        + drift.over_up(age.max(Duration::ZERO))
        + moved
        + Duration::from_ns(cut_ns.ceil() as i64);
    Ok(SourceSample::Exchange(Exchange {
        root_delay: ns_up(tracking.root_delay_s),
        ..Exchange::direct(era, (after.before, after.after), shows, error)
    }))
}

/// Returns the maximum age of chronyd's last update, by the core clock.
fn age(tracking: &Tracking, now: &Pair) -> Duration {
    let correction_ns = (tracking.correction_s * 1e9) as i64;
    let utc_ns = now.other_ns.saturating_add(correction_ns);
    Duration::from_ns(utc_ns.saturating_sub(tracking.ref_time_ns))
}

/// Converts a duration measured by the system clock to the longest duration that the core clock can
/// show for it.
fn lengthened(length: Duration) -> Duration {
    length + STEERED.over_up(length)
}

/// Rounding of chronyd's values. chronyd reports ages and spans in whole seconds, which are up to a
/// second and a half too short. It dates an exchange to the middle between request and answer,
/// which may be three seconds apart (`maxdelay`).
const ROUNDED: Duration = Duration::from_ms(1_500 + 1_500);

/// Largest number of sources that is processed; no real configuration has as many.
const MOST_SOURCES: u32 = 100;

#[cfg(test)]
mod tests;
