//! Timelines that a program has opened.

use parking_lot::Mutex;
use std::os::fd::AsFd;
use std::path::Path;

use crate::protocol::{
    Answer, ClientError, Connection, Directory, Page, RequestKind, TimelineName,
};
use crate::shm::{PageReader, Reading, Refusal, Region, RegionReader};
use timeloom_clock::counter::SharedStrict;
use timeloom_clock::quality::{Interval, Requirement, Stamp, TimelineId};
use timeloom_time::{Duration, Instant};

use crate::binding::Binding;
use crate::error::{BindError, OpenError, PastError};
use crate::reader::Reader;

/// Open timeline. It is `Send + Sync`, so that all threads can share one. Reads take no lock and
/// make no system call.
#[derive(Debug)]
pub struct Timeline {
    reader: Reader,
    strict: SharedStrict,
    daemon: Option<Daemon>,
}

/// Connection to the timeline's daemon, and what is needed to open it again.
#[derive(Debug)]
struct Daemon {
    directory: Directory,
    page: Page,
    /// Connection for requests. Each binding has a connection of its own.
    connection: Mutex<Connection>,
}

impl Daemon {
    fn connect(&self) -> Result<Connection, ClientError> {
        Connection::open(&self.directory, &self.page.name)
    }
}

/// Event with the value of the local counter at which it happened, so that a better reading for
/// that instant can be computed later ([`Timeline::convert`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Value of the page's counter at the event.
    pub ticks: u64,
    /// Reading of the timeline at the event.
    pub stamp: Stamp,
}

impl Timeline {
    /// Opens the timeline of this name in the default directory ([`Directory::usual`]).
    ///
    /// # Errors
    /// Fails if no daemon keeps the timeline, or if its page cannot be read by this program.
    pub fn open(name: &str) -> Result<Self, OpenError> {
        Self::open_in(&Directory::usual(), name)
    }

    /// Opens the timeline of this name in the given directory.
    ///
    /// # Errors
    /// Fails as [`Self::open`] does.
    pub fn open_in(directory: &Directory, name: &str) -> Result<Self, OpenError> {
        let name: TimelineName = name.parse().map_err(OpenError::Name)?;
        let mut connection = Connection::open(directory, &name).map_err(OpenError::Daemon)?;
        let (page, fd) = connection.page().map_err(OpenError::Daemon)?;
        let mut timeline = match page.index {
            None => Self::open_fd(&fd)?,
            // In the guest of a virtual machine the daemon passes a region of the host, and the
            // relation of the guest's counter to the host's.
            Some(index) => {
                let relation = connection.relation().map_err(OpenError::Daemon)?;
                let region = Region::open(&fd).map_err(OpenError::Page)?;
                let clock = region.has_clock().then(|| connection.host_clock());
                let clock = clock.transpose().map_err(OpenError::Daemon)?;
                let clock = clock.as_ref().map(AsFd::as_fd);
                let reader = RegionReader::open(&fd, index as usize, &relation, clock);
                Self::of(Reader::Region(Box::new(reader.map_err(OpenError::Page)?)))
            }
        };
        timeline.daemon = Some(Daemon {
            directory: directory.clone(),
            page,
            connection: Mutex::new(connection),
        });
        Ok(timeline)
    }

    /// Opens a page in a file, such as one that is mounted into a container.
    ///
    /// # Errors
    /// Fails if the file is not a page that this program can read.
    pub fn open_page(path: &Path) -> Result<Self, OpenError> {
        PageReader::open_path(path)
            .map(Self::of_page)
            .map_err(OpenError::Page)
    }

    /// Opens a page by a descriptor. The descriptor may be closed afterwards.
    ///
    /// # Errors
    /// Fails as [`Self::open_page`] does.
    pub fn open_fd(fd: impl AsFd) -> Result<Self, OpenError> {
        PageReader::open(fd)
            .map(Self::of_page)
            .map_err(OpenError::Page)
    }

    fn of_page(reader: PageReader) -> Self {
        Self::of(Reader::Page(reader))
    }

    fn of(reader: Reader) -> Self {
        Self {
            reader,
            strict: SharedStrict::new(),
            daemon: None,
        }
    }

    /// Returns the identifier of the timeline.
    pub fn id(&self) -> TimelineId {
        self.reader.timeline()
    }

    /// Returns the name of the timeline; `None` if it was opened by its page alone.
    pub fn name(&self) -> Option<&TimelineName> {
        self.daemon.as_ref().map(|daemon| &daemon.page.name)
    }

    /// Returns TAI minus UTC in seconds, as the daemon knew it when the timeline was opened. `None`
    /// if the daemon did not know it, if the timeline is not TAI, or if it was opened by its page
    /// alone.
    pub fn tai_offset_s(&self) -> Option<i16> {
        self.daemon.as_ref()?.page.tai_offset_s
    }

    /// Reads the timeline.
    ///
    /// # Errors
    /// Fails if the page is damaged. An unknown time is a status, not an error.
    #[inline]
    pub fn read(&self) -> Result<Stamp, Refusal> {
        self.reader.read()
    }

    /// Reads the timeline as [`Self::read`] does, and returns plain numbers, which is faster.
    ///
    /// # Errors
    /// Fails as [`Self::read`] does.
    #[inline]
    pub fn read_ns(&self) -> Result<Reading, Refusal> {
        self.reader.read_ns()
    }

    /// Reads the timeline such that each estimate is later than all earlier ones that any thread
    /// got through this value. The ends of the interval are those of a usual reading, unless the
    /// estimate had to be moved beyond the latest end.
    ///
    /// # Errors
    /// Fails as [`Self::read`] does.
    pub fn read_strict(&self) -> Result<Stamp, Refusal> {
        let stamp = self.reader.read()?;
        let Some(interval) = stamp.interval() else {
            return Ok(stamp);
        };
        let strict = self.strict.next(interval.estimate());
        // The ends of the interval remain, but the latest end must not be before the moved
        // estimate.
        let (below, above) = (
            interval.below() + strict.moved,
            interval.above() - strict.moved,
        );
        let moved = Interval::around(strict.at, below, above.max(Duration::ZERO));
        Ok(Stamp::new(stamp.timeline(), stamp.status(), moved))
    }

    /// Returns the present value of the page's counter. [`Self::convert`] converts such a value
    /// later.
    #[inline]
    pub fn ticks(&self) -> u64 {
        self.reader.ticks()
    }

    /// Reads the timeline and the page's counter at the present instant.
    ///
    /// # Errors
    /// Fails as [`Self::read`] does.
    pub fn event(&self) -> Result<Event, Refusal> {
        let (ticks, reading) = self.reader.read_event()?;
        Ok(Event {
            ticks,
            stamp: reading.stamp(self.id()),
        })
    }

    /// Returns the reading of the timeline for the instant at which the page's counter was `ticks`.
    ///
    /// # Errors
    /// Fails if the daemon has no record of that instant, or is gone.
    pub fn convert(&self, ticks: u64) -> Result<Stamp, PastError> {
        if matches!(self.reader, Reader::Region(_)) {
            return Err(PastError::Guest);
        }
        let daemon = self.daemon.as_ref().ok_or(PastError::NoDaemon)?;
        let mut connection = daemon.connection.lock();
        let ask = RequestKind::Convert { ticks };
        let answer = match connection.ask(ask.clone()) {
            // A daemon closes connections that have been idle for long, so the request is sent
            // again once.
            Err(ClientError::Broken(_) | ClientError::Ended) => {
                *connection = daemon.connect().map_err(PastError::Daemon)?;
                connection.ask(ask)
            }
            other => other,
        };
        match answer {
            Ok(Answer::Stamp(text)) => {
                let status = text.status;
                let Some(interval) = text.interval else {
                    return Ok(Stamp::void(self.id(), status));
                };
                let estimate = Instant::from_ns(interval.estimate_ns);
                let interval = Interval::around(
                    estimate,
                    estimate - Instant::from_ns(interval.earliest_ns),
                    Instant::from_ns(interval.latest_ns) - estimate,
                );
                Ok(Stamp::new(self.id(), status, interval))
            }
            Ok(_) => Err(PastError::Daemon(ClientError::Ended)),
            Err(error) => Err(PastError::Daemon(error)),
        }
    }

    /// Binds to the timeline with the program's requirement. From then on the daemon polls its
    /// sources often enough to meet it.
    ///
    /// # Errors
    /// Fails if no polling rate can meet the requirement ([`BindError::Impossible`] states the best
    /// possible accuracy), or if the daemon is gone.
    pub fn bind(&self, requirement: Requirement) -> Result<Binding, BindError> {
        let daemon = self.daemon.as_ref().ok_or(BindError::NoDaemon)?;
        let connection = daemon.connect().map_err(BindError::Daemon)?;
        Binding::new(connection, requirement)
    }
}
