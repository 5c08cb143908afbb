//! Messages between the agent in a guest and the relay on its host. `docs/virtual-machines.md`
//! specifies them.

use serde::{Deserialize, Serialize};
use timeloom_timeline::protocol::{DaemonMessage, Request, TimelineName};

/// Version of the messages. Incremented if a peer with the previous version would misunderstand
/// one.
pub const VM_VERSION: u32 = 1;

/// Message from the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum FromGuest {
    /// A guest starts; the host discards the state of the previous one.
    Hello {
        /// Random number, different in each hello, which the answer repeats.
        nonce: u64,
        /// Version of the guest's messages ([`VM_VERSION`]).
        version: u32,
    },
    /// Sign of life of the guest, which is also a measurement.
    Beat {
        /// Sequence number, which the answer repeats.
        sequence: u64,
    },
    /// Packet of a program to the daemon of a timeline.
    Ask {
        /// Number that the guest has given to the program's connection.
        connection: u64,
        /// Timeline whose daemon gets the packet.
        timeline: TimelineName,
        /// Request, in the form in which a daemon's socket takes it.
        request: Request,
    },
    /// The program has closed its connection.
    Close {
        /// Number of the connection.
        connection: u64,
    },
}

/// Message from the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum FromHost {
    /// Answer to a hello.
    Welcome {
        /// Nonce of the guest's hello.
        nonce: u64,
        /// Version of the host's messages ([`VM_VERSION`]).
        version: u32,
    },
    /// Answer to a heartbeat.
    Beat {
        /// Sequence number of the guest's heartbeat.
        sequence: u64,
        /// Host's counter when the guest's heartbeat arrived.
        received: u64,
        /// Host's counter directly before the answer was sent.
        sent: u64,
    },
    /// Packet of a daemon to a program.
    Tell {
        /// Number of the program's connection.
        connection: u64,
        /// Message, in the form in which a daemon's socket sends it.
        message: Box<DaemonMessage>,
    },
    /// The daemon has closed the connection, or refused it.
    Closed {
        /// Number of the connection.
        connection: u64,
    },
}
