//! Layout of a region's first pages.

use core::mem::{offset_of, size_of};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::shm::PAGE_SIZE;
use crate::shm::latch::Latch;
use crate::shm::layout::sum;

/// First word of a region: "TLRG", little-endian.
pub const REGION_MAGIC: u32 = u32::from_le_bytes(*b"TLRG");

/// Version of the layout, raised with every change.
pub const REGION_VERSION: u32 = 2;

/// Maximum number of timelines in a region.
pub const MOST_TIMELINES: usize = 15;

/// Number of 64-bit words for the name in a slot.
pub(crate) const NAME_WORDS: usize = 8;

/// First page of a region: its directory. All words that the sum covers are written before the
/// region is passed to the guest, and never afterwards.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct RegionDirectory {
    /// Value [`REGION_MAGIC`].
    pub magic: AtomicU32,
    /// Value [`REGION_VERSION`].
    pub version: AtomicU32,
    /// Size of the region in bytes, a power of two.
    pub size: AtomicU32,
    /// Number of slots in use; they are the first ones.
    pub timelines: AtomicU32,
    /// Domain of the pages' counter, as in `owner` of a timeline's page.
    pub owner: AtomicU64,
    /// Number of the [`crate::shm::PageCounter`] of the pages.
    pub counter: AtomicU32,
    /// Maximum deviation of the guest counter's rate from the host counter's, in parts per 10^9.
    pub drift_ppb: AtomicU32,
    /// Number that differs for every relay, the host's program that writes the region.
    pub incarnation: AtomicU64,
    /// Error of a measured relation on either side, in ticks.
    pub slack: AtomicU64,
    /// Maximum length of a tick in nanoseconds, in 8.56 fixed point, rounded up.
    pub tick_8_56: AtomicU64,
    /// Sum of the words above, of all slots, and of `has_clock`.
    pub sum: AtomicU64,
    /// Number that changes whenever the guest's counter may have been moved.
    pub generation: AtomicU64,
    /// Value of the host's counter when the host last stored this word.
    pub stamp: AtomicU64,
    /// 1 if the host's clock page is passed to the guest beside the region ([`crate::shm::GivenClock`]).
    /// The disruptions on that page are then the pages' markers. The sum covers this word too.
    pub has_clock: AtomicU64,
    pub(crate) reserved: [AtomicU64; 5],
    /// Slots of the timelines. Slot n describes page n + 1 of the region.
    pub slots: [Slot; MOST_TIMELINES],
    pub(crate) rest: [AtomicU64; REST],
}

/// Description of a timeline in the directory.
#[derive(Debug)]
#[repr(C)]
pub struct Slot {
    /// Id of the timeline, low half first.
    pub timeline: [AtomicU64; 2],
    /// Bytes of the timeline's name, followed by zeros.
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

/// Page with the relation of the guest's counter to the region's. The guest's measuring program
/// writes it, and the guest's programs read it together with the region's timelines.
#[derive(Debug)]
#[repr(C, align(4096))]
pub(crate) struct RelationPage {
    pub(crate) magic: AtomicU32,
    pub(crate) version: AtomicU32,
    /// Hash of the guest's boot id, as in `owner` of a timeline's page, because the guest's counter
    /// restarts with every boot.
    pub(crate) owner: AtomicU64,
    /// `incarnation` of the region to which the relation belongs. A reader refuses the page if its
    /// region has another value.
    pub(crate) region: AtomicU64,
    reserved: [AtomicU64; 5],
    /// The words low, high, measured_at, growth and generation of the relation, and a word that is
    /// 1 if there is a relation.
    pub(crate) latch: Latch<RELATION_WORDS>,
    rest: [AtomicU64; RELATION_REST],
}

pub(crate) const RELATION_WORDS: usize = 8;

/// First word of a page with a relation: "TLRL", little-endian.
pub(crate) const RELATION_MAGIC: u32 = u32::from_le_bytes(*b"TLRL");

const RELATION_REST: usize = (PAGE_SIZE - 64 - size_of::<Latch<RELATION_WORDS>>()) / 8;

const _: () = assert!(size_of::<RegionDirectory>() == PAGE_SIZE);
const _: () = assert!(size_of::<RelationPage>() == PAGE_SIZE);
const _: () = assert!(offset_of!(RegionDirectory, generation) == 64);
const _: () = assert!(offset_of!(RegionDirectory, slots) == 128);
