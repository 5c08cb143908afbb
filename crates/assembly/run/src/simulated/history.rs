//! History of an engine: the periods during which it was away, and the facts known from its earlier
//! processes.

use timeloom_results::Caveat;
use timeloom_time::{Duration, Instant, Virtual};

use crate::network_signals::NetworkObservation;

/// Information about earlier processes of the engine.
#[derive(Default)]
pub(super) struct EngineHistory {
    pub(super) absences: Vec<Absence>,
    /// Counters of the earlier processes, from the report or the last sample of each.
    pub(super) counted: NetworkObservation,
    /// Reasons for doubt about the results, from the reports of processes that left on request.
    pub(super) doubts: Vec<Caveat>,
    /// Number of frames that the kernel dropped during absences on request.
    dropped_away: u64,
    /// Total number of dropped frames when the engine last left; `None` unless the engine is away.
    left_with: Option<u64>,
}

impl EngineHistory {
    /// Records that the engine left at `from`. Until then the kernel had dropped `dropped` frames.
    pub(super) fn left(&mut self, from: Instant<Virtual>, dropped: u64) {
        let absence = Absence {
            from,
            to: None,
            in_order: true,
        };
        self.absences.push(absence);
        self.left_with = Some(dropped);
    }

    /// Ends an absence on request, if there is one, because the engine comes back or the run ends.
    /// The kernel has dropped `dropped` frames until now. Returns the number of frames that it
    /// dropped during this absence.
    pub(super) fn returned(&mut self, dropped: u64) -> u64 {
        let meanwhile = self.left_with.take().map_or(0, |before| dropped - before);
        self.dropped_away += meanwhile;
        meanwhile
    }

    /// Returns true if the engine has left on request and has not come back.
    pub(super) fn is_away(&self) -> bool {
        self.left_with.is_some()
    }

    /// Returns how many of `dropped` frames were dropped while the engine should have received
    /// them.
    pub(super) fn lost_of(&self, dropped: u64) -> u64 {
        dropped - self.dropped_away
    }
}

/// Period during which an engine was away; `to` is `None` if it is still away.
#[derive(Clone, Copy, Debug)]
pub(super) struct Absence {
    pub(super) from: Instant<Virtual>,
    pub(super) to: Option<Instant<Virtual>>,
    /// True if the engine was asked to leave.
    pub(super) in_order: bool,
}

impl Absence {
    /// Describes the absence, with virtual instants in milliseconds.
    pub(super) fn tell(&self) -> String {
        // More digits than milliseconds would not be meaningful here.
        let since_zero = |at: Instant<Virtual>| Duration::from_ms(at.as_ns() / 1_000_000);
        let from = since_zero(self.from);
        match self.to {
            Some(to) => format!("from {from} to {}", since_zero(to)),
            None => format!("from {from} on"),
        }
    }
}

/// Facts that the run knows about an engine and that are not in the engine's final report.
#[derive(Default)]
pub(super) struct Known {
    /// Frames that the kernel dropped before the engine's interfaces received them. Frames dropped
    /// while the engine was away on request do not count.
    pub(super) dropped: u64,
    /// Periods during which the engine was away.
    pub(super) absences: Vec<Absence>,
    /// True if the engine has left and not come back, so that it has no final report.
    pub(super) is_away: bool,
    /// Counters of the engine's earlier processes.
    pub(super) counted: NetworkObservation,
    /// Reasons for doubt about the results, from the reports of the engine's earlier processes.
    pub(super) doubts: Vec<Caveat>,
}
