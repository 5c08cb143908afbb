//! Host's side of one virtual machine.

use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use timeloom_timeline::protocol::{
    Answer, ClientError, Connection as Client, DaemonMessage, Directory, MOST_BYTES, RefusalCode,
    Reply, Request, RequestKind, TimelineName, decode, encode, packet,
};
use timeloom_timeline::shm::{
    PageCounter, PageReader, Refusal, RegionEntry, RegionWriter, SharedCounter, clock_page_here,
    now_ticks,
};

use crate::vm::channel::Channel;
use crate::vm::frames::{Frames, message};
use crate::vm::pace::Pace;
use crate::vm::protocol::{FromGuest, FromHost, VM_VERSION};
use crate::vm::session::{Connection, MOST_BINDINGS, Session};

/// Relay of one virtual machine. Its threads end when the value is dropped.
#[derive(Debug)]
pub struct Relay {
    shared: Arc<Shared>,
    region: OwnedFd,
    clock: Option<OwnedFd>,
    size: usize,
    threads: Vec<JoinHandle<()>>,
}

/// Counters of a relay since its start, and its present connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayStats {
    /// Number of valid messages.
    pub frames: u64,
    /// Number of invalid messages.
    pub malformed: u64,
    /// Number of open connections of the guest to daemons.
    pub connections: usize,
    /// Number of bindings that the guest has.
    pub bindings: usize,
}

/// Reason why a relay cannot start.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// No daemon provides this timeline.
    #[error("{0}: {1}")]
    Daemon(TimelineName, ClientError),
    /// The page of this timeline cannot be read on this machine.
    #[error("{0}: {1}")]
    Page(TimelineName, Refusal),
    /// The page of this timeline uses a counter whose relation to the counter shared by guest and
    /// host is not known.
    #[error(
        "{0}: its daemon does not count by the processor's time-stamp counter, which is all that a \
         guest shares with its host; run it where the kernel's clock source is tsc"
    )]
    Counter(TimelineName),
    /// A system call failed.
    #[error("{0}")]
    System(io::Error),
}

#[derive(Debug)]
struct Shared {
    /// Channel to the machine's port; `None` until a machine is connected.
    channel: Mutex<Option<Arc<Channel>>>,
    directory: Directory,
    timelines: Vec<TimelineName>,
    session: Session,
    counter: SharedCounter,
    region: Mutex<RegionWriter>,
    ended: AtomicBool,
    frames: AtomicU64,
    malformed: AtomicU64,
}

impl Relay {
    /// Starts the relay of a machine, before the machine itself is started. From now on the
    /// machine's region is updated. `counter` is the counter that the machine shares with this
    /// process.
    ///
    /// # Errors
    /// Returns a [`RelayError`] if a timeline is not available, or if a system call fails.
    pub fn start(
        directory: Directory,
        timelines: Vec<TimelineName>,
        counter: SharedCounter,
    ) -> Result<Self, RelayError> {
        let mut sources = Vec::new();
        for name in &timelines {
            sources.push(source(&directory, name, &counter)?);
        }
        let entries: Vec<_> = timelines
            .iter()
            .zip(&sources)
            .map(|(name, source)| RegionEntry {
                timeline: source.timeline(),
                name: name.to_string(),
            })
            .collect();
        // If this process may not pass on its clock page, the guest learns of disruptions of the
        // host from the copied pages.
        let clock = clock_page_here().ok().flatten().map(OwnedFd::from);
        let region = RegionWriter::new(&entries, &counter, clock.is_some());
        let region = region.map_err(RelayError::System)?;
        let fd = region.fd().try_clone_to_owned();
        let shared = Arc::new(Shared {
            channel: Mutex::new(None),
            directory,
            timelines,
            session: Session::new(),
            counter,
            ended: AtomicBool::new(false),
            frames: AtomicU64::new(0),
            malformed: AtomicU64::new(0),
            region: Mutex::new(region),
        });
        let size = shared.region().size();
        // The region must contain all known data before the guest reads it.
        shared.copy(&mut sources);
        let copying = shared.clone();
        let tick_ns = counter.scale().rate.as_f64();
        let alive = (ALIVE.as_nanos() as f64 / tick_ns) as u64;
        let copy = move || copying.keep_copying(sources, alive);
        let threads = vec![std::thread::spawn(copy)];
        Ok(Self {
            shared,
            region: fd.map_err(RelayError::System)?,
            clock,
            size,
            threads,
        })
    }

    /// Serves the guest whose port is connected to `channel`. It takes the place of a previous
    /// guest.
    ///
    /// # Errors
    /// Fails if a system call fails.
    pub fn connect(&mut self, channel: OwnedFd) -> io::Result<()> {
        let channel = Arc::new(Channel::new(channel)?);
        // Another machine has another counter, so the relation must be measured again.
        self.displace();
        *self.shared.channel() = Some(channel.clone());
        let hearing = self.shared.clone();
        let hear = move || hearing.hear(&channel);
        self.threads.push(std::thread::spawn(hear));
        Ok(())
    }

    /// Returns the memory of the region, which the emulator maps into the machine.
    pub fn region(&self) -> BorrowedFd<'_> {
        self.region.as_fd()
    }

    /// Returns the clock page of the session's host on which this process runs, for the emulator.
    /// With this page the guest learns at once if the host alone is held or slowed. Returns `None`
    /// outside of sessions, and if this process may not pass the page on.
    pub fn clock(&self) -> Option<BorrowedFd<'_>> {
        self.clock.as_ref().map(AsFd::as_fd)
    }

    /// Returns the size of the region in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Records that the guest's counter may have been displaced. The guest's readings are
    /// *disrupted* until the guest has measured again.
    pub fn displace(&self) {
        self.shared.region().displace();
    }

    /// Returns the counters.
    pub fn stats(&self) -> RelayStats {
        let (connections, bindings) = self.shared.session.count();
        RelayStats {
            frames: self.shared.frames.load(Relaxed),
            malformed: self.shared.malformed.load(Relaxed),
            connections,
            bindings,
        }
    }

    /// Returns true if a machine is connected to the channel.
    pub fn is_connected(&self) -> bool {
        self.shared.channel().is_some()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.ended.store(true, Relaxed);
        self.shared.session.end();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // Programs that read the region are notified at once.
        let now = now_ticks(PageCounter::Tsc);
        for slot in self.shared.region().slots() {
            slot.end(now);
        }
    }
}

/// Obtains the page of a timeline from its daemon, and opens it.
fn source(
    directory: &Directory,
    name: &TimelineName,
    counter: &SharedCounter,
) -> Result<PageReader, RelayError> {
    let daemon = |error| RelayError::Daemon(name.clone(), error);
    let mut client = Client::open(directory, name).map_err(daemon)?;
    let (_, fd) = client.page().map_err(daemon)?;
    let reader =
        PageReader::open(&fd).map_err(|refusal| RelayError::Page(name.clone(), refusal))?;
    if reader.counter() == counter.of_pages() {
        Ok(reader)
    } else {
        Err(RelayError::Counter(name.clone()))
    }
}

impl Shared {
    fn channel(&self) -> MutexGuard<'_, Option<Arc<Channel>>> {
        self.channel.lock()
    }

    fn region(&self) -> MutexGuard<'_, RegionWriter> {
        self.region.lock()
    }

    /// Copies the pages repeatedly until the relay ends. If a daemon dies, the page of its
    /// successor is searched for and used.
    fn keep_copying(&self, mut sources: Vec<PageReader>, alive: u64) {
        let mut looked = Instant::now();
        while !self.ended.load(Relaxed) {
            self.copy_until(
                &mut sources,
                now_ticks(PageCounter::Tsc).saturating_add(alive),
            );
            if looked.elapsed() > LOOK {
                looked = Instant::now();
                self.session.look();
                for (index, name) in self.timelines.iter().enumerate() {
                    if sources[index].alive_until() > sources[index].ticks() {
                        continue;
                    }
                    if let Ok(successor) = source(&self.directory, name, &self.counter)
                        && successor.timeline() == sources[index].timeline()
                    {
                        sources[index] = successor;
                        self.region().slots()[index].forget();
                    }
                }
            }
            std::thread::sleep(COPY);
        }
    }

    fn copy(&self, sources: &mut [PageReader]) {
        self.copy_until(sources, u64::MAX >> 1);
    }

    fn copy_until(&self, sources: &mut [PageReader], alive_most: u64) {
        let mut region = self.region();
        for (slot, source) in region.slots().iter_mut().zip(sources) {
            // A page that is refused is not copied any more, so the guest's copy becomes outdated.
            let _ = slot.copy(source, alive_most);
        }
    }

    /// Receives the guest's messages until the emulator closes the channel.
    fn hear(self: Arc<Self>, channel: &Arc<Channel>) {
        let mut frames = Frames::default();
        let mut buffer = vec![0; 16 * 1024];
        let mut pace = Pace::new(Instant::now());
        let mut stamped = None;
        while !self.ended.load(Relaxed) {
            let length = match channel.receive(&mut buffer, LOOK) {
                Ok(0) => continue,
                Ok(length) => length,
                Err(_) => break,
            };
            let received = now_ticks(PageCounter::Tsc);
            let mut requests = 0;
            frames.take(&buffer[..length], |frame| {
                match frame.and_then(message::<FromGuest>) {
                    Some(said) => {
                        requests += 1;
                        self.frames.fetch_add(1, Relaxed);
                        self.handle(said, received, &mut stamped);
                    }
                    None => drop(self.malformed.fetch_add(1, Relaxed)),
                }
            });
            std::thread::sleep(pace.take(Instant::now(), length, requests));
        }
        self.session.end();
        let mut now = self.channel();
        if now.as_ref().is_some_and(|now| Arc::ptr_eq(now, channel)) {
            *now = None;
        }
    }

    fn handle(self: &Arc<Self>, said: FromGuest, received: u64, stamped: &mut Option<Instant>) {
        match said {
            FromGuest::Hello { nonce, .. } => {
                self.session.begin();
                let version = VM_VERSION;
                self.tell(&FromHost::Welcome { nonce, version });
            }
            // Messages before a hello are ignored, because another guest may have left them in the
            // port.
            _ if !self.session.is_live() => {}
            FromGuest::Beat { sequence } => {
                self.session.heard();
                if stamped.is_none_or(|last| last.elapsed() > BETWEEN_STAMPS) {
                    self.stamp();
                    *stamped = Some(Instant::now());
                }
                let sent = now_ticks(PageCounter::Tsc);
                self.tell(&FromHost::Beat {
                    sequence,
                    received,
                    sent,
                });
            }
            FromGuest::Ask {
                connection,
                timeline,
                request,
            } => {
                self.session.heard();
                self.ask(connection, &timeline, request);
            }
            FromGuest::Close { connection } => {
                if let Some(open) = self.session.connection(connection) {
                    open.end();
                }
            }
        }
    }

    /// Stores the counter in the region repeatedly, for a guest that reads it there. Only this
    /// thread stores it.
    fn stamp(&self) {
        let region = self.region();
        let end = Instant::now() + STAMPING;
        while Instant::now() < end {
            (0..64).for_each(|_| region.stamp());
        }
    }

    fn ask(self: &Arc<Self>, number: u64, timeline: &TimelineName, request: Request) {
        let Some(connection) = self.connection(number, timeline) else {
            return self.tell(&FromHost::Closed { connection: number });
        };
        let refuse = |code, why: String| {
            let answer = Answer::Refused { code, why };
            let reply = Reply {
                id: request.id,
                answer,
            };
            self.tell(&FromHost::Tell {
                connection: number,
                message: Box::new(DaemonMessage::Reply(reply)),
            });
        };
        if matches!(
            request.ask,
            RequestKind::Convert { .. } | RequestKind::Relation | RequestKind::HostClock
        ) {
            let why = "not through a relay: the daemon does not know the guest's counter";
            return refuse(RefusalCode::BadRequest, why.to_owned());
        }
        if !connection.may(request.id, &request.ask) {
            let why = format!("a guest's connection may have {MOST_BINDINGS} bindings");
            return refuse(RefusalCode::TooMany, why);
        }
        if packet::send(&connection.socket, &encode(&request), None, true).is_err() {
            connection.end();
        }
    }

    /// Returns the guest's connection of this number. Opens it if it does not exist.
    fn connection(
        self: &Arc<Self>,
        number: u64,
        timeline: &TimelineName,
    ) -> Option<Arc<Connection>> {
        let index = self.timelines.iter().position(|known| known == timeline)?;
        if let Some(known) = self.session.connection(number) {
            return (known.index == index as u32).then_some(known);
        }
        let socket = packet::connect(&self.directory.socket(timeline), PATIENCE).ok()?;
        let connection = self.session.add(number, socket, index as u32)?;
        let (shared, listening) = (self.clone(), connection.clone());
        std::thread::spawn(move || shared.listen(number, &listening));
        Some(connection)
    }

    /// Forwards the daemon's messages to the guest, until one of them closes the connection.
    fn listen(&self, number: u64, connection: &Arc<Connection>) {
        let mut buffer = vec![0; MOST_BYTES];
        while let Ok(Some((length, _))) = packet::receive(&connection.socket, &mut buffer) {
            let Ok(mut message) = decode::<DaemonMessage>(&buffer[..length]) else {
                break;
            };
            connection.learn(&message);
            if let DaemonMessage::Reply(Reply {
                answer: Answer::Page(page),
                ..
            }) = &mut message
            {
                page.index = Some(connection.index);
                page.path.clear();
            }
            let message = Box::new(message);
            self.tell(&FromHost::Tell {
                connection: number,
                message,
            });
        }
        connection.end();
        if self.session.remove(number, connection) {
            self.tell(&FromHost::Closed { connection: number });
        }
    }

    /// Sends a message to the guest. A guest that does not receive it loses its connections and
    /// bindings.
    fn tell(&self, message: &FromHost) {
        let channel = self.channel().clone();
        if channel.is_none_or(|channel| channel.send(message).is_err()) {
            self.session.end();
        }
    }
}

/// Interval between copies of the pages. A guest notices a disruption with this delay at most.
const COPY: Duration = Duration::from_millis(2);

/// Time without a sign of life of the relay after which a guest considers the daemon dead.
const ALIVE: Duration = Duration::from_secs(2);

/// Interval at which threads check whether the relay or the connection has ended.
const LOOK: Duration = Duration::from_millis(500);

/// Time for which stamps are stored after a heartbeat. [`BETWEEN_STAMPS`] is the minimum interval
/// between two stampings, so that a guest cannot keep its host busy.
const STAMPING: Duration = Duration::from_millis(2);
const BETWEEN_STAMPS: Duration = Duration::from_millis(250);

/// Maximum wait for a daemon to accept a connection.
const PATIENCE: Duration = Duration::from_secs(10);
