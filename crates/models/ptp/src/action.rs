//! Actions that a state machine requests from its driver.

use timeloom_time::Duration;
use timeloom_wire::{MacAddress, MessageType, VlanTag};

use crate::ClockReport;
use crate::security::{SignJob, VerifyJob};

/// One action for the driver to carry out, in the given order: messages precede work that may take
/// long.
#[derive(Debug)]
pub enum DriverAction {
    /// Sends a message. If there is a token, the driver must pass the departure's timestamp, or its
    /// loss, to `handle_transmit_stamp`.
    Send {
        /// Port number, from 1.
        port: u16,
        /// Message to send.
        packet: PtpPacket,
        /// Token of an event message; `None` for other messages.
        token: Option<Token>,
    },
    /// Moves the timestamping clock by this length, once.
    Step(Duration),
    /// Sets the frequency of the timestamping clock relative to its own oscillator, in parts per
    /// 10^9. It replaces the previous value.
    Frequency(f64),
    /// Verifies signatures, on this thread or another. The driver must pass the verdict to
    /// `handle_verdict`. A delay has no effect on measurements, because the timestamps are already
    /// taken.
    Verify(Box<VerifyJob>),
    /// Computes a signature, on this thread or another. The driver must pass the result to
    /// `handle_signed`. The Sync has already left, and only its Follow_Up waits. Only transparent
    /// clocks request this.
    Sign(Box<SignJob>),
    /// Sends this record to every slave over the second network (see
    /// [`crate::security::Statement`]).
    Statement(Vec<u8>),
    /// Reports an event.
    Report(ClockReport),
}

/// A PTP message that a port received or is to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtpPacket {
    /// The message, up to its `messageLength`.
    pub bytes: Vec<u8>,
    /// The 802.1Q tag of the received frame, or of the frame to send; `None` for no tag.
    pub vlan: Option<VlanTag>,
}

impl PtpPacket {
    /// Creates a packet from received bytes, without padding: the message ends according to its
    /// `messageLength`, if that is possible. The state machine drops and counts malformed packets.
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

    /// Returns the multicast address to which the message is sent (annex F.3).
    pub fn destination(&self) -> MacAddress {
        let nibble = self.bytes.first().map_or(0, |first| first & 0x0f);
        MacAddress::for_message(MessageType::from_nibble(nibble).unwrap_or(MessageType::Sync))
    }
}

/// Identifies a departure whose timestamp is pending. The content is private to the state machine.
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
