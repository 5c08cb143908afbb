//! An engine in a process of its own, as the run sees it that started it.
//!
//! The run makes interfaces, captures and rows of results; the process has the model. What it is
//! to be goes there first ([`Start`]), then each change of the clock. Back come samples, captured
//! frames and notes. A process that ends without having been told to has died: the run is told.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver as Inbox};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use timeloom_guest::Clock;
use timeloom_net::Owner;
use timeloom_portal::{Capture, Died, Port};
use timeloom_sys::descriptor;
use timeloom_sys::schedule::{Policy, set_policy};

use super::engine::Ended;
use super::message::{ClockNow, FromEngine, Piece, Start, ToEngine};
use crate::channel::{Content, Receiver, Sender};
use crate::error::RunError;
use crate::network_signals::Speaker;
use crate::record::Scribe;

/// The process of an engine.
pub(super) struct Process {
    line: Arc<Line>,
    ready: Inbox<Result<(), String>>,
    ended: Inbox<Ended>,
    listener: Option<JoinHandle<()>>,
    /// Interfaces stay while the run lasts, whatever becomes of the process.
    ports: Vec<Box<dyn Port>>,
}

/// What leads to the process.
struct Line {
    name: String,
    say: Mutex<Sender<UnixStream>>,
    stream: UnixStream,
    /// Its end is no failure any more.
    is_over: AtomicBool,
}

/// Who gets what it sees and says.
pub(super) struct Sinks {
    pub(super) speaker: Speaker,
    pub(super) capture: Option<Capture>,
    pub(super) scribe: Scribe,
    pub(super) died: Died,
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
        let failed = |error: io::Error| {
            RunError::Start(format!("the process of engine {}: {error}", start.name))
        };
        let (stream, theirs) = UnixStream::pair().map_err(failed)?;
        stream.set_write_timeout(Some(TO_LISTEN)).map_err(failed)?;
        let mut command = Command::new(program);
        command.args(["engine", &start.name]);
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        // A Ctrl-C is for the run, which then tells its engines.
        command.process_group(0);
        let child = command.spawn().map_err(failed)?;
        // It has the other end of the stream.
        drop(command);
        let say = Sender::with_key(stream.try_clone().map_err(failed)?, UNKEYED);
        let hear = Receiver::with_key(stream.try_clone().map_err(failed)?, UNKEYED);
        let line = Arc::new(Line {
            name,
            say: Mutex::new(say),
            stream,
            is_over: AtomicBool::new(false),
        });
        let (ready, is_ready) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let listener = Listener {
            line: Arc::clone(&line),
            sinks,
            ready,
            ended: end,
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
            ports,
        };
        let descriptors = process.ports.iter().map(|port| port.descriptor());
        let descriptors = descriptors.chain(sockets.iter().map(|(_, socket)| socket.as_fd()));
        let error = process.line.introduce(start, descriptors);
        // Why it hung up is known there.
        let patience = StdDuration::from_secs(5);
        if let Err(error) = error {
            let why = process.ready.recv_timeout(patience);
            let why = why.ok().and_then(Result::err);
            return Err(process.line.unwilling(&why.unwrap_or(error.to_string())));
        }
        process
            .follow(clock)
            .map_err(|error| process.line.unwilling(&error.to_string()))?;
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
                    if line.say(&ToEngine::Clock(now)).is_err() {
                        return;
                    }
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
            Err(_) => Err(self.line.unwilling("it does not answer")),
        }
    }

    /// Tells it that the run is over. To be followed by [`Process::finish`].
    pub(super) fn end(&self) {
        self.line.is_over.store(true, Ordering::SeqCst);
        // One that has died is told nothing.
        let _ = self.line.say(&ToEngine::Stop);
    }

    /// What it had to say, and how many frames its interfaces have dropped.
    pub(super) fn finish(mut self) -> (Ended, u64) {
        let ended = self.ended.recv_timeout(TO_END).unwrap_or_default();
        let dropped = self.ports.iter().map(|port| port.dropped_before()).sum();
        self.hang_up();
        (ended, dropped)
    }

    fn hang_up(&mut self) {
        self.line.is_over.store(true, Ordering::SeqCst);
        // It ends when nobody is there any more.
        let _ = self.line.stream.shutdown(std::net::Shutdown::Both);
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

impl Line {
    /// One that takes nothing for long is as good as dead, and what it has of a message is of no
    /// use.
    fn say(&self, message: &ToEngine) -> io::Result<()> {
        let mut say = self.say.lock().unwrap_or_else(PoisonError::into_inner);
        let said = say.say(message);
        if said.is_err() {
            let _ = self.stream.shutdown(std::net::Shutdown::Both);
        }
        said
    }

    /// Says what it is, and hands over the descriptors.
    fn introduce<'a>(
        &self,
        start: Start,
        descriptors: impl Iterator<Item = BorrowedFd<'a>>,
    ) -> io::Result<()> {
        self.say(&ToEngine::Start(Box::new(start)))?;
        for descriptor in descriptors {
            descriptor::send(self.stream.as_fd(), descriptor)?;
        }
        Ok(())
    }

    fn unwilling(&self, why: &str) -> RunError {
        RunError::Start(format!("the process of engine {}: {why}", self.name))
    }
}

/// The thread that hears it.
struct Listener {
    line: Arc<Line>,
    sinks: Sinks,
    ready: mpsc::Sender<Result<(), String>>,
    ended: mpsc::Sender<Ended>,
}

impl Listener {
    fn listen(mut self, mut hear: Receiver<UnixStream>, mut child: Child) {
        let mut sample = Vec::new();
        let why = loop {
            match self.take(hear.any(), &mut sample) {
                Ok(true) => {}
                Ok(false) => break None,
                Err(why) => break Some(why),
            }
        };
        // A conversation that has broken off has no other end.
        let _ = self.line.stream.shutdown(std::net::Shutdown::Both);
        let how = reap(&mut child);
        if let Some(why) = why {
            let what = why.unwrap_or(how);
            // Whoever waits for it hears it first.
            let _ = self.ready.send(Err(what.clone()));
            if !self.line.is_over.load(Ordering::SeqCst) {
                (self.sinks.died)(&what);
            }
        }
    }

    /// Takes what was heard; false at the end. An error says why it is one, if that is known.
    fn take(
        &mut self,
        heard: io::Result<Content>,
        sample: &mut Vec<u64>,
    ) -> Result<bool, Option<String>> {
        let nonsense = || Some("it speaks nonsense".to_owned());
        match heard {
            // It is gone.
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
                    self.sinks.speaker.saw(at, seen);
                }
            },
            Ok(Content::Message(text)) => {
                let message = serde_json::from_slice(&text).map_err(|_| nonsense())?;
                match message {
                    FromEngine::Ready => {
                        let _ = self.ready.send(Ok(()));
                    }
                    FromEngine::Note(note) => self.sinks.scribe.note(&note),
                    FromEngine::Refused { why } | FromEngine::Died { what: why } => {
                        return Err(Some(why));
                    }
                    FromEngine::Ended(ended) => {
                        let _ = self.ended.send(*ended);
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}

/// Waits for the end of a process to which nobody speaks any more; says how it ended.
fn reap(child: &mut Child) -> String {
    let until = StdInstant::now() + TO_DIE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return format!("its process has ended: {status}"),
            Ok(None) if StdInstant::now() < until => {
                std::thread::sleep(StdDuration::from_millis(5));
            }
            // It may stand, or be none of ours.
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return "its process did not end".to_owned();
            }
        }
    }
}

/// Between a process and its child nobody is in between: the seals only find mistakes.
pub(super) const UNKEYED: [u8; 32] = [0; 32];
/// To read the plan, to build its network, and to meet the others.
const TO_BEGIN: StdDuration = StdDuration::from_secs(120);
/// To say what it has to say at the end.
const TO_END: StdDuration = StdDuration::from_secs(60);
/// To take what it is told, of which there is little.
const TO_LISTEN: StdDuration = StdDuration::from_secs(30);
/// To end when nobody speaks to it any more.
const TO_DIE: StdDuration = StdDuration::from_secs(10);
