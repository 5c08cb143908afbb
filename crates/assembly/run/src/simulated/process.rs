//! Process of an engine, controlled by the run that started it.
//!
//! The run creates interfaces, captures and rows of results; the process simulates the engine's
//! part of the network. The run first sends the definition of the engine ([`Start`]), then each
//! change of the clock. The process sends back samples, captured frames and notes ([`listener`]).
//! If a process ends without a request, its engine has died. Then either the run ends, or another
//! process takes its place and joins the other engines at the present virtual instant. An engine
//! can also be asked to leave, and later to join again ([`membership`]).

mod connection;
mod listener;
mod membership;

use std::io;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver as Inbox};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use timeloom_emulation::{CaptureSink, PanicCallback, Port};
use timeloom_guest::Clock;
use timeloom_net::Owner;
use timeloom_sys::schedule::{SchedulingPolicy, set_policy};
use timeloom_sys::seal::SealKey;

use super::engine::EngineReport;
use super::history::Known;
use super::message::{ClockNow, Start, ToEngine};
use crate::error::RunError;
use crate::network_signals::{NetworkObservation, Speaker};
use crate::record::RunRecorder;
use connection::{EngineConnection, Seed, lock};
use listener::{Broken, Listener};
pub(crate) use membership::EngineConnections;

/// Process of an engine.
pub(super) struct Process {
    connection: Arc<EngineConnection>,
    ready: Inbox<Result<(), Broken>>,
    ended: Inbox<EngineReport>,
    listener: Option<JoinHandle<()>>,
}

/// Receivers of an engine's samples and messages.
pub(super) struct Sinks {
    pub(super) speaker: Speaker,
    pub(super) capture: Option<CaptureSink>,
    pub(super) run_recorder: RunRecorder,
    /// Called when the engine has died and is not restarted.
    pub(super) died: PanicCallback,
    /// True if another process takes the place of one that has died.
    pub(super) comes_back: bool,
    /// All engines of the run, which are notified when a process ends.
    pub(super) engine_connections: Arc<EngineConnections>,
}

impl Process {
    /// Starts the process of an engine and sends the definition. `program` is the path of
    /// `timeloom`, and true if its log is to be JSON.
    pub(super) fn start(
        (program, log_json): (&Path, bool),
        start: Start,
        ports: Vec<Box<dyn Port>>,
        sockets: Vec<(Owner, UdpSocket)>,
        clock: &Arc<Clock>,
        sinks: Sinks,
    ) -> Result<Self, RunError> {
        let name = start.name.clone();
        let failed =
            |error: io::Error| RunError::Start(format!("the process of engine {name}: {error}"));
        let seed = Arc::new(Seed {
            program: program.to_owned(),
            log_json,
            start,
            sockets,
            clock: Arc::downgrade(clock),
            engine_connections: Arc::clone(&sinks.engine_connections),
        });
        let (generation, hear, child) = seed.spawn().map_err(failed)?;
        let connection = Arc::new(EngineConnection::new(&seed.start, generation, ports));
        let engine_connections = Arc::clone(&sinks.engine_connections);
        let (ready, is_ready) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let listener = Listener {
            connection: Arc::clone(&connection),
            seed: Arc::clone(&seed),
            sinks,
            ready,
            ended: end,
            seen: NetworkObservation::default(),
        };
        let listener = std::thread::Builder::new()
            .name("engine's line".to_owned())
            .spawn(move || listener.listen(hear, child))
            .map_err(failed)?;
        let process = Self {
            connection,
            ready: is_ready,
            ended,
            listener: Some(listener),
        };
        // The listener knows the reason why the process closed the connection.
        let patience = StdDuration::from_secs(5);
        if let Err(error) = seed.introduce(&process.connection) {
            let why = process.ready.recv_timeout(patience);
            return Err(match why.ok().and_then(Result::err) {
                Some(why) => process.connection.unwilling(&why),
                None => process.connection.unwilling(&error),
            });
        }
        engine_connections.admit(&process.connection);
        process
            .follow(clock)
            .map_err(|error| process.connection.unwilling(&error))?;
        Ok(process)
    }

    /// Starts a thread that sends each change of the clock to the process. The thread that changes
    /// the clock must not wait for the process.
    fn follow(&self, clock: &Arc<Clock>) -> io::Result<()> {
        let (changed, changes) = mpsc::sync_channel::<()>(1);
        let (connection, of) = (Arc::clone(&self.connection), Arc::downgrade(clock));
        std::thread::Builder::new()
            .name("engine's clock".to_owned())
            .spawn(move || {
                // With real-time priority, a stop of the clock reaches the process even if others
                // are busy. If the kernel refuses the priority, the stop may arrive later.
                let _ = set_policy(SchedulingPolicy::First(1));
                while changes.recv().is_ok() {
                    let Some(clock) = of.upgrade() else { return };
                    let now = ClockNow::of(clock.map_and_stop());
                    drop(clock);
                    // Sending fails if the process has died; another process may take its place.
                    let _ = connection.say(&ToEngine::Clock(now));
                }
            })?;
        // The clock may have changed after the start message, so the present map is sent once more.
        let _ = changed.try_send(());
        clock.on_change(move || {
            // If a notification is already pending, it covers this change as well.
            let _ = changed.try_send(());
        });
        Ok(())
    }

    /// Waits until the engine is connected to all others.
    pub(super) fn wait_until_ready(&self) -> Result<(), RunError> {
        let said = self.ready.recv_timeout(TO_BEGIN);
        match said {
            Ok(Ok(())) => Ok(()),
            Ok(Err(why)) => Err(self.connection.unwilling(&why)),
            Err(_) => Err(self.connection.unwilling(&"it does not answer")),
        }
    }

    /// Tells the engine that the run is over. [`Process::finish`] must be called afterwards.
    pub(super) fn end(&self) {
        self.connection.end();
        if self.connection.has_joined() {
            // Sending fails if the process has died, which needs no message.
            let _ = self.connection.say(&ToEngine::Stop);
        } else {
            // An engine that is away or not yet connected has no final report to wait for.
            self.connection.hang_up();
        }
    }

    /// Returns the engine's final report, and the facts that the run knows about the engine.
    pub(super) fn finish(mut self) -> (EngineReport, Known) {
        let ended = self.ended.recv_timeout(TO_END).unwrap_or_default();
        let dropped = self.connection.dropped();
        self.hang_up();
        let mut history = std::mem::take(&mut *lock(&self.connection.history));
        let is_away = history.is_away();
        history.returned(dropped);
        let known = Known {
            dropped: history.lost_of(dropped),
            absences: history.absences,
            is_away,
            counted: history.counted,
            doubts: history.doubts,
        };
        (ended, known)
    }

    fn hang_up(&mut self) {
        self.connection.end();
        // The process ends when its connection closes.
        self.connection.hang_up();
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.hang_up();
    }
}

/// Key of the channel between the run and its child process. No third process can write to the
/// channel, so the tags only detect faults.
pub(super) const UNKEYED: SealKey = SealKey::new([0; 32]);
/// Time within which a process must have read the plan, built the network and joined the others.
const TO_BEGIN: StdDuration = StdDuration::from_secs(120);
/// Time within which the final report must arrive.
const TO_END: StdDuration = StdDuration::from_secs(60);
