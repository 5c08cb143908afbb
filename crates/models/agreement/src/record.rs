//! Record of a host's state. Every record is complete: the newest one replaces all older ones, and
//! the next one makes up for a lost one.

use timeloom_clock::TimelineTime;
use timeloom_time::{Dilation, Instant, Virtual};

use crate::hosts::{HostId, Hosts};

/// State of one host, as the host sends it to all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostRecord {
    /// Number of the host's current pause, or of its last pause if it is running. The stop before
    /// the start of the run has number 0.
    pub pause: u64,
    /// Members of the run in the pause with the number `pause`, as far as the host knows.
    pub members: Hosts,
    /// Members that have been silent for too long; the host ignores their records.
    pub silent: Hosts,
    /// Ballot of the votes for resuming. A host that claims the line again while it is stopped
    /// increases the ballot; votes with an older ballot no longer count.
    pub ballot: u32,
    /// True if a program on the host holds the line, or requests it.
    pub holds: bool,
    /// Stage of the host within the pause.
    pub stage: PauseStage,
}

/// End of a pause: the instants at which all hosts resumed, and the dilation of their clocks from
/// then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resumption {
    /// Virtual instant at which all hosts were stopped.
    pub from: Instant<Virtual>,
    /// Instant of the common timeline at which all hosts resume.
    pub at: Instant<TimelineTime>,
    /// Dilation of all clocks until the end of the next pause. A change of it is therefore in force
    /// from the virtual instant `from` on, on every host.
    pub dilation: Dilation,
    /// Virtual instant that no clock passes before the next pause; [`Instant::FAR_FUTURE`] if there
    /// is none. It is later than `from`.
    pub until: Instant<Virtual>,
}

/// Vote of a host for resuming. A host votes at most once in a ballot, so all hosts that count a
/// vote count the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vote {
    /// Earliest timeline instant at which the host can resume.
    pub go: Instant<TimelineTime>,
    /// Hosts that join the run with this resume.
    pub joiners: Hosts,
    /// Dilation that a program on the host has requested in this pause; `None` for no change. If
    /// hosts request several, the greatest counts: the slowest clock.
    pub dilation: Option<Dilation>,
    /// Virtual instant at which a program on the host has requested the next stop of all clocks;
    /// [`Instant::FAR_FUTURE`] for none. If hosts request several, the earliest counts.
    pub stop: Instant<Virtual>,
}

impl Vote {
    /// Returns the result of two votes, which does not depend on their order.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            go: self.go.max(other.go),
            joiners: self.joiners.or(other.joiners),
            dilation: self.dilation.max(other.dilation),
            stop: self.stop.min(other.stop),
        }
    }
}

/// Stage of a host within a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PauseStage {
    /// The host asks to join the run, and does not take part in it yet.
    Joining,
    /// The host runs. The pause with the record's number ended like this.
    Running(Resumption),
    /// The host has set a ceiling that its clock will not pass.
    Closing {
        /// Virtual instant at which the host's clock stops by itself.
        ceiling: Instant<Virtual>,
        /// End of the previous pause, for hosts that have not received it yet.
        before: Resumption,
    },
    /// The host knows the virtual instant at which all hosts stop, and has not reached it yet.
    Bound {
        /// Virtual instant at which all hosts stop.
        at: Instant<Virtual>,
    },
    /// The clock and the processes of the host are stopped.
    Standing {
        /// Virtual instant at which all hosts stop.
        at: Instant<Virtual>,
    },
    /// The host votes for resuming: as far as it knows, no host holds the line.
    Ready {
        /// Virtual instant at which all hosts are stopped.
        at: Instant<Virtual>,
        /// The host's conditions for the resume.
        vote: Vote,
    },
    /// The host has stopped for good.
    Stopped(Halt),
}

/// Stop of all hosts for good, which ends the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Halt {
    /// Host that detected the cause.
    pub by: HostId,
    /// Cause of the stop.
    pub why: HaltCause,
}

/// Cause of a stop for good, as detected by one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HaltCause {
    /// This host has been silent for too long, and hosts are configured to stop in that case.
    Silent(HostId),
    /// No datagrams arrive from this host, while others receive from it: the link between the two
    /// hosts is broken.
    Link(HostId),
    /// The detecting host receives from no more than half of the hosts, itself included.
    Minority,
    /// The other hosts have excluded the detecting host, because they did not receive from it for
    /// too long.
    Excluded,
    /// This host restarted during the run.
    Restarted(HostId),
    /// The clock or the processes of the detecting host did not obey an order.
    Failed,
    /// The wired line beside the network is high, although no host reports that it drives the line.
    Line,
}
