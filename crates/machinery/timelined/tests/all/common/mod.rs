//! Daemons in directories of their own.

pub(crate) mod net;

use std::time::{SystemTime, UNIX_EPOCH};

use timeloom_clock::quality::{Stamp, Status};
pub(crate) use timeloom_test_support::wait_for;
use timeloom_timeline::shm::PageReader;
use timeloom_timelined::config::DaemonConfig;

/// Returns a configuration with these timelines and `directory`.
pub(crate) fn config(directory: &std::path::Path, timelines: &str) -> DaemonConfig {
    let mut config: DaemonConfig = timelines.parse().unwrap();
    config.directory = Some(directory.to_owned());
    config
}

/// Waits until the timeline has this status, and returns the reading.
pub(crate) fn wait_for_status(reader: &PageReader, status: Status) -> Stamp {
    wait_for(&status.to_string(), || {
        reader.read().ok().filter(|stamp| stamp.status() == status)
    })
}

/// Returns CLOCK_REALTIME in nanoseconds since 1970.
pub(crate) fn realtime_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_nanos() as i64
}
