//! Process of an engine, as seen by the run that started it.
//!
//! The run creates interfaces, captures and rows of results; the process has the model. The run
//! first sends the definition of the engine ([`Start`]), then each change of the clock. The process
//! sends back samples, captured frames and notes ([`listener`]). A process that ends without a
//! request has died: the run ends, or another process takes its place and joins the others at the
//! present instant. An engine can also be asked to leave and later to join again ([`standing`]).

mod line;
mod listener;
mod standing;

use std::io;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver as Inbox};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use timeloom_guest::Clock;
use timeloom_net::Owner;
use timeloom_portal::{Capture, Died, Port};
use timeloom_results::Caveat;
use timeloom_sys::schedule::{Policy, set_policy};

use super::engine::Ended;
use super::message::{ClockNow, Start, ToEngine};
use crate::error::RunError;
use crate::network_signals::{NetworkObservation, Speaker};
use crate::record::Scribe;
pub(super) use line::Absence;
use line::{Line, Seed, lock};
use listener::{Broken, Listener};
pub(crate) use standing::Company;

/// Process of an engine.
pub(super) struct Process {
    line: Arc<Line>,
    ready: Inbox<Result<(), Broken>>,
    ended: Inbox<Ended>,
    listener: Option<JoinHandle<()>>,
}

/// Receivers of its samples and messages.
pub(super) struct Sinks {
    pub(super) speaker: Speaker,
    pub(super) capture: Option<Capture>,
    pub(super) scribe: Scribe,
    /// Called when the engine has died for good.
    pub(super) died: Died,
    /// True if another process takes its place after a death.
    pub(super) comes_back: bool,
    /// The other engines, which are notified.
    pub(super) company: Arc<Company>,
}

/// Information of a run about an engine besides the engine's final report.
#[derive(Default)]
pub(super) struct Known {
    /// Frames that the kernel dropped before the engine's interfaces received them, except while
    /// the engine was away on request.
    pub(super) dropped: u64,
    /// Absences of the engine.
    pub(super) absences: Vec<Absence>,
    /// True if the engine has left and therefore has no final report.
    pub(super) is_away: bool,
    /// Counters of its earlier processes.
    pub(super) counted: NetworkObservation,
    /// Reasons for doubt about the results of those processes.
    pub(super) doubts: Vec<Caveat>,
}

impl Process {
    /// Starts the process. `program` is the path of `timeloom`.
    pub(super) fn start(
        program: &Path,
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
            start,
            sockets,
            clock: Arc::downgrade(clock),
            company: Arc::clone(&sinks.company),
        });
        let (life, hear, child) = seed.born().map_err(failed)?;
        let line = Arc::new(Line::new(&seed.start, life, ports));
        let company = Arc::clone(&sinks.company);
        let (ready, is_ready) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let listener = Listener {
            line: Arc::clone(&line),
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
            line,
            ready: is_ready,
            ended,
            listener: Some(listener),
        };
        // The listener knows the reason why the process hung up.
        let patience = StdDuration::from_secs(5);
        if let Err(error) = seed.introduce(&process.line) {
            let why = process.ready.recv_timeout(patience);
            return Err(match why.ok().and_then(Result::err) {
                Some(why) => process.line.unwilling(&why),
                None => process.line.unwilling(&error),
            });
        }
        company.admit(&process.line);
        process
            .follow(clock)
            .map_err(|error| process.line.unwilling(&error))?;
        Ok(process)
    }

    /// Sends each change of the clock to the process. A separate thread sends, because the thread
    /// that changes the clock must not wait.
    fn follow(&self, clock: &Arc<Clock>) -> io::Result<()> {
        let (changed, changes) = mpsc::sync_channel::<()>(1);
        let (line, of) = (Arc::clone(&self.line), Arc::downgrade(clock));
        std::thread::Builder::new()
            .name("engine's clock".to_owned())
            .spawn(move || {
                // Real-time priority: a stop of the clock then does not wait for busy processes. If
                // the kernel refuses, it may.
                let _ = set_policy(Policy::First(1));
                while changes.recv().is_ok() {
                    let Some(clock) = of.upgrade() else { return };
                    let now = ClockNow::of(clock.map_and_stop());
                    drop(clock);
                    // A process that has died receives nothing, and another may take its place.
                    let _ = line.say(&ToEngine::Clock(now));
                }
            })?;
        // Changes since the start message are sent again.
        let _ = changed.try_send(());
        clock.on_change(move || {
            // If a notification is already pending, it covers this change, too.
            let _ = changed.try_send(());
        });
        Ok(())
    }

    /// Waits until the engine is joined to all others.
    pub(super) fn wait_until_ready(&self) -> Result<(), RunError> {
        let said = self.ready.recv_timeout(TO_BEGIN);
        match said {
            Ok(Ok(())) => Ok(()),
            Ok(Err(why)) => Err(self.line.unwilling(&why)),
            Err(_) => Err(self.line.unwilling(&"it does not answer")),
        }
    }

    /// Tells the engine that the run is over. To be followed by [`Process::finish`].
    pub(super) fn end(&self) {
        self.line.end();
        if self.line.has_joined() {
            // A process that has died receives nothing.
            let _ = self.line.say(&ToEngine::Stop);
        } else {
            // An engine that is away or about to join has no final report.
            self.line.hang_up();
        }
    }

    /// Returns the engine's final report, and other information about it.
    pub(super) fn finish(mut self) -> (Ended, Known) {
        let ended = self.ended.recv_timeout(TO_END).unwrap_or_default();
        let dropped = self.line.dropped();
        self.hang_up();
        let mut past = std::mem::take(&mut *lock(&self.line.past));
        let is_away = past.is_away();
        past.returned(dropped);
        let known = Known {
            dropped: past.lost_of(dropped),
            absences: past.absences,
            is_away,
            counted: past.counted,
            doubts: past.doubts,
        };
        (ended, known)
    }

    fn hang_up(&mut self) {
        self.line.end();
        // The process ends when its peer is gone.
        self.line.hang_up();
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

/// Key of the channel between a process and its child, where no third process can interfere: the
/// tags only detect mistakes.
pub(super) const UNKEYED: [u8; 32] = [0; 32];
/// Timeout to read the plan, build the network, and join the others.
const TO_BEGIN: StdDuration = StdDuration::from_secs(120);
/// Timeout of the final report.
const TO_END: StdDuration = StdDuration::from_secs(60);
