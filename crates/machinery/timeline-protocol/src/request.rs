//! Requests of a program to the daemon.

use serde::{Deserialize, Serialize};
use timeloom_clock::quality::Requirement;
use timeloom_time::Duration;

/// Request with its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Number chosen by the client, repeated in the reply.
    pub id: u64,
    /// The request.
    #[serde(flatten)]
    pub ask: Ask,
}

/// Kinds of requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// Requests the timeline's page, as a descriptor beside the reply.
    Open,
    /// Requests a binding with this requirement.
    Bind(Need),
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
        need: Need,
    },
    /// Requests the state of a binding of this connection: its requirement and if it is met.
    Get {
        /// Number of the binding.
        binding: u64,
    },
    /// Requests events for a binding of this connection from now on; the first, with the present
    /// state, comes at once.
    Subscribe {
        /// Number of the binding.
        binding: u64,
    },
    /// Requests the timeline at a past reading of the page's counter.
    Convert {
        /// Value of the counter.
        ticks: u64,
    },
    /// Requests a report on the timeline.
    Report,
    /// Requests, in the guest of a virtual machine, the relation of its counter to the host's, as a
    /// page whose descriptor comes beside the reply.
    Relation,
    /// Requests, in the guest of a virtual machine on a host of a session, that host's clock page,
    /// whose descriptor comes beside the reply.
    HostClock,
}

/// Requirement in plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// Maximum distance of true time before the estimate.
    pub below_ns: i64,
    /// Maximum distance of true time after the estimate.
    pub above_ns: i64,
    /// Coarsest acceptable resolution of the clock.
    pub resolution_ns: i64,
}

impl Need {
    /// Converts to a requirement; `None` if a length is negative or the step is not positive.
    pub fn requirement(&self) -> Option<Requirement> {
        let sane = self.below_ns >= 0 && self.above_ns >= 0 && self.resolution_ns > 0;
        sane.then(|| Requirement {
            below: Duration::from_ns(self.below_ns),
            above: Duration::from_ns(self.above_ns),
            resolution: Duration::from_ns(self.resolution_ns),
        })
    }
}

impl From<Requirement> for Need {
    fn from(requirement: Requirement) -> Self {
        Self {
            below_ns: requirement.below.as_ns(),
            above_ns: requirement.above.as_ns(),
            resolution_ns: requirement.resolution.as_ns(),
        }
    }
}
