//! Evaluation of the numbers in the pages of other programs: ClockBound segments and vmclock pages.
//! For any numbers, the result is a reading or a reason why there is none.
//!
//! This module is pure arithmetic; it opens no files and reads no clock. `pages` reads the data.

use timeloom_clock::RateError;
use timeloom_time::{Duration, Instant};
use timeloom_timeline::shm::PageCounter;
use timeloom_timeline::shm::foreign::clockbound::{ClockStatus, Seconds, SegmentV2, SegmentV3};
use timeloom_timeline::shm::foreign::vmclock::{self, Vmclock};

use super::SourceFailure;

/// Returns the maximum error of the system clock according to a ClockBound segment of version 2, at
/// the CLOCK_MONOTONIC instant `now_ns`.
pub(super) fn error_v2(segment: &SegmentV2, now_ns: i64) -> Result<Duration, SourceFailure> {
    let age = check(segment.status, (segment.as_of, segment.void_after), now_ns)?;
    grown(segment.bound_ns, segment.max_drift_ppb, age)
}

/// Returns UTC in nanoseconds since 1970 and its maximum error, according to a ClockBound segment
/// of version 3, at the counter value `ticks`.
pub(super) fn shows_v3(segment: &SegmentV3, ticks: u64) -> Result<(i64, Duration), SourceFailure> {
    let passed = ticks
        .checked_sub(segment.as_of_tsc)
        .ok_or_else(|| SourceFailure::because("the counter is behind the segment"))?;
    let ns_of = |frac: u64, shift: u8| -> Option<i64> {
        // frac / 2^(64 + shift) seconds per tick, times the elapsed ticks.
        let scaled = u128::from(passed).checked_mul(u128::from(frac))?;
        let s_2_64 = scaled >> u32::from(shift).min(127);
        let ns = (s_2_64 >> 32).checked_mul(1_000_000_000)? >> 32;
        i64::try_from(ns).ok()
    };
    let absurd = || SourceFailure::because("the segment has inconsistent values");
    let age =
        Duration::from_ns(ns_of(segment.period_frac, segment.period_shift).ok_or_else(absurd)?);
    let as_of_ns = ns(segment.as_of).ok_or_else(absurd)?;
    let utc_ns = as_of_ns.checked_add(age.as_ns()).ok_or_else(absurd)?;
    let age = age.max(check(
        segment.status,
        (segment.as_of, segment.void_after),
        utc_ns,
    )?);
    // The error of the period is a fraction, which is multiplied by the elapsed time.
    let error_2_64 =
        u128::from(segment.period_err_frac) >> u32::from(segment.period_err_shift).min(127);
    let period_ns = (error_2_64 * age.as_ns().max(0) as u128) >> 64;
    let period_error = Duration::from_ns(i64::try_from(period_ns).map_err(|_| absurd())?);
    let error = grown(segment.bound_ns, segment.max_drift_ppb, age)? + period_error;
    // One nanosecond for each of three rounding steps.
    let error = error + Duration::from_ns(3);
    Ok((utc_ns, error))
}

fn ns(at: Seconds) -> Option<i64> {
    at.s.checked_mul(1_000_000_000)?.checked_add(at.ns)
}

/// Returns the age of the segment at `now_ns`; fails if the segment's status or age forbids its
/// use.
fn check(
    status: ClockStatus,
    (as_of, void_after): (Seconds, Seconds),
    now_ns: i64,
) -> Result<Duration, SourceFailure> {
    if !matches!(status, ClockStatus::Synchronized | ClockStatus::FreeRunning) {
        return Err(SourceFailure(format!("ClockBound's status is {status}")));
    }
    let absurd = || SourceFailure::because("the segment has inconsistent values");
    if now_ns > ns(void_after).ok_or_else(absurd)? {
        return Err(SourceFailure::because("the segment is too old"));
    }
    let age_ns = now_ns.saturating_sub(ns(as_of).ok_or_else(absurd)?);
    // The segment is dated by a coarse clock, which may lag by up to 10 ms.
    if age_ns < -10_000_000 {
        return Err(SourceFailure::because("the segment lies in the future"));
    }
    Ok(Duration::from_ns(age_ns.max(0)))
}

fn grown(bound_ns: i64, max_drift_ppb: u32, age: Duration) -> Result<Duration, SourceFailure> {
    if bound_ns < 0 {
        return Err(SourceFailure::because(
            "the segment has inconsistent values",
        ));
    }
    let drift = RateError::from_ppb(i64::from(max_drift_ppb));
    Ok(Duration::from_ns(bound_ns) + drift.over_up(age + Duration::from_ms(10)))
}

/// Returns the time of the page and its maximum error, at the counter value `ticks`.
pub(super) fn shows_vmclock(
    page: &Vmclock,
    ticks: u64,
    kind: PageCounter,
) -> Result<(Instant<timeloom_clock::TimelineTime>, Duration), SourceFailure> {
    if page.counter_id != vmclock::COUNTER_TSC || kind != PageCounter::Tsc {
        return Err(SourceFailure::because("the page is in another counter"));
    }
    let wanted = vmclock::PERIOD_MAXERROR | vmclock::TIME_MAXERROR;
    if page.flags & wanted != wanted {
        return Err(SourceFailure::because("the page does not state its error"));
    }
    // Status 2 is synchronised, 3 is free-running.
    if !matches!(page.clock_status, 2 | 3) || page.time_type > vmclock::TIME_TAI {
        return Err(SourceFailure::because("the page's clock is not to be used"));
    }
    let absurd = || SourceFailure::because("the page has inconsistent values");
    let (s, frac) = page.at(ticks).ok_or_else(absurd)?;
    let s = i64::try_from(s).map_err(|_| absurd())?;
    let fraction_ns = ((u128::from(frac) * 1_000_000_000) >> 64) as i64;
    let shows_ns = s
        .checked_mul(1_000_000_000)
        .and_then(|ns| ns.checked_add(fraction_ns));
    let passed = ticks.saturating_sub(page.counter_value);
    let grown_2_64 = (u128::from(passed).saturating_mul(u128::from(page.period_maxerror)))
        >> u32::from(page.period_shift).min(127);
    let grown_ns = (grown_2_64 >> 32).saturating_mul(1_000_000_000) >> 32;
    let error_ns = grown_ns.saturating_add(u128::from(page.time_maxerror_ns)) + 3;
    let error_ns = i64::try_from(error_ns).map_err(|_| absurd())?;
    Ok((
        Instant::from_ns(shows_ns.ok_or_else(absurd)?),
        Duration::from_ns(error_ns),
    ))
}
