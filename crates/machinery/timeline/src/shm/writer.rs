//! Publication of a timeline on its page. There is one writer per page.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, Release};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FlockOperation, MemfdFlags, SealFlags};
use timeloom_clock::Core;
use timeloom_clock::quality::{Status, TimelineId};
use timeloom_clock::timeline::{LocalNow, Segment, WatchLimits};
use timeloom_time::{Duration, Instant};

use crate::shm::counter::{CoreScale, PageCounter, nanoseconds};
use crate::shm::domain::Domain;
use crate::shm::encode::PageSegment;
use crate::shm::foreign::vmclock::Vmclock;
use crate::shm::layout::{MAGIC, PAGE_SIZE, TimelinePage, VERSION};
use crate::shm::memory::Mapping;
use crate::shm::refusal::Refusal;

/// Owner of a timeline's page: the only one that writes to it.
#[derive(Debug)]
pub struct PageWriter {
    memory: Mapping<TimelinePage>,
    fd: OwnedFd,
    kind: PageCounter,
    scale: CoreScale,
    /// Time scale stated to readers of `vmclock_abi`, as packed by [`TimeType`].
    time_type: AtomicU32,
    /// Lock on the file, held while this writer lives, so that a second daemon is refused.
    _lock: Option<File>,
}

/// Time scale of a timeline's nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeType {
    /// TAI. The value is TAI minus UTC in seconds at present, if it is known.
    Tai(Option<i16>),
    /// A scale with a zero of its own, which has no meaning for other timelines.
    Local,
}

impl TimeType {
    fn packed(self) -> u32 {
        match self {
            Self::Local => 1 << 17,
            Self::Tai(None) => 0,
            Self::Tai(Some(offset_s)) => 1 << 16 | u32::from(offset_s as u16),
        }
    }

    fn unpacked(word: u32) -> Self {
        match word >> 16 {
            0 => Self::Tai(None),
            1 => Self::Tai(Some(word as u16 as i16)),
            _ => Self::Local,
        }
    }
}

/// Reason why a page cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum WriterError {
    /// Another writer has the file, because two daemons are configured for one timeline.
    #[error("another daemon maintains this timeline")]
    Taken,
    /// The counter does not belong to this program's domain: it is the machine's counter and the
    /// program is in a session, or a host's oscillator and the program is outside of sessions.
    #[error("this program's clock domain has no counter {0}")]
    Counter(PageCounter),
    /// The domain of this program cannot be determined.
    #[error("{0}")]
    Domain(Refusal),
    /// A system call failed.
    #[error("cannot make the timeline's page: {0}")]
    Io(std::io::Error),
}

impl From<std::io::Error> for WriterError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustix::io::Errno> for WriterError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

impl PageWriter {
    /// Creates a page in a sealed memfd. No reader can write to it, even if the reader opens the
    /// descriptor again for writing through /proc, and its length cannot change. `scale` is the map
    /// from the counter `kind` to the core clock; `None` if the counter counts nanoseconds.
    ///
    /// # Errors
    /// Fails if a system call fails, or if the counter is not of this program's domain.
    pub fn in_memory(
        timeline: TimelineId,
        kind: PageCounter,
        scale: Option<CoreScale>,
    ) -> Result<Self, WriterError> {
        let domain = domain_for(kind)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("timeloom-timeline", flags)?;
        rustix::fs::ftruncate(&fd, PAGE_SIZE as u64)?;
        let memory = Mapping::new(&fd, true)?;
        // The seal forbids every later writable mapping, so it is set after our own mapping.
        let seals = SealFlags::FUTURE_WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&fd, seals)?;
        Ok(Self::start(
            memory,
            fd,
            timeline,
            (kind, domain),
            scale,
            None,
        ))
    }

    /// Opens a page in a file, for containers and virtual machines that can access the file. An
    /// existing page is taken over in place, so that its readers continue. A new page gets its
    /// name when it is complete. The file is never truncated, because that would kill readers that
    /// have it mapped with SIGBUS.
    ///
    /// # Errors
    /// Fails with [`WriterError::Taken`] while another writer has the file.
    pub fn at_path(
        path: &Path,
        timeline: TimelineId,
        kind: PageCounter,
        scale: Option<CoreScale>,
    ) -> Result<Self, WriterError> {
        let domain = domain_for(kind)?;
        let lock = File::create(path.with_extension("lock"))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(WriterError::Taken),
            other => other?,
        }
        let open = |path: &Path| File::options().read(true).write(true).open(path);
        let usable = open(path).ok().filter(|file| {
            file.metadata()
                .is_ok_and(|found| found.is_file() && found.len() == PAGE_SIZE as u64)
        });
        let file = match usable {
            Some(file) => file,
            None => {
                let fresh = path.with_extension("new");
                let file = File::options()
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .open(&fresh)?;
                file.set_len(PAGE_SIZE as u64)?;
                std::fs::rename(&fresh, path)?;
                file
            }
        };
        let memory = Mapping::new(&file, true)?;
        Ok(Self::start(
            memory,
            file.into(),
            timeline,
            (kind, domain),
            scale,
            Some(lock),
        ))
    }

    /// Returns the descriptor of the page, to be passed to readers.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns the core clock's reading at a value of the page's counter.
    pub fn core_at(&self, ticks: u64) -> Instant<Core> {
        self.scale.at(Instant::from_ticks(ticks))
    }

    /// Returns the present value of the page's counter.
    pub fn ticks(&self) -> u64 {
        crate::shm::counter::now_ticks(self.kind)
    }

    /// Publishes a new segment, without a system call or an allocation.
    pub fn publish(&self, segment: &Segment) {
        let page = self.page();
        let encoded = PageSegment::new(segment, &self.scale);
        // The deadline is stored before the segment. With an older deadline, a reader would
        // consider a living daemon dead. With a newer one, a reader only learns sooner that the
        // daemon lives.
        self.keep_alive(segment.alive_until);
        let marker = segment.origin.marker;
        if page.disruption_marker().load(Relaxed) != marker {
            // The marker is stored before the segment that carries it. Between the two stores
            // readers see a disruption, which is correct.
            page.disruption_marker().store(marker, Relaxed);
        }
        page.vmclock.disruption_marker.store(marker, Relaxed);
        page.latch.publish(encoded.to_words());
        let time_type = TimeType::unpacked(self.time_type.load(Relaxed));
        let vmclock = Vmclock::of(segment, &encoded, self.kind);
        page.vmclock.store(&vmclock.with_type(time_type));
    }

    /// Sets the time scale from the next publication on. The scale of a new page is TAI with an
    /// unknown offset to UTC.
    pub fn set_time_type(&self, time_type: TimeType) {
        self.time_type.store(time_type.packed(), Relaxed);
    }

    /// Publishes words without any check; for tests of readers.
    #[doc(hidden)]
    pub fn publish_words(&self, words: [u64; crate::shm::WORDS]) {
        self.page().latch.publish(words);
    }

    /// Extends the time until which the daemon counts as alive, without a publication.
    pub fn keep_alive(&self, until: Instant<Core>) {
        let ticks = self.scale.first_reaching(until);
        let ticks = ticks.map_or(i64::MAX, |at| at.as_ns().saturating_sub(1));
        let ticks = u64::try_from(ticks).unwrap_or(0);
        self.page().alive_until().store(ticks, Relaxed);
    }

    /// Makes every reading *disrupted* at once, before the cause can be published. This takes one
    /// store, and a second one for readers of vmclock.
    pub fn disrupt(&self) {
        let page = self.page();
        page.disruption_marker().fetch_add(1, Relaxed);
        page.vmclock.disruption_marker.fetch_add(1, Relaxed);
    }

    fn start(
        memory: Mapping<TimelinePage>,
        fd: OwnedFd,
        timeline: TimelineId,
        (kind, domain): (PageCounter, Domain),
        scale: Option<CoreScale>,
        lock: Option<File>,
    ) -> Self {
        let scale = scale.unwrap_or_else(nanoseconds);
        let writer = Self {
            memory,
            fd,
            kind,
            scale,
            time_type: AtomicU32::new(TimeType::Tai(None).packed()),
            _lock: lock,
        };
        let page = writer.page();
        let now = LocalNow {
            core: writer.core_at(writer.ticks()),
            marker: 0,
            suspended: Duration::ZERO,
            witness: None,
        };
        // A new page starts without a known time, whatever a previous writer left.
        let unknown = Segment::void(
            timeline,
            Status::NeverSynchronised,
            now,
            WatchLimits::default(),
        );
        page.latch
            .publish(PageSegment::new(&unknown, &writer.scale).to_words());
        page.version.store(VERSION, Relaxed);
        page.size.store(PAGE_SIZE as u32, Relaxed);
        page.counter.store(kind as u32, Relaxed);
        page.timeline_low.store(timeline.0 as u64, Relaxed);
        page.timeline_high.store((timeline.0 >> 64) as u64, Relaxed);
        let (owner, host) = match domain {
            Domain::Machine { boot } => (boot, 0),
            Domain::Host { session, host } => (session, host),
        };
        page.owner.store(owner, Relaxed);
        page.host.store(host.into(), Relaxed);
        page.incarnation.store(
            writer.ticks() ^ u64::from(std::process::id()) << 48,
            Relaxed,
        );
        page.magic.store(MAGIC, Relaxed);
        page.header_sum.store(page.sum_of_header(), Release);
        writer.publish(&unknown);
        writer
    }

    fn page(&self) -> &TimelinePage {
        self.memory.get()
    }
}

/// Returns the domain of this program; fails if `counter` does not belong to it.
fn domain_for(counter: PageCounter) -> Result<Domain, WriterError> {
    let domain = Domain::here().map_err(WriterError::Domain)?;
    let is_raw = counter == PageCounter::HostRaw;
    if is_raw == matches!(domain, Domain::Host { .. }) {
        Ok(domain)
    } else {
        Err(WriterError::Counter(counter))
    }
}
