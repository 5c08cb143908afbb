//! The measured timeline: its status is good, and it is published once and then left unchanged,
//! because this is the common case for readers.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use timeloom_clock::RateError;
use timeloom_clock::quality::{Status, TimelineId};
use timeloom_clock::timeline::{LocalNow, Segment, UtcView, WatchLimits};
use timeloom_time::{ClockMap, Duration, Instant};
use timeloom_timeline::shm::PageCounter;
use timeloom_timeline::shm::foreign::clockbound::{ClockStatus, Seconds, SegmentV2, SegmentV3};
use timeloom_timeline::shm::{CoreScale, PageReader, PageSegment, PageWriter, Refusal};

use super::cycles::Cycles;
use crate::error::BenchError;

/// Page in sealed memory, as programs with a binding receive it, together with its writer.
pub(super) struct Published {
    writer: PageWriter,
    scale: Option<CoreScale>,
    path: PathBuf,
}

impl Published {
    /// Creates a page that is valid for a thousand seconds. It is based on the time-stamp counter,
    /// or on the kernel's clock if the kernel does not trust that counter.
    pub(super) fn new() -> Result<Self, BenchError> {
        let failed = |error: &dyn std::fmt::Display| BenchError::Worker(error.to_string());
        let scale = match Cycles::trusted() {
            Ok(tsc) => Some(tsc.calibrate().map_err(|error| failed(&error))?),
            Err(_) => None,
        };
        let kind = scale.map_or(PageCounter::Monotonic, |_| PageCounter::Tsc);
        let writer = PageWriter::in_memory(ID, kind, scale).map_err(|error| failed(&error))?;
        let (process, number) = (std::process::id(), writer.fd().as_raw_fd());
        let path = PathBuf::from(format!("/proc/{process}/fd/{number}"));
        let published = Self {
            writer,
            scale,
            path,
        };
        published.publish();
        Ok(published)
    }

    pub(super) fn reader(&self) -> Result<PageReader, BenchError> {
        PageReader::open(self.writer.fd())
            .map_err(|refusal: Refusal| BenchError::Worker(refusal.to_string()))
    }

    /// Returns the path by which other programs can open the page while this program runs.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the map from the time-stamp counter; `None` if the page is not based on it.
    pub(super) fn scale(&self) -> Option<CoreScale> {
        self.scale
    }

    /// Publishes a segment for the present time.
    pub(super) fn publish(&self) {
        self.writer.publish(&self.segment());
    }

    /// Publishes a segment that was made before.
    pub(super) fn publish_this(&self, segment: &Segment) {
        self.writer.publish(segment);
    }

    pub(super) fn segment(&self) -> Segment {
        let core = self.writer.core_at(self.writer.ticks());
        let origin = LocalNow {
            core,
            marker: 0,
            suspended: Duration::ZERO,
            witness: None,
        };
        let until = core + Duration::from_s(1000);
        Segment {
            map: ClockMap::new(
                core,
                Instant::from_ns(realtime_ns()) + Duration::from_s(TAI_OFFSET_S.into()),
                RateError::from_ppb(7_000).to_rate(),
            ),
            below: Duration::from_us(40),
            above: Duration::from_us(70),
            below_growth: RateError::from_ppb(20_000),
            above_growth: RateError::from_ppb(50_000),
            resolution: Duration::from_ns(1),
            fresh_until: until,
            void_after: until,
            alive_until: until,
            ..Segment::void(ID, Status::Ok, origin, WatchLimits::default())
        }
    }

    /// Writes the page as segments of ClockBound 2 and ClockBound 3. Version 3 needs the map from
    /// the time-stamp counter, `scale`.
    pub(super) fn clockbound(&self, scale: &CoreScale) -> Result<[PathBuf; 2], BenchError> {
        let segment = self.segment();
        let v2 = SegmentV2 {
            generation: 2,
            as_of: Seconds::from_ns(clock_ns(libc::CLOCK_MONOTONIC_COARSE)),
            void_after: Seconds::from_ns(
                clock_ns(libc::CLOCK_MONOTONIC_COARSE) + 1_000_000_000_000,
            ),
            bound_ns: 70_000,
            disruption_marker: 0,
            max_drift_ppb: 50_000,
            status: ClockStatus::Synchronized,
            disruption_support: false,
        };
        let utc = UtcView {
            tai_offset_s: TAI_OFFSET_S,
            leap: None,
        };
        let v3 = SegmentV3::of(&segment, &PageSegment::new(&segment, scale), &utc);
        let write = |name: &str, bytes: &[u8]| {
            let path = self.path.with_file_name(name);
            std::fs::write(&path, bytes)
                .map_err(BenchError::system(format!("writing {}", path.display())))?;
            Ok::<_, BenchError>(path)
        };
        Ok([write("shm0", &v2.emit())?, write("shm1", &v3.emit())?])
    }
}

fn realtime_ns() -> i64 {
    clock_ns(libc::CLOCK_REALTIME)
}

pub(crate) fn clock_ns(clock: libc::clockid_t) -> i64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid location for the result.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

const ID: TimelineId = TimelineId(0x7469_6d65_6c6f_6f6d_0062_656e_6368_0001);
const TAI_OFFSET_S: i16 = 37;
