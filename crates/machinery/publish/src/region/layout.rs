//! Layout of a region's first pages.

use core::mem::{offset_of, size_of};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::PAGE_SIZE;
use crate::latch::Latch;
use crate::layout::sum;

/// First word of a region: "TLRG", little-endian.
pub const REGION_MAGIC: u32 = u32::from_le_bytes(*b"TLRG");

/// Version, raised whenever the layout changes.
pub const REGION_VERSION: u32 = 2;

/// Maximum number of timelines in a region.
pub const MOST_TIMELINES: usize = 15;

/// Number of 64-bit words of a slot's name.
pub(crate) const NAME_WORDS: usize = 8;

/// First page of a region: its directory. All summed words are written before the region is passed
/// on, and never after.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct RegionDirectory {
    /// [`REGION_MAGIC`].
    pub magic: AtomicU32,
    /// [`REGION_VERSION`].
    pub version: AtomicU32,
    /// Size of the region in bytes, a power of two.
    pub size: AtomicU32,
    /// Number of slots in use, from the first on.
    pub timelines: AtomicU32,
    /// Owner of the pages' counter: their `owner`.
    pub owner: AtomicU64,
    /// A [`crate::PageCounter`].
    pub counter: AtomicU32,
    /// Maximum difference in rate of the guest's counter from the host's, in 10^-9.
    pub drift_ppb: AtomicU32,
    /// Number that differs with every relay.
    pub incarnation: AtomicU64,
    /// Error of a measured relation to both sides, in ticks.
    pub slack: AtomicU64,
    /// Nanoseconds per tick, 8.56 fixed point, rounded up.
    pub tick_8_56: AtomicU64,
    /// Sum over the words above and all slots.
    pub sum: AtomicU64,
    /// Changes whenever the guest's counter may have been moved.
    pub generation: AtomicU64,
    /// Host's counter when this was last stored.
    pub stamp: AtomicU64,
    /// 1 if the host's clock page is passed beside the region ([`crate::GivenClock`]): its
    /// disruptions are the pages' markers. It is summed, too.
    pub has_clock: AtomicU64,
    pub(crate) reserved: [AtomicU64; 5],
    /// Timelines: slot n is page n + 1.
    pub slots: [Slot; MOST_TIMELINES],
    pub(crate) rest: [AtomicU64; REST],
}

/// Timeline in the directory.
#[derive(Debug)]
#[repr(C)]
pub struct Slot {
    /// Id of the timeline, low half first.
    pub timeline: [AtomicU64; 2],
    /// Bytes of the name, followed by zeros.
    pub name: [AtomicU64; NAME_WORDS],
}

const REST: usize = (PAGE_SIZE - 128 - MOST_TIMELINES * size_of::<Slot>()) / 8;

impl RegionDirectory {
    /// Returns the correct value of `sum`.
    pub(crate) fn sum_of(&self) -> u64 {
        let pair = |a: &AtomicU32, b: &AtomicU32| {
            u64::from(a.load(Relaxed)) | (u64::from(b.load(Relaxed)) << 32)
        };
        let mut words = vec![
            pair(&self.magic, &self.version),
            pair(&self.size, &self.timelines),
            self.owner.load(Relaxed),
            pair(&self.counter, &self.drift_ppb),
            self.incarnation.load(Relaxed),
            self.slack.load(Relaxed),
            self.tick_8_56.load(Relaxed),
            self.has_clock.load(Relaxed),
        ];
        for slot in &self.slots {
            let fields = slot.timeline.iter().chain(&slot.name);
            words.extend(fields.map(|word| word.load(Relaxed)));
        }
        sum(&words)
    }
}

/// Page of the guest's own: the relation of its counter to the region's. The guest's measuring
/// program writes it; programs that read the region's timelines read it too.
#[derive(Debug)]
#[repr(C, align(4096))]
pub(crate) struct RelationPage {
    pub(crate) magic: AtomicU32,
    pub(crate) version: AtomicU32,
    /// Boot of the guest, as a page's `owner`: its counter is of one boot.
    pub(crate) owner: AtomicU64,
    /// `incarnation` of the region that the relation belongs to; a reader of a region with another
    /// value refuses the page.
    pub(crate) region: AtomicU64,
    reserved: [AtomicU64; 5],
    /// low, high, measured_at, growth, generation; 1 if there is a relation.
    pub(crate) latch: Latch<RELATION_WORDS>,
    rest: [AtomicU64; RELATION_REST],
}

pub(crate) const RELATION_WORDS: usize = 8;

/// First word of a relation's page: "TLRL", little-endian.
pub(crate) const RELATION_MAGIC: u32 = u32::from_le_bytes(*b"TLRL");

const RELATION_REST: usize = (PAGE_SIZE - 64 - size_of::<Latch<RELATION_WORDS>>()) / 8;

const _: () = assert!(size_of::<RegionDirectory>() == PAGE_SIZE);
const _: () = assert!(size_of::<RelationPage>() == PAGE_SIZE);
const _: () = assert!(offset_of!(RegionDirectory, generation) == 64);
const _: () = assert!(offset_of!(RegionDirectory, slots) == 128);
