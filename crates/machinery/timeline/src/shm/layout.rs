//! Layout of a timeline's page in shared memory.

use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::shm::Latch;
use crate::shm::foreign::vmclock::VmclockAbi;

/// Size of the page in bytes.
pub const PAGE_SIZE: usize = 4096;

/// Value of `magic` on a timeline's page: "TLTL", little-endian.
pub const MAGIC: u32 = u32::from_le_bytes(*b"TLTL");

/// Version of the layout, raised with every change.
pub const VERSION: u32 = 3;

/// Number of 64-bit words in each of the latch's copies.
pub const WORDS: usize = 16;

/// Page of a timeline. All fields are atomics, because another process may write to the page at any
/// time, and may be hostile.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct TimelinePage {
    /// Bytes 0–111: the kernel's `struct vmclock_abi`, for programs that read this format.
    pub vmclock: VmclockAbi,
    pub(crate) reserved: [AtomicU64; 2],
    /// Value [`MAGIC`], at byte 128.
    pub magic: AtomicU32,
    /// Value [`VERSION`].
    pub version: AtomicU32,
    /// Value [`PAGE_SIZE`].
    pub size: AtomicU32,
    /// Number of the [`crate::shm::PageCounter`] on which the line is based.
    pub counter: AtomicU32,
    /// Low half of the timeline's id.
    pub timeline_low: AtomicU64,
    /// High half of the timeline's id.
    pub timeline_high: AtomicU64,
    /// Domain of the counter: a hash of the machine's boot id, or the number of the host's session
    /// ([`crate::shm::Domain`]). Readers refuse a page that was copied to another machine, or that is
    /// from an earlier boot or session.
    pub owner: AtomicU64,
    /// Number that differs for every writer, so that a reader detects a new writer.
    pub incarnation: AtomicU64,
    /// Sum of the words from `magic` to `incarnation`, and `host`.
    pub header_sum: AtomicU64,
    pub(crate) reserved_too: AtomicU64,
    /// Line in force and its limits, as [`crate::shm::PageSegment`] encodes them. The words
    /// [`Self::alive_until`] and [`Self::disruption_marker`] are beside the latch's sequence. A
    /// reader therefore needs three cache lines: the one of the sequence, and the two of the copy
    /// in force.
    pub latch: Latch<WORDS>,
    /// Number of the host in its session; 0 on the page of a machine.
    pub host: AtomicU64,
    pub(crate) rest: [AtomicU64; REST],
}

const REST: usize = (PAGE_SIZE - 192 - size_of::<Latch<WORDS>>()) / 8 - 1;

impl TimelinePage {
    /// Returns the counter value, in ticks and not negative, from which on readers consider the
    /// daemon dead. The daemon renews it without a publication.
    #[inline(always)]
    pub fn alive_until(&self) -> &AtomicU64 {
        &self.latch.beside[0]
    }

    /// Returns the marker that changes with every disruption of the counter. Readers compare it
    /// with the segment's marker. `vmclock` contains a copy of it for programs that read that
    /// format.
    #[inline(always)]
    pub fn disruption_marker(&self) -> &AtomicU64 {
        &self.latch.beside[1]
    }

    /// Returns the correct value of `header_sum`.
    pub(crate) fn sum_of_header(&self) -> u64 {
        use core::sync::atomic::Ordering::Relaxed;
        let pair = |a: &AtomicU32, b: &AtomicU32| {
            u64::from(a.load(Relaxed)) | (u64::from(b.load(Relaxed)) << 32)
        };
        sum(&[
            pair(&self.magic, &self.version),
            pair(&self.size, &self.counter),
            self.timeline_low.load(Relaxed),
            self.timeline_high.load(Relaxed),
            self.owner.load(Relaxed),
            self.incarnation.load(Relaxed),
            self.host.load(Relaxed),
        ])
    }
}

/// Computes a sum that detects changed, swapped and zeroed words. It protects against accidents (a
/// truncated file, a page of another kind), not against attacks.
pub(crate) fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0x6c6f_6f6d_7469_6d65, |sum: u64, word| {
        (sum ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    })
}

const _: () = assert!(size_of::<TimelinePage>() == PAGE_SIZE);
const _: () = assert!(size_of::<VmclockAbi>() == 112);
const _: () = assert!(offset_of!(TimelinePage, magic) == 128);
const _: () = assert!(offset_of!(TimelinePage, latch) == 192);
const _: () = assert!(offset_of!(TimelinePage, host) == 512);
const _: () = assert!(size_of::<Latch<WORDS>>() == 64 + 2 * 8 * WORDS);
