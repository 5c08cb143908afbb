//! What a program asks of the daemon.

use serde::{Deserialize, Serialize};
use timeloom_clock::quality::Requirement;
use timeloom_time::Duration;

/// A question with its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Chosen by the client; comes back in the reply.
    pub id: u64,
    /// What is asked.
    #[serde(flatten)]
    pub ask: Ask,
}

/// What a client may ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// The timeline's page, as a descriptor beside the reply.
    Open,
    /// A binding with this requirement.
    Bind(Need),
    /// Ends a binding of this connection.
    Unbind {
        /// Which.
        binding: u64,
    },
    /// Changes what a binding of this connection requires.
    Set {
        /// Which.
        binding: u64,
        /// The new requirement.
        #[serde(flatten)]
        need: Need,
    },
    /// What a binding of this connection requires and whether it has it.
    Get {
        /// Which.
        binding: u64,
    },
    /// Events for a binding of this connection from now on; the first, which
    /// tells how things are, at once.
    Subscribe {
        /// Which.
        binding: u64,
    },
    /// The timeline at a past reading of the page's counter.
    Convert {
        /// The counter.
        ticks: u64,
    },
    /// How the timeline is doing.
    Report,
    /// In the guest of a virtual machine: how its counter stands to the host's, as a page
    /// whose descriptor comes beside the reply.
    Relation,
    /// There too, where its host is one of a session: that one's clock page, whose
    /// descriptor comes beside the reply.
    HostClock,
}

/// A requirement in plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// Most that true time may lie before the estimate.
    pub below_ns: i64,
    /// Most that true time may lie after the estimate.
    pub above_ns: i64,
    /// Coarsest step of the clock that will do.
    pub resolution_ns: i64,
}

impl Need {
    /// As a requirement; `None` when a length is negative or the step is none.
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
