//! NTP's shared-memory reference clock (driver 28): a SysV segment with the key `0x4e545030 +
//! unit`, of 96 bytes on 64-bit machines, native endian.
//!
//! A writer updates the segment in mode 1 while programs read it: it sets `valid` to 0, increments
//! `count`, writes the fields, increments `count` again and sets `valid` to 1. The protocol
//! specifies no memory barriers; the owner of the memory adds them.

use super::ForeignFormatError;
use super::bytes::{at_least, expect, put, take};

/// Size of the segment in bytes.
pub const SIZE: usize = 96;

/// Seconds with the microseconds and the nanoseconds of the segment. Readers use the nanoseconds if
/// they agree with the microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShmTime {
    /// Whole seconds.
    pub s: i64,
    /// Nanoseconds to be added to `s`: 0 … 999,999,999.
    pub ns: i32,
}

/// Sample of a reference clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShmSample {
    /// Number of updates, raised by two with every sample.
    pub count: i32,
    /// True time of the sample.
    pub clock: ShmTime,
    /// System time at which the sample was taken.
    pub receive: ShmTime,
    /// Leap second pending: 0 none, 1 a second will be inserted, 2 a second will be deleted, 3
    /// unknown.
    pub leap: i32,
    /// Resolution of the clock, as a power of two in seconds.
    pub precision: i32,
    /// True until a reader has taken the sample.
    pub valid: bool,
}

impl ShmSample {
    /// Encodes the sample as a segment in mode 1.
    pub fn emit(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        put(&mut bytes, 0, 1i32.to_ne_bytes());
        put(&mut bytes, 4, self.count.to_ne_bytes());
        put(&mut bytes, 8, self.clock.s.to_ne_bytes());
        put(&mut bytes, 16, (self.clock.ns / 1000).to_ne_bytes());
        put(&mut bytes, 24, self.receive.s.to_ne_bytes());
        put(&mut bytes, 32, (self.receive.ns / 1000).to_ne_bytes());
        put(&mut bytes, 36, self.leap.to_ne_bytes());
        put(&mut bytes, 40, self.precision.to_ne_bytes());
        put(&mut bytes, 48, i32::from(self.valid).to_ne_bytes());
        put(&mut bytes, 52, (self.clock.ns as u32).to_ne_bytes());
        put(&mut bytes, 56, (self.receive.ns as u32).to_ne_bytes());
        bytes
    }

    /// Decodes a copy of the segment.
    ///
    /// # Errors
    /// Fails if the bytes are too few, or if a field is invalid.
    pub fn parse(bytes: &[u8]) -> Result<Self, ForeignFormatError> {
        at_least(bytes, SIZE)?;
        let i32_at = |at| i32::from_ne_bytes(take(bytes, at));
        expect("mode", (0..=1).contains(&i32_at(0)))?;
        expect("leap", (0..=3).contains(&i32_at(36)))?;
        let time = |s_at: usize, us_at: usize, ns_at: usize| {
            let (us, ns) = (i32_at(us_at), i32_at(ns_at));
            expect("microseconds", (0..1_000_000).contains(&us))?;
            // A writer that has no nanoseconds leaves the field 0.
            let ns = if ns / 1000 == us { ns } else { us * 1000 };
            Ok(ShmTime {
                s: i64::from_ne_bytes(take(bytes, s_at)),
                ns,
            })
        };
        Ok(Self {
            count: i32_at(4),
            clock: time(8, 16, 52)?,
            receive: time(24, 32, 56)?,
            leap: i32_at(36),
            precision: i32_at(40),
            valid: i32_at(48) != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn fields_lie_where_the_driver_has_them() {
        let sample = ShmSample {
            count: 6,
            clock: ShmTime {
                s: 0x0102,
                ns: 5_000_007,
            },
            receive: ShmTime {
                s: 0x0304,
                ns: 6_000,
            },
            leap: 1,
            precision: -20,
            valid: true,
        };
        let mut bytes = sample.emit();
        assert_eq!(&bytes[..10], b"\x01\0\0\0\x06\0\0\0\x02\x01");
        assert_eq!(&bytes[16..20], b"\x88\x13\0\0"); // 5000 µs
        assert_eq!(&bytes[36..44], b"\x01\0\0\0\xec\xff\xff\xff");
        assert_eq!(&bytes[48..56], b"\x01\0\0\0\x47\x4b\x4c\0");
        assert_eq!(ShmSample::parse(&bytes), Ok(sample));
        bytes[52..56].fill(0); // a writer of microseconds
        assert_eq!(ShmSample::parse(&bytes).unwrap().clock.ns, 5_000_000);
        assert!(ShmSample::parse(&bytes[..95]).is_err());
    }
}
