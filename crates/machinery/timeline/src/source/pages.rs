//! Pages that other daemons publish: a timeline, a ClockBound segment, a
//! vmclock. Read as files, a copy at a time; a keeper asks seldom.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use timeloom_clock::timeline::{Era, Exchange};
use timeloom_clock::{Core, RateError};
use timeloom_publish::PageCounter;
use timeloom_publish::foreign::clockbound::{ClockStatus, Seconds, SegmentV2, SegmentV3};
use timeloom_publish::foreign::vmclock::{self, Vmclock};
use timeloom_publish::{PageReader, now_ticks};
use timeloom_sys::clock::{ClockId, read_ns};
use timeloom_time::{Duration, Instant};

use super::{FromUtc, Sample, Source, Untold};
use crate::LocalClock;
use crate::config::{PathConfig, TimelineConfig};

/// Another timeline of this machine.
pub(super) struct OtherTimeline {
    path: PathBuf,
    clock: Arc<LocalClock>,
    reader: Option<PageReader>,
}

impl OtherTimeline {
    pub(super) fn new(config: &PathConfig, clock: Arc<LocalClock>) -> Self {
        Self {
            path: config.path.clone(),
            clock,
            reader: None,
        }
    }
}

impl Source for OtherTimeline {
    fn ask(&mut self, era: Era) -> Result<Sample, Untold> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => PageReader::open_path(&self.path).map_err(Untold::because)?,
        };
        let sent = self.clock.core();
        let stamp = reader.read().map_err(Untold::because)?;
        let received = self.clock.core();
        self.reader = Some(reader);
        let interval = stamp
            .interval()
            .ok_or_else(|| Untold::because(stamp.status()))?;
        let half = Duration::from_ns(interval.width().as_ns() / 2 + 1);
        Ok(direct(
            era,
            (sent, received),
            interval.earliest() + half,
            half,
        ))
    }
}

/// A reading of a clock between two readings of the core clock, no further off
/// than `error`.
pub(super) fn direct(
    era: Era,
    (sent, received): (Instant<Core>, Instant<Core>),
    shows: Instant<timeloom_clock::Timeline>,
    error: Duration,
) -> Sample {
    Sample::Exchange(Exchange {
        era,
        sent,
        asked: shows,
        answered: shows,
        received,
        root_delay: Duration::ZERO,
        root_dispersion: error,
        least_delay: Duration::ZERO,
        asymmetry: None,
        authenticated: false,
    })
}

/// Another program's page in a file, and what is needed to read it.
pub(super) struct Page {
    path: PathBuf,
    clock: Arc<LocalClock>,
    from_utc: FromUtc,
}

impl Page {
    pub(super) fn new(
        config: &PathConfig,
        timeline: &TimelineConfig,
        clock: Arc<LocalClock>,
    ) -> Self {
        Self {
            path: config.path.clone(),
            clock,
            from_utc: FromUtc::of(timeline),
        }
    }
}

/// A ClockBound segment, version 2 or 3.
pub(super) struct ClockBound(pub(super) Page);

impl ClockBound {
    /// The reading of `system`, or of the counter for version 3.
    fn read(&self, era: Era, bytes: &[u8], tai_offset: Duration) -> Result<Sample, Untold> {
        if let Ok(segment) = SegmentV3::parse(bytes) {
            return self.read_v3(era, &segment, tai_offset);
        }
        let segment = SegmentV2::parse(bytes).map_err(|bad| Untold(format!("{bad:?}")))?;
        let pair = self.0.clock.realtime();
        let now_ns = read_ns(ClockId::Monotonic);
        let age = check(segment.status, (segment.as_of, segment.void_after), now_ns)?;
        let error = grown(segment.bound_ns, segment.max_drift_ppb, age)?;
        let shows = Instant::from_ns(pair.other_ns) + tai_offset;
        Ok(direct(era, (pair.before, pair.after), shows, error))
    }

    fn read_v3(
        &self,
        era: Era,
        segment: &SegmentV3,
        tai_offset: Duration,
    ) -> Result<Sample, Untold> {
        if self.0.clock.kind() != PageCounter::Tsc {
            return Err(Untold::because("the segment is in another counter"));
        }
        let ticks = now_ticks(PageCounter::Tsc);
        let core = self.0.clock.core_at(ticks);
        let passed = ticks
            .checked_sub(segment.as_of_tsc)
            .ok_or_else(|| Untold::because("the counter is behind the segment"))?;
        let ns_of = |frac: u64, shift: u8| -> Option<i64> {
            // frac / 2^(64 + shift), times ticks or a length, in nanoseconds.
            let scaled = u128::from(passed).checked_mul(u128::from(frac))?;
            let s_2_64 = scaled >> u32::from(shift).min(127);
            let ns = (s_2_64 >> 32).checked_mul(1_000_000_000)? >> 32;
            i64::try_from(ns).ok()
        };
        let absurd = || Untold::because("the segment's numbers make no sense");
        let age =
            Duration::from_ns(ns_of(segment.period_frac, segment.period_shift).ok_or_else(absurd)?);
        let as_of_ns = ns(segment.as_of).ok_or_else(absurd)?;
        let utc_ns = as_of_ns.checked_add(age.as_ns()).ok_or_else(absurd)?;
        let age = age.max(check(
            segment.status,
            (segment.as_of, segment.void_after),
            utc_ns,
        )?);
        // The period's error is a fraction of time passed.
        let error_2_64 =
            u128::from(segment.period_err_frac) >> u32::from(segment.period_err_shift).min(127);
        let period_ns = (error_2_64 * age.as_ns().max(0) as u128) >> 64;
        let period_error = Duration::from_ns(i64::try_from(period_ns).map_err(|_| absurd())?);
        let error = grown(segment.bound_ns, segment.max_drift_ppb, age)? + period_error;
        // One nanosecond for each of three roundings.
        let error = error + Duration::from_ns(3);
        let shows = Instant::from_ns(utc_ns) + tai_offset;
        Ok(direct(era, (core, core), shows, error))
    }
}

impl Source for ClockBound {
    fn ask(&mut self, era: Era) -> Result<Sample, Untold> {
        let tai_offset = self.0.from_utc.now()?;
        // Bytes 14 and 15: odd while the segment is being written.
        let bytes = whole(&self.0.path, |bytes| {
            let generation = u16::from_ne_bytes([*bytes.get(14)?, *bytes.get(15)?]);
            (generation & 1 == 0).then_some(u32::from(generation))
        })?;
        self.read(era, &bytes, tai_offset)
    }
}

fn ns(at: Seconds) -> Option<i64> {
    at.s.checked_mul(1_000_000_000)?.checked_add(at.ns)
}

/// Age of the segment at `now_ns`, when it may be used.
fn check(
    status: ClockStatus,
    (as_of, void_after): (Seconds, Seconds),
    now_ns: i64,
) -> Result<Duration, Untold> {
    if !matches!(status, ClockStatus::Synchronized | ClockStatus::FreeRunning) {
        return Err(Untold(format!("ClockBound's status is {status:?}")));
    }
    let absurd = || Untold::because("the segment's numbers make no sense");
    if now_ns > ns(void_after).ok_or_else(absurd)? {
        return Err(Untold::because("the segment is too old"));
    }
    let age_ns = now_ns.saturating_sub(ns(as_of).ok_or_else(absurd)?);
    // Its clock is a coarse one, up to 10 ms behind.
    if age_ns < -10_000_000 {
        return Err(Untold::because("the segment is of the future"));
    }
    Ok(Duration::from_ns(age_ns.max(0)))
}

fn grown(bound_ns: i64, max_drift_ppb: u32, age: Duration) -> Result<Duration, Untold> {
    if bound_ns < 0 {
        return Err(Untold::because("the segment's numbers make no sense"));
    }
    let drift = RateError::from_ppb(i64::from(max_drift_ppb));
    Ok(Duration::from_ns(bound_ns) + drift.over_up(age + Duration::from_ms(10)))
}

/// A vmclock page (`/dev/vmclock0`, or one of ours).
pub(super) struct VmclockPage(pub(super) Page);

impl Source for VmclockPage {
    fn ask(&mut self, era: Era) -> Result<Sample, Untold> {
        let bytes = whole(&self.0.path, |bytes| {
            let sequence = u32::from_le_bytes(bytes.get(12..16)?.try_into().ok()?);
            (sequence & 1 == 0).then_some(sequence)
        })?;
        let page = Vmclock::parse(&bytes).map_err(|bad| Untold(format!("{bad:?}")))?;
        let ticks = now_ticks(self.0.clock.kind());
        let (utc_or_tai, error) = read_vmclock(&page, ticks, self.0.clock.kind())?;
        let shows = if page.time_type == vmclock::TIME_TAI {
            utc_or_tai
        } else {
            utc_or_tai + self.0.from_utc.now()?
        };
        let core = self.0.clock.core_at(ticks);
        Ok(direct(era, (core, core), shows, error))
    }
}

/// What the page shows at `ticks`, and how far that may be off.
fn read_vmclock(
    page: &Vmclock,
    ticks: u64,
    kind: PageCounter,
) -> Result<(Instant<timeloom_clock::Timeline>, Duration), Untold> {
    if page.counter_id != vmclock::COUNTER_TSC || kind != PageCounter::Tsc {
        return Err(Untold::because("the page is in another counter"));
    }
    let wanted = vmclock::PERIOD_MAXERROR | vmclock::TIME_MAXERROR;
    if page.flags & wanted != wanted {
        return Err(Untold::because("the page does not say how wrong it may be"));
    }
    // 2 in step, 3 running on.
    if !matches!(page.clock_status, 2 | 3) || page.time_type > vmclock::TIME_TAI {
        return Err(Untold::because("the page's clock is not to be used"));
    }
    let absurd = || Untold::because("the page's numbers make no sense");
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

/// A copy of the file's first bytes that was not written to meanwhile:
/// `sequence` gives the same number before and after, and `None` while it is.
fn whole(path: &Path, sequence: impl Fn(&[u8]) -> Option<u32>) -> Result<Vec<u8>, Untold> {
    let failed = |error: std::io::Error| Untold(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(failed)?;
    for _ in 0..100 {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut bytes = vec![0; 112];
            let length = file.read_at(&mut bytes, 0)?;
            bytes.truncate(length);
            Ok(bytes)
        };
        let (first, second) = (read().map_err(failed)?, read().map_err(failed)?);
        let number = sequence(&first);
        if number.is_some() && number == sequence(&second) && first == second {
            return Ok(first);
        }
        std::thread::yield_now();
    }
    Err(Untold(format!(
        "{} is being written all the time",
        path.display()
    )))
}
