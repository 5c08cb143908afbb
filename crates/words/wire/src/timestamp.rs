//! Instants in the format of PTP messages.

use timeloom_time::convert::low_u32;

use crate::{EmitError, ParseError, Reader, Writer};

/// Seconds and nanoseconds since the epoch of the timescale (IEEE 1588-2008, 5.3.3). PTP's epoch is
/// 1970-01-01T00:00:00 TAI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    seconds: u64,
    nanoseconds: u32,
}

impl Timestamp {
    /// The epoch; in messages, this value means "not specified".
    pub const ZERO: Self = Self {
        seconds: 0,
        nanoseconds: 0,
    };

    /// Returns a timestamp; `None` unless `seconds` < 2^48 and `nanoseconds` < 10^9.
    pub const fn new(seconds: u64, nanoseconds: u32) -> Option<Self> {
        if seconds >> 48 != 0 || nanoseconds >= 1_000_000_000 {
            return None;
        }
        Some(Self {
            seconds,
            nanoseconds,
        })
    }

    /// Converts nanoseconds since the epoch. A negative number becomes the epoch.
    pub const fn from_ns(ns: i64) -> Self {
        if ns < 0 {
            return Self::ZERO;
        }
        Self {
            seconds: ns.cast_unsigned() / 1_000_000_000,
            nanoseconds: low_u32(ns.cast_unsigned() % 1_000_000_000),
        }
    }

    /// Returns nanoseconds since the epoch; saturates in the year 2262.
    pub const fn as_ns(self) -> i64 {
        if self.seconds > i64::MAX.cast_unsigned() / 1_000_000_000 - 1 {
            return i64::MAX;
        }
        (self.seconds * 1_000_000_000 + self.nanoseconds as u64).cast_signed()
    }

    /// Returns the whole seconds since the epoch.
    pub const fn seconds(self) -> u64 {
        self.seconds
    }

    /// Returns the nanoseconds within the second, below 10^9.
    pub const fn nanoseconds(self) -> u32 {
        self.nanoseconds
    }

    /// Reads the timestamp's ten octets; fails if the nanoseconds field is 10^9 or more.
    pub fn parse(from: &mut Reader<'_>) -> Result<Self, ParseError> {
        let (seconds, nanoseconds) = (from.u48()?, from.u32()?);
        Self::new(seconds, nanoseconds).ok_or(ParseError::Nanoseconds)
    }

    /// Writes the timestamp's ten octets.
    pub fn emit(self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        to.u48(self.seconds)?;
        to.u32(self.nanoseconds)
    }
}
