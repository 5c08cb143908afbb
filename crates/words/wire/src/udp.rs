//! PTP over UDP (IEEE 1588-2008, annexes D and E), with the IP header.

use crate::ip::Checksum;
use crate::{EmitError, MessageType, ParseError, Reader, Writer};

/// UDP port of event messages.
pub const UDP_EVENT_PORT: u16 = 319;
/// UDP port of general messages.
pub const UDP_GENERAL_PORT: u16 = 320;

/// IP version and addresses of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpFamily {
    /// IPv4: source and destination address.
    V4([u8; 4], [u8; 4]),
    /// IPv6: source and destination address.
    V6([u8; 16], [u8; 16]),
}

impl UdpFamily {
    /// 224.0.1.129, the destination of all messages except peer-delay messages (annex D.3).
    pub const V4_PRIMARY: [u8; 4] = [224, 0, 1, 129];
    /// 224.0.0.107, the destination of peer-delay messages.
    pub const V4_PEER_DELAY: [u8; 4] = [224, 0, 0, 107];

    fn pseudo_header(&self, udp_length: u16) -> Checksum {
        let sum = match self {
            Self::V4(source, destination) => Checksum::default().add(source).add(destination),
            Self::V6(source, destination) => Checksum::default().add(source).add(destination),
        };
        sum.add(&[0, PROTOCOL_UDP]).add(&udp_length.to_be_bytes())
    }
}

const PROTOCOL_UDP: u8 = 17;

/// An IP packet with a UDP datagram to one of PTP's two ports. PTP uses no fragments, no IPv4
/// options and no IPv6 extension headers; packets with them are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpDatagram<'a> {
    /// IP version, source and destination address.
    pub family: UdpFamily,
    /// Time to live (IPv4) or hop limit (IPv6); 1 for peer-delay messages.
    pub hop_limit: u8,
    /// UDP source port.
    pub source_port: u16,
    /// UDP destination port, 319 or 320.
    pub destination_port: u16,
    /// The PTP message; over IPv6, two octets of padding may follow the message (annex E).
    pub payload: &'a [u8],
}

impl<'a> UdpDatagram<'a> {
    /// Returns the UDP destination port of messages of this type.
    pub const fn port_for(message_type: MessageType) -> u16 {
        if message_type.is_event() {
            UDP_EVENT_PORT
        } else {
            UDP_GENERAL_PORT
        }
    }

    /// Parses an IP packet and checks its checksums. An IPv4 UDP checksum of 0 means "none" and is
    /// accepted, because hardware transparent clocks send such packets.
    pub fn parse(packet: &'a [u8]) -> Result<Self, ParseError> {
        let first = *packet.first().ok_or(ParseError::Truncated)?;
        let mut from = Reader::new(packet);
        let (family, hop_limit, udp_length) = match first >> 4 {
            4 => {
                let head: [u8; 20] = from.array()?;
                let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
                let fragment = u16::from_be_bytes([head[6], head[7]]) & 0x3fff;
                if head[0] != 0x45 || fragment != 0 || Checksum::default().add(&head).finish() != 0
                {
                    return Err(ParseError::Ip);
                }
                if head[9] != PROTOCOL_UDP {
                    return Err(ParseError::NotPtp);
                }
                let [.., a, b, c, d, e, f, g, h] = head;
                (
                    UdpFamily::V4([a, b, c, d], [e, f, g, h]),
                    head[8],
                    total.checked_sub(20),
                )
            }
            6 => {
                let head: [u8; 8] = from.array()?;
                if head[6] != PROTOCOL_UDP {
                    return Err(ParseError::NotPtp);
                }
                let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
                (
                    UdpFamily::V6(from.array()?, from.array()?),
                    head[7],
                    Some(length),
                )
            }
            _ => return Err(ParseError::NotPtp),
        };
        let udp = from.take(udp_length.ok_or(ParseError::Ip)?)?;
        Self::parse_udp(family, hop_limit, udp)
    }

    fn parse_udp(family: UdpFamily, hop_limit: u8, udp: &'a [u8]) -> Result<Self, ParseError> {
        let mut from = Reader::new(udp);
        let (source_port, destination_port) = (from.u16()?, from.u16()?);
        let (length, checksum) = (from.u16()?, from.u16()?);
        if !matches!(destination_port, UDP_EVENT_PORT | UDP_GENERAL_PORT) {
            return Err(ParseError::NotPtp);
        }
        let none = checksum == 0 && matches!(family, UdpFamily::V4(..));
        if usize::from(length) != udp.len()
            || (!none && family.pseudo_header(length).add(udp).finish() != 0)
        {
            return Err(ParseError::Ip);
        }
        Ok(Self {
            family,
            hop_limit,
            source_port,
            destination_port,
            payload: from.rest(),
        })
    }

    /// Writes the IP packet and returns its length in octets.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let length = u16::try_from(self.payload.len() + 8).map_err(|_| EmitError::TooLong)?;
        let total = length
            .checked_add(20)
            .ok_or(EmitError::TooLong)?
            .to_be_bytes();
        let mut to = Writer::new(buffer);
        match self.family {
            UdpFamily::V4(source, destination) => {
                // The identification field is zero, since "don't fragment" is set (RFC 6864).
                let mut head = [
                    0x45,
                    0,
                    total[0],
                    total[1],
                    0,
                    0,
                    0x40,
                    0,
                    self.hop_limit,
                    PROTOCOL_UDP,
                    0,
                    0,
                ];
                let sum = Checksum::default()
                    .add(&head)
                    .add(&source)
                    .add(&destination)
                    .finish();
                head[10..].copy_from_slice(&sum.to_be_bytes());
                to.put(&head)?;
                to.put(&source)?;
                to.put(&destination)?;
            }
            UdpFamily::V6(source, destination) => {
                to.u32(0x6000_0000)?;
                to.u16(length)?;
                to.u8(PROTOCOL_UDP)?;
                to.u8(self.hop_limit)?;
                to.put(&source)?;
                to.put(&destination)?;
            }
        }
        let mut head = [0; 8];
        head[..2].copy_from_slice(&self.source_port.to_be_bytes());
        head[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        head[4..6].copy_from_slice(&length.to_be_bytes());
        let sum = match self
            .family
            .pseudo_header(length)
            .add(&head)
            .add(self.payload)
            .finish()
        {
            0 => 0xffff, // 0 would say "no checksum"
            sum => sum,
        };
        head[6..].copy_from_slice(&sum.to_be_bytes());
        to.put(&head)?;
        to.put(self.payload)?;
        Ok(to.written())
    }
}
