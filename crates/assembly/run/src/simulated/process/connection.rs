//! Connection of the run to an engine. The engine's process may be replaced by another, and the
//! connection then leads to the new process.

use parking_lot::{Mutex, MutexGuard};
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
use std::sync::{Arc, Weak};
use std::time::Duration as StdDuration;

use timeloom_emulation::Port;
use timeloom_guest::Clock;
use timeloom_net::Owner;
use timeloom_sys::{descriptor, wall_now};
use timeloom_time::{Instant, Virtual};
use tracing::debug;

use super::super::history::EngineHistory;
use super::super::message::{ClockNow, ModelChange, Start, ToEngine};
use super::UNKEYED;
use super::membership::{EngineConnections, EngineMembership, EngineState};
use crate::channel::{Receiver, Sender};
use crate::civil::civil_now;
use crate::error::RunError;

/// Connection to an engine, whichever process it has.
pub(super) struct EngineConnection {
    pub(super) name: String,
    pub(super) here: Owner,
    generation: Mutex<Generation>,
    /// Membership of the engine in the run's group of engines.
    pub(super) membership: EngineMembership,
    /// True once the end of the process does not count as a failure.
    is_over: AtomicBool,
    pub(super) history: Mutex<EngineHistory>,
    /// The engine's interfaces, which exist for the whole run and survive each process.
    pub(super) ports: Mutex<Vec<Box<dyn Port>>>,
}

/// Connection to one process of the engine.
pub(super) struct Generation {
    say: Sender<UnixStream>,
    stream: UnixStream,
    epoch: u64,
}

impl EngineConnection {
    pub(super) fn new(start: &Start, generation: Generation, ports: Vec<Box<dyn Port>>) -> Self {
        Self {
            name: start.name.clone(),
            here: start.here,
            generation: Mutex::new(generation),
            membership: EngineMembership::default(),
            is_over: AtomicBool::new(false),
            history: Mutex::default(),
            ports: Mutex::new(ports),
        }
    }

    /// Sends a message to the process. On an error the connection is closed: a process that accepts
    /// no data for a long time counts as dead, and part of a message is useless.
    pub(super) fn say(&self, message: &ToEngine) -> io::Result<()> {
        let mut generation = lock(&self.generation);
        let said = generation.say.say(message);
        if said.is_err() {
            let _ = generation.stream.shutdown(Shutdown::Both);
        }
        said
    }

    pub(super) fn hang_up(&self) {
        let _ = lock(&self.generation).stream.shutdown(Shutdown::Both);
    }

    /// Records that the run is over, and wakes threads that wait for the engine.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.membership.stir();
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Returns true if the engine is connected to all others.
    pub(super) fn has_joined(&self) -> bool {
        matches!(
            self.membership.is(),
            EngineState::Here | EngineState::Leaving
        )
    }

    /// Returns the message by which other engines learn that this engine's process has ended.
    pub(super) fn lost(&self) -> ToEngine {
        ToEngine::Lost(self.here, lock(&self.generation).epoch)
    }

    /// Returns the number of frames that the kernel dropped before the engine's interfaces received
    /// them, over the whole run.
    pub(super) fn dropped(&self) -> u64 {
        let ports = lock(&self.ports);
        ports.iter().map(|port| port.dropped_before()).sum()
    }

    pub(super) fn unwilling(&self, why: &dyn Display) -> RunError {
        RunError::Start(format!("the process of engine {}: {why}", self.name))
    }
}

/// Data for starting a process of the engine, and later its successors.
pub(super) struct Seed {
    pub(super) program: PathBuf,
    /// True if the process writes its log as JSON.
    pub(super) log_json: bool,
    pub(super) start: Start,
    pub(super) sockets: Vec<(Owner, UdpSocket)>,
    pub(super) clock: Weak<Clock>,
    pub(super) engine_connections: Arc<EngineConnections>,
}

/// A new process: the connection to it, the receiver of its messages, and its handle.
pub(super) type StartedProcess = (Generation, Receiver<UnixStream>, Child);

impl Seed {
    /// Starts a process, without sending the engine's definition.
    pub(super) fn spawn(&self) -> io::Result<StartedProcess> {
        let (stream, theirs) = UnixStream::pair()?;
        stream.set_write_timeout(Some(TO_LISTEN))?;
        let mut command = Command::new(&self.program);
        command.args(self.log_json.then_some("--log-json"));
        command.args(["engine", &self.start.name]);
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        // In a process group of its own, the engine does not get the terminal's Ctrl-C. The run
        // gets that signal and ends its engines.
        command.process_group(0);
        let child = command.spawn()?;
        debug!(
            engine = self.start.name,
            pid = child.id(),
            "process of an engine started"
        );
        let generation = Generation {
            say: Sender::with_key(stream.try_clone()?, UNKEYED),
            stream: stream.try_clone()?,
            epoch: civil_now().as_ns().unsigned_abs(),
        };
        Ok((generation, Receiver::with_key(stream, UNKEYED), child))
    }

    /// Sends the engine's definition to its first process.
    pub(super) fn introduce(&self, connection: &EngineConnection) -> io::Result<()> {
        let mut generation = lock(&connection.generation);
        self.tell(&mut generation, connection, None)
    }

    /// Replaces the process of the connection, and sends the definition to it.
    pub(super) fn replace(&self, connection: &EngineConnection, mut generation: Generation) {
        // The epoch must increase even if civil time was set back.
        generation.epoch = generation.epoch.max(lock(&connection.generation).epoch + 2);
        self.engine_connections.with_changes(|changes| {
            // If sending fails, the listener finds out that the process is dead.
            let _ = self.tell(&mut generation, connection, Some(changes));
            *lock(&connection.generation) = generation;
        });
        // The clock may have changed since the definition was sent.
        if let Some(clock) = self.clock.upgrade() {
            let _ = connection.say(&ToEngine::Clock(ClockNow::of(clock.map_and_stop())));
        }
        if connection.is_over() {
            connection.hang_up();
        }
    }

    /// Sends the engine's definition and the file descriptors. `late` is true if other engines run.
    fn tell(
        &self,
        generation: &mut Generation,
        connection: &EngineConnection,
        changes: Option<Vec<ModelChange>>,
    ) -> io::Result<()> {
        let late = changes.is_some();
        let clock = self.clock.upgrade();
        let clock = clock.ok_or_else(|| io::Error::other("the session is over"))?;
        let start = Start {
            clock: ClockNow::of(clock.map_and_stop()),
            epoch: generation.epoch,
            late,
            absent: match late {
                true => self.engine_connections.absent(),
                false => Vec::new(),
            },
            changes: changes.unwrap_or_default(),
            ..self.start.clone()
        };
        generation.say.say(&ToEngine::Start(Box::new(start)))?;
        let ports = lock(&connection.ports);
        let descriptors = ports.iter().map(|port| port.descriptor());
        let sockets = self.sockets.iter().map(|(_, socket)| socket.as_fd());
        for descriptor in descriptors.chain(sockets) {
            descriptor::send(generation.stream.as_fd(), descriptor)?;
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
    of.lock()
}

/// Time within which a process must accept a message; messages are short and rare.
const TO_LISTEN: StdDuration = StdDuration::from_secs(30);
