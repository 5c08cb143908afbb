//! Timeline that the hosts share, and the error with which this machine reads it.

use timeloom_agreement::TimelineReading;
use timeloom_clock::TimelineTime;
use timeloom_sys::clock::{CivilOffset, civil_state};
use timeloom_sys::wall_now;
use timeloom_time::{ClockMap, Duration, Instant, Wall};

/// Timeline that all hosts of a run can read.
pub trait CommonTimeline: Send + Sync {
    /// Returns the present time of the timeline with its error bound.
    fn read(&self) -> TimelineReading;

    /// Returns the wall time of this machine at which the timeline shows `at`, past or future.
    fn wall_at(&self, at: Instant<TimelineTime>) -> Instant<Wall>;

    /// Returns the time that the timeline shows at the wall time `at` of this machine, past or
    /// future.
    fn timeline_at(&self, at: Instant<Wall>) -> Instant<TimelineTime>;
}

/// CLOCK_MONOTONIC as the timeline, for hosts that are namespaces of one machine.
#[derive(Clone, Copy, Debug)]
pub struct MachineTimeline;

impl CommonTimeline for MachineTimeline {
    fn read(&self) -> TimelineReading {
        TimelineReading {
            now: self.timeline_at(wall_now()),
            uncertainty: Duration::ZERO,
        }
    }

    fn wall_at(&self, at: Instant<TimelineTime>) -> Instant<Wall> {
        ClockMap::ahead_by(Duration::ZERO).at(at)
    }

    fn timeline_at(&self, at: Instant<Wall>) -> Instant<TimelineTime> {
        ClockMap::ahead_by(Duration::ZERO).at(at)
    }
}

/// The system's CLOCK_REALTIME as the timeline, with the error that the synchronisation daemon
/// reports to the kernel.
#[derive(Clone, Copy, Debug)]
pub struct SystemTimeline;

impl CommonTimeline for SystemTimeline {
    fn read(&self) -> TimelineReading {
        let offset = CivilOffset::bracket();
        let error = civil_state().map_or(UNKNOWN, |state| state.max_error);
        TimelineReading {
            now: ClockMap::ahead_by(offset.offset).at(wall_now()),
            uncertainty: error + offset.error,
        }
    }

    fn wall_at(&self, at: Instant<TimelineTime>) -> Instant<Wall> {
        ClockMap::ahead_by(-CivilOffset::measure().offset).at(at)
    }

    fn timeline_at(&self, at: Instant<Wall>) -> Instant<TimelineTime> {
        ClockMap::ahead_by(CivilOffset::measure().offset).at(at)
    }
}

/// Error bound of an unsynchronised clock, which is the maximum that the kernel reports.
const UNKNOWN: Duration = Duration::from_s(16);
