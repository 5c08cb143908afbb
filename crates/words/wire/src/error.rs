//! Errors of parsing and writing messages.

use core::fmt;

macro_rules! parse_errors {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Reason for which bytes are rejected as a message. The receiver drops such a packet and
        /// counts it under the reason.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ParseError { $($(#[$doc])* $name,)* }

        impl ParseError {
            /// All reasons, in the order of the counters.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the reason as text, for logs and as the name of a counter.
            pub const fn reason(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

parse_errors! {
    /// The bytes end before the last field.
    Truncated = "truncated",
    /// `messageLength` is less than the message type needs, or more than the received bytes.
    MessageLength = "messageLength does not fit",
    /// `versionPTP` is not 2. Callers distinguish PTPv1 with [`crate::Header::version_of`].
    Version = "unknown versionPTP",
    /// `messageType` has a value that IEEE 1588 reserves.
    MessageType = "reserved messageType",
    /// The nanoseconds field of a timestamp is 10^9 or more (5.3.3).
    Nanoseconds = "timestamp nanoseconds out of range",
    /// The length of a TLV is odd (14.1.1 requires an even one; ptp4l drops the message).
    OddTlv = "TLV of odd length",
    /// A TLV extends beyond its message, or the bytes after the last TLV are too few for another.
    TlvOverrun = "TLV runs past the message",
    /// The value of a TLV of known type is not in that type's format.
    TlvValue = "malformed TLV value",
    /// The frame is not IEEE 1588: its Ethertype differs, or its UDP port is not 319 or 320.
    NotPtp = "not a PTP frame",
    /// The IP header or a checksum is invalid.
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
    /// The length of a TLV's value is odd.
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
