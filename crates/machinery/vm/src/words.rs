//! Messages between a guest's agent and its host's relay. `docs/virtual-machines.md` describes
//! them.

use serde::{Deserialize, Serialize};
use timeloom_timeline_protocol::{Message, Request, TimelineName};

/// Incremented if the peer would misunderstand a message.
pub const VM_VERSION: u32 = 1;

/// Messages from the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum FromGuest {
    /// A guest starts; the previous state ends.
    Hello {
        /// Random value of each hello; returned in the answer.
        nonce: u64,
        /// [`VM_VERSION`].
        version: u32,
    },
    /// Sign of life of the guest, and measurement.
    Beat {
        /// Returned in the answer.
        sequence: u64,
    },
    /// A packet of a program to the daemon of a timeline.
    Ask {
        /// Connection of the program, by a number of the guest.
        connection: u64,
        /// Timeline of the daemon.
        timeline: TimelineName,
        /// Request as at the daemon's socket.
        request: Request,
    },
    /// The program has closed its connection.
    Close {
        /// The connection.
        connection: u64,
    },
}

/// Messages from the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum FromHost {
    /// Answer to a hello.
    Welcome {
        /// Nonce of the guest.
        nonce: u64,
        /// [`VM_VERSION`].
        version: u32,
    },
    /// Answer to a beat.
    Beat {
        /// Sequence number of the guest.
        sequence: u64,
        /// The host's counter on arrival of the guest's beat.
        received: u64,
        /// The host's counter directly before the answer was sent.
        sent: u64,
    },
    /// A packet of the daemon to a program.
    Tell {
        /// The program's connection.
        connection: u64,
        /// Message as at the daemon's socket.
        message: Box<Message>,
    },
    /// The daemon has closed the connection, or it was refused.
    Closed {
        /// The connection.
        connection: u64,
    },
}
