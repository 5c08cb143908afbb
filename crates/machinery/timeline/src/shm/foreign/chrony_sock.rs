//! Sample for chrony's SOCK reference clock: one datagram of 40 bytes to a Unix socket that chronyd
//! created. The fields are native endian, with a 64-bit `timeval`.
//!
//! chronyd silently drops a datagram with another length or magic number.

use super::ForeignFormatError;
use super::bytes::{expect, put, take};

/// Size of a sample in bytes.
pub const SIZE: usize = 40;

/// Magic number of a sample: "SOCK".
pub const MAGIC: i32 = 0x534f_434b;

/// Sample of a reference clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SockSample {
    /// System time of the sample, in whole seconds since 1970.
    pub tv_s: i64,
    /// Microseconds to be added to `tv_s`.
    pub tv_us: i64,
    /// True time minus the system time of the sample, in seconds.
    pub offset_s: f64,
    /// True if the sample is a pulse, of which only the fraction of a second is meaningful.
    pub pulse: bool,
    /// Leap second pending: 0 none, 1 a second will be inserted, 2 a second will be deleted.
    pub leap: i32,
}

impl SockSample {
    /// Encodes the datagram.
    pub fn emit(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        put(&mut bytes, 0, self.tv_s.to_ne_bytes());
        put(&mut bytes, 8, self.tv_us.to_ne_bytes());
        put(&mut bytes, 16, self.offset_s.to_ne_bytes());
        put(&mut bytes, 24, i32::from(self.pulse).to_ne_bytes());
        put(&mut bytes, 28, self.leap.to_ne_bytes());
        put(&mut bytes, 36, MAGIC.to_ne_bytes());
        bytes
    }

    /// Decodes a datagram.
    ///
    /// # Errors
    /// Fails if the length or a field is invalid.
    pub fn parse(bytes: &[u8]) -> Result<Self, ForeignFormatError> {
        if bytes.len() != SIZE {
            return Err(ForeignFormatError::Length {
                expected: SIZE,
                found: bytes.len(),
            });
        }
        let i32_at = |at| i32::from_ne_bytes(take(bytes, at));
        expect("magic", i32_at(36) == MAGIC)?;
        let (tv_us, leap) = (i64::from_ne_bytes(take(bytes, 8)), i32_at(28));
        let offset_s = f64::from_ne_bytes(take(bytes, 16));
        expect("tv_usec", (0..1_000_000).contains(&tv_us))?;
        expect("leap", (0..=2).contains(&leap))?;
        expect("offset", offset_s.is_finite())?;
        let tv_s = i64::from_ne_bytes(take(bytes, 0));
        Ok(Self {
            tv_s,
            tv_us,
            offset_s,
            pulse: i32_at(24) != 0,
            leap,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn a_sample_is_the_forty_bytes_that_chronyd_took() {
        let sample = SockSample {
            tv_s: 0x0102,
            tv_us: 5,
            offset_s: 1.0,
            pulse: false,
            leap: 2,
        };
        let bytes = sample.emit();
        assert_eq!(&bytes[..2], b"\x02\x01");
        assert_eq!(&bytes[16..24], b"\0\0\0\0\0\0\xf0\x3f");
        assert_eq!(
            &bytes[24..40],
            b"\0\0\0\0\x02\0\0\0\0\0\0\0\x4b\x43\x4f\x53"
        );
        assert_eq!(SockSample::parse(&bytes), Ok(sample));
        assert!(SockSample::parse(&bytes[..39]).is_err());
        assert_eq!(
            SockSample::parse(&[0; 40]),
            Err(ForeignFormatError::Field("magic"))
        );
    }
}
