//! Thread that receives from the process of an engine, and starts another process if needed.

use std::io;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::{Arc, mpsc};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use timeloom_time::{Instant, Virtual};

use super::super::engine::EngineReport;
use super::super::history::Absence;
use super::super::message::{FromEngine, Piece};
use super::Sinks;
use super::connection::{EngineConnection, Seed, lock};
use super::membership::EngineState;
use crate::channel::{Content, Receiver};
use crate::network_signals::NetworkObservation;

/// Reason why the process of an engine cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("it sent a malformed message")]
    Nonsense,
    /// Reason that the process itself gave.
    #[error("{0}")]
    Said(String),
    /// The process ended without giving a reason; the text describes its exit.
    #[error("{0}")]
    Ended(String),
}

/// State of the receiving thread.
pub(super) struct Listener {
    pub(super) connection: Arc<EngineConnection>,
    pub(super) seed: Arc<Seed>,
    pub(super) sinks: Sinks,
    pub(super) ready: mpsc::Sender<Result<(), Broken>>,
    pub(super) ended: mpsc::Sender<EngineReport>,
    /// The last complete sample, to which the counters of earlier processes have been added.
    pub(super) seen: NetworkObservation,
}

impl Listener {
    pub(super) fn listen(mut self, mut hear: Receiver<UnixStream>, mut child: Child) {
        loop {
            let next = match self.hear_out(&mut hear) {
                Ok(ended) => {
                    self.connection.hang_up();
                    reap(&mut child, false);
                    let Some((at, counted)) = ended.left() else {
                        // The caller may have given up its wait for this report, which has a
                        // timeout.
                        let _ = self.ended.send(ended);
                        return;
                    };
                    self.left(ended, at, counted);
                    match self.await_return() {
                        Ok(Some(next)) => Ok(next),
                        Ok(None) => return,
                        Err(error) => Err(error.to_string()),
                    }
                }
                Err(why) => {
                    // The process ends when the connection closes.
                    self.connection.hang_up();
                    let how = reap(
                        &mut child,
                        self.connection.is_over() && !self.connection.has_joined(),
                    );
                    let what = why.unwrap_or(Broken::Ended(how));
                    // A thread that waits for the engine to be ready must get the error first.
                    let _ = self.ready.send(Err(what.clone()));
                    if self.connection.is_over() {
                        return;
                    }
                    self.another(&what).ok_or_else(|| what.to_string())
                }
            };
            match next {
                Ok(next) => (hear, child) = next,
                Err(what) => {
                    self.connection.membership.set(EngineState::Gone);
                    return (self.sinks.died)(&what);
                }
            }
        }
    }

    /// Receives from one process until it ends. Returns its final report. The error is the reason
    /// for an irregular end, or `None` if the reason is not known.
    fn hear_out(
        &mut self,
        hear: &mut Receiver<UnixStream>,
    ) -> Result<EngineReport, Option<Broken>> {
        let mut sample = Vec::new();
        loop {
            if let Some(ended) = self.take(hear.any(), &mut sample)? {
                return Ok(ended);
            }
        }
    }

    /// Records that the engine left on request at `at`, with the counters `counted`.
    fn left(&mut self, ended: EngineReport, at: Instant<Virtual>, mut counted: NetworkObservation) {
        // The other engines have received a farewell, unless it was lost on the way.
        self.sinks.engine_connections.lost(&self.connection);
        for (kind, text) in &ended.told {
            self.sinks.run_recorder.own_event("network", kind, text);
        }
        let closing = ended
            .closing
            .map(|closing| closing.tell(&self.sinks.run_recorder));
        let dropped = self.connection.dropped();
        let mut history = lock(&self.connection.history);
        history.doubts.extend(closing.unwrap_or_default());
        counted.add_earlier(&history.counted);
        history.counted = counted.clone();
        history.left(at, dropped);
        let when = history
            .absences
            .last()
            .map(Absence::tell)
            .unwrap_or_default();
        drop(history);
        self.seen = counted;
        self.tell(
            "left",
            &format!("has left on request; its part is away {when}"),
        );
        self.connection.membership.set(EngineState::Away);
    }

    /// Waits until an engine that has left is to join again, and starts a process for it. Returns
    /// `None` if the run ends before.
    fn await_return(&self) -> io::Result<Option<(Receiver<UnixStream>, Child)>> {
        let goes_on = || !self.connection.is_over();
        let membership = self
            .connection
            .membership
            .await_change(EngineState::Away, None, goes_on);
        if membership == EngineState::Away {
            return Ok(None);
        }
        let (generation, hear, child) = self.seed.spawn()?;
        self.seed.replace(&self.connection, generation);
        Ok(Some((hear, child)))
    }

    /// Starts another process for an engine whose process died, unless the engine is not to be
    /// restarted.
    fn another(&mut self, what: &Broken) -> Option<(Receiver<UnixStream>, Child)> {
        let had_joined = self.connection.has_joined();
        self.sinks.engine_connections.lost(&self.connection);
        // An engine that died before it had joined, or that dies again and again, has a permanent
        // fault.
        let history = lock(&self.connection.history);
        let deaths = history.absences.iter().filter(|absence| !absence.in_order);
        let generations = deaths.count() + 1;
        drop(history);
        if !self.sinks.comes_back || !had_joined || generations >= MOST_GENERATIONS {
            return None;
        }
        let from = self.seed.now()?;
        let mut history = lock(&self.connection.history);
        history.absences.push(Absence {
            from,
            to: None,
            in_order: false,
        });
        history.counted = self.seen.clone();
        drop(history);
        self.connection.membership.set(EngineState::Coming);
        self.tell(
            "died",
            &format!("has died, and another process takes its place: {what}"),
        );
        let (generation, hear, child) = self.seed.spawn().ok()?;
        self.seed.replace(&self.connection, generation);
        Some((hear, child))
    }

    /// Records that the engine is connected to all others.
    fn joined(&self) {
        let dropped = self.connection.dropped();
        let mut history = lock(&self.connection.history);
        let was_away = history.is_away();
        let dropped = history.returned(dropped);
        if let Some(last) = history.absences.last_mut() {
            last.to = self.seed.now();
            let mut text = format!("is running again; its part was away {}", last.tell());
            if was_away {
                text +=
                    &format!(", and the kernel dropped {dropped} frames of its hosts meanwhile");
            }
            drop(history);
            self.tell("joined", &text);
        }
        // Set last, so that a thread that waits for this state sees all of the above.
        self.connection.membership.set(EngineState::Here);
        let _ = self.ready.send(Ok(()));
    }

    fn tell(&self, kind: &str, what: &str) {
        let text = format!(
            "engine {} of the simulated network {what}",
            self.connection.name
        );
        self.sinks.run_recorder.own_event("network", kind, &text);
    }

    fn saw(&mut self, at: Instant<Virtual>, mut seen: NetworkObservation) {
        seen.add_earlier(&lock(&self.connection.history).counted);
        if self.sinks.comes_back {
            self.seen = seen.clone();
        }
        self.sinks.speaker.saw(at, seen);
    }

    /// Handles one received message. Returns the final report if the message contains it. The error
    /// is the reason why the process ends, or `None` if the reason is not known.
    fn take(
        &mut self,
        heard: io::Result<Content>,
        sample: &mut Vec<u64>,
    ) -> Result<Option<EngineReport>, Option<Broken>> {
        let nonsense = || Some(Broken::Nonsense);
        match heard {
            // The process closed the connection.
            Err(error) if error.kind() != io::ErrorKind::InvalidData => return Err(None),
            Err(_) => return Err(nonsense()),
            Ok(Content::Bytes(bytes)) => match Piece::of_bytes(&bytes).ok_or_else(nonsense)? {
                Piece::Frame(captured) => {
                    if let Some(capture) = &mut self.sinks.capture {
                        capture(captured.port, captured.at, captured.wall, &captured.frame);
                    }
                }
                Piece::More(part) => sample.extend(part),
                Piece::Last(part) => {
                    sample.extend(part);
                    let whole = Piece::sample(std::mem::take(sample));
                    let (at, seen) = whole.ok_or_else(nonsense)?;
                    self.saw(at, seen);
                }
            },
            Ok(Content::Message(text)) => {
                let message = serde_json::from_slice(&text).map_err(|_| nonsense())?;
                match message {
                    FromEngine::Ready => self.joined(),
                    FromEngine::Note(note) => self.sinks.run_recorder.note(&note),
                    FromEngine::Refused { why } | FromEngine::Died { what: why } => {
                        return Err(Some(Broken::Said(why)));
                    }
                    FromEngine::Ended(ended) => return Ok(Some(*ended)),
                }
            }
        }
        Ok(None)
    }
}

/// Waits for the end of a process whose connection is closed, or kills it first if `at_once` is
/// true. Returns a description of its exit.
fn reap(child: &mut Child, at_once: bool) -> String {
    let until = StdInstant::now() + if at_once { StdDuration::ZERO } else { TO_DIE };
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return format!("its process has ended: {status}"),
            Ok(None) if StdInstant::now() < until => {
                std::thread::sleep(StdDuration::from_millis(5));
            }
            // The process may be stopped, or may not be a child of this process.
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return "its process did not end".to_owned();
            }
        }
    }
}

/// Time within which a process must end after its connection was closed.
const TO_DIE: StdDuration = StdDuration::from_secs(10);
/// Maximum number of processes of one engine in a run.
const MOST_GENERATIONS: usize = 5;
