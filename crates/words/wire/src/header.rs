//! The common header: the first 34 octets of every message.

use crate::{EmitError, Flags, ParseError, PortIdentity, Reader, TimeInterval, Writer};

/// Value of `messageType` (IEEE 1588-2008, table 19).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MessageType {
    /// Event message: its departure is the instant that the master distributes.
    Sync = 0x0,
    /// Event message: a slave requests the arrival time at the master, to measure the end-to-end
    /// delay.
    DelayReq = 0x1,
    /// Event message: a port requests a response from its neighbour, to measure the delay of the
    /// link.
    PdelayReq = 0x2,
    /// Event message: the neighbour's response to a Pdelay_Req.
    PdelayResp = 0x3,
    /// General message: the precise departure time of a Sync.
    FollowUp = 0x8,
    /// General message: the arrival time of a Delay_Req at the master.
    DelayResp = 0x9,
    /// General message: the precise departure time of a Pdelay_Resp.
    PdelayRespFollowUp = 0xa,
    /// General message: identity and quality of a master.
    Announce = 0xb,
    /// General message: TLVs from one clock to another.
    Signaling = 0xc,
    /// General message: a management TLV.
    Management = 0xd,
}

impl MessageType {
    /// Decodes the low nibble of a message's first octet; `None` for reserved values.
    pub const fn from_nibble(nibble: u8) -> Option<Self> {
        Some(match nibble {
            0x0 => Self::Sync,
            0x1 => Self::DelayReq,
            0x2 => Self::PdelayReq,
            0x3 => Self::PdelayResp,
            0x8 => Self::FollowUp,
            0x9 => Self::DelayResp,
            0xa => Self::PdelayRespFollowUp,
            0xb => Self::Announce,
            0xc => Self::Signaling,
            0xd => Self::Management,
            _ => return None,
        })
    }

    /// Returns true for event messages, whose arrival and departure are timestamped; over UDP they
    /// use port 319.
    pub const fn is_event(self) -> bool {
        (self as u8) < 0x8
    }

    /// Returns the value of `controlField` for this type, for PTPv1 hardware (table 23).
    pub const fn control(self) -> u8 {
        match self {
            Self::Sync => 0,
            Self::DelayReq => 1,
            Self::FollowUp => 2,
            Self::DelayResp => 3,
            Self::Management => 4,
            _ => 5,
        }
    }
}

/// Protocol version in the second octet of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// IEEE 1588-2002: transparent clocks forward such messages; this crate does not parse them.
    V1,
    /// IEEE 1588-2008 and later.
    V2,
    /// Any other version; receivers drop such messages.
    Unknown(u8),
}

/// The common header (13.3), without `messageLength`: that field is checked when a message is read,
/// and computed when it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Type of the message.
    pub message_type: MessageType,
    /// `sdoId` of 2019, twelve bits; the top four bits are `transportSpecific` of 2008.
    pub sdo_id: u16,
    /// `minorVersionPTP`: 0 for 2008, 1 for 2019.
    pub minor_version: u8,
    /// `domainNumber`: messages of other domains are ignored.
    pub domain: u8,
    /// Flags of `flagField`.
    pub flags: Flags,
    /// `correctionField`: residence times and link delays so far, and fractions of a nanosecond.
    pub correction: TimeInterval,
    /// `messageTypeSpecific` of 2019, reserved in 2008. Receivers cannot rely on the value, because
    /// some transparent clocks store temporary data there.
    pub message_type_specific: u32,
    /// Port that originated the message: the grandmaster's port, even if a transparent clock has
    /// forwarded the message.
    pub source: PortIdentity,
    /// `sequenceId`, counted per port and message type.
    pub sequence_id: u16,
    /// `controlField`; see [`MessageType::control`].
    pub control: u8,
    /// `logMessageInterval`, log2 of seconds; 0x7F for types without an interval.
    pub log_message_interval: i8,
}

impl Header {
    /// Length of the header, in octets.
    pub const LENGTH: usize = 34;

    /// Returns a header with the type's `controlField`, interval 0x7F, and all other fields zero.
    pub const fn new(message_type: MessageType, source: PortIdentity, sequence_id: u16) -> Self {
        Self {
            message_type,
            sdo_id: 0,
            minor_version: 0,
            domain: 0,
            flags: Flags(0),
            correction: TimeInterval::ZERO,
            message_type_specific: 0,
            source,
            sequence_id,
            control: message_type.control(),
            log_message_interval: 0x7f,
        }
    }

    /// Returns the protocol version of a datagram. PTPv1 and PTPv2 both store it in octet 1.
    pub fn version_of(datagram: &[u8]) -> Result<Version, ParseError> {
        let [first, second, ..] = datagram else {
            return Err(ParseError::Truncated);
        };
        // The first two octets of a PTPv1 message are a 16-bit version number: 00 01.
        Ok(match (first, second & 0x0f) {
            (0, 1) if *second == 1 => Version::V1,
            (_, 2) => Version::V2,
            (_, other) => Version::Unknown(other),
        })
    }

    /// Parses the header and cuts `datagram` off at `messageLength`. Returns the header and the
    /// part of the message that follows the header.
    pub fn parse(datagram: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let mut from = Reader::new(datagram);
        let first = from.u8()?;
        let version = from.u8()?;
        if version & 0x0f != 2 {
            return Err(ParseError::Version);
        }
        let message_length = usize::from(from.u16()?);
        let message_type = MessageType::from_nibble(first & 0x0f).ok_or(ParseError::MessageType)?;
        let message = datagram
            .get(..message_length)
            .ok_or(ParseError::MessageLength)?;
        let body = message
            .get(Self::LENGTH..)
            .ok_or(ParseError::MessageLength)?;
        let domain = from.u8()?;
        let minor_sdo = from.u8()?;
        let header = Self {
            message_type,
            sdo_id: u16::from(first >> 4) << 8 | u16::from(minor_sdo),
            minor_version: version >> 4,
            domain,
            flags: Flags(from.u16()?),
            correction: TimeInterval(from.i64()?),
            message_type_specific: from.u32()?,
            source: PortIdentity::parse(&mut from)?,
            sequence_id: from.u16()?,
            control: from.u8()?,
            log_message_interval: from.u8()?.cast_signed(),
        };
        Ok((header, body))
    }

    /// Writes the header with `messageLength` zero; the caller overwrites that field once the
    /// length of the message is known.
    pub(crate) fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        let [major_sdo, minor_sdo] = (self.sdo_id & 0xfff).to_be_bytes();
        to.u8(major_sdo << 4 | self.message_type as u8)?;
        to.u8(self.minor_version << 4 | 2)?;
        to.u16(0)?;
        to.u8(self.domain)?;
        to.u8(minor_sdo)?;
        to.u16(self.flags.0)?;
        to.put(&self.correction.0.to_be_bytes())?;
        to.u32(self.message_type_specific)?;
        self.source.emit(to)?;
        to.u16(self.sequence_id)?;
        to.u8(self.control)?;
        to.u8(self.log_message_interval.cast_unsigned())
    }
}
