//! The kernel's `struct vmclock_abi` (uapi/linux/vmclock-abi.h), little-endian. It occupies bytes
//! 0–111 of a timeline's page, and of `/dev/vmclock0` in a guest.
//!
//! A writer updates the structure while programs read it, as the kernel and QEMU do: it makes the
//! sequence odd, writes the fields, and makes the sequence even. (Timeloom's own readers use the
//! latch that follows the structure on the page.)

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI16, AtomicU8, AtomicU16, AtomicU32, AtomicU64, fence};

use crate::shm::counter::PageCounter;
use timeloom_clock::quality::Status;
use timeloom_clock::timeline::Segment;

use super::ForeignFormatError;
use super::bytes::{at_least, expect, put, take};
use crate::shm::PAGE_SIZE;
use crate::shm::encode::PageSegment;
use crate::shm::writer::TimeType;

/// Value of `magic`: "VCLK".
pub const MAGIC: u32 = 0x4b4c_4356;

/// Size of the structure in bytes.
pub const SIZE: usize = 112;

/// Bit of `flags`: the maximum error of the period is given.
pub const PERIOD_MAXERROR: u64 = 1 << 4;
/// Bit of `flags`: the maximum error of the time is given.
pub const TIME_MAXERROR: u64 = 1 << 6;

/// Value of `counter_id`: the x86 time-stamp counter.
pub const COUNTER_TSC: u8 = 1;
/// Value of `counter_id`: no counter, so there is no time on the page.
pub const COUNTER_INVALID: u8 = 0xff;

/// Value of `time_type`: TAI.
pub const TIME_TAI: u8 = 1;
/// Value of `time_type`: nanoseconds since a zero that is not shared with other pages.
pub const TIME_MONOTONIC: u8 = 2;

/// Bit of `flags`: `tai_offset_sec` is valid.
pub const TAI_OFFSET_VALID: u64 = 1 << 0;

/// The structure in shared memory; see the kernel's header for the fields.
#[repr(C)]
#[derive(Debug)]
pub struct VmclockAbi {
    pub(crate) magic: AtomicU32,
    pub(crate) size: AtomicU32,
    pub(crate) version: AtomicU16,
    pub(crate) counter_id: AtomicU8,
    pub(crate) time_type: AtomicU8,
    pub(crate) seq_count: AtomicU32,
    /// Marker that changes with every disruption of the counter. (Timeloom's own readers use the
    /// copy beside the latch's sequence.)
    pub disruption_marker: AtomicU64,
    pub(crate) flags: AtomicU64,
    pub(crate) pad: [AtomicU8; 2],
    pub(crate) clock_status: AtomicU8,
    pub(crate) leap_second_smearing_hint: AtomicU8,
    pub(crate) tai_offset_sec: AtomicI16,
    pub(crate) leap_indicator: AtomicU8,
    pub(crate) counter_period_shift: AtomicU8,
    pub(crate) counter_value: AtomicU64,
    pub(crate) counter_period_frac_sec: AtomicU64,
    pub(crate) counter_period_esterror: AtomicU64,
    pub(crate) counter_period_maxerror: AtomicU64,
    pub(crate) time_sec: AtomicU64,
    pub(crate) time_frac_sec: AtomicU64,
    pub(crate) time_esterror_nanosec: AtomicU64,
    pub(crate) time_maxerror_nanosec: AtomicU64,
    pub(crate) vm_generation_counter: AtomicU64,
}

/// Values of a `vmclock_abi`, copied out of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vmclock {
    /// Size in bytes of the memory region that holds the structure.
    pub size: u32,
    /// Kind of the counter, such as [`COUNTER_TSC`].
    pub counter_id: u8,
    /// Time scale, such as [`TIME_TAI`].
    pub time_type: u8,
    /// Marker that changes with every disruption of the counter.
    pub disruption_marker: u64,
    /// Flags that state which of the optional fields are valid.
    pub flags: u64,
    /// Status: 0 unknown, 1 initialising, 2 synchronised, 3 free-running, 4 unreliable.
    pub clock_status: u8,
    /// Offset from TAI to UTC in seconds, that is UTC minus TAI: −37 since 2017. Valid if
    /// [`TAI_OFFSET_VALID`] is set.
    ///
    /// The specification (UAPI.13) says "from TAI to UTC" and gives 37 as an example, which is the
    /// opposite sign. Linux's reader is authoritative: as of 6.13, `tai_adjust()` of
    /// `ptp_vmclock.c` computes UTC from TAI by adding the field, and in 2026 TAI from UTC by
    /// subtracting it. Writers differ, so a page of another writer is never converted with this
    /// field.
    pub tai_offset_s: i16,
    /// Number of additional bits in the unit of `period_frac`.
    pub period_shift: u8,
    /// Value of the counter at the time that the following fields state.
    pub counter_value: u64,
    /// Seconds per tick in units of 2^-(64 + shift).
    pub period_frac: u64,
    /// Maximum error of the period, in the unit of `period_frac`.
    pub period_maxerror: u64,
    /// Time when the counter was `counter_value`, in whole seconds.
    pub time_s: u64,
    /// Fraction of a second to be added to `time_s`, in units of 2^-64 s.
    pub time_frac: u64,
    /// Maximum error of the time, in nanoseconds.
    pub time_maxerror_ns: u64,
    /// Number that changes when a machine is restored from a snapshot.
    pub generation: u64,
}

impl Vmclock {
    /// Builds the structure for a segment. Without an interval the structure gives no time.
    pub fn of(segment: &Segment, encoded: &PageSegment, kind: PageCounter) -> Self {
        let bounded = segment.status.may_have_interval();
        // This converts nanoseconds per tick in 8.56 fixed point to seconds in units of 2^-(64 +
        // shift): it multiplies by 2^(8 + shift) / 10^9, as far as 64 bits hold the result. A tick
        // of 0.1 … 200 ns is below 2^-22 s, so a shift of 22 bits always fits.
        let shift = 22u8;
        let per_second =
            |ns_0_64: u128| u64::try_from((ns_0_64 << shift) / 1_000_000_000).unwrap_or(u64::MAX);
        let growth = encoded.below_growth_0_64.max(encoded.above_growth_0_64);
        let time_ns = encoded.estimate0_ns.max(0) as u64;
        let rest_ns = u128::from(time_ns % 1_000_000_000);
        let is_tsc = kind == PageCounter::Tsc;
        Self {
            size: PAGE_SIZE as u32,
            counter_id: if bounded && is_tsc {
                COUNTER_TSC
            } else {
                COUNTER_INVALID
            },
            time_type: TIME_TAI,
            disruption_marker: encoded.marker,
            flags: if bounded {
                PERIOD_MAXERROR | TIME_MAXERROR
            } else {
                0
            },
            clock_status: match segment.status {
                Status::NeverSynchronised => 0,
                Status::Ok => 2,
                Status::SourceLost | Status::DaemonDead => 3,
                Status::Disrupted | Status::Unauthenticated => 4,
            },
            tai_offset_s: 0,
            period_shift: shift,
            counter_value: encoded.counter0,
            period_frac: per_second(u128::from(encoded.rate_8_56) << 8),
            // Two units more, because this quotient and that of the period are rounded down.
            period_maxerror: per_second(u128::from(growth)).saturating_add(2),
            time_s: time_ns / 1_000_000_000,
            time_frac: ((rest_ns << 64) / 1_000_000_000) as u64,
            // One nanosecond more, because the fraction is rounded down.
            time_maxerror_ns: encoded.below_ns.max(encoded.above_ns).saturating_add(1),
            generation: 0,
        }
    }

    /// Sets the time scale, and the offset from TAI to UTC if it is known.
    #[must_use]
    pub fn with_type(self, time_type: TimeType) -> Self {
        match time_type {
            TimeType::Tai(None) => self,
            TimeType::Tai(Some(tai_minus_utc_s)) => Self {
                tai_offset_s: tai_minus_utc_s.saturating_neg(),
                flags: self.flags | TAI_OFFSET_VALID,
                ..self
            },
            TimeType::Local => Self {
                time_type: TIME_MONOTONIC,
                ..self
            },
        }
    }

    /// Encodes the structure as 112 bytes, with an even sequence.
    pub fn emit(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        put(&mut bytes, 0, MAGIC.to_le_bytes());
        put(&mut bytes, 4, self.size.to_le_bytes());
        put(&mut bytes, 8, 1u16.to_le_bytes());
        put(&mut bytes, 10, [self.counter_id, self.time_type]);
        put(&mut bytes, 16, self.disruption_marker.to_le_bytes());
        put(&mut bytes, 24, self.flags.to_le_bytes());
        put(&mut bytes, 34, [self.clock_status]);
        put(&mut bytes, 36, self.tai_offset_s.to_le_bytes());
        put(&mut bytes, 39, [self.period_shift]);
        put(&mut bytes, 40, self.counter_value.to_le_bytes());
        put(&mut bytes, 48, self.period_frac.to_le_bytes());
        put(&mut bytes, 64, self.period_maxerror.to_le_bytes());
        put(&mut bytes, 72, self.time_s.to_le_bytes());
        put(&mut bytes, 80, self.time_frac.to_le_bytes());
        put(&mut bytes, 96, self.time_maxerror_ns.to_le_bytes());
        put(&mut bytes, 104, self.generation.to_le_bytes());
        bytes
    }

    /// Decodes a copy of at least the first 112 bytes of a page. Producers without the generation
    /// counter have only 104 bytes, which are not enough.
    ///
    /// # Errors
    /// Fails if the bytes are not a vmclock of version 1 or are too few, or if the structure is
    /// being written.
    pub fn parse(bytes: &[u8]) -> Result<Self, ForeignFormatError> {
        at_least(bytes, SIZE)?;
        let u64_at = |at| u64::from_le_bytes(take(bytes, at));
        expect("magic", u32::from_le_bytes(take(bytes, 0)) == MAGIC)?;
        expect("version", u16::from_le_bytes(take(bytes, 8)) == 1)?;
        let size = u32::from_le_bytes(take(bytes, 4));
        expect("size", size as usize >= SIZE)?;
        if u32::from_le_bytes(take(bytes, 12)) & 1 == 1 {
            return Err(ForeignFormatError::Updating);
        }
        expect("counter_period_shift", bytes[39] < 64)?;
        Ok(Self {
            size,
            counter_id: bytes[10],
            time_type: bytes[11],
            disruption_marker: u64_at(16),
            flags: u64_at(24),
            clock_status: bytes[34],
            tai_offset_s: i16::from_le_bytes(take(bytes, 36)),
            period_shift: bytes[39],
            counter_value: u64_at(40),
            period_frac: u64_at(48),
            period_maxerror: u64_at(64),
            time_s: u64_at(72),
            time_frac: u64_at(80),
            time_maxerror_ns: u64_at(96),
            generation: u64_at(104),
        })
    }

    /// Returns the time when the counter is `ticks`, computed as the kernel's driver does: whole
    /// seconds, and a fraction in units of 2^-64 s. `None` if `ticks` is before `counter_value` or
    /// the time exceeds 2^64 seconds.
    pub fn at(&self, ticks: u64) -> Option<(u64, u64)> {
        let delta = u128::from(ticks.checked_sub(self.counter_value)?);
        let moved = (delta * u128::from(self.period_frac)) >> self.period_shift;
        let frac = u128::from(self.time_frac) + (moved & u128::from(u64::MAX));
        let carry = (moved >> 64) + (frac >> 64);
        let s = u128::from(self.time_s) + carry;
        Some((u64::try_from(s).ok()?, frac as u64))
    }
}

impl VmclockAbi {
    /// Returns TAI minus UTC in seconds; `None` if the page does not state it, or if a write takes
    /// longer than expected.
    pub(crate) fn tai_offset_s(&self) -> Option<i16> {
        for _ in 0..1000 {
            let sequence = self.seq_count.load(Acquire);
            let flags = u64::from_le(self.flags.load(Relaxed));
            let offset_s = i16::from_le(self.tai_offset_sec.load(Relaxed));
            fence(Acquire);
            if sequence & 1 == 0 && self.seq_count.load(Relaxed) == sequence {
                return (flags & TAI_OFFSET_VALID != 0).then_some(offset_s.saturating_neg());
            }
        }
        None
    }

    /// Writes the structure while programs read it. Only one writer may do so at a time. The
    /// disruption marker is not stored here, but at the place where a disruption is detected.
    pub(crate) fn store(&self, values: &Vmclock) {
        let sequence = self.seq_count.load(Relaxed) | 1;
        self.seq_count.store(sequence, Relaxed);
        fence(Release);
        self.size.store(values.size.to_le(), Relaxed);
        self.version.store(1u16.to_le(), Relaxed);
        self.counter_id.store(values.counter_id, Relaxed);
        self.time_type.store(values.time_type, Relaxed);
        self.flags.store(values.flags.to_le(), Relaxed);
        self.clock_status.store(values.clock_status, Relaxed);
        self.tai_offset_sec
            .store(values.tai_offset_s.to_le(), Relaxed);
        self.counter_period_shift
            .store(values.period_shift, Relaxed);
        self.counter_value
            .store(values.counter_value.to_le(), Relaxed);
        self.counter_period_frac_sec
            .store(values.period_frac.to_le(), Relaxed);
        self.counter_period_maxerror
            .store(values.period_maxerror.to_le(), Relaxed);
        self.time_sec.store(values.time_s.to_le(), Relaxed);
        self.time_frac_sec.store(values.time_frac.to_le(), Relaxed);
        self.time_maxerror_nanosec
            .store(values.time_maxerror_ns.to_le(), Relaxed);
        self.vm_generation_counter
            .store(values.generation.to_le(), Relaxed);
        self.magic.store(MAGIC.to_le(), Relaxed);
        self.seq_count.store(sequence.wrapping_add(1), Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    #[test]
    fn every_field_lies_where_the_kernel_has_it() {
        assert_eq!(offset_of!(VmclockAbi, seq_count), 12);
        assert_eq!(offset_of!(VmclockAbi, disruption_marker), 16);
        assert_eq!(offset_of!(VmclockAbi, clock_status), 34);
        assert_eq!(offset_of!(VmclockAbi, tai_offset_sec), 36);
        assert_eq!(offset_of!(VmclockAbi, counter_period_shift), 39);
        assert_eq!(offset_of!(VmclockAbi, counter_value), 40);
        assert_eq!(offset_of!(VmclockAbi, counter_period_maxerror), 64);
        assert_eq!(offset_of!(VmclockAbi, time_maxerror_nanosec), 96);
        assert_eq!(offset_of!(VmclockAbi, vm_generation_counter), 104);
    }

    #[test]
    fn emitted_pages_are_parsed_and_others_are_refused() {
        let values = Vmclock {
            size: 4096,
            counter_id: COUNTER_TSC,
            time_type: TIME_TAI,
            disruption_marker: 3,
            flags: PERIOD_MAXERROR | TIME_MAXERROR,
            clock_status: 2,
            tai_offset_s: -37,
            period_shift: 22,
            counter_value: 1000,
            // One nanosecond is 2^86 / 10^9 of these units.
            period_frac: ((1u128 << 86) / 1_000_000_000) as u64,
            period_maxerror: 5,
            time_s: 7,
            time_frac: 1 << 63,
            time_maxerror_ns: 900,
            generation: 1,
        };
        let mut bytes = values.emit();
        assert_eq!(&bytes[..12], b"VCLK\x00\x10\x00\x00\x01\x00\x01\x01");
        assert_eq!(Vmclock::parse(&bytes), Ok(values));
        let (s, frac) = values.at(1000 + 600_000_000).unwrap();
        assert_eq!((s, frac >> 56), (8, 25)); // 8.1 s
        bytes[12] = 1;
        assert_eq!(Vmclock::parse(&bytes), Err(ForeignFormatError::Updating));
        bytes[0] = 0;
        assert_eq!(
            Vmclock::parse(&bytes),
            Err(ForeignFormatError::Field("magic"))
        );
        assert!(Vmclock::parse(&bytes[..111]).is_err());
    }
}
