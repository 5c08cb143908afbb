//! Layout of a timeline's page.

use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::Latch;
use crate::foreign::vmclock::VmclockAbi;

/// Size of the page in bytes.
pub const PAGE_SIZE: usize = 4096;

/// First word of our part: "TLTL", little-endian.
pub const MAGIC: u32 = u32::from_le_bytes(*b"TLTL");

/// Version, raised whenever the layout changes.
pub const VERSION: u32 = 3;

/// Number of 64-bit words in a copy.
pub const WORDS: usize = 16;

/// Clock page of a timeline. All fields are atomics: the other side may be writing, and may be
/// hostile.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct TimelinePage {
    /// Bytes 0–111: the kernel's `struct vmclock_abi`, for its readers.
    pub vmclock: VmclockAbi,
    pub(crate) reserved: [AtomicU64; 2],
    /// [`MAGIC`], at byte 128.
    pub magic: AtomicU32,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// [`PAGE_SIZE`].
    pub size: AtomicU32,
    /// A [`crate::PageCounter`]: the input of the line.
    pub counter: AtomicU32,
    /// Low half of the timeline's id.
    pub timeline_low: AtomicU64,
    /// High half of the timeline's id.
    pub timeline_high: AtomicU64,
    /// Owner of the counter: a hash of the machine's boot id, or the number of the session that has
    /// the host ([`crate::Domain`]). A page that was copied elsewhere, or has outlived a boot or
    /// its session, is refused.
    pub owner: AtomicU64,
    /// Number that differs with every writer, so that a reader detects a successor.
    pub incarnation: AtomicU64,
    /// Sum over the words from `magic` to `incarnation`, and `host`.
    pub header_sum: AtomicU64,
    pub(crate) reserved_too: AtomicU64,
    /// The line in force and its limits, as [`crate::PageSegment`] encodes them; beside it
    /// [`Self::alive_until`] and [`Self::disruption_marker`]. So a reader needs three cache lines:
    /// this one, and the two of the copy in force.
    pub latch: Latch<WORDS>,
    /// Number of the host in the session; 0 on a machine's page.
    pub host: AtomicU64,
    pub(crate) rest: [AtomicU64; REST],
}

const REST: usize = (PAGE_SIZE - 192 - size_of::<Latch<WORDS>>()) / 8 - 1;

impl TimelinePage {
    /// Returns the time after which readings find the daemon dead; in ticks, not negative. Renewed
    /// without a publication.
    #[inline(always)]
    pub fn alive_until(&self) -> &AtomicU64 {
        &self.latch.beside[0]
    }

    /// Returns the marker that changes with every disruption of the counter; readers compare it
    /// with the segment's. `vmclock` has it as well, for its own readers.
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

/// Computes a sum that detects changed, swapped and zeroed words. It guards against accidents (a
/// torn file, a page of another kind), not against attacks.
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
