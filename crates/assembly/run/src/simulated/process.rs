//! An engine in a process of its own, as the run sees it that started it.
//!
//! The run makes interfaces, captures and rows of results; the process has the model. What it is
//! to be goes there first ([`Start`]), then each change of the clock. Back come samples, captured
//! frames and notes ([`listener`]). A process that ends without having been told to has died: the
//! run is told, or another process takes its place and joins the others at the present. One may
//! be told to leave, too, and another to join later ([`standing`]).

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

/// The process of an engine.
pub(super) struct Process {
    line: Arc<Line>,
    ready: Inbox<Result<(), Broken>>,
    ended: Inbox<Ended>,
    listener: Option<JoinHandle<()>>,
}

/// Who gets what it sees and says.
pub(super) struct Sinks {
    pub(super) speaker: Speaker,
    pub(super) capture: Option<Capture>,
    pub(super) scribe: Scribe,
    /// Told when it has died for good.
    pub(super) died: Died,
    /// Whether another process takes its place when it has died.
    pub(super) comes_back: bool,
    /// The other engines, which are told.
    pub(super) company: Arc<Company>,
}

/// What a run knows of an engine beside what that says at its end.
#[derive(Default)]
pub(super) struct Known {
    /// Frames that the kernel dropped before its interfaces took them, while they were to.
    pub(super) dropped: u64,
    /// When it was away.
    pub(super) absences: Vec<Absence>,
    /// Whether it has left, so that it has nothing to say at the end.
    pub(super) is_away: bool,
    /// What lives of it had counted that were over before the last.
    pub(super) counted: NetworkObservation,
    /// What made their results doubtful.
    pub(super) doubts: Vec<Caveat>,
}

impl Process {
    /// Starts it. `program` is `timeloom`.
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
        // Why it hung up is known there.
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

    /// Tells it of each change of the clock. From a thread, since who changes the clock must not
    /// wait.
    fn follow(&self, clock: &Arc<Clock>) -> io::Result<()> {
        let (changed, changes) = mpsc::sync_channel::<()>(1);
        let (line, of) = (Arc::clone(&self.line), Arc::downgrade(clock));
        std::thread::Builder::new()
            .name("engine's clock".to_owned())
            .spawn(move || {
                // A stop of the clock does not wait for who computes. Where that is not
                // allowed it may.
                let _ = set_policy(Policy::First(1));
                while changes.recv().is_ok() {
                    let Some(clock) = of.upgrade() else { return };
                    let now = ClockNow::of(clock.map_and_stop());
                    drop(clock);
                    // One that has died hears nothing, and another may take its place.
                    let _ = line.say(&ToEngine::Clock(now));
                }
            })?;
        // What has changed since the process was told is told again.
        let _ = changed.try_send(());
        clock.on_change(move || {
            // One that waits there tells of this change, too.
            let _ = changed.try_send(());
        });
        Ok(())
    }

    /// Waits until it is joined to all others.
    pub(super) fn wait_until_ready(&self) -> Result<(), RunError> {
        let said = self.ready.recv_timeout(TO_BEGIN);
        match said {
            Ok(Ok(())) => Ok(()),
            Ok(Err(why)) => Err(self.line.unwilling(&why)),
            Err(_) => Err(self.line.unwilling(&"it does not answer")),
        }
    }

    /// Tells it that the run is over. To be followed by [`Process::finish`].
    pub(super) fn end(&self) {
        self.line.end();
        if self.line.has_joined() {
            // One that has died is told nothing.
            let _ = self.line.say(&ToEngine::Stop);
        } else {
            // One that is away or about to join has nothing to say.
            self.line.hang_up();
        }
    }

    /// What it had to say, and what else is known of it.
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
        // It ends when nobody is there any more.
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

/// Between a process and its child nobody is in between: the seals only find mistakes.
pub(super) const UNKEYED: [u8; 32] = [0; 32];
/// To read the plan, to build its network, and to meet the others.
const TO_BEGIN: StdDuration = StdDuration::from_secs(120);
/// To say what it has to say at the end.
const TO_END: StdDuration = StdDuration::from_secs(60);
