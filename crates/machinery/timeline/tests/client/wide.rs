//! Tests of waits on a timeline that is known to ± 20 ms only. The interval then dominates the
//! duration of a wait, and not the time that a thread needs to wake.

use timeloom_clock::quality::{Status, TimelineId};
use timeloom_clock::timeline::{LocalNow, Segment, WatchLimits};
use timeloom_time::{ClockMap, Duration, Instant, Rate};
use timeloom_timeline::shm::PageCounter;
use timeloom_timeline::shm::PageWriter;
use timeloom_timeline::{Order, Timeline, WaitError};

const ID: TimelineId = TimelineId(7);
const WIDTH: Duration = Duration::from_ms(20);

fn published(status: Status) -> (PageWriter, Timeline) {
    let writer = PageWriter::in_memory(ID, PageCounter::Monotonic, None).unwrap();
    let core = writer.core_at(writer.ticks());
    let origin = LocalNow {
        core,
        marker: 0,
        suspended: Duration::ZERO,
        witness: None,
    };
    let until = core + Duration::from_s(1000);
    writer.publish(&Segment {
        map: ClockMap::new(core, Instant::from_ns(1_000_000_000_000), Rate::ONE),
        below: WIDTH,
        above: WIDTH,
        resolution: Duration::from_ns(1),
        fresh_until: until,
        void_after: until,
        alive_until: until,
        ..Segment::void(ID, status, origin, WatchLimits::default())
    });
    let timeline = Timeline::open_fd(writer.fd()).unwrap();
    (writer, timeline)
}

#[test]
fn the_whole_doubt_is_waited_out() {
    let (_writer, timeline) = published(Status::Ok);
    let now = timeline.read().unwrap().interval().unwrap();
    let target = now.estimate() + Duration::from_ms(1);
    let woken = timeline.wait_until(target).unwrap();
    let then = woken.stamp.interval().unwrap();
    assert!(then.earliest() >= target, "{then:?} for {target:?}");
    assert!(then.estimate() >= target + WIDTH);
    assert_eq!(woken.overshoot, then.earliest() - target);
    // The time from the latest possible instant before the sleep to the earliest possible instant
    // after it.
    let before = timeline.read().unwrap().interval().unwrap();
    let slept = timeline.sleep(Duration::from_ms(1)).unwrap();
    let after = slept.stamp.interval().unwrap();
    assert!(after.earliest() - before.latest() >= Duration::from_ms(1));
    let written = timeline.read().unwrap();
    let committed = timeline.commit_wait(&written).unwrap().stamp;
    assert_eq!(written.compare(&committed), Ok(Order::Before));
}

#[test]
fn waits_without_an_interval_are_refused() {
    let (_writer, timeline) = published(Status::Disrupted);
    let void = Err(WaitError::Void(Status::Disrupted));
    assert_eq!(timeline.wait_until(Instant::ZERO), void);
    assert_eq!(timeline.sleep(Duration::ZERO), void);
    assert_eq!(timeline.commit_wait(&timeline.read().unwrap()), void);
}
