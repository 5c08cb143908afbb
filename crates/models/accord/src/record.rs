//! Record of a host's state: complete each time, so that the newest record makes every older one
//! worthless and the next one replaces a lost one.

use timeloom_clock::Timeline;
use timeloom_time::{Instant, Virtual};

use crate::hosts::{HostId, Hosts};

/// State of one host, as sent to all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Number of the pause that the host is in, or that it last came out of. The stop before the
    /// start is number 0.
    pub pause: u64,
    /// Members of that pause, as far as the host knows.
    pub members: Hosts,
    /// Members that the host has not heard for too long. It ignores their records.
    pub silent: Hosts,
    /// Ballot, increased by a host that claims the line again while it is stopped: votes of an
    /// older ballot no longer count.
    pub ballot: u32,
    /// A program on the host holds the line, or requests it.
    pub holds: bool,
    /// Stage within the pause.
    pub stage: Stage,
}

/// Instants at which all hosts resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resumed {
    /// Virtual instant at which all were stopped.
    pub from: Instant<Virtual>,
    /// Instant of the common timeline at which all resume.
    pub at: Instant<Timeline>,
}

/// Stage of a host within a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The host takes part in nothing yet, and asks to join.
    Joining,
    /// The host runs, since the pause of the record's number ended like this.
    Running(Resumed),
    /// The host's clock will not pass the ceiling.
    Closing {
        /// Virtual instant at which its clock stops by itself.
        ceiling: Instant<Virtual>,
        /// End of the previous pause, for hosts that have not received it.
        before: Resumed,
    },
    /// The host knows the common instant of the stop, and has not reached it yet.
    Bound {
        /// Common instant.
        at: Instant<Virtual>,
    },
    /// Clock and processes of the host are stopped.
    Standing {
        /// Common instant.
        at: Instant<Virtual>,
    },
    /// The host votes for resuming: no host holds the line, as far as it knows.
    Ready {
        /// Common instant.
        at: Instant<Virtual>,
        /// Earliest instant at which the host can resume.
        go: Instant<Timeline>,
        /// Hosts that take part from then on.
        joiners: Hosts,
    },
    /// The host has stopped for good.
    Stopped(Halt),
}

/// Stop of all hosts for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Halt {
    /// Host that detected the cause.
    pub by: HostId,
    /// Cause.
    pub why: Why,
}

/// Cause of a stop for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// The host has not heard this one for too long, and is configured to stop then.
    Silent(HostId),
    /// The host does not hear this one; others do. The link between the two is broken.
    Link(HostId),
    /// The host hears no more than half of the hosts.
    Minority,
    /// The others have gone on without this host: they did not hear it for too long.
    Excluded,
    /// This host restarted in the middle of a run.
    Restarted(HostId),
    /// The host's own clock or processes did not obey.
    Failed,
    /// The wired line beside the network is high, and no host reports that it drives it.
    Line,
}
