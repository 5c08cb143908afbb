//! Writing of a region on the host: copies of the timelines' pages.

use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::fence;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};
use timeloom_clock::quality::TimelineId;

use super::layout::{MOST_TIMELINES, NAME_WORDS, REGION_MAGIC, REGION_VERSION, RegionDirectory};
use crate::shm::counter::{PageCounter, now_ticks};
use crate::shm::layout::{MAGIC, TimelinePage, VERSION};
use crate::shm::memory::{Mapping, machine};
use crate::shm::{CoreScale, PAGE_SIZE, PageReader, Refusal, SharedCounter};

/// Description of a timeline in a region.
#[derive(Clone, Debug)]
pub struct RegionEntry {
    /// Identifier of the timeline.
    pub timeline: TimelineId,
    /// Name of the timeline, of at most 64 bytes.
    pub name: String,
}

/// Owner of a region. The region is a sealed memfd that is passed read-only to an emulator.
#[derive(Debug)]
pub struct RegionWriter {
    directory: Mapping<RegionDirectory>,
    fd: OwnedFd,
    size: usize,
    slots: Vec<SlotWriter>,
}

/// Writer of the copy of one timeline's page in a region.
#[derive(Debug)]
pub struct SlotWriter {
    memory: Mapping<TimelinePage>,
    /// Sequence of the publication that was copied last; `None` if the next copy must be complete.
    sequence: Option<u32>,
    counter: SharedCounter,
}

impl RegionWriter {
    /// Creates a region with these timelines, which have no time yet. `counter` is the counter that
    /// the host shares with the guest; the copies of all pages are based on it. `has_clock` states
    /// that the guest also receives the host's clock page.
    ///
    /// # Errors
    /// Fails if a system call fails, if there are too many timelines, or if a name is too long.
    pub fn new(
        entries: &[RegionEntry],
        counter: &SharedCounter,
        has_clock: bool,
    ) -> std::io::Result<Self> {
        let fits = entries
            .iter()
            .all(|entry| entry.name.len() <= NAME_WORDS * 8);
        if entries.len() > MOST_TIMELINES || !fits {
            let what = format!("a region has room for {MOST_TIMELINES} timelines");
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, what));
        }
        let size = (PAGE_SIZE * (1 + entries.len())).next_power_of_two();
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("timeloom-region", flags)?;
        rustix::fs::ftruncate(&fd, size as u64)?;
        let directory = Mapping::<RegionDirectory>::new(&fd, true)?;
        let incarnation = now_ticks(PageCounter::Tsc) ^ u64::from(std::process::id()) << 48;
        let slot = |number: usize| {
            let memory = Mapping::<TimelinePage>::at(&fd, number as u32 + 1, true)?;
            let page = memory.get();
            let id = entries[number].timeline.0;
            page.version.store(VERSION, Relaxed);
            page.size.store(PAGE_SIZE as u32, Relaxed);
            page.counter.store(PageCounter::Tsc as u32, Relaxed);
            page.timeline_low.store(id as u64, Relaxed);
            page.timeline_high.store((id >> 64) as u64, Relaxed);
            page.owner.store(machine(), Relaxed);
            page.incarnation.store(incarnation, Relaxed);
            page.magic.store(MAGIC, Relaxed);
            page.header_sum.store(page.sum_of_header(), Release);
            Ok(SlotWriter {
                memory,
                sequence: None,
                counter: *counter,
            })
        };
        let slots: rustix::io::Result<Vec<_>> = (0..entries.len()).map(slot).collect();
        // The seal forbids every later writable mapping, so it is set after our own mappings.
        let seals = SealFlags::FUTURE_WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&fd, seals)?;
        let writer = Self {
            directory,
            size,
            slots: slots?,
            fd,
        };
        let directory = writer.directory.get();
        directory.has_clock.store(has_clock.into(), Relaxed);
        writer.describe(entries, counter.scale(), incarnation);
        Ok(writer)
    }

    fn describe(&self, entries: &[RegionEntry], scale: &CoreScale, incarnation: u64) {
        let directory = self.directory.get();
        directory.version.store(REGION_VERSION, Relaxed);
        directory.size.store(self.size as u32, Relaxed);
        directory.timelines.store(entries.len() as u32, Relaxed);
        directory.owner.store(machine(), Relaxed);
        directory.counter.store(PageCounter::Tsc as u32, Relaxed);
        directory.drift_ppb.store(DRIFT_PPB, Relaxed);
        directory.incarnation.store(incarnation, Relaxed);
        let slack = scale
            .rate
            .units_until(SLACK_NS)
            .unwrap_or(u64::from(u32::MAX));
        directory.slack.store(slack, Relaxed);
        let tick = u64::try_from((scale.rate.to_bits() >> 8) + 1).unwrap_or(u64::MAX);
        // A thousandth more, because the true tick may be slightly longer than the nominal one.
        directory
            .tick_8_56
            .store(tick.saturating_add(tick / 1000), Relaxed);
        for (slot, entry) in directory.slots.iter().zip(entries) {
            slot.timeline[0].store(entry.timeline.0 as u64, Relaxed);
            slot.timeline[1].store((entry.timeline.0 >> 64) as u64, Relaxed);
            for (word, bytes) in slot.name.iter().zip(entry.name.as_bytes().chunks(8)) {
                let mut eight = [0; 8];
                eight[..bytes.len()].copy_from_slice(bytes);
                word.store(u64::from_le_bytes(eight), Relaxed);
            }
        }
        directory.generation.store(incarnation, Relaxed);
        directory.magic.store(REGION_MAGIC, Relaxed);
        directory.sum.store(directory.sum_of(), Release);
    }

    /// Returns the descriptor of the region, to be passed to the emulator.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns the size of the region in bytes, a power of two.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the writers of the timelines' copies, in the order of the entries.
    pub fn slots(&mut self) -> &mut [SlotWriter] {
        &mut self.slots
    }

    /// Marks the guest's counter as possibly moved. Every reading is *disrupted* until the guest
    /// has measured the relation again.
    pub fn displace(&self) {
        self.directory.get().generation.fetch_add(1, SeqCst);
    }

    /// Stores the present value of the counter in the region. The store is visible before this
    /// returns.
    pub fn stamp(&self) {
        let stamp = &self.directory.get().stamp;
        stamp.store(now_ticks(PageCounter::Tsc), Relaxed);
        // The fence orders the next reading of the counter after this store, for all threads.
        fence(SeqCst);
    }
}

impl SlotWriter {
    /// Copies the present content of the page `from` to the region, translated to the counter that
    /// the host shares with the guest. The daemon counts as alive in the copy until `alive_most` of
    /// that counter, at most.
    ///
    /// # Errors
    /// Fails if the page is damaged, or if a writer has taken it over for another timeline or
    /// counter. The region then keeps the old copy, until its daemon no longer counts as alive.
    pub fn copy(&mut self, from: &PageReader, alive_most: u64) -> Result<(), Refusal> {
        let page = self.memory.get();
        let (marker, alive_until) = from.beside();
        let alive_until = self.counter.ticks_at(alive_until);
        page.alive_until()
            .store(alive_until.min(alive_most), Relaxed);
        // The marker is stored before the words that carry it. Between the two stores readers see a
        // disruption.
        page.disruption_marker().store(marker, Relaxed);
        if let Some((sequence, segment)) = from.segment_after(self.sequence)? {
            page.latch.publish(self.counter.say(segment).to_words());
            self.sequence = Some(sequence);
        }
        Ok(())
    }

    /// Makes the next call of [`Self::copy`] a complete copy, because it is from another page.
    pub fn forget(&mut self) {
        self.sequence = None;
    }

    /// Lets the timeline's daemon count as dead from this value of the counter on.
    pub fn end(&self, now: u64) {
        self.memory.get().alive_until().store(now, Relaxed);
    }
}

/// Slack for an emulator, which may read the counter before the load that should precede it. The
/// measured lead is 0.2 to 0.7 µs. Rarely it was 4 µs, when the emulator's thread changed the
/// processor; a measurement then finds a contradiction.
const SLACK_NS: u64 = 1_000;

/// Allowed drift between two measurements, in parts per 10^9. The guest's counter is the host's
/// with an offset, so both have the same rate.
const DRIFT_PPB: u32 = 1_000;
