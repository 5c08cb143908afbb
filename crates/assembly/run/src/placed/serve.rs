//! Agent: waits for a run, takes its share of the run's plan, executes that share, and sends back
//! the results. An agent executes one share at a time.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{AddrParseError, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use serde::{Deserialize, Serialize};
use timeloom_bus::{
    BoundSocket, BusPeer, CommonTimeline, GpioPins, MachineTimeline, NoPins, PinNames,
    SystemTimeline, UdpError, prove,
};
use timeloom_emulation::TunnelKey;
use timeloom_scenario::{Plan, ScenarioErrors};
use timeloom_time::Duration;

use super::guests::{Guest, Guests};
use super::membership::{AgentMembership, AgentTime, PeerLinks};
use super::message::{AgentEndpoints, FromAgent, Prepare, ShareResult, ToAgent};
use super::outcome::{ended, entry, gather, lengths, send};
use super::rewrite::{Mirror, lacking};
use super::scratch::{Scratch, sweep};
use super::secret::Secret;
use super::transfer::{MOST_BYTES_IN_ALL, new_below, receive};
use super::turns::Meeting;
use crate::channel::{Receiver, Sender, Side, greet};
use crate::experiment::run_here;
use crate::node::{EngineLine, NodeName, ReadyBoard};
use crate::options::RunOptions;

/// Clock that agents share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentTimeline {
    /// Clock of the kernel, for agents in namespaces of one machine.
    Machine,
    /// Civil time, as accurate as this machine keeps it.
    System,
}

impl AgentTimeline {
    pub(super) fn open(self) -> Arc<dyn CommonTimeline> {
        match self {
            Self::Machine => Arc::new(MachineTimeline),
            Self::System => Arc::new(SystemTimeline),
        }
    }
}

/// An agent that accepts runs from every peer that has the key.
pub struct Serve {
    /// Address at which runs connect to the agent. Its other sockets have the same IP address.
    pub address: SocketAddr,
    /// Key shared with runs.
    pub secret: Secret,
    /// Directory for all files of the agent. Other users must not be able to write there.
    pub directory: PathBuf,
    /// Clock shared with other agents.
    pub timeline: AgentTimeline,
    /// Name of the agent's sessions. `None` uses the name that the run gives the agent.
    pub session: Option<String>,
    /// Path of the program `timeloom` on this machine.
    pub timeloom: PathBuf,
    /// True if the agent's own child processes write their logs as JSON.
    pub log_json: bool,
    /// Set by the caller to end the agent and its current run.
    pub stop: Arc<AtomicBool>,
    /// Receives messages for the user, as sentences.
    pub say: Arc<dyn Fn(String) + Send + Sync>,
}

impl Serve {
    /// Serves until [`Self::stop`] is set.
    ///
    /// # Errors
    /// Returns an error if the agent cannot listen at its address, or cannot use its directory.
    pub fn run(self) -> io::Result<()> {
        own_directory(&self.directory)?;
        let left = sweep(&self.directory)?;
        if left > 0 {
            (self.say)(format!(
                "removed the remains of {left} earlier runs whose agents were killed"
            ));
        }
        let listener = TcpListener::bind(self.address)?;
        listener.set_nonblocking(true)?;
        (self.say)(format!(
            "waits for runs at {}; files go to {}",
            self.address,
            self.directory.display()
        ));
        let agent = Arc::new(AgentServer {
            serve: self,
            busy: Mutex::new(()),
            guests: Arc::default(),
            stranger: Mutex::new(None),
        });
        while !agent.serve.stop.load(Ordering::SeqCst) {
            match listener.accept() {
                Ok((stream, from)) => {
                    let Ok(guest) = agent.guests.admit(&stream, from) else {
                        thread::sleep(LOOK_EVERY);
                        continue;
                    };
                    let its = Arc::clone(&agent);
                    let talk = move || {
                        if let Err(error) = its.converse(stream, from, &guest) {
                            (its.serve.say)(format!("{from}: {error}"));
                        }
                    };
                    // If no thread can be created, the connection is closed.
                    let _ = thread::Builder::new().spawn(talk);
                }
                Err(_) => thread::sleep(LOOK_EVERY),
            }
        }
        let given_up = StdInstant::now() + ENDS_WITHIN;
        let mut said = false;
        while !agent.guests.is_empty() && StdInstant::now() < given_up {
            // Shares are stopped repeatedly, since one may have started in the meantime.
            agent.guests.stop();
            if !std::mem::replace(&mut said, true) {
                let waits = "ends: waits until its run has stopped and the results are sent";
                (agent.serve.say)(format!("{waits} (a second signal ends at once)"));
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

/// Creates the directory if it does not exist. Fails if other users can write there.
fn own_directory(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(io::Error::new(
                error.kind(),
                format!("{}: {error}", path.display()),
            ));
        }
        _ => {}
    }
    let found = fs::symlink_metadata(path)?;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    match found.is_dir() && is_ours && found.mode() & 0o022 == 0 {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "{} must be a directory that belongs to this user, and in which no other user may write",
            path.display()
        ))),
    }
}

struct AgentServer {
    serve: Serve,
    busy: Mutex<()>,
    guests: Arc<Guests>,
    /// Time of the last report about a peer that did not prove that it has the key.
    stranger: Mutex<Option<StdInstant>>,
}

/// Share of a run, whose plan and files have arrived.
pub(super) struct Ready {
    pub(super) plan: Plan,
    membership: AgentMembership,
}

/// Sockets at which the other agents reach this one.
struct Sockets {
    bound: BoundSocket,
    pins: Option<GpioPins>,
    tunnels: UdpSocket,
    key: TunnelKey,
    /// Sockets of this agent's engine; the keys are the names of the agents that use them.
    engines: BTreeMap<String, UdpSocket>,
    engine_key: [u8; 32],
    /// Listener for streams of the other agents, with their secret; `None` unless the agents act in
    /// turns.
    turns: Option<(TcpListener, Secret)>,
}

impl AgentServer {
    fn converse(&self, stream: TcpStream, from: SocketAddr, guest: &Guest) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        let greeted = greet(stream, Side::Agent, &self.serve.secret, PATIENCE);
        let (mut sender, mut receiver) = match greeted {
            Ok(both) => both,
            Err(error) => {
                self.tell_of_stranger(from, &error);
                return Ok(());
            }
        };
        receiver.patience(Some(PATIENCE))?;
        if !guest.prove() {
            let why = "it has too many open connections".to_owned();
            return sender.say(&FromAgent::Refused { why });
        }
        let prepare = match receiver.hear()? {
            ToAgent::Prepare(prepare) => prepare,
            ToAgent::Describe => {
                let busy = self.busy.is_locked();
                let said = self.serve.describe(busy);
                return sender.say(&FromAgent::Described(Box::new(said)));
            }
            _ => {
                return Err(io::Error::other(
                    "the first message of a run must describe the run",
                ));
            }
        };
        let Some(_busy) = self.take_turn() else {
            let why = "it is busy with another run".to_owned();
            return sender.say(&FromAgent::Refused { why });
        };
        let scratch = Scratch::create(&self.serve.directory)?;
        let files = scratch.path().join("files");
        fs::create_dir(&files)?;
        receive(&mut receiver, &prepare.files, MOST_BYTES_IN_ALL, |entry| {
            new_below(&files, entry)
        })?;
        let prepared = self.sockets(&prepare).and_then(|sockets| {
            let ready = ready(&prepare, &files)?;
            Ok((ready, sockets))
        });
        let (ready, sockets) = match prepared {
            Ok(both) => both,
            Err(unready) => {
                let why = unready.to_string();
                (self.serve.say)(format!("{from}: refused: {why}"));
                return sender.say(&FromAgent::Refused { why });
            }
        };
        let Sockets {
            bound,
            pins,
            tunnels,
            key,
            mut engines,
            engine_key,
            turns,
        } = sockets;
        let turns_port = turns.as_ref().map(|(listener, _)| listener.local_addr());
        let ports = engines.iter();
        let ports = ports.map(|(of, socket)| Ok((of.clone(), socket.local_addr()?.port())));
        let clock_error = self.serve.timeline.open().read().uncertainty;
        sender.say(&FromAgent::Prepared {
            bus: bound.address().map_err(io::Error::other)?.port(),
            tunnels: tunnels.local_addr()?.port(),
            turns: turns_port.transpose()?.map(|address| address.port()),
            engines: ports.collect::<io::Result<_>>()?,
            timeline: self.serve.timeline,
            clock_error_ns: clock_error.as_ns(),
        })?;
        receiver.patience(Some(TOGETHER_WITHIN))?;
        let ToAgent::Begin { members } = receiver.hear()? else {
            return Err(io::Error::other("the run did not begin"));
        };
        (self.serve.say)(format!("{from}: runs `{}`", ready.plan.name));
        let others = || members.iter().filter(|it| it.name != prepare.agent);
        let peer = |other: &AgentEndpoints| BusPeer {
            name: other.name.clone(),
            address: other.bus,
            late: false,
        };
        let patience = ready.membership.whole.placement.patience;
        let meeting = turns.map(|(listener, secret)| Meeting {
            listener,
            secret,
            addresses: others()
                .filter_map(|it| Some((it.name.clone(), it.turns?)))
                .collect(),
            patience: StdDuration::from_nanos(patience.as_ns().unsigned_abs()),
        });
        *lock(&ready.membership.peer_links) = Some(PeerLinks {
            meeting,
            bound,
            pins,
            peers: others().map(peer).collect(),
            socket: tunnels,
            key,
            tunnels: others().map(|it| (it.name.clone(), it.tunnels)).collect(),
            engines: (
                others()
                    .filter_map(|it| {
                        let there = it.engines.get(&prepare.agent)?;
                        let socket = engines.remove(&it.name)?;
                        let line = EngineLine {
                            socket,
                            remote: *there,
                            clocks_apart: clock_error + Duration::from_ns(it.clock_error_ns.max(0)),
                        };
                        Some((it.name.clone(), line))
                    })
                    .collect(),
                engine_key,
            ),
        });
        let interrupted = Arc::new(AtomicBool::new(false));
        guest.runs(Arc::clone(&interrupted));
        self.execute(&ready, scratch.path(), (sender, receiver), interrupted)?;
        (self.serve.say)(format!("{from}: done"));
        Ok(())
    }

    /// Reports a peer that did not prove that it has the key. The rate of reports is limited,
    /// because any host can connect.
    fn tell_of_stranger(&self, from: SocketAddr, error: &io::Error) {
        let mut last = lock(&self.stranger);
        if last.is_none_or(|last| last.elapsed() > STRANGER_EVERY) {
            *last = Some(StdInstant::now());
            (self.serve.say)(format!("{from}: {error}"));
        }
    }

    /// Acquires the right to execute a share. Waits for up to [`PATIENCE`], since the previous
    /// share may be about to end.
    fn take_turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.busy.try_lock_for(PATIENCE)
    }

    /// Opens the sockets at which the other agents reach this one.
    fn sockets(&self, prepare: &Prepare) -> Result<Sockets, Unready> {
        let nonce = timeloom_sys::seal::parse_key(&prepare.nonce);
        let nonce = nonce.ok_or(Unready::NoNumber)?;
        let (key, tunnel_key, engine_key) = self.serve.secret.of_run(&nonce);
        let plan = timeloom_scenario::parse(&prepare.plan, "the plan", &[])?;
        let any = SocketAddr::new(self.serve.address.ip(), 0);
        let settings = AgentMembership::settings(&plan);
        let bound = BoundSocket::listen(any, key, self.serve.timeline.open(), settings)?;
        let bound = match &plan.placement.group {
            None => bound,
            Some(group) => {
                let no_group = |error| Unready::Group(group.clone(), error);
                bound.join(group.parse().map_err(no_group)?)?
            }
        };
        let bind = || UdpSocket::bind(any).map_err(|error| Unready::Listen(any, error));
        let tunnels = bind()?;
        let others = plan.placement.agents.keys();
        let uses_sockets = plan.network.is_some() && !plan.takes_turns();
        let others = others.filter(|name| uses_sockets && **name != prepare.agent);
        let engines = others.map(|name| Ok((name.clone(), bind()?)));
        let engines = engines.collect::<Result<_, Unready>>()?;
        let listen = || TcpListener::bind(any).map_err(|error| Unready::Listen(any, error));
        let turns = plan.takes_turns().then(listen).transpose()?;
        Ok(Sockets {
            turns: turns.map(|listener| (listener, self.serve.secret.of_streams(&nonce))),
            bound,
            pins: pins(&plan, &prepare.agent)?,
            tunnels,
            key: tunnel_key,
            engines,
            engine_key,
        })
    }

    /// Executes the share and sends its results. Stays on the pause bus until no agent needs it any
    /// more.
    fn execute(
        &self,
        ready: &Ready,
        scratch: &Path,
        (sender, mut receiver): (Sender, Receiver),
        interrupted: Arc<AtomicBool>,
    ) -> io::Result<()> {
        let sender = Arc::new(Mutex::new(sender));
        let board = Arc::clone(&ready.membership.ready);
        match &ready.membership.time {
            AgentTime::Bus(_) => {
                let out = Arc::clone(&sender);
                board.tell(move |program| {
                    let program = program.to_owned();
                    // A failure means that the run is gone, and the share will be interrupted.
                    let _ = lock(&out).say(&FromAgent::Ready { program });
                });
            }
            AgentTime::Turns(turns) => {
                let turns = Arc::downgrade(turns);
                board.tell(move |program| {
                    if let Some(turns) = turns.upgrade() {
                        turns.announce(program);
                    }
                });
            }
        }
        receiver.patience(None)?;
        let hung_up = receiver.hang_up()?;
        let stop = Arc::clone(&interrupted);
        let listener = thread::spawn(move || {
            loop {
                match receiver.hear() {
                    Ok(ToAgent::Ready { program }) => board.hear(&program),
                    Ok(ToAgent::Stop) => stop.store(true, Ordering::SeqCst),
                    // The run is over, or the connection to it has ended.
                    _ => return stop.store(true, Ordering::SeqCst),
                }
            }
        });
        let _ended = EndOfTime(&ready.membership.time);
        let results = scratch.join("results");
        let options = self.options(
            ready.membership.name.as_str(),
            &results,
            &sender,
            &interrupted,
        );
        let ran = run_here(&ready.plan, options, &ready.membership);
        ready.membership.time.forget_run();
        let mut files = gather(&results);
        let ended = ShareResult {
            results: files.iter().map(entry).collect(),
            ..ended(ran)
        };
        let told = {
            let mut sender = lock(&sender);
            sender
                .say(&FromAgent::Ended(Box::new(ended)))
                .and_then(|()| send(&mut sender, &mut files))
        };
        // The other agents may not have reached the end yet, and still need this one on the pause
        // bus.
        let given_up = StdInstant::now() + ENDS_WITHIN;
        while told.is_ok() && !listener.is_finished() && StdInstant::now() < given_up {
            thread::sleep(LOOK_EVERY);
        }
        ready.membership.time.end();
        let _ = hung_up.shutdown(std::net::Shutdown::Both);
        let _ = listener.join();
        told
    }

    fn options(
        &self,
        name: &str,
        results: &Path,
        sender: &Arc<Mutex<Sender>>,
        interrupted: &Arc<AtomicBool>,
    ) -> RunOptions {
        let out = Arc::clone(sender);
        let end = Arc::clone(interrupted);
        let warnings = Arc::clone(sender);
        RunOptions {
            directory: results.to_owned(),
            replace: false,
            places: None,
            timeloom: self.serve.timeloom.clone(),
            session: self
                .serve
                .session
                .clone()
                .unwrap_or_else(|| name.to_owned()),
            interrupted: Arc::clone(interrupted),
            log_json: self.serve.log_json,
            progress: Box::new(move |progress| {
                let said = lock(&out).say(&FromAgent::Progress(lengths(progress)));
                if said.is_err() {
                    end.store(true, Ordering::SeqCst);
                }
            }),
            warn: Arc::new(move |text| {
                let _ = lock(&warnings).say(&FromAgent::Warning { text });
            }),
        }
    }
}

/// Guard that ends the agent's part in the time of all agents, even if its share panics.
struct EndOfTime<'a>(&'a AgentTime);

impl Drop for EndOfTime<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Reason why an agent cannot take its share of a plan.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unready {
    #[error("the run has no number")]
    NoNumber,
    #[error("the plan: {0}")]
    Plan(#[from] ScenarioErrors),
    #[error("the plan has no agent `{0}`")]
    NoAgent(String),
    #[error(transparent)]
    Bus(#[from] UdpError),
    #[error("{0}: {1}")]
    Group(String, AddrParseError),
    #[error("listening on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    #[error("the pins {0}: {1}")]
    PinNames(String, NoPins),
    #[error("the pins {0}: {1}")]
    Pins(String, io::Error),
    #[error("a directory for files: {0}")]
    Files(io::Error),
    /// This machine lacks a user or a program that the plan needs, described here.
    #[error("{0}")]
    Lacks(String),
}

/// Opens the agent's GPIO pins on the wire between the machines. Returns `None` if the plan gives
/// the agent no pins.
fn pins(plan: &Plan, agent: &str) -> Result<Option<GpioPins>, Unready> {
    let place = plan.placement.agents.get(agent);
    let Some(names) = place.and_then(|place| place.gpio.as_ref()) else {
        return Ok(None);
    };
    let no_names = |error| Unready::PinNames(names.clone(), error);
    let parsed: PinNames = names.parse().map_err(no_names)?;
    let failed = |error| Unready::Pins(names.clone(), error);
    let pins = GpioPins::open(&parsed).map_err(failed)?;
    // The result is not used: a level that is already high proves nothing, because another agent
    // may be testing its own pin on the same wire.
    prove(&pins, plan.placement.gpio_stuck).map_err(failed)?;
    Ok(Some(pins))
}

/// Returns the share of an agent, whose files are all stored below `files`.
///
/// # Errors
/// Returns an error that names the fault of the plan, or what this machine lacks.
pub(super) fn ready(prepare: &Prepare, files: &Path) -> Result<Ready, Unready> {
    let whole = timeloom_scenario::parse(&prepare.plan, "the plan", &[])?;
    if !whole.placement.agents.contains_key(&prepare.agent) {
        return Err(Unready::NoAgent(prepare.agent.clone()));
    }
    let mut part = whole.part(&prepare.agent);
    let mirror = Mirror {
        root: files,
        files: &prepare.files,
    };
    mirror.apply(&mut part.plan).map_err(Unready::Files)?;
    if let Some(lacks) = lacking(&part.plan) {
        return Err(Unready::Lacks(lacks));
    }
    let ready = Arc::new(ReadyBoard::default());
    Ok(Ready {
        membership: AgentMembership {
            name: NodeName::from(prepare.agent.as_str()),
            time: AgentTime::of(&prepare.agent, &whole, &part.plan, &ready),
            whole,
            ends: part.tunnels,
            ready,
            peer_links: Mutex::new(None),
        },
        plan: part.plan,
    })
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock()
}

/// Timeout of the exchanges at the start of a conversation.
const PATIENCE: StdDuration = StdDuration::from_secs(10);
/// Time within which all agents must have received all their files.
const TOGETHER_WITHIN: StdDuration = StdDuration::from_secs(600);
/// Timeout of the exchanges at the end of a conversation.
const ENDS_WITHIN: StdDuration = StdDuration::from_secs(120);
const LOOK_EVERY: StdDuration = StdDuration::from_millis(50);
const STRANGER_EVERY: StdDuration = StdDuration::from_secs(10);
