//! What a guest's agent and its host's relay say to each other. `docs/virtual-machines.md`
//! has it in prose.

use serde::{Deserialize, Serialize};
use timeloom_timeline_protocol::{Message, Request, TimelineName};

/// Raised when the other side would misunderstand.
pub const VM_VERSION: u32 = 1;

/// From the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum FromGuest {
    /// A guest begins; what was before has ended.
    Hello {
        /// Drawn anew each time; comes back.
        nonce: u64,
        /// [`VM_VERSION`].
        version: u32,
    },
    /// The guest lives, and measures.
    Beat {
        /// Comes back.
        sequence: u64,
    },
    /// A packet of a program to the daemon of a timeline.
    Ask {
        /// The program's connection, by a number of the guest's.
        connection: u64,
        /// Which daemon.
        timeline: TimelineName,
        /// As at the daemon's socket.
        request: Request,
    },
    /// The program has closed its connection.
    Close {
        /// Which.
        connection: u64,
    },
}

/// From the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum FromHost {
    /// To a hello.
    Welcome {
        /// The guest's.
        nonce: u64,
        /// [`VM_VERSION`].
        version: u32,
    },
    /// To a beat.
    Beat {
        /// The guest's.
        sequence: u64,
        /// The host's counter when the guest's beat had come.
        received: u64,
        /// The host's counter when this was about to be sent.
        sent: u64,
    },
    /// A packet of the daemon to a program.
    Tell {
        /// The program's connection.
        connection: u64,
        /// As at the daemon's socket.
        message: Box<Message>,
    },
    /// The daemon has closed the connection, or it was refused.
    Closed {
        /// Which.
        connection: u64,
    },
}
