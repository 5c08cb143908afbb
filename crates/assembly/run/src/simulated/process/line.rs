//! What leads to the process of an engine: to one as long as it lives, then to the next.

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

/// What leads to the process.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) here: Owner,
    life: Mutex<Life>,
    /// Where it stands with the other engines.
    pub(super) membership: Membership,
    /// Its end is no failure any more.
    is_over: AtomicBool,
    pub(super) past: Mutex<Past>,
    /// Interfaces stay while the run lasts, whatever becomes of the process.
    pub(super) ports: Mutex<Vec<Box<dyn Port>>>,
}

/// A process as long as it lives.
pub(super) struct Life {
    say: Sender<UnixStream>,
    stream: UnixStream,
    epoch: u64,
}

/// What is known of lives that are over.
#[derive(Default)]
pub(super) struct Past {
    pub(super) absences: Vec<Absence>,
    /// What they had counted: when they left, or by their last samples.
    pub(super) counted: NetworkObservation,
    /// What makes the results doubtful of those that have left.
    pub(super) doubts: Vec<Caveat>,
    /// Frames that the kernel dropped while nobody was to take them.
    dropped_away: u64,
    /// Those that it had dropped when the last one left, who has not come back.
    left_with: Option<u64>,
}

impl Past {
    /// One has left at `from`, while the kernel had dropped so many frames.
    pub(super) fn left(&mut self, from: Instant<Virtual>, dropped: u64) {
        let absence = Absence {
            from,
            to: None,
            in_order: true,
        };
        self.absences.push(absence);
        self.left_with = Some(dropped);
    }

    /// Nobody is away any more, or never mind who is. Gives back the frames that the kernel,
    /// which has dropped so many by now, dropped while the last one was away in order.
    pub(super) fn returned(&mut self, dropped: u64) -> u64 {
        let meanwhile = self.left_with.take().map_or(0, |before| dropped - before);
        self.dropped_away += meanwhile;
        meanwhile
    }

    /// Whether one has left that is not back.
    pub(super) fn is_away(&self) -> bool {
        self.left_with.is_some()
    }

    /// Frames, of so many that the kernel dropped, that somebody was to take.
    pub(super) fn lost_of(&self, dropped: u64) -> u64 {
        dropped - self.dropped_away
    }
}

/// A time in which an engine was away, and for how long if that is over.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Absence {
    pub(super) from: Instant<Virtual>,
    pub(super) to: Option<Instant<Virtual>>,
    /// Whether it had been told to leave.
    pub(in super::super) in_order: bool,
}

impl Absence {
    /// In words.
    pub(in super::super) fn tell(&self) -> String {
        // To know it to the nanosecond says nothing.
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

    /// One that takes nothing for long is as good as dead, and what it has of a message is of no
    /// use.
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

    /// The run is over.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.membership.stir();
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Whether this life is joined to all other engines.
    pub(super) fn has_joined(&self) -> bool {
        matches!(self.membership.is(), Standing::Here | Standing::Leaving)
    }

    /// That this life is over: who of the others hears of it has it for gone.
    pub(super) fn lost(&self) -> ToEngine {
        ToEngine::Lost(self.here, lock(&self.life).epoch)
    }

    /// Frames that the kernel dropped before its interfaces took them.
    pub(super) fn dropped(&self) -> u64 {
        let ports = lock(&self.ports);
        ports.iter().map(|port| port.dropped_before()).sum()
    }

    pub(super) fn unwilling(&self, why: &dyn Display) -> RunError {
        RunError::Start(format!("the process of engine {}: {why}", self.name))
    }
}

/// All of which a process is made, and another when it has died.
pub(super) struct Seed {
    pub(super) program: PathBuf,
    pub(super) start: Start,
    pub(super) sockets: Vec<(Owner, UdpSocket)>,
    pub(super) clock: Weak<Clock>,
    pub(super) company: Arc<Company>,
}

/// A process, what it says, and the means to say something to it.
pub(super) type Born = (Life, Receiver<UnixStream>, Child);

impl Seed {
    /// A process that knows nothing yet.
    pub(super) fn born(&self) -> io::Result<Born> {
        let (stream, theirs) = UnixStream::pair()?;
        stream.set_write_timeout(Some(TO_LISTEN))?;
        let mut command = Command::new(&self.program);
        command.args(["engine", &self.start.name]);
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        // A Ctrl-C is for the run, which then tells its engines.
        command.process_group(0);
        let child = command.spawn()?;
        let life = Life {
            say: Sender::with_key(stream.try_clone()?, UNKEYED),
            stream: stream.try_clone()?,
            epoch: civil_now().as_ns().unsigned_abs(),
        };
        Ok((life, Receiver::with_key(stream, UNKEYED), child))
    }

    /// Tells the first process what it is.
    pub(super) fn introduce(&self, line: &Line) -> io::Result<()> {
        let mut life = lock(&line.life);
        self.tell(&mut life, line, false)
    }

    /// Lets another process be at the end of the line, in the place of one that is gone.
    pub(super) fn replace(&self, line: &Line, mut life: Life) {
        // Civil time may have been set back.
        life.epoch = life.epoch.max(lock(&line.life).epoch + 2);
        // One that cannot be told is found dead by whoever hears it.
        let _ = self.tell(&mut life, line, true);
        *lock(&line.life) = life;
        // What was changed since it was told went to the one before.
        if let Some(clock) = self.clock.upgrade() {
            let _ = line.say(&ToEngine::Clock(ClockNow::of(clock.map_and_stop())));
        }
        if line.is_over() {
            line.hang_up();
        }
    }

    /// Tells what it is, and hands over the descriptors.
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

    /// What the run's clock shows.
    pub(super) fn now(&self) -> Option<Instant<Virtual>> {
        let (map, stop) = self.clock.upgrade()?.map_and_stop();
        Some(map.at(wall_now()).min(stop))
    }
}

pub(super) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// To take what it is told, of which there is little.
const TO_LISTEN: StdDuration = StdDuration::from_secs(30);
