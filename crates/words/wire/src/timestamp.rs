//! Points in time in the format of messages.

use crate::{EmitError, ParseError, Reader, Writer};

/// Seconds and nanoseconds since the epoch of the timescale (IEEE 1588-2008,
/// 5.3.3): for PTP, 1970-01-01T00:00:00 TAI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    seconds: u64,
    nanoseconds: u32,
}

impl Timestamp {
    /// The epoch, which in messages means "not specified".
    pub const ZERO: Self = Self {
        seconds: 0,
        nanoseconds: 0,
    };

    /// Returns `None` unless `seconds` < 2^48 and `nanoseconds` < 10^9.
    pub const fn new(seconds: u64, nanoseconds: u32) -> Option<Self> {
        if seconds >> 48 != 0 || nanoseconds >= 1_000_000_000 {
            return None;
        }
        Some(Self {
            seconds,
            nanoseconds,
        })
    }

    /// Converts nanoseconds since the epoch; times before it become the epoch.
    pub const fn from_ns(ns: i64) -> Self {
        if ns < 0 {
            return Self::ZERO;
        }
        Self {
            seconds: ns as u64 / 1_000_000_000,
            nanoseconds: (ns % 1_000_000_000) as u32,
        }
    }

    /// Nanoseconds since the epoch; saturates in the year 2262.
    pub const fn as_ns(self) -> i64 {
        if self.seconds > i64::MAX as u64 / 1_000_000_000 - 1 {
            return i64::MAX;
        }
        (self.seconds * 1_000_000_000 + self.nanoseconds as u64) as i64
    }

    /// Whole seconds.
    pub const fn seconds(self) -> u64 {
        self.seconds
    }

    /// Nanoseconds within the second.
    pub const fn nanoseconds(self) -> u32 {
        self.nanoseconds
    }

    /// Reads ten octets; a nanoseconds field of a second or more is an error.
    pub fn parse(from: &mut Reader<'_>) -> Result<Self, ParseError> {
        let (seconds, nanoseconds) = (from.u48()?, from.u32()?);
        Self::new(seconds, nanoseconds).ok_or(ParseError::Nanoseconds)
    }

    /// Writes ten octets.
    pub fn emit(self, to: &mut Writer<'_>) -> Result<(), EmitError> {
        to.u48(self.seconds)?;
        to.u32(self.nanoseconds)
    }
}
