//! Host with a daemon, for tests in which the true time is known.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use timeloom_clock::quality::Status;
pub(crate) use timeloom_test_support::wait_for;
use timeloom_time::{Instant as At, Rate};
use timeloom_timeline::Timeline;
use timeloom_timeline::protocol::TimelineName;
use timeloom_timeline::shm::CoreScale;
use timeloom_timelined::config::DaemonConfig;
use timeloom_timelined::vm::Relay;
use timeloom_timelined::{Daemon, serve};

/// The machine's own clock is the reference of the tests, so it is exact by definition.
const OWN: &str = r#"
    [[timeline]]
    name = "own"
    tai_offset_s = 37
    poll = { shortest = "20 ms", longest = "2 s" }
    [[timeline.source]]
    type = "system-clock"
    vouched_error = "0 ns"
"#;

/// Returns CLOCK_REALTIME, converted to TAI, in ns.
pub(crate) fn tai_ns() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap().as_nanos() as i64 + 37_000_000_000
}

pub(crate) struct Host {
    pub(crate) daemon: Daemon,
    _place: tempfile::TempDir,
}

impl Host {
    pub(crate) fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let mut config: DaemonConfig = OWN.parse().unwrap();
        config.directory = Some(place.path().to_owned());
        Self {
            daemon: serve(&config).unwrap(),
            _place: place,
        }
    }

    pub(crate) fn relay(&self) -> (Relay, OwnedFd) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let names: Vec<TimelineName> = vec!["own".parse().unwrap()];
        // No processor is as slow as this rate, so the unknown part is larger than in reality.
        let scale = CoreScale::new(At::ZERO, At::ZERO, Rate::from_ratio(2, 1).unwrap());
        let directory = self.daemon.directory().clone();
        let mut relay = Relay::start(directory, names, scale.into()).unwrap();
        relay.connect(ours.into()).unwrap();
        (relay, theirs.into())
    }

    pub(crate) fn bindings(&self) -> usize {
        let timeline = self.daemon.timelines().next().unwrap();
        timeline.report().unwrap().bindings
    }
}

/// Waits for a reading with an interval, then takes `readings` readings, each of which must contain
/// the true time.
pub(crate) fn read_the_truth(timeline: &Timeline, readings: usize) {
    wait_for("a good reading", || {
        let stamp = timeline.read().unwrap();
        (stamp.status() == Status::Ok).then_some(())
    });
    for _ in 0..readings {
        let before_ns = tai_ns();
        let stamp = timeline.read().unwrap();
        let after_ns = tai_ns();
        // On a busy machine the daemon may be late, and a reading then has no interval.
        let Some(interval) = stamp.interval() else {
            continue;
        };
        assert!(interval.earliest().as_ns() <= after_ns);
        assert!(interval.latest().as_ns() >= before_ns);
    }
}
