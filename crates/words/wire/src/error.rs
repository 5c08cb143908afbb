//! Reasons why bytes are not a message; also used as counters.

use core::fmt;

macro_rules! parse_errors {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Reason why bytes are not a message. A bad packet is dropped and counted under one of
        /// these names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ParseError { $($(#[$doc])* $name,)* }

        impl ParseError {
            /// Every reason, in the order of the counters.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The reason as text, for logs and counters.
            pub const fn reason(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

parse_errors! {
    /// Fewer bytes than the fields need.
    Truncated = "truncated",
    /// `messageLength` is shorter than the message type needs or longer than the received bytes.
    MessageLength = "messageLength does not fit",
    /// `versionPTP` is not 2. [`crate::Header::version_of`] recognises PTPv1.
    Version = "unknown versionPTP",
    /// A `messageType` that IEEE 1588 reserves.
    MessageType = "reserved messageType",
    /// Nanoseconds of a timestamp at or above 10^9 (5.3.3).
    Nanoseconds = "timestamp nanoseconds out of range",
    /// A TLV of odd length (14.1.1 requires an even one; ptp4l drops the message).
    OddTlv = "TLV of odd length",
    /// A TLV that extends beyond its message, or stray bytes after the last.
    TlvOverrun = "TLV runs past the message",
    /// The value of a known TLV does not have its format.
    TlvValue = "malformed TLV value",
    /// Not IEEE 1588: another Ethertype, or not UDP to port 319 or 320.
    NotPtp = "not a PTP frame",
    /// An invalid IP header or checksum.
    Ip = "malformed IP or UDP header",
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl core::error::Error for ParseError {}

/// Reason why a message cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmitError {
    /// The buffer is shorter than the message.
    NoRoom,
    /// The message or TLV would not fit its 16-bit length field.
    TooLong,
    /// A TLV value of odd length.
    OddTlv,
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRoom => "the buffer is too short for the message",
            Self::TooLong => "longer than a 16-bit length field can say",
            Self::OddTlv => "a TLV must have an even length",
        })
    }
}

impl core::error::Error for EmitError {}
