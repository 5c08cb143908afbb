//! ClockBound's segments, versions 2 (`/var/run/clockbound/shm0`) and 3 (`…/shm1`). The layout
//! follows ClockBound's code, because its documentation gives other bytes for the magic number. All
//! fields are native endian.
//!
//! A writer updates a segment while programs read it: it makes the generation odd, writes the
//! fields, and makes the generation even again. The generation is never 0 after the first update: 2
//! follows 65534.

use std::fmt;

use timeloom_clock::quality::{Interval, Status};
use timeloom_clock::timeline::{Segment, UtcView};
use timeloom_time::{Duration, Instant};

use super::ForeignFormatError;
use super::bytes::{at_least, expect, put, take};
use crate::shm::encode::PageSegment;

/// Magic number, as the first two words of every segment.
pub const MAGIC: [u32; 2] = [0x414d_5a4e, 0x4342_0200];

/// Size of a segment of version 2 in bytes.
pub const SIZE_V2: usize = 80;
/// Size of a segment of version 3 in bytes.
pub const SIZE_V3: usize = 104;

const VERSION_V2: u16 = 2;
/// Minimum version that a reader must support, and the version of the segment: 3 for both.
const VERSION_V3: u16 = 0x0303;

/// Seconds and nanoseconds, as in `timespec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds {
    /// Whole seconds.
    pub s: i64,
    /// Nanoseconds to be added to `s`: 0 … 999,999,999.
    pub ns: i64,
}

impl Seconds {
    /// Converts from nanoseconds, which may be negative.
    pub fn from_ns(ns: i64) -> Self {
        Self {
            s: ns.div_euclid(1_000_000_000),
            ns: ns.rem_euclid(1_000_000_000),
        }
    }
}

/// Status of a clock, as ClockBound defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum ClockStatus {
    /// No time is known.
    Unknown = 0,
    /// Synchronised to a source.
    Synchronized = 1,
    /// Synchronised earlier, and running freely now.
    FreeRunning = 2,
    /// The counter was disrupted.
    Disrupted = 3,
}

impl fmt::Display for ClockStatus {
    /// Formats the status as ClockBound's own programs do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::Synchronized => "synchronized",
            Self::FreeRunning => "free-running",
            Self::Disrupted => "disrupted",
        })
    }
}

impl ClockStatus {
    fn from_number(number: i32) -> Result<Self, ForeignFormatError> {
        Ok(match number {
            0 => Self::Unknown,
            1 => Self::Synchronized,
            2 => Self::FreeRunning,
            3 => Self::Disrupted,
            _ => return Err(ForeignFormatError::Field("clock_status")),
        })
    }
}

impl From<Status> for ClockStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::NeverSynchronised | Status::Unauthenticated => Self::Unknown,
            Status::Ok => Self::Synchronized,
            Status::SourceLost | Status::DaemonDead => Self::FreeRunning,
            Status::Disrupted => Self::Disrupted,
        }
    }
}

/// Segment of version 2: the bound of CLOCK_REALTIME's error at an instant of
/// CLOCK_MONOTONIC_COARSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentV2 {
    /// Generation of the update: even and not 0.
    pub generation: u16,
    /// Instant of CLOCK_MONOTONIC_COARSE for which the bound was computed.
    pub as_of: Seconds,
    /// Instant of CLOCK_MONOTONIC_COARSE after which the segment must not be used.
    pub void_after: Seconds,
    /// Half of the interval's width at `as_of`, in nanoseconds.
    pub bound_ns: i64,
    /// Marker that changes with every disruption of the clock.
    pub disruption_marker: u64,
    /// Growth of the bound since `as_of`, in parts per 10^9.
    pub max_drift_ppb: u32,
    /// Status of the clock.
    pub status: ClockStatus,
    /// True if readers must compare the marker with that of `/dev/vmclock0`.
    pub disruption_support: bool,
}

/// Segment of version 3: UTC at a value of the time-stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentV3 {
    /// Generation of the update: even and not 0.
    pub generation: u16,
    /// Value of the time-stamp counter for which the bound was computed.
    pub as_of_tsc: u64,
    /// UTC when the counter was `as_of_tsc`.
    pub as_of: Seconds,
    /// UTC after which the segment must not be used.
    pub void_after: Seconds,
    /// Seconds per tick in units of 2^-(64 + shift).
    pub period_frac: u64,
    /// Relative error of the period in units of 2^-(64 + shift of the error).
    pub period_err_frac: u64,
    /// Half of the interval's width at `as_of`, in nanoseconds.
    pub bound_ns: i64,
    /// Marker that changes with every disruption of the clock.
    pub disruption_marker: u64,
    /// Growth of the bound since `as_of`, in parts per 10^9.
    pub max_drift_ppb: u32,
    /// Status of the clock.
    pub status: ClockStatus,
    /// True if readers must compare the marker with that of `/dev/vmclock0`.
    pub disruption_support: bool,
    /// Number of additional bits in the unit of `period_frac`.
    pub period_shift: u8,
    /// Number of additional bits in the unit of `period_err_frac`.
    pub period_err_shift: u8,
}

impl SegmentV2 {
    /// Encodes the segment as 80 bytes.
    pub fn emit(&self) -> [u8; SIZE_V2] {
        let mut bytes = [0; SIZE_V2];
        put_header(&mut bytes, VERSION_V2, self.generation);
        put_seconds(&mut bytes, 16, self.as_of);
        put_seconds(&mut bytes, 32, self.void_after);
        put(&mut bytes, 48, self.bound_ns.to_ne_bytes());
        put(&mut bytes, 56, self.disruption_marker.to_ne_bytes());
        put(&mut bytes, 64, self.max_drift_ppb.to_ne_bytes());
        put(&mut bytes, 68, (self.status as i32).to_ne_bytes());
        bytes[72] = u8::from(self.disruption_support);
        bytes
    }

    /// Decodes a copy of the segment.
    ///
    /// # Errors
    /// Fails if the bytes are not a segment of version 2, or if the segment is being written.
    pub fn parse(bytes: &[u8]) -> Result<Self, ForeignFormatError> {
        let generation = take_header(bytes, SIZE_V2, VERSION_V2)?;
        Ok(Self {
            generation,
            as_of: take_seconds(bytes, 16)?,
            void_after: take_seconds(bytes, 32)?,
            bound_ns: i64::from_ne_bytes(take(bytes, 48)),
            disruption_marker: u64::from_ne_bytes(take(bytes, 56)),
            max_drift_ppb: u32::from_ne_bytes(take(bytes, 64)),
            status: ClockStatus::from_number(i32::from_ne_bytes(take(bytes, 68)))?,
            disruption_support: bytes[72] != 0,
        })
    }
}

impl SegmentV3 {
    /// Builds the segment for a timeline of the scale TAI. Readers of the segment expect UTC.
    ///
    /// Readers use a symmetric bound, add `max_drift_ppb` and the period's error to it, and
    /// truncate fractions. The bound is therefore the larger of the two sides, the growth is
    /// rounded up, and 2 ns are added. The marker is given but `disruption_support` is false,
    /// because readers would compare the marker with that of `/dev/vmclock0`.
    pub fn of(segment: &Segment, encoded: &PageSegment, utc: &UtcView) -> Self {
        let tai = Interval::around(
            Instant::from_ns(encoded.estimate0_ns),
            Duration::from_ns(encoded.below_ns.min(i64::MAX as u64) as i64),
            Duration::from_ns(encoded.above_ns.min(i64::MAX as u64) as i64),
        );
        let utc = utc.view(tai);
        let life = segment.void_after - segment.origin.core;
        let growth = encoded.below_growth_0_64.max(encoded.above_growth_0_64);
        let per_ns = u128::from(encoded.rate_8_56).max(1) << 8;
        let drift_ppb = (u128::from(growth) * 1_000_000_000).div_ceil(per_ns);
        let shift = 22;
        let period = ((u128::from(encoded.rate_8_56) << 8) << shift) / 1_000_000_000;
        Self {
            generation: 2,
            as_of_tsc: encoded.counter0,
            as_of: Seconds::from_ns(utc.estimate().as_ns()),
            void_after: Seconds::from_ns((utc.estimate() + life).as_ns()),
            period_frac: u64::try_from(period).unwrap_or(u64::MAX),
            period_err_frac: 0,
            bound_ns: utc.below().max(utc.above()).as_ns().saturating_add(2),
            disruption_marker: encoded.marker,
            max_drift_ppb: u32::try_from(drift_ppb).unwrap_or(u32::MAX),
            status: segment.status.into(),
            disruption_support: false,
            period_shift: shift,
            period_err_shift: 0,
        }
    }

    /// Encodes the segment as 104 bytes.
    pub fn emit(&self) -> [u8; SIZE_V3] {
        let mut bytes = [0; SIZE_V3];
        put_header(&mut bytes, VERSION_V3, self.generation);
        put(&mut bytes, 16, self.as_of_tsc.to_ne_bytes());
        put_seconds(&mut bytes, 24, self.as_of);
        put_seconds(&mut bytes, 40, self.void_after);
        put(&mut bytes, 56, self.period_frac.to_ne_bytes());
        put(&mut bytes, 64, self.period_err_frac.to_ne_bytes());
        put(&mut bytes, 72, self.bound_ns.to_ne_bytes());
        put(&mut bytes, 80, self.disruption_marker.to_ne_bytes());
        put(&mut bytes, 88, self.max_drift_ppb.to_ne_bytes());
        put(&mut bytes, 92, (self.status as i32).to_ne_bytes());
        bytes[96] = u8::from(self.disruption_support);
        bytes[97] = self.period_shift;
        bytes[98] = self.period_err_shift;
        bytes
    }

    /// Decodes a copy of the segment.
    ///
    /// # Errors
    /// Fails if the bytes are not a segment of version 3, or if the segment is being written.
    pub fn parse(bytes: &[u8]) -> Result<Self, ForeignFormatError> {
        let generation = take_header(bytes, SIZE_V3, VERSION_V3)?;
        expect("period_shift", bytes[97] < 64 && bytes[98] < 64)?;
        Ok(Self {
            generation,
            as_of_tsc: u64::from_ne_bytes(take(bytes, 16)),
            as_of: take_seconds(bytes, 24)?,
            void_after: take_seconds(bytes, 40)?,
            period_frac: u64::from_ne_bytes(take(bytes, 56)),
            period_err_frac: u64::from_ne_bytes(take(bytes, 64)),
            bound_ns: i64::from_ne_bytes(take(bytes, 72)),
            disruption_marker: u64::from_ne_bytes(take(bytes, 80)),
            max_drift_ppb: u32::from_ne_bytes(take(bytes, 88)),
            status: ClockStatus::from_number(i32::from_ne_bytes(take(bytes, 92)))?,
            disruption_support: bytes[96] != 0,
            period_shift: bytes[97],
            period_err_shift: bytes[98],
        })
    }
}

/// Segment of either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnySegment {
    /// Version 2.
    V2(SegmentV2),
    /// Version 3.
    V3(SegmentV3),
}

impl From<&SegmentV2> for AnySegment {
    fn from(segment: &SegmentV2) -> Self {
        Self::V2(*segment)
    }
}

impl From<&SegmentV3> for AnySegment {
    fn from(segment: &SegmentV3) -> Self {
        Self::V3(*segment)
    }
}

impl AnySegment {
    /// Builds a segment of version 2 or 3 with a status but without a valid time.
    pub fn void(version: u8, status: ClockStatus) -> Self {
        let (zero, far_ns) = (Seconds { s: 0, ns: 0 }, 1_000_000_000_000_000);
        if version == 2 {
            return Self::V2(SegmentV2 {
                generation: 2,
                as_of: zero,
                void_after: zero,
                bound_ns: far_ns,
                disruption_marker: 0,
                max_drift_ppb: 0,
                status,
                disruption_support: false,
            });
        }
        Self::V3(SegmentV3 {
            generation: 2,
            as_of_tsc: 0,
            as_of: zero,
            void_after: zero,
            period_frac: 0,
            period_err_frac: 0,
            bound_ns: far_ns,
            disruption_marker: 0,
            max_drift_ppb: 0,
            status,
            disruption_support: false,
            period_shift: 0,
            period_err_shift: 0,
        })
    }

    /// Returns the size of the segment in the file, in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::V2(_) => SIZE_V2,
            Self::V3(_) => SIZE_V3,
        }
    }

    /// Encodes the segment with this generation. The bytes beyond [`Self::size`] are zeros.
    pub(crate) fn emit_as(&self, generation: u16) -> [u8; SIZE_V3] {
        match *self {
            Self::V2(segment) => {
                let mut bytes = [0; SIZE_V3];
                let segment = SegmentV2 {
                    generation,
                    ..segment
                };
                bytes[..SIZE_V2].copy_from_slice(&segment.emit());
                bytes
            }
            Self::V3(segment) => SegmentV3 {
                generation,
                ..segment
            }
            .emit(),
        }
    }
}

/// Returns the version of the segment that begins with `bytes`, even if the segment is still being
/// written; `None` if the bytes do not begin a segment.
pub fn version_of(bytes: &[u8]) -> Option<u8> {
    if bytes.len() < 16 || [take(bytes, 0), take(bytes, 4)].map(u32::from_ne_bytes) != MAGIC {
        return None;
    }
    match u16::from_ne_bytes(take(bytes, 12)) {
        VERSION_V2 => Some(2),
        VERSION_V3 => Some(3),
        _ => None,
    }
}

/// Returns the generation of the update that follows `generation`: even and never 0.
pub fn next_generation(generation: u16) -> u16 {
    match (generation | 1).wrapping_add(1) {
        0 => 2,
        next => next,
    }
}

fn put_header(bytes: &mut [u8], version: u16, generation: u16) {
    put(bytes, 0, MAGIC[0].to_ne_bytes());
    put(bytes, 4, MAGIC[1].to_ne_bytes());
    put(bytes, 8, (bytes.len() as u32).to_ne_bytes());
    put(bytes, 12, version.to_ne_bytes());
    put(bytes, 14, generation.to_ne_bytes());
}

fn take_header(bytes: &[u8], size: usize, version: u16) -> Result<u16, ForeignFormatError> {
    at_least(bytes, size)?;
    let words = [take(bytes, 0), take(bytes, 4)].map(u32::from_ne_bytes);
    expect("magic", words == MAGIC)?;
    expect(
        "segsize",
        u32::from_ne_bytes(take(bytes, 8)) as usize >= size,
    )?;
    expect("version", u16::from_ne_bytes(take(bytes, 12)) == version)?;
    let generation = u16::from_ne_bytes(take(bytes, 14));
    if generation == 0 || generation & 1 == 1 {
        return Err(ForeignFormatError::Updating);
    }
    Ok(generation)
}

fn put_seconds(bytes: &mut [u8], at: usize, seconds: Seconds) {
    put(bytes, at, seconds.s.to_ne_bytes());
    put(bytes, at + 8, seconds.ns.to_ne_bytes());
}

fn take_seconds(bytes: &[u8], at: usize) -> Result<Seconds, ForeignFormatError> {
    let [s, ns] = [take(bytes, at), take(bytes, at + 8)].map(i64::from_ne_bytes);
    expect("nanoseconds", (0..1_000_000_000).contains(&ns))?;
    Ok(Seconds { s, ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v2() -> SegmentV2 {
        SegmentV2 {
            generation: 4,
            as_of: Seconds { s: 0x0102, ns: 3 },
            void_after: Seconds { s: 0x0506, ns: 7 },
            bound_ns: 0x1122_3344,
            disruption_marker: 9,
            max_drift_ppb: 15_000,
            status: ClockStatus::Synchronized,
            disruption_support: true,
        }
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn the_bytes_are_those_that_its_readers_accept() {
        let bytes = v2().emit();
        assert_eq!(
            &bytes[..16],
            b"\x4e\x5a\x4d\x41\x00\x02\x42\x43\x50\0\0\0\x02\0\x04\0"
        );
        assert_eq!(&bytes[16..18], b"\x02\x01");
        assert_eq!(&bytes[48..52], b"\x44\x33\x22\x11");
        assert_eq!(&bytes[64..73], b"\x98\x3a\0\0\x01\0\0\0\x01");
        let v3 = SegmentV3::parse(&sample_v3().emit()).unwrap();
        assert_eq!(&v3.emit()[8..16], b"\x68\0\0\0\x03\x03\x02\0");
        assert_eq!(&v3.emit()[92..99], b"\x02\0\0\0\x01\x05\x06");
    }

    fn sample_v3() -> SegmentV3 {
        SegmentV3 {
            generation: 2,
            as_of_tsc: 77,
            as_of: Seconds { s: 1, ns: 2 },
            void_after: Seconds { s: 3, ns: 4 },
            period_frac: 5,
            period_err_frac: 6,
            bound_ns: 7,
            disruption_marker: 8,
            max_drift_ppb: 9,
            status: ClockStatus::FreeRunning,
            disruption_support: true,
            period_shift: 5,
            period_err_shift: 6,
        }
    }

    #[test]
    fn a_segment_in_the_making_or_of_another_kind_is_refused() {
        let odd = SegmentV2 {
            generation: 5,
            ..v2()
        };
        assert_eq!(
            SegmentV2::parse(&odd.emit()),
            Err(ForeignFormatError::Updating)
        );
        assert_eq!(
            SegmentV2::parse(&[0; 80]),
            Err(ForeignFormatError::Field("magic"))
        );
        let other = SegmentV2::parse(&sample_v3().emit());
        assert_eq!(other, Err(ForeignFormatError::Field("version")));
        assert_eq!(next_generation(0), 2);
        assert_eq!(next_generation(65534), 2);
        assert_eq!(next_generation(7), 8);
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_parsed_segments_are_emitted_again(mut bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            if bytes.len() > 16 {
                let good = if bytes.len() % 2 == 0 { v2().emit().to_vec() } else { sample_v3().emit().to_vec() };
                bytes[..16].copy_from_slice(&good[..16]);
            }
            if let Ok(segment) = SegmentV2::parse(&bytes) {
                prop_assert_eq!(SegmentV2::parse(&segment.emit()), Ok(segment));
            }
            if let Ok(segment) = SegmentV3::parse(&bytes) {
                prop_assert_eq!(SegmentV3::parse(&segment.emit()), Ok(segment));
            }
        }
    }
}
