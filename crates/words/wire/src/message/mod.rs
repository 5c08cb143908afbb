//! Whole messages: header, body, TLVs.

mod announce;
mod delay;
mod management;
mod peer_delay;
mod signaling;
mod sync;

pub use announce::Announce;
pub use delay::{DelayReq, DelayResp};
pub use management::{Management, ManagementAction};
pub use peer_delay::{PdelayReq, PdelayResp, PdelayRespFollowUp};
pub use signaling::Signaling;
pub use sync::{FollowUp, Sync};

use crate::tlv::Tlvs;
use crate::{EmitError, Header, MessageType, ParseError, Reader, TimeInterval, Writer};

macro_rules! bodies {
    ($($name:ident,)*) => {
        /// The fields of a message between its header and its TLVs, one variant per message type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each variant is its message")]
        pub enum Body { $($name($name),)* }

        impl Body {
            /// Returns the `messageType` that the header of a message with this body must have.
            pub const fn message_type(&self) -> MessageType {
                match self { $(Self::$name(_) => MessageType::$name,)* }
            }

            fn parse(message_type: MessageType, from: &mut Reader<'_>) -> Result<Self, ParseError> {
                // Header::parse has checked that the frame contains messageLength octets, so a body
                // that is too short means that messageLength itself is wrong.
                let body = match message_type {
                    $(MessageType::$name => $name::parse(from).map(Self::$name),)*
                };
                body.map_err(|error| match error {
                    ParseError::Truncated => ParseError::MessageLength,
                    other => other,
                })
            }

            fn emit(&self, to: &mut Writer<'_>) -> Result<(), EmitError> {
                match self { $(Self::$name(body) => body.emit(to),)* }
            }
        }

        $(impl From<$name> for Body {
            fn from(body: $name) -> Self {
                Self::$name(body)
            }
        })*
    };
}

bodies! {
    Sync, DelayReq, PdelayReq, PdelayResp, FollowUp, DelayResp, PdelayRespFollowUp, Announce,
    Signaling, Management,
}

/// A message of IEEE 1588-2008. Its TLVs are a view on the received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The common header; its message type is that of `body`.
    pub header: Header,
    /// Fields that are specific to the message type.
    pub body: Body,
    /// The TLVs, each checked for an even length and for its end within the message.
    pub tlvs: Tlvs<'a>,
}

impl<'a> Message<'a> {
    /// Returns a message without TLVs. The message type and control field of `header` are set to
    /// those of `body`.
    pub fn new(header: Header, body: impl Into<Body>) -> Self {
        let body = body.into();
        let message_type = body.message_type();
        let header = Header {
            message_type,
            control: message_type.control(),
            ..header
        };
        Self {
            header,
            body,
            tlvs: Tlvs::EMPTY,
        }
    }

    /// Returns this message with `tlvs` in place of its TLVs.
    pub const fn with_tlvs(mut self, tlvs: Tlvs<'a>) -> Self {
        self.tlvs = tlvs;
        self
    }

    /// Parses a message. Bytes after `messageLength` (padding, a PRP trailer, the two octets after
    /// UDP over IPv6) are ignored.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, ParseError> {
        let (header, rest) = Header::parse(datagram)?;
        let mut from = Reader::new(rest);
        let body = Body::parse(header.message_type, &mut from)?;
        Ok(Self {
            header,
            body,
            tlvs: Tlvs::parse(from.rest())?,
        })
    }

    /// Writes the message and returns its length in octets, which is also its `messageLength`.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let mut to = Writer::new(buffer);
        Header {
            message_type: self.body.message_type(),
            ..self.header
        }
        .emit(&mut to)?;
        self.body.emit(&mut to)?;
        to.put(self.tlvs.as_bytes())?;
        let length = to.written();
        to.patch_u16(2, u16::try_from(length).map_err(|_| EmitError::TooLong)?);
        Ok(length)
    }
}

/// Overwrites the `correctionField` in the bytes of a message. Transparent clocks use this to
/// forward all other bytes unchanged, including parts that they do not know.
pub fn patch_correction(message: &mut [u8], correction: TimeInterval) -> Result<(), ParseError> {
    let field = message.get_mut(8..16).ok_or(ParseError::Truncated)?;
    field.copy_from_slice(&correction.0.to_be_bytes());
    Ok(())
}

/// Overwrites `flagField` in the bytes of a message. A transparent clock uses this to convert a
/// one-step Sync to a two-step one.
pub fn patch_flags(message: &mut [u8], flags: crate::Flags) -> Result<(), ParseError> {
    let field = message.get_mut(6..8).ok_or(ParseError::Truncated)?;
    field.copy_from_slice(&flags.0.to_be_bytes());
    Ok(())
}

/// Overwrites `messageLength` in the bytes of a message. The caller has appended or removed the TLV
/// already.
pub fn patch_length(message: &mut [u8], length: u16) -> Result<(), ParseError> {
    let field = message.get_mut(2..4).ok_or(ParseError::Truncated)?;
    field.copy_from_slice(&length.to_be_bytes());
    Ok(())
}
