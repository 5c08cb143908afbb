//! A worker that represents one machine: a session on the pause bus, with its processes.
//!
//! The worker does the same as `timeloom agent`, without its command line: it uses the same crates,
//! with a stopwatch around the operations that the bus orders. [`super::fleet`] sends it commands,
//! line by line.

use parking_lot::Mutex;
use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration as StdDuration;

use serde::{Deserialize, Serialize};
use timeloom_bus::{AgreedTestbed, Hold, LocalResumption, TestbedError};
use timeloom_guest::{ClockOptions, Session, SessionOptions};
use timeloom_run::PausedTestbed;
use timeloom_run::agent::{
    AgreedPause, AgreedSession, BoundSocket, Bus, BusKey, BusPeer, MachineTimeline, MachineWire,
    Settings, Udp, settings,
};
use timeloom_run::exit::note;
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Instant, Virtual, Wall};

use crate::Options;
use crate::remote::{Environment, Remote};
use crate::scratch::Scratch;
use crate::ticks;

/// A pause as one machine observes it. Times are readings of the cycle counter, unless the name of
/// the field ends in a unit.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct PauseStamps {
    /// The machine's own processes were stopped; `Some` only on the requesting machine.
    pub(super) alone: Option<u64>,
    /// Clock and processes were stopped at the agreed instant.
    pub(super) stood: u64,
    /// Delay of `stood` after the agreed instant, by the common line of all clocks.
    pub(super) stood_after_ns: i64,
    /// The clock was running, and all processes had been woken.
    pub(super) ran: u64,
    /// Delay of `ran` after the agreed end of the pause.
    pub(super) ran_after_ns: i64,
    /// The last process had noticed input that arrived during the pause.
    pub(super) noticed: u64,
    /// Agreed instant of the pause, in virtual time.
    pub(super) at_ns: i64,
    /// Agreed end of the pause, on the common timeline of the machines.
    pub(super) resumed_ns: i64,
    /// Virtual time from the request to the agreed instant, by this machine's clock.
    pub(super) ahead_ns: i64,
    /// Offset of this machine's clock from the common line, immediately before the pause.
    pub(super) off_ns: i64,
}

/// Acts as one machine until the command `end`. `words` contains the machine's name and the key of
/// the run.
///
/// | command | answer |
/// |---|---|
/// | `peers NAME=ADDRESS,… COUNT` | `ok` once time runs and COUNT processes wait for input |
/// | `hold` | the counter before and after; all are stopped |
/// | `stamp` | `ok`; the processes have input |
/// | `release` | the counter before |
/// | `seen` | [`PauseStamps`] as JSON, once all have resumed |
/// | `end` | `ok`; nothing is left |
pub(crate) fn serve(words: &str, mut stream: UnixStream, lines: impl BufRead) -> io::Result<()> {
    let (name, key) = words.split_once(' ').ok_or_else(|| wrong(words))?;
    let key = BusKey::from_hex(key).ok_or_else(|| wrong(words))?;
    let settings = Settings {
        assembly: PATIENCE,
        ..settings(None, PATIENCE)
    };
    let anywhere = ([127, 0, 0, 1], 0).into();
    let bound = BoundSocket::listen(anywhere, key, Arc::new(MachineTimeline), settings);
    let bound = bound.map_err(io::Error::other)?;
    writeln!(stream, "{}", bound.address()?)?;
    let mut commands = lines.lines();
    let peers = commands.next().transpose()?.unwrap_or_default();
    let machine = Machine::start(name, bound, &peers)?;
    writeln!(stream, "ok")?;
    machine.obey(commands, &mut stream)?;
    writeln!(stream, "ok")
}

struct Machine {
    // Fields are dropped in this order: the processes before their session.
    processes: Vec<Remote>,
    hold: Option<Hold>,
    bus: Bus,
    line: Udp,
    seen: Receiver<PauseStamps>,
    _scratch: Scratch,
    _session: Arc<Session>,
}

impl Machine {
    fn start(name: &str, bound: BoundSocket, command: &str) -> io::Result<Self> {
        let words: Vec<&str> = command.split(' ').collect();
        let ["peers", peers, count] = words[..] else {
            return Err(wrong(command));
        };
        let peers = peers.split(',').filter(|peer| !peer.is_empty());
        let peers: Option<Vec<BusPeer>> = peers.map(peer).collect();
        let peers = peers.ok_or_else(|| wrong(command))?;
        let count: usize = count.parse().map_err(|_| wrong(command))?;
        let session = Session::new(SessionOptions {
            name: format!("bench-{name}-{}", std::process::id()),
            clock: ClockOptions {
                paused: true,
                ..ClockOptions::default()
            },
            warn: Box::new(|text| note!("{text}")),
        });
        let session = Arc::new(session.map_err(io::Error::other)?);
        let (tell, seen) = channel();
        let testbed = Arc::new(Watched::new(&session, tell));
        let line = bound.start(name, false, &peers, testbed);
        let line = line.map_err(io::Error::other)?;
        let wire = Arc::new(line.handle());
        let bus = Bus::builder(Arc::new(PausedTestbed(Arc::clone(&session))))
            .host(name)
            .wire(move |_, _| wire)
            .build();
        line.wait_for_start().map_err(io::Error::other)?;
        // The stop before the start of the run is not a pause.
        seen.recv().map_err(io::Error::other)?;
        let scratch = Scratch::new().map_err(io::Error::other)?;
        let options = Options {
            quick: false,
            only: None,
            guests: Vec::new(),
            worker: own_command(),
            remark: |text| note!("{text}"),
        };
        let process = |_| Remote::start(&options, &scratch, &Environment::Inside(&session));
        let processes = (0..count).map(process).collect::<Result<_, _>>();
        Ok(Self {
            processes: processes.map_err(io::Error::other)?,
            hold: None,
            bus,
            line,
            seen,
            _scratch: scratch,
            _session: session,
        })
    }

    fn obey(
        mut self,
        commands: impl Iterator<Item = io::Result<String>>,
        stream: &mut UnixStream,
    ) -> io::Result<()> {
        for command in commands {
            let answer = match &*command? {
                "hold" => {
                    let asked = ticks::now();
                    let hold = self.bus.hold("bench", "measuring");
                    let granted = ticks::now();
                    self.hold = Some(hold.map_err(io::Error::other)?);
                    format!("{asked} {granted}")
                }
                "stamp" => {
                    let mut processes = self.processes.iter_mut();
                    let sent = processes.try_for_each(|process| process.send("stamp"));
                    sent.map_err(io::Error::other)?;
                    "ok".to_owned()
                }
                "release" => {
                    let free = ticks::now();
                    drop(self.hold.take());
                    free.to_string()
                }
                "seen" => serde_json::to_string(&self.seen()?).map_err(io::Error::other)?,
                "end" => break,
                other => return Err(wrong(other)),
            };
            writeln!(stream, "{answer}")?;
        }
        self.line.end();
        Ok(())
    }

    fn seen(&mut self) -> io::Result<PauseStamps> {
        let patience = StdDuration::from_nanos(PATIENCE.as_ns().unsigned_abs());
        let mut seen = self.seen.recv_timeout(patience).map_err(|_| {
            io::Error::other(match self.line.halted() {
                Some(why) => format!("the pause bus: {why}"),
                None => "a pause does not end".to_owned(),
            })
        })?;
        for process in &mut self.processes {
            let stamp = process.answer().map_err(io::Error::other)?;
            let stamp: u64 = stamp.parse().map_err(|_| wrong(&stamp))?;
            seen.noticed = seen.noticed.max(stamp);
        }
        Ok(seen)
    }
}

/// Session for the bus, which records times when the bus stops and resumes it.
struct Watched {
    session: AgreedSession,
    state: Mutex<State>,
    tell: Sender<PauseStamps>,
    /// Report of the session at the end of each pause.
    ended: Mutex<Receiver<AgreedPause>>,
}

#[derive(Default)]
struct State {
    seen: PauseStamps,
    /// Wall time and virtual time at which all clocks last resumed.
    line: Option<(Instant<Wall>, Instant<Virtual>)>,
}

impl Watched {
    fn new(session: &Arc<Session>, tell: Sender<PauseStamps>) -> Self {
        let (end, ended) = channel();
        let hear = move |pause: &AgreedPause| {
            // The receiver does not exist any more when the machine ends.
            let _ = end.send(*pause);
        };
        Self {
            session: AgreedSession::new(Arc::clone(session), None, Some(Box::new(hear))),
            state: Mutex::default(),
            tell,
            ended: Mutex::new(ended),
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock())
    }
}

impl AgreedTestbed for Watched {
    fn hold_alone(&self) -> Result<(), TestbedError> {
        self.session.hold_alone()?;
        self.with(|state| state.seen.alone = Some(ticks::now()));
        Ok(())
    }

    fn close(
        &self,
        lead: Duration,
        at_least: Option<Instant<Virtual>>,
    ) -> Result<Instant<Virtual>, TestbedError> {
        self.session.close(lead, at_least)
    }

    fn stand(&self, at: Instant<Virtual>) -> Result<(), TestbedError> {
        self.session.stand(at)?;
        let (stood, wall) = (ticks::now(), wall_now());
        self.with(|state| {
            state.seen.stood = stood;
            state.seen.stood_after_ns = state
                .line
                .map_or(0, |(since, from)| ((wall - since) - (at - from)).as_ns());
        });
        Ok(())
    }

    fn resume(&self, resumption: LocalResumption) -> Result<(), TestbedError> {
        self.session.resume(resumption)?;
        let LocalResumption { from, at, .. } = resumption;
        let (ran, wall) = (ticks::now(), wall_now());
        let mut seen = self.with(|state| {
            state.line = Some((at, from));
            std::mem::take(&mut state.seen)
        });
        let ended = self.ended.lock();
        let Ok(pause) = ended.try_recv() else {
            return Ok(());
        };
        seen.ran = ran;
        seen.ran_after_ns = (wall - at).as_ns();
        seen.at_ns = pause.at.as_ns();
        seen.resumed_ns = pause.resumed.as_ns();
        seen.ahead_ns = pause.ahead.map_or(0, Duration::as_ns);
        seen.off_ns = pause.deviation.map_or(0, |(off, _)| off.as_ns());
        let _ = self.tell.send(seen);
        Ok(())
    }

    fn wait_for(&self, at: Instant<Virtual>, give_up: &dyn Fn() -> bool) -> bool {
        self.session.wait_for(at, give_up)
    }

    fn wake(&self) {
        self.session.wake();
    }

    fn halt(&self) {
        self.session.halt();
    }
}

fn peer(text: &str) -> Option<BusPeer> {
    let (name, address) = text.split_once('=')?;
    Some(BusPeer {
        name: name.to_owned(),
        address: address.parse().ok()?,
        late: false,
    })
}

/// Returns the command line of this worker, without its last argument, which differs between
/// workers. The program is the path of the running executable, if known.
fn own_command() -> Vec<OsString> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    words.pop();
    if let (Some(first), Ok(own)) = (words.first_mut(), std::env::current_exe()) {
        *first = own.into();
    }
    words
}

fn wrong(command: &str) -> io::Error {
    io::Error::other(format!("what? {command}"))
}

/// Longer than any operation takes on a machine with other load.
const PATIENCE: Duration = Duration::from_s(60);
