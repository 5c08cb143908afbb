//! Requests of a program to the daemon.

use serde::{Deserialize, Serialize};
use timeloom_clock::quality::Requirement;
use timeloom_time::Duration;

/// Request with a number that identifies its reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Number chosen by the client, repeated in the reply.
    pub id: u64,
    /// Kind and content of the request.
    #[serde(flatten)]
    pub ask: RequestKind,
}

/// Kinds of requests, with their content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum RequestKind {
    /// Requests the timeline's page; its descriptor is in the packet of the reply.
    Open,
    /// Requests a binding with this requirement.
    Bind(PlainRequirement),
    /// Ends a binding of this connection.
    Unbind {
        /// Number of the binding.
        binding: u64,
    },
    /// Changes the requirement of a binding of this connection.
    Set {
        /// Number of the binding.
        binding: u64,
        /// The new requirement.
        #[serde(flatten)]
        need: PlainRequirement,
    },
    /// Requests the state of a binding of this connection: its requirement, and why it is not met.
    Get {
        /// Number of the binding.
        binding: u64,
    },
    /// Requests events for a binding of this connection from now on. The first event states the
    /// present state and is sent at once.
    Subscribe {
        /// Number of the binding.
        binding: u64,
    },
    /// Requests the reading of the timeline for a past value of the page's counter.
    Convert {
        /// Value of the page's counter.
        ticks: u64,
    },
    /// Requests a report on the timeline.
    Report,
    /// Requests the page that relates the counter of a virtual machine's guest to the host's
    /// counter. Its descriptor is in the packet of the reply. Only for programs in such a guest.
    Relation,
    /// Requests the clock page of the session's host on which a virtual machine runs. Its
    /// descriptor is in the packet of the reply. Only for programs in the guest of such a machine.
    HostClock,
}

/// Requirement on a timeline, in plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlainRequirement {
    /// Maximum distance of true time before the estimate, in nanoseconds.
    pub below_ns: i64,
    /// Maximum distance of true time after the estimate, in nanoseconds.
    pub above_ns: i64,
    /// Coarsest acceptable resolution of the clock, in nanoseconds.
    pub resolution_ns: i64,
}

impl PlainRequirement {
    /// Converts to a requirement; `None` if a distance is negative or the resolution is not
    /// positive.
    pub fn requirement(&self) -> Option<Requirement> {
        let sane = self.below_ns >= 0 && self.above_ns >= 0 && self.resolution_ns > 0;
        sane.then(|| Requirement {
            below: Duration::from_ns(self.below_ns),
            above: Duration::from_ns(self.above_ns),
            resolution: Duration::from_ns(self.resolution_ns),
        })
    }
}

impl From<Requirement> for PlainRequirement {
    fn from(requirement: Requirement) -> Self {
        Self {
            below_ns: requirement.below.as_ns(),
            above_ns: requirement.above.as_ns(),
            resolution_ns: requirement.resolution.as_ns(),
        }
    }
}
