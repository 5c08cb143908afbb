//! PTP clock at a node: its state machine, its oscillator and its frames.

use core::fmt;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use timeloom_net::{FrameView, Node, Outgoing, ReceivedFrame, Resident, World};
use timeloom_ptp::security::{SecretKey, Security};
use timeloom_ptp::{
    ClockMachine, ClockReport, DriverAction, Local, OrdinaryConfig, Profile, PtpPacket, Role,
    SplitMix64, Stamp, Token, TransparentConfig, Transport,
};
use timeloom_time::{ClockMap, Duration, Instant, Virtual};
use timeloom_wire::tlv::Suite;
use timeloom_wire::{ClockIdentity, ClockQuality, Header, MacAddress, MessageType, PortIdentity};

use crate::clock::{NodeClock, NodeClockOptions};
use crate::envelope::{self, Sender};
use crate::rogue::{Rogue, RogueState};
use crate::tally::{ClockCounters, ClockEvent, Truths};

/// Settings of a PTP clock at a node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Role of the clock.
    pub role: Role,
    /// Profile: message intervals, delay mechanism, domain.
    pub profile: Profile,
    /// Transport of the clock's messages.
    pub transport: Transport,
    /// The clock that timestamps messages.
    pub clock: NodeClockOptions,
    /// IPv4 source address of a transparent clock's own messages; `None` for an address of
    /// 169.254.0.0/16. A host uses the address of its interface.
    pub address: Option<Ipv4Addr>,
    /// Own key and public keys, if messages are signed. Computing a signature takes no virtual
    /// time.
    pub security: Option<Security>,
    /// Attack that the clock carries out, if any.
    pub rogue: Option<Rogue>,
    /// Virtual time at which the clock starts: zero, unless the network's engine starts later.
    pub begins: Instant<Virtual>,
}

impl NodeOptions {
    /// Returns the options of a clock without errors in this role.
    pub fn new(role: Role, profile: Profile) -> Self {
        Self {
            role,
            profile,
            transport: Transport::default(),
            clock: NodeClockOptions::default(),
            address: None,
            security: None,
            rogue: None,
            begins: Instant::ZERO,
        }
    }
}

/// Callback for every Sync that a slave has measured, and for every violation.
pub type ObserverCallback = Box<dyn FnMut(&ClockEvent) + Send>;

/// A PTP clock at a node of a simulated network.
pub struct PtpNode {
    machine: ClockMachine,
    identity: ClockIdentity,
    clock: NodeClock,
    transport: Transport,
    random: SplitMix64,
    sender: Sender,
    /// Messages whose departure is pending, by the tag that the network knows. The flag is true for
    /// a Sync.
    tokens: HashMap<u64, (Token, bool)>,
    next_tag: u64,
    /// Senders of forwarded messages by PTP port, because a switch does not change a frame's
    /// addresses.
    others: HashMap<PortIdentity, Sender>,
    tally: ClockCounters,
    truths: Truths,
    observer: Option<ObserverCallback>,
    /// Key for which signatures are precomputed, if that makes the suite faster.
    secret: Option<Arc<SecretKey>>,
    rogue: Option<RogueState>,
}

/// Map from virtual time to the machine's time base: true time since the simulation began. The
/// error of an oscillator is irrelevant for the intervals between messages.
const LOCAL: ClockMap<Virtual, Local> = ClockMap::ahead_by(Duration::ZERO);
/// Greatest number of stored senders. If forged senders exceed it, the table is cleared.
const MOST_OTHERS: usize = 1_024;
/// Quality of a grandmaster that is locked to a primary reference (table 5), within 100 ns (table
/// 6).
const LOCKED: ClockQuality = ClockQuality {
    class: 6,
    accuracy: 0x21,
    offset_scaled_log_variance: 0x4e5d,
};

impl PtpNode {
    /// Makes a node a PTP clock. Returns false if the node is of the wrong kind: a transparent
    /// clock must be a switch, an ordinary clock a host. Must be called before the world starts.
    pub fn attach(world: &mut World, node: Node, options: &NodeOptions) -> bool {
        let ports = world.cables().filter(|cable| cable.from == node);
        let ports: Vec<_> = ports.map(|cable| cable.port).collect();
        let is_switch = world.is_switch(node);
        let Some(first) = ports.first().copied() else {
            return false;
        };
        if is_switch != (options.role == Role::Transparent) {
            return false;
        }
        let mac = world.mac(first);
        let own = if is_switch {
            options.address.unwrap_or_else(|| link_local(first.0))
        } else {
            world.address(first)
        };
        let identity = match &options.security {
            Some(security) => security.clock,
            None => Self::identity_at(world, node),
        };
        let start = LOCAL.at(options.begins);
        let machine = if is_switch {
            let count = port_number(ports.len() - 1);
            let mut config = TransparentConfig::new(identity, count, options.profile);
            config.security = options.security.clone();
            ClockMachine::transparent(config, start)
        } else {
            let mut config = OrdinaryConfig::new(identity, options.profile);
            match options.role {
                Role::Slave | Role::Monitor => {
                    config.slave_only = true;
                    config.free_running = options.role == Role::Monitor;
                }
                Role::Grandmaster | Role::Transparent => config.quality = LOCKED,
            }
            // In the model, true time is civil time, as for the hosts of a run.
            config.ptp_timescale = false;
            config.security = options.security.clone();
            ClockMachine::ordinary(config, start)
        };
        world.attach(
            node,
            Box::new(Self {
                machine,
                identity,
                clock: NodeClock::new(&options.clock),
                transport: options.transport,
                random: SplitMix64(options.clock.seed ^ u64::from(node.0)),
                sender: Sender {
                    mac,
                    address: own.octets(),
                },
                tokens: HashMap::new(),
                next_tag: 0,
                others: HashMap::new(),
                tally: ClockCounters::default(),
                truths: Truths::default(),
                observer: None,
                secret: options
                    .security
                    .as_ref()
                    .map(|security| Arc::clone(&security.secret)),
                rogue: options.rogue.map(RogueState::new),
            }),
        )
    }

    /// Returns the identity of the clock at a node, derived from the MAC address of its first port
    /// (7.5.2.2.2).
    pub fn identity_at(world: &World, node: Node) -> ClockIdentity {
        let first = world.port_of(node).map(|port| world.mac(port));
        ClockIdentity::from_mac(MacAddress(first.unwrap_or_default()))
    }

    /// Returns the clock at a node; `None` if the node is not a PTP clock.
    pub fn at(world: &World, node: Node) -> Option<&Self> {
        let resident: &dyn core::any::Any = world.resident(node)?;
        resident.downcast_ref()
    }

    /// Returns the clock at a node for modification; `None` if the node is not a PTP clock.
    pub fn at_mut(world: &mut World, node: Node) -> Option<&mut Self> {
        let resident: &mut dyn core::any::Any = world.resident_mut(node)?;
        resident.downcast_mut()
    }

    /// Returns the measurements and counters of this clock.
    pub fn tally(&self) -> &ClockCounters {
        &self.tally
    }

    /// Returns the oscillator-driven clock of this node.
    pub fn clock(&mut self) -> &mut NodeClock {
        &mut self.clock
    }

    /// Sets the callback for measured Syncs and noticed violations.
    pub fn observe(&mut self, observer: ObserverCallback) {
        self.observer = Some(observer);
    }

    /// Executes the state machine's actions until there are none.
    fn act(&mut self, now: Instant<Virtual>, out: &mut Outgoing) {
        while let Some(action) = self.machine.poll_action() {
            match action {
                DriverAction::Send {
                    port,
                    packet,
                    token,
                } => self.pass(now, port, &packet, token, out),
                DriverAction::Step(length) => {
                    self.clock.step(length);
                    self.truths.step(length);
                }
                DriverAction::Frequency(ppb) => self.clock.steer(now, ppb),
                DriverAction::Verify(job) => {
                    let verdict = job.run();
                    self.machine.handle_verdict(LOCAL.at(now), &verdict);
                }
                DriverAction::Sign(job) => {
                    let signed = job.run();
                    self.machine.handle_signed(LOCAL.at(now), signed);
                }
                // Statements are sent by a second network, which the model does not have.
                DriverAction::Statement(_) => {}
                DriverAction::Report(report) => self.note(now, &report),
            }
        }
        if let Some(secret) = self
            .secret
            .as_ref()
            .filter(|secret| secret.wants_preparing())
            && secret.suite() == Suite::BlsOnce
        {
            secret.prepare(&mut self.random);
        }
    }

    /// Sends a message of the state machine; an attacker may replace, delay or precede it.
    fn pass(
        &mut self,
        now: Instant<Virtual>,
        port: u16,
        packet: &PtpPacket,
        token: Option<Token>,
        out: &mut Outgoing,
    ) {
        let Some(rogue) = &mut self.rogue else {
            return self.send(port, packet, token, out);
        };
        let (before, packet) = rogue.pass(now, port, packet);
        self.tally.tampered = rogue.tampered;
        if let Some(before) = before {
            self.send(port, &before, None, out);
        }
        if let Some(packet) = packet {
            self.send(port, &packet, token, out);
        } else if let Some(token) = token {
            // The attacker delays the message; the state machine is told that it has left now.
            let stamp = self.clock.stamp(now, now);
            self.machine
                .handle_transmit_stamp(LOCAL.at(now), port, token, Some(stamp));
        }
    }

    fn send(&mut self, port: u16, packet: &PtpPacket, token: Option<Token>, out: &mut Outgoing) {
        let source = Header::parse(&packet.bytes).map(|(header, _)| header.source);
        let foreign = source.ok().and_then(|source| self.others.get(&source));
        let sender = foreign.copied().unwrap_or(self.sender);
        let Some(frame) = envelope::close(self.transport, packet, sender) else {
            return;
        };
        let tag = token.map(|token| {
            self.next_tag += 1;
            let sync = message_type(packet) == Some(MessageType::Sync);
            self.tokens.insert(self.next_tag, (token, sync));
            self.next_tag
        });
        out.send(usize::from(port).wrapping_sub(1), frame, tag);
    }

    fn note(&mut self, now: Instant<Virtual>, report: &ClockReport) {
        let event = self.tally.count(now, report, &self.truths);
        if let (Some(event), Some(observer)) = (event, &mut self.observer) {
            observer(&event);
        }
    }

    /// Records the sender of a message to forward, and the clock's true offset when a Sync arrives.
    fn look_at(
        &mut self,
        now: Instant<Virtual>,
        at: Instant<Virtual>,
        packet: &PtpPacket,
        of: Sender,
    ) {
        let Ok((header, _)) = Header::parse(&packet.bytes) else {
            return;
        };
        match self.machine {
            ClockMachine::Transparent(_) => {
                if self.others.len() == MOST_OTHERS {
                    self.others.clear();
                }
                if header.source.clock != self.identity {
                    self.others.insert(header.source, of);
                }
            }
            ClockMachine::Ordinary(_) if header.message_type == MessageType::Sync => {
                let ahead = self.clock.ahead(now, at);
                self.truths.note(header.sequence_id, ahead);
            }
            ClockMachine::Ordinary(_) => {}
        }
    }
}

impl Resident for PtpNode {
    fn wants(&self, glance: &FrameView<'_>) -> bool {
        envelope::carries(self.transport, glance)
    }

    fn handle_frame(
        &mut self,
        now: Instant<Virtual>,
        frame: &ReceivedFrame<'_>,
        out: &mut Outgoing,
    ) {
        let Some((packet, sender)) = envelope::open(self.transport, frame) else {
            *self.tally.dropped.entry("Broken".to_owned()).or_default() += 1;
            return;
        };
        self.look_at(now, frame.first_bit, &packet, sender);
        let stamp = is_event(&packet).then(|| self.clock.stamp(now, frame.first_bit));
        let port = port_number(frame.port);
        self.machine
            .handle_receive(LOCAL.at(now), port, &packet, stamp);
        self.act(now, out);
    }

    fn handle_departure(
        &mut self,
        now: Instant<Virtual>,
        port: usize,
        tag: u64,
        at: Option<Instant<Virtual>>,
        out: &mut Outgoing,
    ) {
        let Some((token, sync)) = self.tokens.remove(&tag) else {
            return;
        };
        let lie = match &mut self.rogue {
            Some(rogue) if sync => {
                let lie = rogue.lie(now);
                self.tally.tampered = rogue.tampered;
                lie
            }
            _ => Duration::ZERO,
        };
        let stamp: Option<Stamp> = at.map(|at| self.clock.stamp(now, at) + lie);
        let port = port_number(port);
        self.machine
            .handle_transmit_stamp(LOCAL.at(now), port, token, stamp);
        self.act(now, out);
    }

    fn handle_wake(&mut self, now: Instant<Virtual>, out: &mut Outgoing) {
        while let Some((port, packet)) = self.rogue.as_mut().and_then(|rogue| rogue.due(now)) {
            self.send(port, &packet, None, out);
        }
        self.machine.handle_wake(LOCAL.at(now), &mut self.random);
        self.act(now, out);
    }

    fn next_wake(&self) -> Option<Instant<Virtual>> {
        let machine = self
            .machine
            .next_wake()
            .and_then(|at| LOCAL.first_reaching(at));
        let rogue = self.rogue.as_ref().and_then(RogueState::next_wake);
        machine.into_iter().chain(rogue).min()
    }
}

impl fmt::Debug for PtpNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PtpNode")
            .field("identity", &self.identity)
            .field("tally", &self.tally)
            .finish_non_exhaustive()
    }
}

/// Returns the number of the port with this index; PTP counts from 1 (IEEE 1588-2019, 7.5.2.3).
fn port_number(index: usize) -> u16 {
    u16::try_from(index + 1).expect("a device has fewer than 65,536 ports")
}

fn message_type(packet: &PtpPacket) -> Option<MessageType> {
    let nibble = packet.bytes.first().map_or(0xf, |first| first & 0x0f);
    MessageType::from_nibble(nibble)
}

fn is_event(packet: &PtpPacket) -> bool {
    message_type(packet).is_some_and(MessageType::is_event)
}

/// Returns an address from 169.254.1.0 to 169.254.254.255, as in RFC 3927.
fn link_local(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0xa9fe_0100 + number % 0xfe00)
}
