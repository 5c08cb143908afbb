//! The timeline that the hosts share, and how wrong it may be here.

use timeloom_accord::Moment;
use timeloom_clock::Timeline;
use timeloom_sys::clock::{CivilOffset, civil_state};
use timeloom_sys::wall_now;
use timeloom_time::{ClockMap, Duration, Instant, Wall};

/// A timeline that all hosts of a run read.
pub trait CommonTimeline: Send + Sync {
    /// What it shows, and how wrong that may be.
    fn read(&self) -> Moment;

    /// When this machine's clock shows it, or has.
    fn wall_at(&self, at: Instant<Timeline>) -> Instant<Wall>;

    /// What it shows, or has, when this machine's clock shows that.
    fn timeline_at(&self, at: Instant<Wall>) -> Instant<Timeline>;
}

/// The CLOCK_MONOTONIC that hosts on one kernel share: namespaces of one machine.
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

/// The system's civil clock, as wrong as whoever steers it has told the kernel.
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

/// How wrong a clock is that nobody vouches for: the kernel's own bound.
const UNKNOWN: Duration = Duration::from_s(16);
