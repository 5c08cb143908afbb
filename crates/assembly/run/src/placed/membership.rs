//! State of a run that is one agent's share of a distributed run, with a common virtual time.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use timeloom_agreement::Settings;
use timeloom_bus::{
    AgreedWire, AwaitedMachine, BoundSocket, BusBuilder, BusPeer, Cause, GpioPins, HaltReason,
    LineSettings, MachineWire, NetworkedWire, StoppingWire, TestbedError, UdpError, Wire,
};
use timeloom_emulation::{
    FollowedClock, PacketOptions, PacketPort, TunnelCarrier, TunnelConfig, TunnelKey, TunnelPeer,
    TunnelReport, Tunnels,
};
use timeloom_fabric::{Fabric, MacAddress};
use timeloom_guest::{Clock, HoldError, Session, SharedOrder};
use timeloom_net::Owner;
use timeloom_results::{Caveat, ClockAction, Remedy};
use timeloom_scenario::{Mode, Plan, Simulated, TunnelEnd};
use timeloom_time::{ClockMap, Dilation, Duration, Instant, Virtual, Wall};

use super::turns::{AgentTurns, Agents, MeetError, Meeting};
use crate::agreed::{self, AgreedSession};
use crate::awaited::{AwaitedPeers, Components};
use crate::error::RunError;
use crate::network;
use crate::node::{
    EngineLine, EngineLines, Membership, NodeName, ReadyBoard, SampleChannel, UserPauses,
};
use crate::record::RunRecorder;

/// State that an agent's run has in addition to its share of the plan.
pub(crate) struct AgentMembership {
    /// Name of this agent in the run.
    pub(crate) name: NodeName,
    /// Whole plan, of which this agent runs a share.
    pub(crate) whole: Plan,
    /// This agent's ends of the links to other agents.
    pub(crate) ends: Vec<TunnelEnd>,
    /// Connection of the agents' virtual times. It outlives the run, because other agents may still
    /// need an answer.
    pub(crate) time: AgentTime,
    /// Board of the programs that are ready, on all agents.
    pub(crate) ready: Arc<ReadyBoard>,
    /// Connections to the other agents; taken by the part of the run that uses them.
    pub(crate) peer_links: Mutex<Option<PeerLinks>>,
}

/// Connection of an agent's virtual time to those of the others.
#[derive(Clone)]
pub(crate) enum AgentTime {
    /// Clocks run side by side, and pauses are agreed on.
    Bus(Arc<AgentBus>),
    /// Clocks move from event to event, in one order.
    Turns(Arc<AgentTurns>),
}

impl AgentTime {
    /// Returns the way in which agent `name` shares time in a run of the plan `whole`, of which it
    /// executes `share`.
    pub(crate) fn of(name: &str, whole: &Plan, share: &Plan, ready: &Arc<ReadyBoard>) -> Self {
        if !whole.takes_turns() {
            return Self::Bus(Arc::default());
        }
        let names: Vec<String> = whole.placement.agents.keys().cloned().collect();
        let me = names.iter().position(|it| it == name).unwrap_or_default();
        // Of events at one instant, arrivals come first, then programs in the order of their hosts
        // in the whole plan. Number 0 of a session is the host of programs without a host.
        let position = |host: &String| whole.system.hosts.keys().position(|it| it == host);
        let hosts = share.system.hosts.keys();
        let hosts = hosts.map(|host| 2 + position(host).unwrap_or_default() as u32);
        let ranks = std::iter::once(1).chain(hosts).collect();
        let agents = Agents {
            awaited: names.iter().map(|agent| awaited(whole, agent)).collect(),
            lookahead: lookahead(whole),
            names,
            ranks,
        };
        Self::Turns(AgentTurns::new(me, agents, Arc::clone(ready)))
    }

    /// Releases what belongs to this agent's run, which has ended or failed.
    pub(crate) fn forget_run(&self) {
        if let Self::Turns(turns) = self {
            turns.forget_run();
        }
    }

    /// Ends this agent's part. Other agents must not need it any more.
    pub(crate) fn end(&self) {
        match self {
            Self::Bus(bus) => bus.end(),
            Self::Turns(turns) => turns.end(),
        }
    }
}

/// Returns the programs of an agent for which programs of other agents wait.
fn awaited(whole: &Plan, agent: &str) -> BTreeSet<String> {
    let is_here = |host: &str| whole.placement.of_node(host) == agent;
    let elsewhere = whole.programs().filter(|(host, _)| !is_here(host));
    let awaited: BTreeSet<&String> = elsewhere.flat_map(|(_, program)| &program.after).collect();
    let own = whole.programs().filter(|(host, _)| is_here(host));
    let own = own.map(|(_, program)| &program.name);
    own.filter(|name| awaited.contains(name)).cloned().collect()
}

/// Returns the time that packets take at least from one agent to another: the shortest delay of a
/// link between them. Links of the kernel have none.
fn lookahead(whole: &Plan) -> Duration {
    let simulated = whole.simulated().and_then(Result::ok);
    let parts = simulated.and_then(|simulated| simulated.parts);
    parts.map_or(Duration::ZERO, |parts| parts.cut().lookahead())
}

/// Connections to the other agents.
pub(crate) struct PeerLinks {
    pub(crate) bound: BoundSocket,
    /// GPIO pins of this agent on the wire between the machines; `None` if the plan gives it none.
    pub(crate) pins: Option<GpioPins>,
    pub(crate) peers: Vec<BusPeer>,
    pub(crate) socket: UdpSocket,
    pub(crate) key: TunnelKey,
    /// Addresses at which the other agents receive tunnelled frames, by agent.
    pub(crate) tunnels: BTreeMap<String, SocketAddr>,
    /// Sockets and addresses of the agents' streams; `None` unless the agents act in turns.
    pub(crate) meeting: Option<Meeting>,
    /// Sockets of this agent's engine to those of the other agents, and their key.
    pub(crate) engines: (BTreeMap<String, EngineLine>, [u8; 32]),
}

/// Error because of which virtual time cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoStart {
    #[error("it has begun already")]
    Twice,
    #[error(transparent)]
    Bus(#[from] UdpError),
    #[error("the wire: {0}")]
    Wire(io::Error),
    #[error(transparent)]
    Halted(#[from] HaltReason),
    #[error("interrupted while waiting for the other agents")]
    Interrupted,
    #[error(transparent)]
    Meeting(#[from] MeetError),
}

/// Pause bus of an agent's run. It can be used once all agents are present.
#[derive(Default)]
pub(crate) struct AgentBus {
    wire: OnceLock<Arc<dyn MachineWire>>,
    /// True if the run ends before time has begun. No hold then waits for other agents any more.
    given_up: AtomicBool,
}

impl AgentBus {
    /// Returns the other agents that a pause waits for.
    fn awaited(&self) -> Vec<AwaitedMachine> {
        self.wire.get().map_or_else(Vec::new, |wire| wire.awaited())
    }

    /// Leaves the bus, which ends this agent's part in pauses.
    pub(crate) fn end(&self) {
        if let Some(wire) = self.wire.get() {
            wire.end();
        }
    }
}

impl Wire for AgentBus {
    fn raise(&self, cause: Cause<'_>) -> Result<Instant<Virtual>, TestbedError> {
        let is_open = !self.given_up.load(Ordering::SeqCst);
        match self.wire.get().filter(|_| is_open) {
            Some(wire) => wire.raise(cause),
            None => Err(TestbedError::new(NOT_CONNECTED)),
        }
    }

    fn lower(&self, cause: Cause<'_>, at: Instant<Virtual>) -> Result<(), TestbedError> {
        match self.wire.get() {
            Some(wire) => wire.lower(cause, at),
            None => Ok(()),
        }
    }

    fn stopping(&self) -> Option<&dyn StoppingWire> {
        self.wire.get()?.stopping()
    }

    fn agreed(&self) -> Option<&dyn AgreedWire> {
        self.wire.get()?.agreed()
    }
}

const NOT_CONNECTED: &str = "the agents are not connected to each other yet";

/// Clock of the session, for tunnels that follow it.
struct SessionClock(Arc<Clock>);

impl FollowedClock for SessionClock {
    fn map(&self) -> ClockMap<Wall, Virtual> {
        self.0.map()
    }

    fn map_and_stop(&self) -> (ClockMap<Wall, Virtual>, Instant<Virtual>) {
        self.0.map_and_stop()
    }

    fn asleep(&self, next: Option<Instant<Virtual>>) {
        self.0.announce(next);
    }
}

impl AgentMembership {
    /// Returns the settings of the pause bus for the agents of a plan.
    pub(super) fn settings(plan: &Plan) -> Settings {
        let placement = &plan.placement;
        Settings {
            // The plan's dilations are within the bounds.
            dilation: Dilation::new(plan.time.dilation).unwrap_or(Dilation::ONE),
            ..agreed::settings(placement.look_ahead, placement.patience)
        }
    }

    /// Announces that this run is prepared, and waits until all agents are prepared and time has
    /// begun.
    ///
    /// # Errors
    /// Fails if not all agents join, or if the run is interrupted before time begins.
    fn connect(
        &self,
        bus: &AgentBus,
        session: &Arc<Session>,
        run_recorder: &RunRecorder,
        interrupted: &AtomicBool,
    ) -> Result<(), NoStart> {
        let mut peer_links = self.peer_links.lock();
        let peer_links = peer_links.take().ok_or(NoStart::Twice)?;
        let told = run_recorder.clone();
        let told = Box::new(move |pause: &_| told.agreed_pause(pause));
        let timeline = Some(peer_links.bound.timeline());
        let testbed = AgreedSession::new(Arc::clone(session), timeline, Some(told));
        let udp = peer_links.bound.start(
            self.name.as_str(),
            false,
            &peer_links.peers,
            Arc::new(testbed),
        );
        let udp = udp?;
        let wire: Arc<dyn MachineWire> = match peer_links.pins {
            None => Arc::new(udp),
            Some(pins) => {
                let (run_recorder, name) = (run_recorder.clone(), self.name.clone());
                let warn = Box::new(move |text: &str| {
                    run_recorder.own_event(name.as_str(), "wire", text);
                });
                let wired = NetworkedWire::start(udp, Arc::new(pins), self.line_settings(), warn);
                Arc::new(wired.map_err(NoStart::Wire)?)
            }
        };
        // This method is called only once.
        let _ = bus.wire.set(Arc::clone(&wire));
        let give_up = || interrupted.load(Ordering::SeqCst);
        // Granted time starts with the first grant, and a period is agreed on before it begins.
        let time = &self.whole.time;
        let is_granter = time.mode == Mode::Stepped && self.is_granted_time();
        let is_open = match is_granter || time.period.is_some() {
            true => wire.hold_start_or(&give_up)?,
            false => wire.wait_for_start_or(&give_up)?,
        };
        match is_open {
            true => Ok(()),
            false => {
                bus.given_up.store(true, Ordering::SeqCst);
                Err(NoStart::Interrupted)
            }
        }
    }

    fn line_settings(&self) -> LineSettings {
        let placement = &self.whole.placement;
        LineSettings {
            debounce: placement.gpio_debounce,
            stuck: placement.gpio_stuck,
        }
    }
}

impl Membership for AgentMembership {
    fn name(&self) -> NodeName {
        self.name.clone()
    }

    fn ready(&self) -> &ReadyBoard {
        &self.ready
    }

    fn whole<'a>(&'a self, _share: &'a Plan) -> &'a Plan {
        &self.whole
    }

    fn ends(&self) -> &[TunnelEnd] {
        &self.ends
    }

    fn macs(&self) -> BTreeMap<String, MacAddress> {
        // Two machines must not assign the same address to two stations.
        network::macs(&self.whole)
    }

    fn stores_inputs(&self) -> bool {
        // The machine that started the run stores them.
        false
    }

    fn engine(&self, simulated: &Simulated) -> Result<Option<Owner>, RunError> {
        let name = self.name.as_str();
        let names = simulated.parts.as_ref().map_or(&[][..], |it| &it.names);
        let own = (0..).zip(names).find(|(_, of)| *of == name);
        own.map(|(here, _)| Some(here))
            .ok_or_else(|| RunError::Plan(format!("agent {name} has no engine")))
    }

    fn engine_lines(&self) -> Option<EngineLines> {
        if let AgentTime::Turns(turns) = &self.time {
            return Some(EngineLines::Streams(
                Arc::clone(turns) as _,
                turns.numbers(),
            ));
        }
        let mut peer_links = self.peer_links.lock();
        let lines = peer_links.as_mut();
        let (lines, key) = lines
            .map(|it| std::mem::take(&mut it.engines))
            .unwrap_or_default();
        Some(EngineLines::Sockets(lines, key))
    }

    fn samples(&self) -> Option<Arc<dyn SampleChannel>> {
        match &self.time {
            AgentTime::Bus(_) => None,
            AgentTime::Turns(turns) => Some(Arc::clone(turns) as _),
        }
    }

    fn on_turn(&self, ring: Box<dyn Fn() + Send + Sync>) {
        if let AgentTime::Turns(turns) = &self.time {
            turns.ring_by(ring);
        }
    }

    fn lay_tunnels(
        &self,
        fabric: &Fabric,
        clock: &Arc<Clock>,
    ) -> Result<Option<Tunnels>, RunError> {
        let peer_links = self.peer_links.lock();
        let Some(peer_links) = peer_links.as_ref().filter(|_| !self.ends.is_empty()) else {
            return Ok(None);
        };
        let failed = |error| RunError::Start(format!("a link to another agent: {error}"));
        let mut ends = Vec::new();
        for end in &self.ends {
            let station = fabric.station(&network::uplink(end.link));
            let station = station.expect("the fabric was told of it");
            let options = PacketOptions {
                // The kernels of the stations segment and checksum their frames themselves.
                offloads: false,
                ..PacketOptions::default()
            };
            let peer = match &self.time {
                AgentTime::Bus(_) => {
                    let address = peer_links.tunnels.get(&end.agent);
                    address.copied().map(TunnelPeer::Address)
                }
                AgentTime::Turns(turns) => {
                    let numbers = turns.numbers();
                    numbers.get(&end.agent).copied().map(TunnelPeer::Number)
                }
            };
            let rate_bits_per_s = end.rate.map(|rate| rate.as_bits_per_s());
            let is_host = self
                .whole
                .system
                .switches
                .iter()
                .all(|name| *name != end.node);
            ends.push(TunnelConfig {
                link: u16::try_from(end.link)
                    .map_err(|_| RunError::Plan("too many links between agents".to_owned()))?,
                end: u8::from(end.node > end.peer),
                peer: peer.ok_or_else(|| {
                    RunError::Start(format!("the address of agent {} is missing", end.agent))
                })?,
                rate_bits_per_s,
                queue_bytes: timeloom_fabric::queue_bytes(rate_bits_per_s, is_host),
                burst_bytes: timeloom_fabric::burst_bytes(rate_bits_per_s),
                port: PacketPort::open(station, "eth0", options).map_err(failed)?,
                name: format!("{}-{}", end.node, end.peer),
            });
        }
        let carrier = match &self.time {
            AgentTime::Bus(_) => {
                let socket = peer_links.socket.try_clone().map_err(|error| {
                    RunError::Start(format!("the socket for links to other agents: {error}"))
                })?;
                TunnelCarrier::Datagrams(socket, peer_links.key.clone())
            }
            AgentTime::Turns(turns) => TunnelCarrier::Streams(Arc::clone(turns) as _),
        };
        let clock_of = Box::new(SessionClock(Arc::clone(clock)));
        let tunnels = Tunnels::start(carrier, ends, clock_of).map_err(failed)?;
        clock.on_change(tunnels.waker());
        self.on_turn(Box::new(tunnels.waker()));
        Ok(Some(tunnels))
    }

    fn wire(&self, bus: BusBuilder) -> BusBuilder {
        match &self.time {
            AgentTime::Bus(wire) => {
                let wire = Arc::clone(wire);
                bus.host(self.name.as_str()).wire(move |_, _| wire)
            }
            // A session that is paused does not hand its turn over, so the others wait for it.
            AgentTime::Turns(_) => bus,
        }
    }

    fn order(&self) -> Option<Arc<dyn SharedOrder>> {
        match &self.time {
            AgentTime::Bus(_) => None,
            AgentTime::Turns(turns) => Some(Arc::clone(turns) as _),
        }
    }

    fn is_agreed(&self) -> bool {
        matches!(self.time, AgentTime::Bus(_))
    }

    fn least_dilation(&self) -> Option<f64> {
        // The bounds of the engines are for the dilation of the plan.
        let network = self.whole.network.as_ref();
        network.map(|_| self.whole.time.dilation)
    }

    fn awaited(&self) -> AwaitedPeers {
        let time = self.time.clone();
        Box::new(move || match &time {
            AgentTime::Bus(bus) => bus.awaited(),
            AgentTime::Turns(turns) => turns.awaited(),
        })
    }

    fn halted(&self) -> Option<(&'static str, String)> {
        match &self.time {
            AgentTime::Bus(bus) => {
                let reason = bus.wire.get()?.halted()?;
                Some(("pause bus", reason.to_string()))
            }
            AgentTime::Turns(turns) => Some(("order of the agents' events", turns.fault()?)),
        }
    }

    fn meet(
        &self,
        session: &Session,
        run_recorder: &RunRecorder,
        interrupted: &AtomicBool,
    ) -> Result<(), HoldError> {
        let AgentTime::Turns(turns) = &self.time else {
            return Ok(());
        };
        let meeting = self.peer_links.lock().take();
        let meeting = meeting.and_then(|links| links.meeting);
        let meeting = meeting.ok_or_else(|| HoldError::other(NoStart::Twice))?;
        let met = turns.meet(&meeting, session.clock(), interrupted);
        met.map_err(|error| HoldError::other(NoStart::from(error)))?;
        run_recorder.clock_edge(ClockAction::Start);
        Ok(())
    }

    fn user_pauses(&self) -> Option<Arc<dyn UserPauses>> {
        match &self.time {
            AgentTime::Bus(_) => None,
            AgentTime::Turns(turns) => Some(Arc::clone(turns) as _),
        }
    }

    fn is_granted_time(&self) -> bool {
        match &self.time {
            // The others agree to stop where this one is stopped.
            AgentTime::Bus(_) => {
                let first = self.whole.placement.agents.keys().next();
                first.is_some_and(|first| first == self.name.as_str())
            }
            // The events of the others follow in order.
            AgentTime::Turns(turns) => turns.is_first(),
        }
    }

    fn get_ready(&self, _run_recorder: &RunRecorder, components: &Components) {
        components.enter(Some("waiting for the other agents"));
    }

    fn begin(
        &self,
        session: &Arc<Session>,
        run_recorder: &RunRecorder,
        interrupted: &AtomicBool,
    ) -> Result<(), HoldError> {
        match &self.time {
            AgentTime::Bus(bus) => {
                let begun = self.connect(bus, session, run_recorder, interrupted);
                begun.map_err(HoldError::other)
            }
            AgentTime::Turns(_) => session.resume().map_err(HoldError::from),
        }
    }

    fn release_start(&self) {
        if let AgentTime::Bus(bus) = &self.time
            && let Some(wire) = bus.wire.get()
        {
            wire.release_start();
        }
    }

    fn leave(&self) {
        if let AgentTime::Turns(turns) = &self.time {
            turns.leave();
        }
    }
}

/// Records events about the links to other agents. Returns reasons why the results cannot be
/// trusted.
pub(crate) fn tell(reports: &[TunnelReport], run_recorder: &RunRecorder) -> Vec<Caveat> {
    let mut doubts = Vec::new();
    for report in reports {
        let text = format!(
            "{} frames sent, {} received, {} dropped by the queue, {} lost between the machines, \
             {} refused; the slowest took {}",
            report.sent,
            report.received,
            report.dropped,
            report.lost,
            report.refused,
            report.slowest
        );
        run_recorder.own_event(&report.name, "tunnel", &text);
        let lost = report.lost + report.refused + report.dropped_by_machine;
        if lost > 0 {
            let reason = format!(
                "The link {} to another agent lost {lost} frames that the link of the scenario \
                 would not have lost.",
                report.name
            );
            doubts.push(Caveat::new(reason, Remedy::LOST_BETWEEN_PARTS));
        }
    }
    doubts
}
