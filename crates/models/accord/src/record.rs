//! What a host says of itself: all of it, each time, so that the newest record
//! makes every older one worthless and a lost one is made good by the next.

use timeloom_clock::Timeline;
use timeloom_time::{Instant, Virtual};

use crate::hosts::{HostId, Hosts};

/// What one host says of itself to all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// The pause that it is in, or that it last came out of. The stand before the
    /// start is number 0.
    pub pause: u64,
    /// Who takes part in that, as far as it knows.
    pub members: Hosts,
    /// Members that it has not heard for too long. It listens to them no more.
    pub silent: Hosts,
    /// Raised by whoever holds the line again while it stands: votes of an older
    /// ballot count no more.
    pub ballot: u32,
    /// Somebody there holds the line, or wants to.
    pub holds: bool,
    /// How far it is.
    pub stage: Stage,
}

/// When and from where all went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resumed {
    /// The virtual instant at which all stood.
    pub from: Instant<Virtual>,
    /// The instant of the common timeline at which all go on.
    pub at: Instant<Timeline>,
}

/// How far a host is in a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It takes part in nothing yet, and wants to.
    Joining,
    /// It runs, since the pause of the record's number ended like this.
    Running(Resumed),
    /// Its clock goes no further than this.
    Closing {
        /// Where its clock stops by itself.
        ceiling: Instant<Virtual>,
        /// How the pause before ended, for those who have not heard of it.
        before: Resumed,
    },
    /// It knows where all come to stand, and is on its way there.
    Bound {
        /// Where.
        at: Instant<Virtual>,
    },
    /// Its clock and its processes stand.
    Standing {
        /// Where.
        at: Instant<Virtual>,
    },
    /// It would go on: nobody holds the line, as far as it knows.
    Ready {
        /// Where it stands.
        at: Instant<Virtual>,
        /// It can go on from this instant on.
        go: Instant<Timeline>,
        /// Who shall take part from then on.
        joiners: Hosts,
    },
    /// It has stopped for good.
    Stopped(Halt),
}

/// Why the hosts stop for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Halt {
    /// Who found it.
    pub by: HostId,
    /// What.
    pub why: Why,
}

/// What makes a host stop for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// It has not heard this host for too long, and was told to stop then.
    Silent(HostId),
    /// It does not hear this host; others do. The link between the two is broken.
    Link(HostId),
    /// It hears no more than half of the hosts.
    Minority,
    /// The others have gone on without it: they did not hear it for too long.
    Excluded,
    /// This host began anew in the middle of a run.
    Restarted(HostId),
    /// Its own clock or processes could not be commanded.
    Failed,
    /// The wired line beside the network is high, and nobody says that it drives it.
    Line,
}
