//! Connection to the process of an engine: to one process as long as it lives, then to its
//! successor.

use std::fmt::Display;
use std::io;
use std::net::Shutdown;
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration as StdDuration;

use timeloom_guest::Clock;
use timeloom_net::Owner;
use timeloom_portal::Port;
use timeloom_results::Caveat;
use timeloom_sys::{descriptor, wall_now};
use timeloom_time::{Duration, Instant, Virtual};

use super::super::message::{ClockNow, Start, ToEngine};
use super::UNKEYED;
use super::standing::{Company, Membership, Standing};
use crate::channel::{Receiver, Sender};
use crate::error::RunError;
use crate::experiment::civil_now;
use crate::network_signals::NetworkObservation;

/// Connection to the process.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) here: Owner,
    life: Mutex<Life>,
    /// Membership of the engine in the group of engines.
    pub(super) membership: Membership,
    /// True if the end of the process is not a failure any more.
    is_over: AtomicBool,
    pub(super) past: Mutex<Past>,
    /// Interfaces remain for the whole run, independently of the process.
    pub(super) ports: Mutex<Vec<Box<dyn Port>>>,
}

/// Connection to one process, as long as it lives.
pub(super) struct Life {
    say: Sender<UnixStream>,
    stream: UnixStream,
    epoch: u64,
}

/// Information about earlier processes.
#[derive(Default)]
pub(super) struct Past {
    pub(super) absences: Vec<Absence>,
    /// Their counters: when they left, or in their last samples.
    pub(super) counted: NetworkObservation,
    /// Reasons for doubt about the results of those that have left.
    pub(super) doubts: Vec<Caveat>,
    /// Frames that the kernel dropped during absences on request.
    dropped_away: u64,
    /// Frames dropped when the engine last left, if it has not come back.
    left_with: Option<u64>,
}

impl Past {
    /// Records that the engine left at `from`, when the kernel had dropped `dropped` frames.
    pub(super) fn left(&mut self, from: Instant<Virtual>, dropped: u64) {
        let absence = Absence {
            from,
            to: None,
            in_order: true,
        };
        self.absences.push(absence);
        self.left_with = Some(dropped);
    }

    /// Ends an absence on request, or the whole record. `dropped` is the number of frames that the
    /// kernel has dropped until now; returns the number dropped during the last absence on request.
    pub(super) fn returned(&mut self, dropped: u64) -> u64 {
        let meanwhile = self.left_with.take().map_or(0, |before| dropped - before);
        self.dropped_away += meanwhile;
        meanwhile
    }

    /// True if the engine has left and not come back.
    pub(super) fn is_away(&self) -> bool {
        self.left_with.is_some()
    }

    /// Returns the number of frames, of `dropped` frames dropped by the kernel, that the engine
    /// should have received.
    pub(super) fn lost_of(&self, dropped: u64) -> u64 {
        dropped - self.dropped_away
    }
}

/// Absence of an engine, with its end if it is over.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Absence {
    pub(super) from: Instant<Virtual>,
    pub(super) to: Option<Instant<Virtual>>,
    /// True if the engine had been asked to leave.
    pub(in super::super) in_order: bool,
}

impl Absence {
    /// Describes the absence.
    pub(in super::super) fn tell(&self) -> String {
        // Nanoseconds would not be meaningful here.
        let since_zero = |at: Instant<Virtual>| Duration::from_ms(at.as_ns() / 1_000_000);
        let from = since_zero(self.from);
        match self.to {
            Some(to) => format!("from {from} to {}", since_zero(to)),
            None => format!("from {from} on"),
        }
    }
}

impl Line {
    pub(super) fn new(start: &Start, life: Life, ports: Vec<Box<dyn Port>>) -> Self {
        Self {
            name: start.name.clone(),
            here: start.here,
            life: Mutex::new(life),
            membership: Membership::default(),
            is_over: AtomicBool::new(false),
            past: Mutex::default(),
            ports: Mutex::new(ports),
        }
    }

    /// Sends a message. A process that accepts no data for a long time counts as dead, and a
    /// partial message is useless, so an error closes the connection.
    pub(super) fn say(&self, message: &ToEngine) -> io::Result<()> {
        let mut life = lock(&self.life);
        let said = life.say.say(message);
        if said.is_err() {
            let _ = life.stream.shutdown(Shutdown::Both);
        }
        said
    }

    pub(super) fn hang_up(&self) {
        let _ = lock(&self.life).stream.shutdown(Shutdown::Both);
    }

    /// Records that the run is over.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.membership.stir();
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// True if this process is joined to all other engines.
    pub(super) fn has_joined(&self) -> bool {
        matches!(self.membership.is(), Standing::Here | Standing::Leaving)
    }

    /// Returns the message that this process is over; other engines then consider it gone.
    pub(super) fn lost(&self) -> ToEngine {
        ToEngine::Lost(self.here, lock(&self.life).epoch)
    }

    /// Returns the number of frames that the kernel dropped before its interfaces received them.
    pub(super) fn dropped(&self) -> u64 {
        let ports = lock(&self.ports);
        ports.iter().map(|port| port.dropped_before()).sum()
    }

    pub(super) fn unwilling(&self, why: &dyn Display) -> RunError {
        RunError::Start(format!("the process of engine {}: {why}", self.name))
    }
}

/// Data from which a process is started, and its successor after a death.
pub(super) struct Seed {
    pub(super) program: PathBuf,
    pub(super) start: Start,
    pub(super) sockets: Vec<(Owner, UdpSocket)>,
    pub(super) clock: Weak<Clock>,
    pub(super) company: Arc<Company>,
}

/// A new process: the connection to it, its output, and its handle.
pub(super) type Born = (Life, Receiver<UnixStream>, Child);

impl Seed {
    /// Starts a process without a definition.
    pub(super) fn born(&self) -> io::Result<Born> {
        let (stream, theirs) = UnixStream::pair()?;
        stream.set_write_timeout(Some(TO_LISTEN))?;
        let mut command = Command::new(&self.program);
        command.args(["engine", &self.start.name]);
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        // Ctrl-C is for the run, which then notifies its engines.
        command.process_group(0);
        let child = command.spawn()?;
        let life = Life {
            say: Sender::with_key(stream.try_clone()?, UNKEYED),
            stream: stream.try_clone()?,
            epoch: civil_now().as_ns().unsigned_abs(),
        };
        Ok((life, Receiver::with_key(stream, UNKEYED), child))
    }

    /// Sends the definition to the first process.
    pub(super) fn introduce(&self, line: &Line) -> io::Result<()> {
        let mut life = lock(&line.life);
        self.tell(&mut life, line, false)
    }

    /// Connects the line to another process, which replaces one that is gone.
    pub(super) fn replace(&self, line: &Line, mut life: Life) {
        // Civil time may have been set back.
        life.epoch = life.epoch.max(lock(&line.life).epoch + 2);
        // If sending fails, the listener finds the process dead.
        let _ = self.tell(&mut life, line, true);
        *lock(&line.life) = life;
        // Changes since the start message went to the previous process.
        if let Some(clock) = self.clock.upgrade() {
            let _ = line.say(&ToEngine::Clock(ClockNow::of(clock.map_and_stop())));
        }
        if line.is_over() {
            line.hang_up();
        }
    }

    /// Sends the definition, and passes the descriptors.
    fn tell(&self, life: &mut Life, line: &Line, late: bool) -> io::Result<()> {
        let clock = self.clock.upgrade();
        let clock = clock.ok_or_else(|| io::Error::other("the session is over"))?;
        let start = Start {
            clock: ClockNow::of(clock.map_and_stop()),
            epoch: life.epoch,
            late,
            absent: match late {
                true => self.company.absent(),
                false => Vec::new(),
            },
            ..self.start.clone()
        };
        life.say.say(&ToEngine::Start(Box::new(start)))?;
        let ports = lock(&line.ports);
        let descriptors = ports.iter().map(|port| port.descriptor());
        let sockets = self.sockets.iter().map(|(_, socket)| socket.as_fd());
        for descriptor in descriptors.chain(sockets) {
            descriptor::send(life.stream.as_fd(), descriptor)?;
        }
        Ok(())
    }

    /// Returns the current time of the run's clock.
    pub(super) fn now(&self) -> Option<Instant<Virtual>> {
        let (map, stop) = self.clock.upgrade()?.map_and_stop();
        Some(map.at(wall_now()).min(stop))
    }
}

pub(super) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Timeout for the process to accept a message; messages are short and rare.
const TO_LISTEN: StdDuration = StdDuration::from_secs(30);
