//! What a state machine wants done.

use timeloom_time::Duration;
use timeloom_wire::{MacAddress, MessageType, VlanTag};

use crate::Report;
use crate::security::{SignJob, VerifyJob};

/// One thing for the driver to do. Order matters: messages stand before the
/// work that they cause.
#[derive(Debug)]
pub enum Action {
    /// Send a message. With a token, the departure's stamp (or its loss) is to
    /// be handed to `handle_transmit_stamp`.
    Send {
        /// Which port, from 1.
        port: u16,
        /// What.
        packet: Packet,
        /// Present for event messages.
        token: Option<Token>,
    },
    /// Add this to the clock that stamps, once.
    Step(Duration),
    /// From now on run the clock this much faster than its own oscillator, in
    /// parts per billion; replaces the value before.
    Frequency(f64),
    /// Check signatures, on this thread or another, and hand the verdict to
    /// `handle_verdict`. Stamps are taken already: being late costs nothing.
    Verify(Box<VerifyJob>),
    /// Make a signature, on this thread or another, and hand the outcome to
    /// `handle_signed`. The Sync is gone already; only its Follow_Up waits.
    /// Transparent clocks only.
    Sign(Box<SignJob>),
    /// Send this to every slave by the second network (see
    /// [`crate::security::Statement`]).
    Statement(Vec<u8>),
    /// Something worth a record.
    Report(Report),
}

/// A PTP message on its way to or from a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The message, to its `messageLength`.
    pub bytes: Vec<u8>,
    /// The 802.1Q tag it came with or is to have.
    pub vlan: Option<VlanTag>,
}

impl Packet {
    /// What came in, with whatever followed it. A message ends where its
    /// `messageLength` says, if it says something possible; what is malformed is
    /// for the state machine to drop and count.
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

    /// The multicast address that the message goes to (annex F.3).
    pub fn destination(&self) -> MacAddress {
        let nibble = self.bytes.first().map_or(0, |first| first & 0x0f);
        MacAddress::for_message(MessageType::from_nibble(nibble).unwrap_or(MessageType::Sync))
    }
}

/// Names a departure whose stamp is awaited. Opaque to the driver.
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
