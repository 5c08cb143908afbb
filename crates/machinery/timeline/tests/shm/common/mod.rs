//! Segments for the tests of pages.

use timeloom_clock::RateError;
use timeloom_clock::quality::{Status, TimelineId};
use timeloom_clock::timeline::{LocalNow, Segment, WatchLimits};
use timeloom_time::{ClockMap, Duration, Instant};

pub(crate) const ID: TimelineId = TimelineId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);

/// Returns a good segment that begins at the core instant `core_ns`, when the timeline shows
/// `shows_ns`.
pub(crate) fn segment(core_ns: i64, shows_ns: i64) -> Segment {
    let core = Instant::from_ns(core_ns);
    let origin = LocalNow {
        core,
        marker: 0,
        suspended: Duration::ZERO,
        witness: None,
    };
    let life = Duration::from_s(1000);
    Segment {
        status: Status::Ok,
        map: ClockMap::new(
            core,
            Instant::from_ns(shows_ns),
            RateError::from_ppb(7_000).to_rate(),
        ),
        below: Duration::from_us(40),
        above: Duration::from_us(70),
        below_growth: RateError::from_ppb(20_000),
        above_growth: RateError::from_ppb(50_000),
        resolution: Duration::from_ns(1),
        fresh_until: core + Duration::from_s(16),
        void_after: core + life,
        alive_until: core + life,
        ..Segment::void(ID, Status::Ok, origin, WatchLimits::default())
    }
}
