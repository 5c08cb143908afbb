//! Pages that other daemons publish: timelines, ClockBound segments and vmclock pages. Each reading
//! copies the file, which is fast enough because an estimator polls seldom. `page_codec` evaluates
//! the numbers.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use timeloom_clock::timeline::{Era, Exchange};
use timeloom_sys::clock::{ClockId, read_ns};
use timeloom_time::{Duration, Instant};
use timeloom_timeline::shm::PageCounter;
use timeloom_timeline::shm::foreign::clockbound::{SegmentV2, SegmentV3};
use timeloom_timeline::shm::foreign::vmclock::{self, Vmclock};
use timeloom_timeline::shm::{PageReader, now_ticks};

use super::page_codec::{error_v2, shows_v3, shows_vmclock};
use super::{FromUtc, Source, SourceFailure, SourceSample};
use crate::LocalClock;
use crate::config::{PathConfig, TimelineConfig};

/// Page of another timeline on this machine.
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
    fn ask(&mut self, era: Era) -> Result<SourceSample, SourceFailure> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => PageReader::open_path(&self.path).map_err(SourceFailure::because)?,
        };
        let sent = self.clock.core();
        let stamp = reader.read().map_err(SourceFailure::because)?;
        let received = self.clock.core();
        self.reader = Some(reader);
        let interval = stamp
            .interval()
            .ok_or_else(|| SourceFailure::because(stamp.status()))?;
        let half = Duration::from_ns(interval.width().as_ns() / 2 + 1);
        Ok(SourceSample::Exchange(Exchange::direct(
            era,
            (sent, received),
            interval.earliest() + half,
            half,
        )))
    }
}

/// File with a page of another program, and the data needed to evaluate it.
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

/// ClockBound segment, version 2 or 3.
pub(super) struct ClockBound(pub(super) Page);

impl ClockBound {
    /// Evaluates a copy of the segment, at the present reading of the system clock, or of the
    /// counter for version 3.
    fn read(
        &self,
        era: Era,
        bytes: &[u8],
        tai_offset: Duration,
    ) -> Result<SourceSample, SourceFailure> {
        if let Ok(segment) = SegmentV3::parse(bytes) {
            return self.read_v3(era, &segment, tai_offset);
        }
        let segment = SegmentV2::parse(bytes).map_err(|bad| SourceFailure(bad.to_string()))?;
        let pair = self.0.clock.realtime();
        let error = error_v2(&segment, read_ns(ClockId::Monotonic))?;
        let shows = Instant::from_ns(pair.other_ns) + tai_offset;
        Ok(SourceSample::Exchange(Exchange::direct(
            era,
            (pair.before, pair.after),
            shows,
            error,
        )))
    }

    fn read_v3(
        &self,
        era: Era,
        segment: &SegmentV3,
        tai_offset: Duration,
    ) -> Result<SourceSample, SourceFailure> {
        if self.0.clock.kind() != PageCounter::Tsc {
            return Err(SourceFailure::because("the segment is in another counter"));
        }
        let ticks = now_ticks(PageCounter::Tsc);
        let core = self.0.clock.core_at(ticks);
        let (utc_ns, error) = shows_v3(segment, ticks)?;
        let shows = Instant::from_ns(utc_ns) + tai_offset;
        Ok(SourceSample::Exchange(Exchange::direct(
            era,
            (core, core),
            shows,
            error,
        )))
    }
}

impl Source for ClockBound {
    fn ask(&mut self, era: Era) -> Result<SourceSample, SourceFailure> {
        let tai_offset = self.0.from_utc.now()?;
        // Bytes 14 and 15 are the generation, which is odd while the segment is being written.
        let bytes = whole(&self.0.path, |bytes| {
            let generation = u16::from_ne_bytes([*bytes.get(14)?, *bytes.get(15)?]);
            (generation & 1 == 0).then_some(u32::from(generation))
        })?;
        self.read(era, &bytes, tai_offset)
    }
}

/// A vmclock page (`/dev/vmclock0`, or one that Timeloom publishes).
pub(super) struct VmclockPage(pub(super) Page);

impl Source for VmclockPage {
    fn ask(&mut self, era: Era) -> Result<SourceSample, SourceFailure> {
        let bytes = whole(&self.0.path, |bytes| {
            let sequence = u32::from_le_bytes(bytes.get(12..16)?.try_into().ok()?);
            (sequence & 1 == 0).then_some(sequence)
        })?;
        let page = Vmclock::parse(&bytes).map_err(|bad| SourceFailure(bad.to_string()))?;
        let ticks = now_ticks(self.0.clock.kind());
        let (utc_or_tai, error) = shows_vmclock(&page, ticks, self.0.clock.kind())?;
        let shows = if page.time_type == vmclock::TIME_TAI {
            utc_or_tai
        } else {
            utc_or_tai + self.0.from_utc.now()?
        };
        let core = self.0.clock.core_at(ticks);
        Ok(SourceSample::Exchange(Exchange::direct(
            era,
            (core, core),
            shows,
            error,
        )))
    }
}

/// Returns a copy of the first bytes of the file that no writer changed while they were read.
/// `sequence` extracts the page's sequence number, or `None` during a write; the number must be the
/// same before and after.
fn whole(path: &Path, sequence: impl Fn(&[u8]) -> Option<u32>) -> Result<Vec<u8>, SourceFailure> {
    let failed = |error: std::io::Error| SourceFailure(format!("{}: {error}", path.display()));
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
    Err(SourceFailure(format!(
        "{} is being written all the time",
        path.display()
    )))
}
