//! Actions that a state machine requests.

use timeloom_time::Duration;
use timeloom_wire::{MacAddress, MessageType, VlanTag};

use crate::Report;
use crate::security::{SignJob, VerifyJob};

/// One action for the driver. The order matters: messages precede the work that they cause.
#[derive(Debug)]
pub enum Action {
    /// Sends a message. With a token, the departure's stamp (or its loss) must be passed to
    /// `handle_transmit_stamp`.
    Send {
        /// Port number, from 1.
        port: u16,
        /// Message to send.
        packet: Packet,
        /// Present for event messages.
        token: Option<Token>,
    },
    /// Adds this to the clock that stamps, once.
    Step(Duration),
    /// Sets the clock's frequency relative to its own oscillator, in parts per billion; replaces
    /// the previous value.
    Frequency(f64),
    /// Verifies signatures, on this thread or another; the verdict must be passed to
    /// `handle_verdict`. Stamps are taken already, so a delay costs nothing.
    Verify(Box<VerifyJob>),
    /// Makes a signature, on this thread or another; the outcome must be passed to `handle_signed`.
    /// The Sync has left already; only its Follow_Up waits. Transparent clocks only.
    Sign(Box<SignJob>),
    /// Sends this to every slave over the second network (see [`crate::security::Statement`]).
    Statement(Vec<u8>),
    /// Reports an event.
    Report(Report),
}

/// A PTP message on its way to or from a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The message, up to its `messageLength`.
    pub bytes: Vec<u8>,
    /// The 802.1Q tag with which it arrived or is to be sent.
    pub vlan: Option<VlanTag>,
}

impl Packet {
    /// Creates a packet from received bytes and drops any padding. A message ends where its
    /// `messageLength` says, if that is possible; the state machine drops and counts malformed
    /// packets.
    pub fn received(bytes: &[u8], vlan: Option<VlanTag>) -> Self {
        let said = match bytes {
            [_, version, high, low, ..] if version & 0x0f == 2 => {
                usize::from(u16::from_be_bytes([*high, *low]))
            }
            _ => bytes.len(),
        };
        let bytes = bytes.get(..said).unwrap_or(bytes).to_vec();
        Self { bytes, vlan }
    }

    /// Returns the multicast address of the message (annex F.3).
    pub fn destination(&self) -> MacAddress {
        let nibble = self.bytes.first().map_or(0, |first| first & 0x0f);
        MacAddress::for_message(MessageType::from_nibble(nibble).unwrap_or(MessageType::Sync))
    }
}

/// Identifies a departure whose stamp is pending. Opaque to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub(crate) Departure);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Departure {
    Sync { sequence: u16 },
    DelayReq { sequence: u16 },
    PdelayReq { sequence: u16 },
    PdelayResp { slot: u32 },
    Relayed { slot: u64 },
}
