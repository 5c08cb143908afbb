//! Timeline shared by the hosts, and its error on this machine.

use timeloom_accord::Moment;
use timeloom_clock::Timeline;
use timeloom_sys::clock::{CivilOffset, civil_state};
use timeloom_sys::wall_now;
use timeloom_time::{ClockMap, Duration, Instant, Wall};

/// Timeline that all hosts of a run read.
pub trait CommonTimeline: Send + Sync {
    /// Returns the present time and its error bound.
    fn read(&self) -> Moment;

    /// Returns the time of this machine's clock at an instant of the timeline, past or future.
    fn wall_at(&self, at: Instant<Timeline>) -> Instant<Wall>;

    /// Returns the instant of the timeline at a time of this machine's clock, past or future.
    fn timeline_at(&self, at: Instant<Wall>) -> Instant<Timeline>;
}

/// CLOCK_MONOTONIC, shared by hosts on one kernel: namespaces of one machine.
#[derive(Clone, Copy, Debug)]
pub struct MachineTimeline;

impl CommonTimeline for MachineTimeline {
    fn read(&self) -> Moment {
        Moment {
            now: self.timeline_at(wall_now()),
            uncertainty: Duration::ZERO,
        }
    }

    fn wall_at(&self, at: Instant<Timeline>) -> Instant<Wall> {
        ClockMap::ahead_by(Duration::ZERO).at(at)
    }

    fn timeline_at(&self, at: Instant<Wall>) -> Instant<Timeline> {
        ClockMap::ahead_by(Duration::ZERO).at(at)
    }
}

/// Civil clock of the system, with the error that its synchronisation program reports to the
/// kernel.
#[derive(Clone, Copy, Debug)]
pub struct SystemTimeline;

impl CommonTimeline for SystemTimeline {
    fn read(&self) -> Moment {
        let offset = CivilOffset::bracket();
        let error = civil_state().map_or(UNKNOWN, |state| state.max_error);
        Moment {
            now: ClockMap::ahead_by(offset.offset).at(wall_now()),
            uncertainty: error + offset.error,
        }
    }

    fn wall_at(&self, at: Instant<Timeline>) -> Instant<Wall> {
        ClockMap::ahead_by(-CivilOffset::measure().offset).at(at)
    }

    fn timeline_at(&self, at: Instant<Wall>) -> Instant<Timeline> {
        ClockMap::ahead_by(CivilOffset::measure().offset).at(at)
    }
}

/// Error of an unsynchronised clock: the kernel's own bound.
const UNKNOWN: Duration = Duration::from_s(16);
