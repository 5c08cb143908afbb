//! Main function of an engine's process: implements `timeloom engine`.
//!
//! The process has a part of the model, the descriptors of its portals, and sockets to the other
//! engines. All other data are exchanged with the run ([`super::message`]). The process ends when
//! the connection to the run closes.

use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc;

use timeloom_emulation::peering::datagram::Key;
use timeloom_emulation::peering::peer::PeerConfig;
use timeloom_emulation::peering::{Endpoint, Socket};
use timeloom_emulation::{FollowedClock, PacketPort, Port, PortalError, Portals, Tap};
use timeloom_net::Owner;
use timeloom_scenario::ScenarioErrors;
use timeloom_sys::descriptor;
use timeloom_sys::schedule::{SchedulingPolicy, set_policy};
use timeloom_time::{ClockMap, Duration, Instant, Virtual, Wall};

use super::engine::{Engine, EngineLinks, Outlets, Pacing, Running};
use super::message::{Captured, ClockNow, FromEngine, ModelChange, Piece, Sort, Start, ToEngine};
use super::process::UNKEYED;
use super::{built, captures, digest, engines};
use crate::channel::{Receiver, Sender};
use crate::error::RunError;
use crate::network_signals;

/// Error that prevents an engine's process from starting, or ends it.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No run is connected to the process's standard input.
    #[error("standard input is not connected to a run (`timeloom run` starts engines)")]
    NoRun,
    /// The run closed the connection without an end message.
    #[error("the run closed the connection: {0}")]
    Gone(io::Error),
    /// The run sent a second start message.
    #[error("it is an engine already")]
    Twice,
    /// The run sent an invalid plan.
    #[error("the plan: {0}")]
    Plan(#[from] ScenarioErrors),
    /// The plan has no simulated network.
    #[error("the plan has no network")]
    NoNetwork,
    /// The network's digest differs: run and engine are of two builds of Timeloom.
    #[error("its network differs from the run's (are both from one build of Timeloom?)")]
    OtherNetwork,
    /// The descriptor of a portal or of a line to another engine is missing.
    #[error("the engine received fewer descriptors than announced (raise `ulimit -n`?)")]
    NoDescriptor,
    /// A portal belongs to another engine.
    #[error("`{0}` is not a node of this engine")]
    NoNode(String),
    /// A portal cannot be connected.
    #[error(transparent)]
    Portal(#[from] PortalError),
    /// A socket to another engine is invalid.
    #[error("a line to another engine: {0}")]
    Line(io::Error),
    /// A part of the network could not be started as the plan requires.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Runs one engine of a run until the run ends. `stream` is connected to the run.
///
/// # Errors
/// Returns an error if no run answers, if the run closes the connection, or if the engine cannot
/// start as requested.
pub fn serve_engine(stream: UnixStream) -> Result<(), EngineError> {
    let gone = EngineError::Gone;
    let say = Sender::with_key(stream.try_clone().map_err(gone)?, UNKEYED);
    let mut hear = Receiver::with_key(stream.try_clone().map_err(gone)?, UNKEYED);
    let Ok(ToEngine::Start(start)) = hear.hear() else {
        return Err(EngineError::NoRun);
    };
    let (mouth, said) = mpsc::channel();
    let writer = std::thread::spawn(move || write(said, say));
    let ended = serve(&start, &stream, &mut hear, &mouth);
    let (last, outcome) = match ended {
        Ok(last) => (last, Ok(())),
        Err(error) => {
            let why = error.to_string();
            (FromEngine::Refused { why }, Err(error))
        }
    };
    let _ = mouth.send(Outgoing::Message(last));
    drop(mouth);
    let _ = writer.join();
    outcome
}

/// Message from a thread of this process to the thread that writes to the run.
enum Outgoing {
    Message(FromEngine),
    Saw(Instant<Virtual>, network_signals::NetworkObservation),
    Captured(Captured),
}

type Mouth = mpsc::Sender<Outgoing>;

/// Sends all messages to the run, until all senders have been dropped.
fn write(said: mpsc::Receiver<Outgoing>, mut say: Sender<UnixStream>) {
    for one in said {
        let told = match one {
            Outgoing::Message(message) => say.say(&message),
            Outgoing::Captured(captured) => say.bytes(&Piece::Frame(captured).to_bytes()),
            Outgoing::Saw(at, seen) => {
                let pieces = Piece::of_sample(at, &seen);
                let mut pieces = pieces.iter();
                pieces.try_for_each(|piece| say.bytes(&piece.to_bytes()))
            }
        };
        if told.is_err() {
            return; // the run is gone, as the receiving thread notices
        }
    }
}

fn serve(
    start: &Start,
    stream: &UnixStream,
    hear: &mut Receiver<UnixStream>,
    mouth: &Mouth,
) -> Result<FromEngine, EngineError> {
    let portals: Vec<OwnedFd> = received(stream, start.plugs.len())?;
    let sockets: Vec<OwnedFd> = received(stream, start.lines.len())?;
    let plan = timeloom_scenario::parse(&start.plan, "the plan", &[])?;
    let mut simulated = built(plan.simulated())?.ok_or(EngineError::NoNetwork)?;
    let planned = &mut simulated.world;
    start.changes.iter().for_each(|change| change.plan(planned));
    if digest(&simulated) != start.digest {
        return Err(EngineError::OtherNetwork);
    }
    let engine = Engine {
        plan: &plan,
        simulated: &simulated,
        here: start.here,
    };
    let portals = joined(engine, start, portals)?;
    let engine_links = EngineLinks {
        ends: ends(start, sockets)?,
        key: match start.encrypts {
            true => Key::encrypting(start.key),
            false => Key::new(start.key),
        },
        epoch: start.epoch,
        patience: Some(Duration::from_s(60)),
        absent: start.absent.clone(),
        give_up: None,
        late: start.late,
    };
    let clock = SharedClock(Arc::new(Mutex::new(start.clock)));
    let pacing = Pacing {
        clock: Box::new(clock.clone()),
        member: None,
        civil_start: Instant::from_ns(start.civil_start_ns),
    };
    let running = engine.start(portals, Some(engine_links), pacing, outlets(engine, mouth))?;
    let _ = mouth.send(Outgoing::Message(FromEngine::Ready));
    // With real-time priority, the engine notices a stop of the clock even if other processes are
    // busy. If the kernel refuses the priority, the engine may notice it later.
    let _ = set_policy(SchedulingPolicy::First(1));
    let view = network_signals::view(engine.plan, engine.simulated, engine.here);
    // The engine keeps its own part; the whole network is not needed any more.
    drop(simulated);
    let leaves = follow(&clock, &running, hear)?;
    let _ = set_policy(SchedulingPolicy::Ordinary);
    let ended = match leaves {
        true => running.leave(&view),
        false => running.finish(),
    };
    Ok(FromEngine::Ended(Box::new(ended)))
}

/// Passes changes of the run's clock to the engine. Returns true when the engine is asked to leave,
/// and false when the run ends.
fn follow(
    clock: &SharedClock,
    running: &Running,
    hear: &mut Receiver<UnixStream>,
) -> Result<bool, EngineError> {
    loop {
        match hear.hear() {
            Ok(ToEngine::Clock(now)) => {
                *clock.lock() = now;
                running.emulation.wake();
            }
            Ok(ToEngine::Change(changes)) => make(changes, running),
            Ok(ToEngine::Lost(there, epoch)) => running.emulation.mark_dead(there, epoch),
            Ok(ToEngine::Leave) => return Ok(true),
            Ok(ToEngine::Stop) => return Ok(false),
            Ok(ToEngine::Start(_)) => return Err(EngineError::Twice),
            Err(error) => return Err(EngineError::Gone(error)),
        }
    }
}

/// Changes links of the engine.
fn make(changes: Vec<ModelChange>, running: &Running) {
    // An engine that has ended needs no changes.
    let _ = running.emulation.with(move |engine| {
        changes.iter().for_each(|change| change.make(engine));
    });
}

/// Receives `count` file descriptors over the socket.
fn received(stream: &UnixStream, count: usize) -> Result<Vec<OwnedFd>, EngineError> {
    let one = |_| descriptor::receive(stream).and_then(|(_, descriptor)| descriptor);
    let all: Option<Vec<OwnedFd>> = (0..count).map(one).collect();
    all.ok_or(EngineError::NoDescriptor)
}

fn joined(
    engine: Engine<'_>,
    start: &Start,
    descriptors: Vec<OwnedFd>,
) -> Result<Portals, EngineError> {
    let mut portals = Portals::new();
    for ((name, sort), descriptor) in start.plugs.iter().zip(descriptors) {
        let node = super::plugged(engine).find(|(other, ..)| other == name);
        let (_, node, _) = node.ok_or_else(|| EngineError::NoNode(name.clone()))?;
        let port: Box<dyn Port> = match sort {
            Sort::Tap => Box::new(Tap::adopt(descriptor)),
            Sort::Packet => Box::new(PacketPort::adopt(descriptor)),
        };
        portals.join(node, name, port, Default::default())?;
    }
    Ok(portals)
}

/// Returns this engine's ends of the lines to the other engines.
fn ends(
    start: &Start,
    sockets: Vec<OwnedFd>,
) -> Result<Vec<(Owner, Endpoint, PeerConfig)>, EngineError> {
    let config = engines::patient(engines::SILENCE);
    let lines = start.lines.iter().zip(sockets);
    let end = |(there, socket): (&Owner, OwnedFd)| {
        let socket = UdpSocket::from(socket);
        let remote = socket.peer_addr()?;
        Ok((*there, Endpoint::Udp(Socket::new(socket, remote)?), config))
    };
    let ends: io::Result<_> = lines.map(end).collect();
    ends.map_err(EngineError::Line)
}

fn outlets(engine: Engine<'_>, mouth: &Mouth) -> Outlets {
    let view = network_signals::view(engine.plan, engine.simulated, engine.here);
    let [captured, saw, noted, died] = [(); 4].map(|()| mouth.clone());
    let watches = !captures::ports(engine.plan, engine.simulated).is_empty();
    let capture: timeloom_emulation::CaptureSink = Box::new(move |port, at, wall, frame: &[u8]| {
        // The channel is open: the writer ends after this thread, unless the connection to the run
        // is lost.
        let _ = captured.send(Outgoing::Captured(Captured {
            port,
            at,
            wall,
            frame: frame.to_vec(),
        }));
    });
    Outlets {
        capture: watches.then_some(capture),
        // The run writes the frames in the order in which they come.
        passed: None,
        sample: Box::new(move |at, world, adjacencies| {
            let _ = saw.send(Outgoing::Saw(at, view.look(at, world, adjacencies)));
        }),
        note: Box::new(move |note| {
            let _ = noted.send(Outgoing::Message(FromEngine::Note(note.clone())));
        }),
        died: Box::new(move |what| {
            let what = what.to_owned();
            let _ = died.send(Outgoing::Message(FromEngine::Died { what }));
        }),
        // Time does not skip with engines in processes.
        cubic: None,
    }
}

/// Clock of the run, as the run last reported it.
#[derive(Clone)]
struct SharedClock(Arc<Mutex<ClockNow>>);

impl SharedClock {
    fn lock(&self) -> MutexGuard<'_, ClockNow> {
        self.0.lock()
    }
}

impl FollowedClock for SharedClock {
    fn map(&self) -> ClockMap<Wall, Virtual> {
        self.map_and_stop().0
    }

    fn map_and_stop(&self) -> (ClockMap<Wall, Virtual>, Instant<Virtual>) {
        self.lock().map_and_stop()
    }
}
