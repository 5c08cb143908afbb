//! Reading of a region in the guest of a virtual machine.

use core::cell::Cell;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicU64, fence};
use std::os::fd::{AsFd, BorrowedFd};

use timeloom_clock::quality::{Stamp, Status, TimelineId};

use super::composed::{Composed, MadeFrom, OwnLine, half_ns};
use super::layout::{MOST_TIMELINES, REGION_MAGIC, REGION_VERSION, RegionDirectory, Slot};
use super::relation_page::RelationReader;
use crate::shm::counter::{PageCounter, now_ticks};
use crate::shm::domain::Domain;
use crate::shm::memory::{Mapping, is_fixed, length_of};
use crate::shm::{
    CounterRelation, GivenClock, PAGE_SIZE, PageReader, Reading, Refusal, RegionEntry,
};

/// Region whose directory was checked and found valid.
#[derive(Debug)]
pub struct Region {
    directory: Mapping<RegionDirectory>,
    entries: Vec<RegionEntry>,
    owner: u64,
    incarnation: u64,
    tick_8_56: u64,
    slack: u64,
    drift_ppb: u32,
    has_clock: bool,
}

impl Region {
    /// Opens a region by a descriptor, such as that of a PCI device's memory.
    ///
    /// # Errors
    /// Fails if the memory is not a region of this version that this program can read, or if it has
    /// invalid values.
    pub fn open(fd: impl AsFd) -> Result<Self, Refusal> {
        let refused = |error: rustix::io::Errno| Refusal::Map(error.raw_os_error());
        let found = length_of(&fd).map_err(refused)?;
        let expected = 2 * PAGE_SIZE as u64;
        if found < expected {
            return Err(Refusal::Size { expected, found });
        }
        if !is_fixed(&fd).map_err(refused)? {
            return Err(Refusal::Unsealed);
        }
        let directory = Mapping::<RegionDirectory>::new(&fd, false).map_err(refused)?;
        let page = directory.get();
        let magic = page.magic.load(Acquire);
        if magic != REGION_MAGIC {
            return Err(Refusal::Magic(magic));
        }
        let version = page.version.load(Relaxed);
        if version != REGION_VERSION {
            return Err(Refusal::Version(version));
        }
        if page.sum.load(Relaxed) != page.sum_of() {
            return Err(Refusal::Sum);
        }
        let counter = page.counter.load(Relaxed);
        if PageCounter::from_number(counter) != Some(PageCounter::Tsc) {
            return Err(Refusal::Counter(counter));
        }
        // Each field is loaded once, and only the loaded value is checked and used.
        let expected = u64::from(page.size.load(Relaxed));
        if !expected.is_power_of_two() || found < expected {
            return Err(Refusal::Size { expected, found });
        }
        let absurd = |wrong, what| {
            if wrong {
                Err(Refusal::Absurd(what))
            } else {
                Ok(())
            }
        };
        let timelines = page.timelines.load(Relaxed) as usize;
        let room = (expected / PAGE_SIZE as u64).saturating_sub(1) as usize;
        absurd(timelines > MOST_TIMELINES.min(room), "number of timelines")?;
        let (tick_8_56, slack) = (page.tick_8_56.load(Relaxed), page.slack.load(Relaxed));
        // A tick lasts 0.1 to 200 ns, plus a thousandth.
        absurd(!(ONE / 10..=201 * ONE).contains(&tick_8_56), "rate")?;
        absurd(slack > MOST_SLACK, "slack")?;
        let drift_ppb = page.drift_ppb.load(Relaxed);
        absurd(drift_ppb > MOST_DRIFT_PPB, "drift")?;
        let entries: Option<Vec<_>> = page.slots.iter().take(timelines).map(entry).collect();
        Ok(Self {
            entries: entries.ok_or(Refusal::Absurd("name"))?,
            owner: page.owner.load(Relaxed),
            incarnation: page.incarnation.load(Relaxed),
            tick_8_56,
            slack,
            drift_ppb,
            has_clock: page.has_clock.load(Relaxed) != 0,
            directory,
        })
    }

    /// Returns the timelines of the region. The position in the slice is a timeline's index.
    pub fn timelines(&self) -> &[RegionEntry] {
        &self.entries
    }

    /// Returns true if a reader of the region needs the host's clock page.
    pub fn has_clock(&self) -> bool {
        self.has_clock
    }

    /// Returns a number that differs for every relay, the host's program that writes the region.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Returns a number that changes whenever the guest's counter may have been moved.
    pub fn generation(&self) -> u64 {
        self.directory.get().generation.load(Acquire)
    }

    /// Returns a value of the host's counter, which is recent as long as the host stores stamps.
    #[inline(always)]
    pub fn stamp(&self) -> u64 {
        self.directory.get().stamp.load(Acquire)
    }

    /// Returns the error of a measured relation as stated by the host: a constant part in ticks,
    /// and a growth in parts per 10^9 of the time since the measurement.
    pub fn allowances(&self) -> (u64, u32) {
        (self.slack, self.drift_ppb)
    }
}

/// Reader of one of the host's timelines in a guest. It is `Send + Sync` and takes no lock.
#[derive(Debug)]
pub struct RegionReader {
    page: PageReader,
    region: Region,
    relation: RelationReader,
    /// Clock page of the host; present if the host belongs to a session.
    clock: Option<GivenClock>,
    /// Cached line that combines the page and the relation while neither changes.
    composed: Composed,
}

impl RegionReader {
    /// Opens the timeline at `index` of the region in `region`. `relation` is the page that this
    /// guest's measuring program writes. `clock` is the host's clock page, which is needed if the
    /// region [requires it](Region::has_clock).
    ///
    /// # Errors
    /// Fails as [`Region::open`] does. Also fails if there is no such timeline, if the page belongs
    /// to another timeline, or if the clock page is missing or invalid.
    pub fn open(
        region: impl AsFd,
        index: usize,
        relation: impl AsFd,
        clock: Option<BorrowedFd<'_>>,
    ) -> Result<Self, Refusal> {
        let opened = Region::open(&region)?;
        let clock = clock.filter(|_| opened.has_clock).map(GivenClock::open);
        let clock = clock.transpose()?;
        if opened.has_clock && clock.is_none() {
            return Err(Refusal::Absurd("clock page"));
        }
        let entry = opened.entries.get(index).ok_or(Refusal::Absurd("index"))?;
        let owner = Domain::Machine { boot: opened.owner };
        let page = PageReader::in_region(&region, index as u32 + 1, owner)?;
        if page.timeline() != entry.timeline {
            return Err(Refusal::Successor);
        }
        if page.counter() != PageCounter::Tsc {
            return Err(Refusal::Counter(page.counter() as u32));
        }
        let reader = Self {
            page,
            relation: RelationReader::open(relation, opened.incarnation)?,
            region: opened,
            clock,
            composed: Composed::new(),
        };
        reader.read_ns()?;
        Ok(reader)
    }

    /// Returns the identifier of the timeline.
    pub fn timeline(&self) -> TimelineId {
        self.page.timeline()
    }

    /// Returns the present value of the guest's counter.
    #[inline(always)]
    pub fn ticks(&self) -> u64 {
        now_ticks(PageCounter::Tsc)
    }

    /// Reads the timeline.
    ///
    /// # Errors
    /// Fails if the page is damaged or invalid.
    pub fn read(&self) -> Result<Stamp, Refusal> {
        self.read_ns().map(|reading| reading.stamp(self.timeline()))
    }

    /// Reads the timeline and returns plain numbers.
    ///
    /// # Errors
    /// Fails as [`Self::read`] does.
    #[inline]
    pub fn read_ns(&self) -> Result<Reading, Refusal> {
        self.read_with(|| self.ticks())
    }

    /// Reads as [`Self::read_ns`] does, and also returns the value of the guest's counter at the
    /// reading.
    ///
    /// # Errors
    /// Fails as [`Self::read`] does.
    pub fn read_event(&self) -> Result<(u64, Reading), Refusal> {
        let own = Cell::new(0);
        let reading = self.read_with(|| {
            own.set(self.ticks());
            own.get()
        })?;
        Ok((own.get(), reading))
    }

    /// Converts a value of the guest's counter to the host's counter. Returns the latest possible
    /// value, and the number of ticks by which the true value may be earlier. `None` while no
    /// relation is known.
    pub fn host_ticks(&self, own: u64) -> Option<(u64, u64)> {
        let (_, relation) = self.relation_now()?;
        let translated = relation.translate(own);
        Some((translated.latest, translated.width))
    }

    /// Reads as [`Self::read_ns`] does, with the value of the guest's counter that `own` returns.
    ///
    /// # Errors
    /// Fails as [`Self::read`] does.
    #[inline(always)]
    pub fn read_with(&self, own: impl Fn() -> u64) -> Result<Reading, Refusal> {
        let now = MadeFrom {
            page: self.page.sequence(),
            relation: self.relation.sequence(),
        };
        let generation = || self.generation_undisturbed();
        match self.composed.read(&self.page, now, &own, generation) {
            Some(reading) => Ok(reading),
            None => self.read_translated(own),
        }
    }

    /// Reads as [`Self::read_with`] does if there is no composed line for the page and the
    /// relation, or if it gives no good reading.
    #[cold]
    fn read_translated(&self, own: impl Fn() -> u64) -> Result<Reading, Refusal> {
        let Some((published, relation)) = self.relation_now() else {
            return self.unmeasured();
        };
        // The page is read at the latest possible value of the host's counter, so that its age is
        // never underestimated. The interval is then extended on the side of its earliest end.
        let (counted, width) = (Cell::new(0), Cell::new(0));
        let reading = self.page.read_with(|| {
            counted.set(own());
            let translated = relation.translate(counted.get());
            width.set(translated.width);
            translated.latest
        })?;
        // The generation is loaded after the counter: when the counter is moved, the generation
        // changes first.
        fence(Acquire);
        if self.generation_undisturbed() != relation.generation {
            return self.unmeasured();
        }
        if reading.status == Status::Ok
            && let Some((page, line)) = self.page.line()
            && let tick = self.region.tick_8_56
            && let Some(line) = OwnLine::of(&line, &relation, counted.get(), tick)
        {
            let relation = published;
            self.composed.keep(&line, MadeFrom { page, relation });
        }
        Ok(self.widened(reading, width.get()))
    }

    fn widened(&self, reading: Reading, width: u64) -> Reading {
        if !reading.bounded {
            return reading;
        }
        let half_ns = half_ns(width, self.region.tick_8_56);
        Reading {
            estimate_ns: reading.estimate_ns.saturating_sub_unsigned(half_ns),
            below_ns: reading.below_ns.saturating_add(half_ns),
            above_ns: reading.above_ns.saturating_add(half_ns),
            ..reading
        }
    }

    fn relation_now(&self) -> Option<(u32, CounterRelation)> {
        let (published, relation) = self.relation.load()?;
        (relation.generation == self.generation()).then_some((published, relation))
    }

    #[inline(always)]
    fn generation(&self) -> u64 {
        self.region.directory.get().generation.load(Relaxed)
    }

    /// Returns the region's generation. While the host's oscillator is not what the daemon assumed,
    /// returns a value that no relation was measured with.
    #[inline(always)]
    fn generation_undisturbed(&self) -> u64 {
        let generation = self.generation();
        let Some(clock) = &self.clock else {
            return generation;
        };
        let disruptions = clock.disruptions();
        let marker = self.page.page().disruption_marker().load(Relaxed);
        if disruptions == marker && disruptions & 1 == 0 {
            generation
        } else {
            !generation
        }
    }

    /// Returns the reading when no relation is known: it has no interval. A status that explains
    /// the lack of an interval remains.
    #[cold]
    fn unmeasured(&self) -> Result<Reading, Refusal> {
        let said = self.page.read_with(|| 0)?;
        let status = match said.status {
            Status::NeverSynchronised | Status::Unauthenticated => said.status,
            _ => Status::Disrupted,
        };
        Ok(Reading {
            estimate_ns: 0,
            below_ns: u64::MAX,
            above_ns: u64::MAX,
            status,
            bounded: false,
        })
    }
}

/// Decodes a slot of the directory; `None` if its name is invalid.
fn entry(slot: &Slot) -> Option<RegionEntry> {
    let half = |word: &AtomicU64| u128::from(word.load(Relaxed));
    let id = half(&slot.timeline[0]) | half(&slot.timeline[1]) << 64;
    let bytes: Vec<u8> = slot
        .name
        .iter()
        .flat_map(|word| word.load(Relaxed).to_le_bytes())
        .collect();
    let length = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    let sound = length > 0 && bytes[length..].iter().all(|byte| *byte == 0);
    let name = core::str::from_utf8(&bytes[..length])
        .ok()
        .filter(|_| sound)?;
    Some(RegionEntry {
        timeline: TimelineId(id),
        name: name.to_owned(),
    })
}

/// Rate of one nanosecond per tick in 8.56 fixed point.
const ONE: u64 = 1 << 56;

/// Maximum slack in ticks, which is at most a hundredth of a second on any processor.
const MOST_SLACK: u64 = 10_000_000;

/// Largest drift that is accepted, in parts per 10^9. It exceeds that of any processor's counter; a
/// relation accepts less than a ten-thousandth.
const MOST_DRIFT_PPB: u32 = 99_999;
