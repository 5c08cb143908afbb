//! Ethernet with 802.1Q, and the layer-2 mapping of PTP (IEEE 1588-2008, annex F).

use core::fmt;

use timeloom_time::convert::low_u8;

use crate::{EmitError, MessageType, ParseError, Reader, Writer};

/// Ethertype of PTP over Ethernet.
pub const ETHERTYPE_PTP: u16 = 0x88f7;
const ETHERTYPE_VLAN: u16 = 0x8100;

/// Ethernet (MAC) address, in the order of transmission.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// Destination address of all messages except peer-delay messages (annex F.3).
    pub const PTP_PRIMARY: Self = Self([0x01, 0x1b, 0x19, 0, 0, 0]);
    /// Destination address of peer-delay messages; bridges do not forward it (802.1Q, table 8-1).
    pub const PTP_PEER_DELAY: Self = Self([0x01, 0x80, 0xc2, 0, 0, 0x0e]);

    /// Returns the multicast address to which messages of this type are sent.
    pub const fn for_message(message_type: MessageType) -> Self {
        match message_type {
            MessageType::PdelayReq | MessageType::PdelayResp | MessageType::PdelayRespFollowUp => {
                Self::PTP_PEER_DELAY
            }
            _ => Self::PTP_PRIMARY,
        }
    }

    /// Returns true if an interface can have the address: it is neither a group address nor zero.
    pub fn is_unicast(self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An 802.1Q tag. A tag with VID 0 conveys only a priority; the power profile of 2011 requires such
/// a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlanTag {
    /// Priority, 0 to 7.
    pub priority: u8,
    /// Drop eligible indicator: the frame may be dropped first under congestion.
    pub drop_eligible: bool,
    /// VLAN identifier, 0 to 4095.
    pub vid: u16,
}

impl VlanTag {
    /// Tag required by C37.238-2011: priority 4, VID 0.
    pub const POWER_PROFILE: Self = Self {
        priority: 4,
        drop_eligible: false,
        vid: 0,
    };

    /// Decodes the 16-bit tag control information.
    pub const fn from_tci(tci: u16) -> Self {
        Self {
            priority: low_u8((tci >> 13) as u64),
            drop_eligible: tci & 0x1000 != 0,
            vid: tci & 0x0fff,
        }
    }

    /// Returns the 16-bit tag control information.
    pub const fn tci(self) -> u16 {
        ((self.priority as u16) & 7) << 13 | (self.drop_eligible as u16) << 12 | (self.vid & 0x0fff)
    }
}

/// An Ethernet frame without its frame check sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetFrame<'a> {
    /// Destination address.
    pub destination: MacAddress,
    /// Source address.
    pub source: MacAddress,
    /// The 802.1Q tag, if present.
    pub vlan: Option<VlanTag>,
    /// Ethertype of the payload.
    pub ethertype: u16,
    /// Payload, including any padding: the end of a PTP message follows from its `messageLength`.
    pub payload: &'a [u8],
}

impl<'a> EthernetFrame<'a> {
    /// Parses a frame with at most one 802.1Q tag.
    pub fn parse(frame: &'a [u8]) -> Result<Self, ParseError> {
        let mut from = Reader::new(frame);
        let destination = MacAddress(from.array()?);
        let source = MacAddress(from.array()?);
        let (vlan, ethertype) = match from.u16()? {
            ETHERTYPE_VLAN => (Some(VlanTag::from_tci(from.u16()?)), from.u16()?),
            other => (None, other),
        };
        Ok(Self {
            destination,
            source,
            vlan,
            ethertype,
            payload: from.rest(),
        })
    }

    /// Returns the PTP message; fails if the Ethertype is not PTP's.
    pub const fn ptp(&self) -> Result<&'a [u8], ParseError> {
        if self.ethertype == ETHERTYPE_PTP {
            Ok(self.payload)
        } else {
            Err(ParseError::NotPtp)
        }
    }

    /// Writes the frame and returns its length in octets. The frame is not padded to the minimum
    /// length; the network card does that.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let mut to = Writer::new(buffer);
        to.put(&self.destination.0)?;
        to.put(&self.source.0)?;
        if let Some(tag) = self.vlan {
            to.u16(ETHERTYPE_VLAN)?;
            to.u16(tag.tci())?;
        }
        to.u16(self.ethertype)?;
        to.put(self.payload)?;
        Ok(to.written())
    }
}
