//! Reader of a timeline's page. It takes no lock and can be used by any thread.

mod line;

use core::ops::Deref;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use std::os::fd::{AsFd, OwnedFd};

use timeloom_clock::quality::{Interval, Stamp, Status, TimelineId};
use timeloom_time::{Duration, Instant};

use crate::shm::counter::{PageCounter, now_ticks};
use crate::shm::domain::{Domain, HostPage};
use crate::shm::encode::PageSegment;
use crate::shm::layout::{MAGIC, PAGE_SIZE, TimelinePage, VERSION, WORDS};
use crate::shm::memory::{Mapping, copy_of, is_fixed, length_of};
use crate::shm::refusal::Refusal;
pub(crate) use line::ReadingInputs;
use line::{VOID, displaced, doubtful, is_displaced};

/// Page of a timeline, open for reading. The reader is `Send + Sync` and takes no lock, so one can
/// serve all threads.
#[derive(Debug)]
pub struct PageReader {
    memory: Mapping<TimelinePage>,
    /// File of a page that can be truncated. Such a page is read by system calls, and `memory` is
    /// an empty page. No publication is ever `verified` then, so the fast path is not taken.
    file: Option<OwnedFd>,
    kind: PageCounter,
    timeline: TimelineId,
    incarnation: u64,
    /// Domain whose pages the reader accepts.
    domain: Domain,
    /// Clock page of the host on which this program is a guest; present if the page is based on
    /// that host's oscillator.
    host: Option<HostPage>,
    /// Sequence of the publication whose words were found valid, plus one. The sum is checked only
    /// once per publication.
    verified: AtomicU64,
}

/// Reading in plain numbers, as returned by [`PageReader::read_ns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Best single estimate, in nanoseconds of the timeline.
    pub estimate_ns: i64,
    /// Maximum distance of true time before the estimate, in nanoseconds. [`u64::MAX`] without an
    /// interval.
    pub below_ns: u64,
    /// Maximum distance of true time after the estimate, in nanoseconds. [`u64::MAX`] without an
    /// interval.
    pub above_ns: u64,
    /// Trustworthiness of the reading.
    pub status: Status,
    /// True if the timeline has an interval.
    pub bounded: bool,
}

impl PageReader {
    /// Opens the page by a descriptor.
    ///
    /// # Errors
    /// Fails if the memory is not a page of this version, if its domain is not that of this
    /// program, or if this build cannot read its counter.
    pub fn open(fd: impl AsFd) -> Result<Self, Refusal> {
        let host = HostPage::here()?;
        let mut reader = Self::map(fd, Domain::here()?)?;
        reader.host = host.filter(|_| reader.kind == PageCounter::HostRaw);
        reader.read()?;
        Ok(reader)
    }

    /// Opens the page of a host's timeline from outside the session, for the supervisor, which
    /// knows the value of the host's oscillator. The supervisor reads with [`Self::read_by`]; the
    /// other methods give readings without an interval.
    ///
    /// # Errors
    /// Fails for the same reasons as [`Self::open`], but with `domain` in place of this program's
    /// domain.
    pub fn open_as(fd: impl AsFd, domain: Domain) -> Result<Self, Refusal> {
        Self::map(fd, domain)
    }

    /// Opens the page with this number in a region. The region must contain the page, and the
    /// page's counter must be of `domain`. The caller reads with [`Self::read_with`].
    pub(crate) fn in_region(fd: impl AsFd, number: u32, domain: Domain) -> Result<Self, Refusal> {
        let refused = |error: rustix::io::Errno| Refusal::Map(error.raw_os_error());
        let memory = Mapping::at(&fd, number, false).map_err(refused)?;
        Self::of(memory, None, domain)
    }

    fn map(fd: impl AsFd, domain: Domain) -> Result<Self, Refusal> {
        let refused = |error: rustix::io::Errno| Refusal::Map(error.raw_os_error());
        let found = length_of(&fd).map_err(refused)?;
        let expected = PAGE_SIZE as u64;
        if found != expected {
            return Err(Refusal::Size { expected, found });
        }
        if is_fixed(&fd).map_err(refused)? {
            return Self::of(Mapping::new(&fd, false).map_err(refused)?, None, domain);
        }
        let file = fd.as_fd().try_clone_to_owned();
        let file = file.map_err(|error| Refusal::Map(error.raw_os_error().unwrap_or(0)))?;
        let memory = Mapping::anonymous().map_err(refused)?;
        Self::of(memory, Some(file), domain)
    }

    fn of(
        memory: Mapping<TimelinePage>,
        file: Option<OwnedFd>,
        domain: Domain,
    ) -> Result<Self, Refusal> {
        let copy = file.as_ref().map(copied).transpose()?;
        let page = copy.as_deref().unwrap_or(memory.get());
        let kind = check_header(page, domain)?;
        let timeline = timeline_of(page);
        let incarnation = page.incarnation.load(Relaxed);
        Ok(Self {
            memory,
            file,
            kind,
            timeline,
            incarnation,
            domain,
            host: None,
            verified: AtomicU64::new(0),
        })
    }

    /// Opens the page in the file at `path`.
    ///
    /// # Errors
    /// Fails as [`Self::open`] does. A missing file gives [`Refusal::Map`].
    pub fn open_path(path: &std::path::Path) -> Result<Self, Refusal> {
        let file = std::fs::File::open(path)
            .map_err(|error| Refusal::Map(error.raw_os_error().unwrap_or(0)))?;
        Self::open(&file)
    }

    /// Returns the identifier of the timeline.
    pub fn timeline(&self) -> TimelineId {
        self.timeline
    }

    /// Returns TAI minus UTC in seconds, as the daemon knew it at its last publication; `None` if
    /// it was unknown, or if the timeline is not TAI.
    pub fn tai_offset_s(&self) -> Option<i16> {
        self.fresh().ok()?.vmclock.tai_offset_s()
    }

    /// Returns the present value of the page's counter. The daemon can convert such a value to a
    /// reading later.
    #[inline(always)]
    pub fn ticks(&self) -> u64 {
        now_ticks(self.kind)
    }

    /// Reads the timeline.
    ///
    /// # Errors
    /// Fails if the page is damaged or invalid. If time is unknown, the reading has no interval and
    /// a status that states the reason.
    pub fn read(&self) -> Result<Stamp, Refusal> {
        self.read_ns().map(|reading| reading.stamp(self.timeline))
    }

    /// Reads the timeline and returns plain numbers, which is the fastest way.
    ///
    /// # Errors
    /// Fails as [`Self::read`] does.
    #[inline(always)]
    pub fn read_ns(&self) -> Result<Reading, Refusal> {
        match self.kind {
            // This branch is the only one on the counter's kind for the whole read.
            #[cfg(target_arch = "x86_64")]
            PageCounter::Tsc => self.read_with(timeloom_abi::ticks_ordered),
            _ => self.read_by_call(),
        }
    }

    /// Reads with a counter that needs a system call. This is a function of its own, so that a
    /// reading with the processor's counter is small enough to be inlined.
    #[inline(never)]
    fn read_by_call(&self) -> Result<Reading, Refusal> {
        match self.kind {
            PageCounter::HostRaw => self.read_on_host(),
            kind => self.read_with(|| now_ticks(kind)),
        }
    }

    /// Reads with the oscillator of the host on which this program is a guest.
    fn read_on_host(&self) -> Result<Reading, Refusal> {
        match self.host {
            Some(host) => self.read_marked(
                || now_ticks(PageCounter::HostRaw),
                || Some(host.disruptions()),
            ),
            None => Ok(VOID),
        }
    }

    /// Reads the timeline and also returns the value of the page's counter at the reading, so that
    /// a better reading for the same instant can be computed later.
    ///
    /// # Errors
    /// Fails as [`Self::read`] does.
    pub fn read_event(&self) -> Result<(u64, Reading), Refusal> {
        let taken = core::cell::Cell::new(0);
        let counter = || {
            taken.set(self.ticks());
            taken.get()
        };
        let reading = match self.host {
            Some(host) => self.read_marked(counter, || Some(host.disruptions())),
            None => self.read_marked(counter, || None),
        }?;
        Ok((taken.get(), reading))
    }

    /// Reads the timeline of a host from outside its session. `look` returns the value of the
    /// host's oscillator in nanoseconds, and the
    /// [`disruptions`](timeloom_abi::ClockPage::disruptions) on the host's clock page. It is
    /// called after the page's words have been loaded, and possibly several times; the result uses
    /// the last call.
    ///
    /// # Errors
    /// Fails as [`Self::read`] does.
    pub fn read_by(&self, look: impl Fn() -> (u64, u64)) -> Result<Reading, Refusal> {
        let disruptions = core::cell::Cell::new(0);
        let counter = || {
            let (raw_ns, marker) = look();
            disruptions.set(marker);
            raw_ns
        };
        self.read_marked(counter, || Some(disruptions.get()))
    }

    /// Reads as [`Self::read_ns`] does, with the value that `counter` returns. This is for tests,
    /// for timestamps that were taken a moment ago, and for guests whose counter needs a
    /// translation.
    ///
    /// # Errors
    /// Fails as [`Self::read`] does.
    #[inline(always)]
    pub fn read_with(&self, counter: impl Fn() -> u64) -> Result<Reading, Refusal> {
        self.read_marked(counter, || None)
    }

    /// Reads with a `marker` that is loaded after the counter. A disruption of the counter changes
    /// the marker first, so the reading detects it.
    #[inline(always)]
    fn read_marked(
        &self,
        counter: impl Fn() -> u64,
        marker: impl Fn() -> Option<u64>,
    ) -> Result<Reading, Refusal> {
        let page = self.memory.get();
        let sequence = page.latch.sequence();
        if self.verified.load(Relaxed) == u64::from(sequence) + 1 {
            // The counter is read last, so that the loaded words are used immediately.
            let take = |words: &_| (ReadingInputs::load(words), counter());
            let taken = page.latch.read_at(sequence, take);
            let taken = taken.filter(|(line, _)| !is_displaced(marker(), line.marker));
            if let Some(reading) = taken.and_then(|(line, now)| line.good(page, now)) {
                return Ok(reading);
            }
        }
        self.read_slowly(counter, marker)
    }

    /// Reads as [`Self::read_marked`] does, in the cases that its fast path does not handle: the
    /// words were not checked yet, are changing, or do not give a good reading. It does not retry
    /// for a later publication; the next reading will use that.
    #[cold]
    fn read_slowly(
        &self,
        counter: impl Fn() -> u64,
        marker: impl Fn() -> Option<u64>,
    ) -> Result<Reading, Refusal> {
        if let Some(file) = &self.file {
            return self.read_copied(file, counter, marker);
        }
        let page = self.memory.get();
        let (words, sequence) = page.latch.read(|copy, sequence| {
            let words: [u64; WORDS] = core::array::from_fn(|index| copy[index].load(Relaxed));
            (words, sequence)
        });
        let segment = PageSegment::from_words(&words)?;
        if self.verified.load(Relaxed) != u64::from(sequence) + 1 {
            self.meet_successor(page)?;
            self.verified.store(u64::from(sequence) + 1, Relaxed);
        }
        let now = counter();
        if is_displaced(marker(), segment.marker) {
            return Ok(displaced(&segment));
        }
        let good = ReadingInputs::of(&words).good(page, now);
        Ok(good.unwrap_or_else(|| doubtful(page, &segment, now)))
    }

    /// Reads a page in a file, as [`Self::read_slowly`] reads a mapped page. The page is read
    /// before the counter and again after it, because a disruption of the counter appears on the
    /// page before the counter changes.
    fn read_copied(
        &self,
        file: &OwnedFd,
        counter: impl Fn() -> u64,
        marker: impl Fn() -> Option<u64>,
    ) -> Result<Reading, Refusal> {
        let mut left = COPIES;
        loop {
            let sequence = copied(file)?.latch.sequence();
            let now = counter();
            let host = marker();
            let page = copied(file)?;
            left -= 1;
            let words = page.latch.words();
            let segment = match PageSegment::from_words(&words) {
                _ if page.latch.sequence() != sequence && left > 0 => continue,
                // The writer published twice while the copy was taken.
                Err(Refusal::Sum) if left > 0 => continue,
                other => other?,
            };
            self.meet_successor(&page)?;
            if is_displaced(host, segment.marker) {
                return Ok(displaced(&segment));
            }
            let good = ReadingInputs::of(&words).good(&page, now);
            return Ok(good.unwrap_or_else(|| doubtful(&page, &segment, now)));
        }
    }

    /// Returns the page in its present state.
    fn fresh(&self) -> Result<Fresh<'_>, Refusal> {
        Ok(match &self.file {
            Some(file) => Fresh::Copied(copied(file)?),
            None => Fresh::Mapped(self.memory.get()),
        })
    }

    /// Returns the mapped page; an empty page if the page is in a file.
    #[inline(always)]
    pub(crate) fn page(&self) -> &TimelinePage {
        self.memory.get()
    }

    /// Returns the sequence of the publication in force.
    #[inline(always)]
    pub(crate) fn sequence(&self) -> u32 {
        self.page().latch.sequence()
    }

    /// Returns the line in force and its sequence; `None` if no reading has found its words valid
    /// yet.
    pub(crate) fn line(&self) -> Option<(u32, ReadingInputs)> {
        let sequence = self.sequence();
        let known = self.verified.load(Relaxed) == u64::from(sequence) + 1;
        let line = known.then(|| self.page().latch.read_at(sequence, ReadingInputs::load));
        line.flatten().map(|line| (sequence, line))
    }

    /// Returns the segment in force with its sequence, for copying into a region; `None` if the
    /// publication in force is still `before`.
    ///
    /// # Errors
    /// Fails as [`Self::read`] does.
    pub(crate) fn segment_after(
        &self,
        before: Option<u32>,
    ) -> Result<Option<(u32, PageSegment)>, Refusal> {
        let page = self.fresh()?;
        if before == Some(page.latch.sequence()) {
            return Ok(None);
        }
        let (words, sequence) = page.latch.read(|copy, sequence| {
            let words: [u64; WORDS] = core::array::from_fn(|index| copy[index].load(Relaxed));
            (words, sequence)
        });
        let segment = PageSegment::from_words(&words)?;
        self.meet_successor(&page)?;
        Ok(Some((sequence, segment)))
    }

    /// Returns the present disruption marker, and the counter value until which the daemon is known
    /// to be alive. On a host's page the marker also differs while the host's oscillator is
    /// not what the daemon assumed. For a truncated page the daemon counts as dead.
    pub(crate) fn beside(&self) -> (u64, u64) {
        let Ok(page) = self.fresh() else {
            return (u64::MAX, 0);
        };
        let marker = page.disruption_marker().load(Relaxed);
        let host = self.host.map(HostPage::disruptions);
        let marker = if is_displaced(host, marker) {
            !marker
        } else {
            marker
        };
        (marker, page.alive_until().load(Relaxed))
    }

    /// Returns the counter value until which the daemon is known to be alive, in ticks.
    pub fn alive_until(&self) -> u64 {
        self.beside().1
    }

    /// Returns the kind of the page's counter.
    pub fn counter(&self) -> PageCounter {
        self.kind
    }

    /// Checks that a new writer of the page continues the same timeline with the same counter. If
    /// it does not, this reader must not continue.
    fn meet_successor(&self, page: &TimelinePage) -> Result<(), Refusal> {
        if page.incarnation.load(Relaxed) != self.incarnation
            && (check_header(page, self.domain)? != self.kind || timeline_of(page) != self.timeline)
        {
            return Err(Refusal::Successor);
        }
        Ok(())
    }
}

/// Page to read from: mapped memory, or a copy of a file.
enum Fresh<'a> {
    Mapped(&'a TimelinePage),
    Copied(Box<TimelinePage>),
}

impl Deref for Fresh<'_> {
    type Target = TimelinePage;

    fn deref(&self) -> &TimelinePage {
        match self {
            Self::Mapped(page) => page,
            Self::Copied(page) => page,
        }
    }
}

/// Returns a copy of the page in a file.
fn copied(file: &OwnedFd) -> Result<Box<TimelinePage>, Refusal> {
    let copy = copy_of(file).map_err(|error| Refusal::Map(error.raw_os_error()))?;
    let expected = PAGE_SIZE as u64;
    copy.map_err(|found| Refusal::Size { expected, found })
}

/// Maximum number of attempts to get a consistent copy. A daemon publishes a few times a second,
/// and a copy takes less than a microsecond.
const COPIES: u32 = 64;

impl Reading {
    /// Returns the reading as a stamp of `timeline`, for storage and comparison.
    pub fn stamp(&self, timeline: TimelineId) -> Stamp {
        if !self.bounded {
            return Stamp::void(timeline, self.status);
        }
        let length = |ns: u64| Duration::from_ns(i64::try_from(ns).unwrap_or(i64::MAX));
        let estimate = Instant::from_ns(self.estimate_ns);
        let interval = Interval::around(estimate, length(self.below_ns), length(self.above_ns));
        Stamp::new(timeline, self.status, interval)
    }
}

fn timeline_of(page: &TimelinePage) -> TimelineId {
    let half = |word: &AtomicU64| u128::from(word.load(Relaxed));
    TimelineId(half(&page.timeline_low) | half(&page.timeline_high) << 64)
}

fn domain_of(page: &TimelinePage, counter: PageCounter) -> Domain {
    let owner = page.owner.load(Relaxed);
    match counter {
        PageCounter::HostRaw => Domain::Host {
            session: owner,
            host: page.host.load(Relaxed) as u32,
        },
        PageCounter::Tsc | PageCounter::Monotonic => Domain::Machine { boot: owner },
    }
}

fn check_header(page: &TimelinePage, here: Domain) -> Result<PageCounter, Refusal> {
    let magic = page.magic.load(Acquire);
    if magic != MAGIC {
        return Err(Refusal::Magic(magic));
    }
    let version = page.version.load(Relaxed);
    if version != VERSION {
        return Err(Refusal::Version(version));
    }
    let (expected, found) = (PAGE_SIZE as u64, u64::from(page.size.load(Relaxed)));
    if found != expected {
        return Err(Refusal::Size { expected, found });
    }
    if page.header_sum.load(Relaxed) != page.sum_of_header() {
        return Err(Refusal::Sum);
    }
    let counter = page.counter.load(Relaxed);
    let counter = PageCounter::from_number(counter).ok_or(Refusal::Counter(counter))?;
    let domain = domain_of(page, counter);
    match (domain, here) {
        _ if domain == here => Ok(counter),
        (Domain::Machine { .. }, Domain::Machine { .. }) => Err(Refusal::Machine),
        (Domain::Machine { .. }, Domain::Host { .. }) => Err(Refusal::OutsideSession),
        (page, Domain::Machine { .. }) => Err(Refusal::InSession { page }),
        (page, Domain::Host { host: here, .. }) => Err(Refusal::OnAnotherHost { page, here }),
    }
}
