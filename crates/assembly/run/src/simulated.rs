//! Simulated network of a run: its engines, the portals at the stations, and the captures. The
//! network has one engine or several, and each engine is a thread or a process.

mod alone;
mod captures;
mod changes;
mod ending;
mod engine;
mod engines;
mod history;
mod message;
mod process;
mod surroundings;
mod tcp_timers;
mod traffic;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use timeloom_emulation::{
    Address, ArrivalCallback, EngineGroup, FollowedClock, PacketOptions, PacketPort, Port, Portals,
    Tap,
};
use timeloom_fabric::{Fabric, LossDetection};
use timeloom_guest::Clock;
use timeloom_net::{Node, Owner};
use timeloom_results::{Caveat, Remedy};
use timeloom_results::{NodeKind, Topology};
use timeloom_scenario::{EngineFailure, Fault, Mode, NETWORK, Parts, Plan, Simulated};
use timeloom_time::{ClockMap, Instant, Virtual, Wall};

use crate::awaited;
use crate::error::RunError;
use crate::network;
use crate::network_signals::{self, NetworkObservation, Speaker};
use crate::node::{FinalFlows, Sample, SampleCallback, SampleChannel};
use crate::numbers::Numbers;
use crate::record::RunRecorder;
pub use alone::{EngineError, serve_engine};
use captures::Captures;
use changes::ModelEngines;
pub(crate) use changes::ModelLinks;
use ending::Closing;
use engine::{Engine, EngineReport, Outlets, Pacing, Running};
use engines::Lines;
use history::Known;
use message::{ClockNow, Sort, Start};
pub(crate) use process::EngineConnections;
use process::{Process, Sinks};
pub(crate) use surroundings::Surroundings;
pub(crate) use tcp_timers::AskedOfTcp;
use timeloom_sys::seal::draw;
use traffic::Flow;

/// Simulated network that is running.
pub(crate) struct Network {
    /// Engines of this machine. They are ended before the captures.
    seats: Vec<(Owner, Seat)>,
    captures: Vec<JoinHandle<()>>,
    signals: JoinHandle<()>,
    traffic: Vec<Flow>,
    parts: Option<Parts>,
    /// All engines, if they are processes that may leave and join; `None` otherwise.
    engine_connections: Option<Arc<EngineConnections>>,
    /// Engines that announce their next event, where time skips or is granted.
    group: Option<EngineGroup>,
    /// Links that clients can change; `None` until all engines have been started.
    links: Option<ModelLinks>,
    idle: Arc<AtomicBool>,
    /// Channel of the nodes that combine the samples of their engines; `None` if this node records
    /// those of its own.
    samples: Option<Arc<dyn SampleChannel>>,
    /// Final statistics that come from other nodes, and the number of those nodes.
    final_flows: (Arc<FinalFlows>, usize),
}

/// An engine, and the place where it runs.
enum Seat {
    Thread(Box<Running>),
    Process(Process),
}

/// Clock of the session, which the emulation follows.
#[derive(Clone)]
struct SessionClock {
    clock: Arc<Clock>,
    idle: Arc<AtomicBool>,
}

impl FollowedClock for SessionClock {
    fn map(&self) -> ClockMap<Wall, Virtual> {
        self.clock.map()
    }

    fn map_and_stop(&self) -> (ClockMap<Wall, Virtual>, Instant<Virtual>) {
        self.clock.map_and_stop()
    }

    fn asleep(&self, next: Option<Instant<Virtual>>) {
        self.clock.announce(next);
        self.idle.store(true, Ordering::SeqCst);
    }

    fn awake(&self) {
        self.idle.store(false, Ordering::SeqCst);
    }
}

impl Network {
    /// Starts this machine's part of the simulated network, and connects the fabric's stations to
    /// it.
    pub(crate) fn start(
        plan: &Plan,
        simulated: Simulated,
        around: &Surroundings<'_>,
    ) -> Result<Self, RunError> {
        let own = around.membership.engine(&simulated)?;
        let run_recorder = around.run_recorder;
        let captures = Captures::start(
            plan,
            (&simulated, own),
            around.directory,
            around.civil_start,
            run_recorder,
        )?;
        let (signals, topology) = network_signals::start(plan, &simulated, run_recorder);
        around.directory.write_topology(&topology)?;
        // One agent of several tells of the network, which is the same for all.
        if own.is_none_or(|own| own == 0) {
            run_recorder.own_event(NETWORK, "topology", &counted(&topology));
        }
        let traffic = Flow::all(plan, &simulated);
        let speakers = (0..).zip(signals.speakers);
        let (speakers, others): (Vec<_>, Vec<_>) =
            speakers.partition(|(here, _)| own.is_none_or(|own| own == *here));
        let samples = around.membership.samples();
        let final_flows = Arc::new(FinalFlows::default());
        let collector = samples.as_ref().filter(|it| it.collects());
        let awaited = collector.map_or(0, |channel| {
            let count = others.len();
            channel.receive(collect(others, Arc::clone(&final_flows)));
            count
        });
        let mut network = Self {
            seats: Vec::new(),
            captures: Vec::new(),
            signals: signals.writer,
            traffic,
            parts: simulated.parts.clone(),
            engine_connections: None,
            group: None,
            links: None,
            idle: Arc::new(AtomicBool::new(false)),
            samples,
            final_flows: (final_flows, awaited),
        };
        let settings = plan.network.as_ref().and_then(|it| it.engines.as_ref());
        let are_processes = settings.is_some_and(|settings| settings.processes);
        match are_processes {
            false => network.threads(plan, &simulated, speakers, &captures, around)?,
            true => network.processes(plan, &simulated, speakers, &captures, around)?,
        }
        network.captures = captures.threads;
        let engines = network.changeable();
        network.links = Some(ModelLinks::new(
            &simulated,
            engines,
            own.is_none_or(|own| own == 0),
        ));
        Ok(network)
    }

    /// Starts all engines of this machine as threads.
    fn threads(
        &mut self,
        plan: &Plan,
        simulated: &Simulated,
        speakers: Vec<(Owner, Speaker)>,
        captures: &Captures,
        around: &Surroundings<'_>,
    ) -> Result<(), RunError> {
        let mut remote = around.membership.engine_lines();
        let several = self.parts.as_ref().filter(|_| remote.is_none());
        let lines = several.map(Lines::of_rings).transpose();
        let mut lines = lines.map_err(no_line)?;
        let follow = SessionClock {
            clock: Arc::clone(around.clock),
            idle: Arc::clone(&self.idle),
        };
        let announces = plan.time.skips() || plan.time.mode == Mode::Stepped;
        // One of the engines of a run over several nodes is a group of its own.
        let engines = several.map_or(1, |parts| parts.cut().engines());
        let is_whole = several.is_some();
        let group = || EngineGroup::new(engines, Box::new(follow.clone()));
        self.group = announces.then(group);
        for (here, speaker) in speakers {
            let engine = Engine {
                plan,
                simulated,
                here,
            };
            let mut portals = Portals::new();
            for plug in plugs(engine, around.fabric)? {
                let joined = portals.join(plug.node, &plug.name, plug.port, Default::default());
                joined.map_err(failed)?;
                if let Some(card) = around.cards.get(&plug.name) {
                    portals.stamp(plug.node, Arc::clone(card));
                }
                let station = around.fabric.station(&plug.name);
                let is_host = plug.sort == Sort::Tap && plan.time.skips();
                let detection = station.filter(|_| is_host).map(LossDetection::of);
                match detection.transpose() {
                    Ok(None) => {}
                    Ok(Some(detection)) => portals.wait_for(plug.node, detection),
                    // The manifest says so.
                    Err(error) if error.missing().is_some() => {}
                    Err(error) => return Err(failed(error)),
                }
            }
            let engine_links = match (remote.take(), self.parts.as_ref()) {
                (Some(remote), Some(parts)) => {
                    Some(engines::ways_to_agents(engine, parts, remote, around)?)
                }
                _ => lines
                    .as_mut()
                    .map(|lines| engines::engine_links(lines.of(here))),
            };
            let group = self.group.as_ref();
            let pacing = Pacing {
                member: group.map(|group| group.member(if is_whole { here } else { 0 })),
                clock: Box::new(follow.clone()),
                civil_start: around.civil_start,
            };
            let view = network_signals::view(plan, simulated, here);
            let noted = around.run_recorder.clone();
            let elsewhere = self.samples.clone().filter(|channel| !channel.collects());
            let outlets = Outlets {
                capture: captures.of_engine(),
                passed: captures.progress(here),
                sample: Box::new(move |at, world, adjacencies| {
                    let seen = view.look(at, world, adjacencies);
                    match &elsewhere {
                        None => speaker.saw(at, seen),
                        Some(channel) => {
                            let mut numbers = Vec::new();
                            seen.put(&mut numbers);
                            channel.send(Sample::Observation(at.as_ns(), numbers));
                        }
                    }
                }),
                note: Box::new(move |note| noted.note(note)),
                died: engines::died(engine, around.run_recorder, around.reporter),
                cubic: around.cubic.cloned(),
            };
            let running = engine.start(portals, engine_links, pacing, outlets)?;
            around.clock.on_change(running.emulation.waker());
            around
                .membership
                .on_turn(Box::new(running.emulation.waker()));
            self.seats.push((here, Seat::Thread(Box::new(running))));
        }
        Ok(())
    }

    /// Starts all engines of this machine, each as a process. The engines wait for one another.
    fn processes(
        &mut self,
        plan: &Plan,
        simulated: &Simulated,
        speakers: Vec<(Owner, Speaker)>,
        captures: &Captures,
        around: &Surroundings<'_>,
    ) -> Result<(), RunError> {
        let settings = plan.network.as_ref().and_then(|it| it.engines.as_ref());
        let Some((parts, settings)) = self.parts.as_ref().zip(settings) else {
            return Err(RunError::Plan("engines without parts".to_owned()));
        };
        let mut lines = Lines::of_sockets(parts).map_err(no_line)?;
        let key = draw().map_err(|error| RunError::Start(format!("drawing a key: {error}")))?;
        let text = plan.to_toml();
        let engine_connections = Arc::new(EngineConnections::default());
        let mut all = Vec::new();
        for (here, speaker) in speakers {
            let engine = Engine {
                plan,
                simulated,
                here,
            };
            let sockets = lines.of(here);
            let plugs = plugs(engine, around.fabric)?;
            let start = Start {
                here,
                name: parts.names[usize::from(here)].clone(),
                plan: text.clone(),
                digest: digest(simulated),
                key,
                encrypts: settings.encrypt,
                // The next five fields are set each time a process of the engine starts.
                epoch: 0,
                late: false,
                absent: Vec::new(),
                changes: Vec::new(),
                clock: ClockNow::of(around.clock.map_and_stop()),
                civil_start_ns: around.civil_start.as_ns(),
                plugs: plugs
                    .iter()
                    .map(|plug| (plug.name.clone(), plug.sort))
                    .collect(),
                lines: sockets.iter().map(|(there, _)| *there).collect(),
            };
            let sinks = Sinks {
                speaker,
                capture: captures.of_engine(),
                run_recorder: around.run_recorder.clone(),
                died: engines::died(engine, around.run_recorder, around.reporter),
                comes_back: settings.failure == EngineFailure::Restart,
                engine_connections: Arc::clone(&engine_connections),
            };
            let ports = plugs.into_iter().map(|plug| plug.port).collect();
            let (program, clock) = ((around.timeloom, around.log_json), around.clock);
            let process = Process::start(program, start, ports, sockets, clock, sinks)?;
            all.push((here, process));
        }
        for (here, process) in all {
            process.wait_until_ready()?;
            self.seats.push((here, Seat::Process(process)));
        }
        self.engine_connections = Some(engine_connections);
        Ok(())
    }

    /// Returns access to all engines, for changes of their links.
    fn changeable(&self) -> ModelEngines {
        if let Some(engines) = &self.engine_connections {
            return ModelEngines::Processes(Arc::clone(engines));
        }
        let count = self.parts.as_ref().map_or(1, |parts| parts.names.len());
        if self.seats.len() < count {
            return ModelEngines::Spread;
        }
        let remotes = self.seats.iter().filter_map(|(_, seat)| match seat {
            Seat::Thread(running) => Some(running.emulation.remote()),
            Seat::Process(_) => None,
        });
        ModelEngines::Threads(remotes.collect())
    }

    /// Takes the links that clients can change.
    pub(crate) fn take_links(&mut self) -> Option<ModelLinks> {
        self.links.take()
    }

    /// Returns the engines that may leave and join during the run; `None` if no engine may.
    pub(crate) fn engine_connections(&self) -> Option<Arc<EngineConnections>> {
        self.engine_connections.clone()
    }

    /// Returns the engines of this machine, if they announce their next event together.
    pub(crate) fn engines(&self) -> Option<awaited::Engines> {
        let names = self.parts.as_ref().filter(|_| self.seats.len() > 1);
        Some(awaited::Engines {
            group: self.group.clone()?,
            names: names.map_or_else(Vec::new, |parts| parts.names.clone()),
        })
    }

    /// Returns a flag that is true while the network has no work before the instant that it
    /// announced.
    pub(crate) fn quiet(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.idle)
    }

    /// Returns a function that lets the network run ahead of a stopped clock; see
    /// `portal::EngineGroup::ahead`.
    pub(crate) fn ahead(
        &self,
    ) -> Option<impl Fn(Instant<Virtual>, ArrivalCallback) -> bool + Send + Sync + use<>> {
        let engines = self.seats.iter().filter_map(|(_, seat)| match seat {
            Seat::Thread(running) => Some(&running.emulation),
            // Time does not skip if engines are processes.
            Seat::Process(_) => None,
        });
        let engines: Vec<_> = engines.collect();
        Some(self.group.as_ref()?.ahead(&engines))
    }

    /// Ends the network and records its events. Returns reasons why the results cannot be trusted.
    pub(crate) fn stop(mut self, asked: &AskedOfTcp, run_recorder: &RunRecorder) -> Vec<Caveat> {
        for (_, seat) in &self.seats {
            if let Seat::Process(process) = seat {
                process.end();
            }
        }
        let what = match self.seats.first() {
            Some((_, Seat::Process(_))) => "process",
            _ => "thread",
        };
        let seats = self.seats.drain(..);
        let ended: Vec<(Owner, (EngineReport, Known))> = seats
            .map(|(here, seat)| match seat {
                Seat::Thread(running) => (here, (running.finish(), Known::default())),
                Seat::Process(process) => (here, process.finish()),
            })
            .collect();
        for (_, (ended, _)) in &ended {
            for (kind, text) in &ended.told {
                run_recorder.own_event("network", kind, text);
            }
        }
        let mut ended = ended;
        let mut incomplete = None;
        let own = ended.len();
        if let Some(channel) = self.samples.take() {
            let flows = ended.iter().flat_map(|(_, (it, _))| it.flow_numbers());
            match channel.collects() {
                false => channel.send(Sample::Flows(flows.copied().collect())),
                true => {
                    let others = self.flows_of_others(&*channel);
                    if others.len() < self.final_flows.1 {
                        let reason = "Another agent has not sent the final statistics of its \
                                      traffic, so those of flows to it are incomplete.";
                        incomplete = Some(Caveat::new(reason.to_owned(), RUN_AGAIN));
                    }
                    ended.extend(others);
                    channel.close();
                }
            }
        }
        traffic::tell(&self.traffic, &ended, run_recorder);
        ended.truncate(own);
        for thread in self.captures.drain(..) {
            let _ = thread.join();
        }
        let _ = self.signals.join();
        let ended = ended.into_iter();
        let closings = ended.map(|(here, (ended, known))| (here, ended.closing, known));
        let closings: Vec<_> = closings.collect();
        let of_engines = closings
            .iter()
            .filter_map(|(_, closing, _)| closing.as_ref());
        let timers: Vec<_> = of_engines.flat_map(Closing::tcp_timers).collect();
        let mut doubts = ending::tell(closings, (self.parts.as_ref(), what), run_recorder);
        doubts.extend(asked.doubts(&timers));
        doubts.extend(incomplete);
        doubts
    }
}

const RUN_AGAIN: Remedy =
    Remedy::new("Repeat the run; `timeloom query --why` on the other agents says what they await.");

impl Network {
    /// Returns the final reports of other nodes' engines, of which only the flows are known.
    fn flows_of_others(&self, channel: &dyn SampleChannel) -> Vec<(Owner, (EngineReport, Known))> {
        let (final_flows, count) = &self.final_flows;
        if !channel.is_open() {
            return Vec::new();
        }
        let all = final_flows.wait(*count, OTHERS_END_WITHIN).into_iter();
        let reports = all.filter_map(|(node, flows)| {
            let here = Owner::try_from(node).ok()?;
            Some((here, (EngineReport::of_flows(flows), Known::default())))
        });
        reports.collect()
    }
}

/// Returns the callback that passes the samples of other nodes' engines on to `speakers`.
fn collect(speakers: Vec<(Owner, Speaker)>, final_flows: Arc<FinalFlows>) -> SampleCallback {
    let mut speakers: BTreeMap<usize, Speaker> = speakers
        .into_iter()
        .map(|(engine, speaker)| (usize::from(engine), speaker))
        .collect();
    Box::new(move |node, sample| match sample {
        Some(Sample::Observation(at_ns, numbers)) => {
            let seen = NetworkObservation::take(&mut numbers.into_iter());
            if let Some((speaker, seen)) = speakers.get(&node).zip(seen) {
                speaker.saw(Instant::from_ns(at_ns), seen);
            }
        }
        Some(Sample::Flows(flows)) => {
            speakers.remove(&node);
            final_flows.end(node, Some(flows));
        }
        None => {
            speakers.remove(&node);
            final_flows.end(node, None);
        }
    })
}

/// Wall time within which other nodes end their engines, after this one.
const OTHERS_END_WITHIN: Duration = Duration::from_secs(20);

/// Portal to be created by an engine's process: name and node of its station, and its port.
struct Plug {
    name: String,
    node: Node,
    sort: Sort,
    port: Box<dyn Port>,
}

/// Returns the nodes at which an engine has portals: name, node, and kind of the port.
fn plugged(engine: Engine<'_>) -> impl Iterator<Item = (String, Node, Sort)> {
    let (plan, simulated) = (engine.plan, engine.simulated);
    let stations = plan.system.hosts.keys().chain(plan.system.devices.keys());
    let stations = stations.filter(|name| !plan.is_real(name)).map(|name| {
        // A host that is alone needs no network, and has no port.
        (name.clone(), simulated.nodes[name], Sort::Tap)
    });
    let stations = stations.filter(|(_, node, _)| simulated.world.port_of(*node).is_some());
    let uplinks = simulated.uplinks.iter();
    let uplinks = uplinks.map(|(index, node)| (network::uplink(*index), *node, Sort::Packet));
    stations
        .chain(uplinks)
        .filter(move |(_, node, _)| engine.owns(*node))
}

/// Creates the ports of an engine's portals.
fn plugs(engine: Engine<'_>, fabric: &Fabric) -> Result<Vec<Plug>, RunError> {
    let simulated = engine.simulated;
    let plug = |(name, node, sort): (String, Node, Sort)| {
        let station = fabric
            .station(&name)
            .expect("every host and uplink of a checked plan is a station");
        let port: Box<dyn Port> = match sort {
            Sort::Tap => {
                let address = address(simulated, &name).expect("it has a port");
                let tap = Tap::create(station, "eth0", &address).map_err(failed)?;
                let port = simulated.world.port_of(node).expect("it has an address");
                let mtu = simulated.world.mtu(port);
                if mtu < u16::MAX {
                    tap.set_mtu(mtu).map_err(failed)?;
                }
                Box::new(tap)
            }
            Sort::Packet => {
                let port = PacketPort::open(station, "eth0", PacketOptions::default());
                Box::new(port.map_err(failed)?)
            }
        };
        Ok(Plug {
            name,
            node,
            sort,
            port,
        })
    };
    plugged(engine).map(plug).collect()
}

/// Returns the topology of a plan's simulated network; `None` if it has none.
pub(crate) fn topology(plan: &Plan) -> Result<Option<Topology>, RunError> {
    let simulated = built(plan.simulated())?;
    Ok(simulated.map(|simulated| network_signals::topology_of(plan, &simulated)))
}

fn failed(error: impl std::fmt::Display) -> RunError {
    RunError::Start(format!("the simulated network: {error}"))
}

fn no_line(error: std::io::Error) -> RunError {
    RunError::Start(format!("a line between two engines: {error}"))
}

/// Returns a digest of the network's structure. Two processes may exchange node numbers only if
/// their digests are equal.
fn digest(simulated: &Simulated) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let world = &simulated.world;
    for node in 0..world.nodes() as u32 {
        hasher.update(world.name(Node(node)).as_bytes());
        hasher.update(&[0]);
    }
    let owners = simulated
        .parts
        .iter()
        .flat_map(|parts| parts.cut().owners().iter());
    for owner in owners {
        hasher.update(&owner.to_le_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// Returns the network, or `None` if the plan has no simulated network.
pub(crate) fn built(made: Option<Result<Simulated, Fault>>) -> Result<Option<Simulated>, RunError> {
    let wrong =
        |fault: Fault| RunError::Plan(format!("{}: {}", fault.path.join("."), fault.message));
    made.transpose().map_err(wrong)
}

fn address(simulated: &Simulated, name: &str) -> Option<Address> {
    Address::of(&simulated.world, simulated.nodes[name])
}

fn counted(topology: &Topology) -> String {
    let nodes = |kind| {
        topology
            .nodes
            .iter()
            .filter(|node| node.kind == kind)
            .count()
    };
    format!(
        "{} real and {} simulated hosts, {} switches, {} routers, {} links, {} simulated flows",
        nodes(NodeKind::Real),
        nodes(NodeKind::Host),
        nodes(NodeKind::Switch),
        nodes(NodeKind::Router),
        topology.links.len(),
        topology.flows.len()
    )
}
