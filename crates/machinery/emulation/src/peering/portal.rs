//! Peering portal: the gateway of one engine to all others.

use std::io;
use std::os::fd::BorrowedFd;

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Engine, Lateness, Limit, Pace};
use timeloom_net::{Owner, Packet, PortId, World};
use timeloom_time::{Duration, Instant, Virtual, Wall};

use crate::peering::Cut;
use crate::peering::codec::Statics;
use crate::peering::datagram::Key;
use crate::peering::peer::{Peer, PeerConfig, PeerEvent, PeerStats};
use crate::peering::ring::Neighbour;
use crate::peering::streamed::StreamedPeer;
use crate::peering::transport::{Endpoint, Transport, Udp};

/// Transport to one other engine, and the links that lead to it. The name is that of OSPF (RFC
/// 2328, section 1.2).
#[derive(Debug)]
pub(crate) struct Adjacency {
    pub(crate) transport: Transport,
    /// Local links that lead to the other engine.
    links: Vec<PortId>,
    /// Delay of the shortest of these links. No local event affects the other engine sooner.
    pub(crate) ahead: Duration,
    /// Lateness of packets from the other engine, and the number of late ones.
    lateness: Lateness,
    late: u64,
    /// Number of packets from the other engine that were refused.
    refused: u64,
    absence: Absence,
}

/// Packets dropped on the links to an engine while that engine is away.
#[derive(Debug, Default)]
struct Absence {
    /// Number of dropped packets at the start of the present absence; `None` if the engine is
    /// present.
    before: Option<u64>,
    /// Number of packets dropped in all past absences.
    dropped: u64,
}

/// Statistics of the exchange with one engine.
#[derive(Clone, Debug)]
pub struct AdjacencyReport {
    /// Number of the other engine.
    pub there: Owner,
    /// True if the other engine is present.
    pub is_present: bool,
    /// Counters of the transport.
    pub stats: PeerStats,
    /// Lateness of the other engine's packets in virtual time, with one entry per accepted packet.
    pub lateness: Lateness,
    /// Number of packets that arrived after their instant, by any amount.
    pub late: u64,
    /// Number of packets refused because they arrive too far in the future or because the
    /// simulation holds too many.
    pub refused: u64,
    /// Maximum difference between the two engines' clocks. `lateness` and `late` include it
    /// ([`PeerConfig`]).
    pub clocks_apart: Duration,
    /// Number of packets dropped on the links to the other engine in past absences.
    pub dropped_meanwhile: u64,
}

impl AdjacencyReport {
    /// Returns the number of packets that were lost outside the simulated network: packets for
    /// which there was no room, packets that were too large, packets to an engine that vanished
    /// without a farewell, and packets that were refused.
    pub fn lost(&self) -> u64 {
        let sent = self.stats.dropped_full + self.stats.dropped_away + self.stats.too_large;
        sent + self.refused
    }

    /// Returns the number of datagrams that the other engine sent and that never arrived. A
    /// datagram may contain several packets.
    pub fn missing(&self) -> u64 {
        self.stats.lost
    }
}

/// Statistics of a portal for all other engines together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortalStats {
    /// Number of packets received and accepted.
    pub taken: u64,
    /// Number of accepted packets that arrived after their instant.
    pub late: u64,
    /// Number of packets refused because they arrive too far in the future or because the
    /// simulation holds too many.
    pub refused: u64,
    /// Number of packets that are invalid in this network.
    pub senseless: u64,
    /// Number of packets for an engine without adjacency.
    pub no_route: u64,
}

/// Sends the outgoing packets of one engine to the others, and receives theirs.
///
/// Links to an engine that is away are down. At the start all engines are away.
#[derive(Debug)]
pub struct Portal {
    here: Owner,
    pub(crate) cut: Cut,
    key: Key,
    epoch: u64,
    statics: Statics,
    pub(crate) adjacencies: Vec<Adjacency>,
    /// Index in `adjacencies` of each engine; `None` without an adjacency.
    by_owner: Vec<Option<usize>>,
    lateness: Lateness,
    limit: Limit,
    pub(crate) waits: bool,
    /// Instant from which on the other engines may act; see [`Portal::raise_floor`].
    pub(crate) floor: Instant<Virtual>,
    stats: PortalStats,
    /// Pace of the engine; real time if `None`.
    pace: Option<Pace>,
}

/// Maximum number of trains of datagrams received from one peer before the engine runs again.
const BUDGET: usize = 64;
/// Number of packets in the simulation above which no more are accepted; they take 256 MiB.
const MOST_PACKETS: usize = 1 << 22;

impl Portal {
    /// Creates the portal of engine `here`. `world` must have all its traffic. `epoch` must grow
    /// with each start of the engine; nanoseconds since 1970 are suitable. In [`Portal::lateness`],
    /// a packet that is later than `limit` counts as late.
    pub fn new(world: &World, cut: Cut, here: Owner, key: Key, epoch: u64, limit: Limit) -> Self {
        let by_owner = vec![None; usize::from(cut.engines())];
        Self {
            here,
            cut,
            key,
            epoch,
            statics: Statics::of(world),
            adjacencies: Vec::new(),
            by_owner,
            lateness: Lateness::new(limit),
            limit,
            waits: false,
            floor: Instant::ZERO,
            stats: PortalStats::default(),
            pace: None,
        }
    }

    /// Opens an adjacency to engine `there`, which has the other end of `endpoint`, and sets the
    /// links to that engine down until it is present. A ring uses only the heartbeat, the silence
    /// and the horizon of `config`, because it neither batches nor compresses.
    ///
    /// # Panics
    ///
    /// Panics if the cut has no such engine.
    pub fn add(&mut self, world: &mut World, there: Owner, endpoint: Endpoint, config: PeerConfig) {
        let transport = match endpoint {
            Endpoint::Udp(socket) => {
                let peer = Peer::new(self.here, there, self.key.clone(), self.epoch, config);
                Transport::Udp(Box::new(Udp::new(peer, socket)))
            }
            Endpoint::Ring(ring) => Transport::Ring(Box::new(Neighbour::new(there, ring, config))),
            Endpoint::Streamed(end) => {
                let peer = StreamedPeer::new(there, end, config, world);
                Transport::Streamed(Box::new(peer))
            }
        };
        let leads = |(port, from, to): &(PortId, Owner, Owner)| {
            (*from == self.here && *to == there).then_some(*port)
        };
        let links: Vec<PortId> = self.cut.links().iter().filter_map(leads).collect();
        for port in &links {
            world.set_reachable(*port, false);
        }
        let ahead = links.iter().map(|port| world.least_delay(*port)).min();
        self.by_owner[usize::from(there)] = Some(self.adjacencies.len());
        self.adjacencies.push(Adjacency {
            transport,
            links,
            ahead: ahead.unwrap_or(Duration::MAX),
            lateness: Lateness::new(self.limit),
            late: 0,
            refused: 0,
            absence: Absence::default(),
        });
    }

    /// Marks the generation of engine `there` that began at `epoch` as dead without waiting for its
    /// silence, because a supervisor has seen it end. A new generation may join.
    pub fn mark_dead(&mut self, world: &mut World, there: Owner, epoch: u64) {
        let index = self.by_owner.get(usize::from(there)).copied().flatten();
        let Some(adjacency) = index.map(|index| &mut self.adjacencies[index]) else {
            return;
        };
        if let Transport::Udp(udp) = &mut adjacency.transport
            && let Some(event) = udp.peer.mark_dead(epoch)
        {
            adjacency.set_links(world, event);
        }
    }

    /// Sets the pace of the engine, on which the batching time of packets depends.
    /// [`mod@crate::peering::run`] calls this function.
    pub fn follow(&mut self, pace: Pace) {
        self.pace = Some(pace);
    }

    /// Receives packets, sends packets, and sends the messages that keep peers informed. `now` is
    /// the wall clock.
    ///
    /// # Errors
    ///
    /// Fails if a socket is unusable.
    pub fn poll<Q: EventQueue>(
        &mut self,
        engine: &mut Engine<World, Q>,
        now: Instant<Wall>,
    ) -> io::Result<()> {
        self.receive(engine, now)?;
        self.send(engine, now)
    }

    /// Receives the packets that have arrived.
    ///
    /// # Errors
    ///
    /// Fails if a socket is unusable.
    pub fn receive<Q: EventQueue>(
        &mut self,
        engine: &mut Engine<World, Q>,
        now: Instant<Wall>,
    ) -> io::Result<()> {
        let (statics, stats, lateness) = (&self.statics, &mut self.stats, &mut self.lateness);
        for adjacency in &mut self.adjacencies {
            let horizon = engine.now() + adjacency.transport.config().horizon;
            let apart = adjacency.transport.config().clocks_apart;
            let (late_here, lateness_here) = (&mut adjacency.late, &mut adjacency.lateness);
            let refused_here = &mut adjacency.refused;
            let mut take = |packet: &Packet, bytes: &[u8]| {
                if packet.at > horizon || engine.model.packets_alive() > MOST_PACKETS {
                    stats.refused += 1;
                    *refused_here += 1;
                    return;
                }
                let now = engine.now();
                let taken = engine.with(|world, agenda| world.take_over(packet, bytes, agenda));
                let Some(late) = taken else {
                    stats.senseless += 1;
                    return;
                };
                // By the sender's clock, the packet may be later than here by the difference of the
                // clocks.
                let late = late.max(now + apart - packet.at);
                stats.taken += 1;
                let is_late = u64::from(late > Duration::ZERO);
                stats.late += is_late;
                lateness.record(late, 1);
                *late_here += is_late;
                lateness_here.record(late, 1);
            };
            let mut events = Vec::new();
            match &mut adjacency.transport {
                Transport::Ring(neighbour) => neighbour.receive(take),
                Transport::Streamed(peer) => peer.receive(take),
                Transport::Udp(udp) => {
                    let Udp { peer, socket, .. } = &mut **udp;
                    socket.receive(BUDGET, |bytes| {
                        events.extend(peer.handle_datagram(now, bytes, statics, &mut take));
                    })?;
                }
            }
            for event in events {
                adjacency.set_links(&mut engine.model, event);
                if event == PeerEvent::Returned {
                    let there = adjacency.transport.status().0;
                    engine.with(|world, agenda| world.reopen(there, agenda));
                }
            }
        }
        Ok(())
    }

    /// Sends the engine's outgoing packets, and the datagrams that are due.
    ///
    /// # Errors
    ///
    /// Fails if a socket is unusable.
    pub fn send<Q: EventQueue>(
        &mut self,
        engine: &mut Engine<World, Q>,
        now: Instant<Wall>,
    ) -> io::Result<()> {
        let time_left = TimeLeft::at(now, self.pace, engine.now());
        let crossings = engine.model.crossings();
        let mut rest = &crossings.bytes[..];
        for packet in &crossings.packets {
            let real = packet.kind == timeloom_net::PacketKind::Raw;
            let (bytes, after) = rest.split_at(if real { packet.size.into() } else { 0 });
            rest = after;
            let to = self.cut.end(packet.link);
            let index = to.and_then(|to| *self.by_owner.get(usize::from(to))?);
            let Some(index) = index else {
                self.stats.no_route += 1;
                continue;
            };
            match &mut self.adjacencies[index].transport {
                Transport::Ring(neighbour) => neighbour.put(packet, bytes),
                Transport::Streamed(peer) => peer.put(packet, bytes),
                Transport::Udp(udp) => {
                    let Udp { peer, out, .. } = &mut **udp;
                    let slack = time_left.until(packet.at);
                    peer.put(now, packet, bytes, slack, &self.statics, out);
                }
            }
        }
        crossings.clear();
        for adjacency in &mut self.adjacencies {
            let event = match &mut adjacency.transport {
                Transport::Ring(neighbour) => neighbour.poll(now),
                Transport::Streamed(peer) => peer.poll(),
                Transport::Udp(udp) => {
                    let event = udp.peer.poll(now, &mut udp.out);
                    udp.flush()?;
                    event
                }
            };
            if let Some(event) = event {
                adjacency.set_links(&mut engine.model, event);
            }
        }
        Ok(())
    }

    /// Sends a farewell to all peers.
    ///
    /// # Errors
    ///
    /// Fails if a socket is unusable.
    pub fn close(&mut self, now: Instant<Wall>) -> io::Result<()> {
        for adjacency in &mut self.adjacencies {
            match &mut adjacency.transport {
                Transport::Ring(neighbour) => neighbour.close(now),
                // The streams say that the machine's run has ended.
                Transport::Streamed(_) => {}
                Transport::Udp(udp) => {
                    udp.peer.close(now, &mut udp.out);
                    udp.flush()?;
                }
            }
        }
        Ok(())
    }

    /// Returns the time at which the portal must be polled even if no input arrives.
    pub fn next_wake(&self) -> Instant<Wall> {
        let wakes = self
            .adjacencies
            .iter()
            .map(|adjacency| adjacency.transport.next_wake());
        wakes.min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Returns the descriptors that become readable when input arrives.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.adjacencies
            .iter()
            .map(|adjacency| adjacency.transport.descriptor())
    }

    /// Prepares a sleep on the descriptors. Returns false if input has arrived meanwhile; the
    /// thread must then not sleep.
    pub fn doze(&self) -> bool {
        let dozes = |adjacency: &Adjacency| match &adjacency.transport {
            Transport::Ring(neighbour) => neighbour.doze(),
            Transport::Streamed(peer) => !peer.has_news(),
            Transport::Udp(_) => true,
        };
        self.adjacencies.iter().all(dozes)
    }

    /// Ends a sleep that [`Portal::doze`] prepared, even if the thread did not sleep.
    pub fn wake(&self) {
        for adjacency in &self.adjacencies {
            if let Transport::Ring(neighbour) = &adjacency.transport {
                neighbour.wake();
            }
        }
    }

    /// Returns the lateness of received packets, in virtual time.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// Returns the statistics of each other engine.
    pub fn adjacencies(&self) -> impl Iterator<Item = AdjacencyReport> + '_ {
        self.adjacencies.iter().map(|adjacency| {
            let (there, is_present, stats) = adjacency.transport.status();
            AdjacencyReport {
                there,
                is_present,
                stats,
                lateness: adjacency.lateness.clone(),
                late: adjacency.late,
                refused: adjacency.refused,
                clocks_apart: adjacency.transport.config().clocks_apart,
                dropped_meanwhile: adjacency.absence.dropped,
            }
        })
    }

    /// Returns the statistics for all other engines together.
    pub fn stats(&self) -> PortalStats {
        self.stats
    }

    /// Returns the number, the presence and the counters of each peer.
    pub fn peers(&self) -> impl Iterator<Item = (Owner, bool, PeerStats)> + '_ {
        self.adjacencies
            .iter()
            .map(|adjacency| adjacency.transport.status())
    }

    /// Returns the number and the counters of each peer whose packets are on their way for some
    /// time, so that they must be counted. (Packets by streams of machines that act in turns have
    /// arrived when a turn begins.)
    pub(crate) fn counted(&self) -> impl Iterator<Item = (Owner, PeerStats)> + '_ {
        let counted = self
            .adjacencies
            .iter()
            .filter(|adjacency| !matches!(adjacency.transport, Transport::Streamed(_)));
        counted.map(|adjacency| {
            let (there, _, stats) = adjacency.transport.status();
            (there, stats)
        })
    }

    /// Returns the earliest arrival of the packets sent by streams since the last call; `None` if
    /// none was sent. Their receivers may answer, so the clock must not pass that instant.
    pub(crate) fn take_earliest(&mut self) -> Option<Instant<Virtual>> {
        let all = self.adjacencies.iter_mut();
        let earliest = all.filter_map(|adjacency| match &mut adjacency.transport {
            Transport::Streamed(peer) => peer.take_earliest(),
            Transport::Udp(_) | Transport::Ring(_) => None,
        });
        earliest.min()
    }

    /// Returns true if every peer is present.
    pub fn is_complete(&self) -> bool {
        self.peers().all(|(_, present, _)| present)
    }
}

/// Conversion of instants of the simulation to the wall time left until them.
struct TimeLeft {
    /// Instant that the simulation has reached, or should have reached by its pace.
    reached: Instant<Virtual>,
    /// Wall time per virtual time.
    slowness: f64,
}

impl TimeLeft {
    fn at(now: Instant<Wall>, pace: Option<Pace>, lived: Instant<Virtual>) -> Self {
        match pace {
            Some(Pace::Clock(map)) => Self {
                reached: map.at(now),
                slowness: 1.0 / map.rate.as_f64(),
            },
            _ => Self {
                reached: lived,
                slowness: 1.0,
            },
        }
    }

    /// Returns the wall time left until `at`. It is infinite while the virtual clock is stopped.
    fn until(&self, at: Instant<Virtual>) -> Duration {
        let left = (at - self.reached).as_ns() as f64 * self.slowness;
        Duration::from_ns(left as i64)
    }
}

impl Adjacency {
    /// Sets the links to the other engine up or down, depending on its presence.
    fn set_links(&mut self, world: &mut World, event: PeerEvent) {
        let dropped: u64 = self
            .links
            .iter()
            .map(|port| world.link(*port).dropped)
            .sum();
        match event {
            PeerEvent::Joined | PeerEvent::Returned => {
                let before = self.absence.before.take();
                self.absence.dropped += before.map_or(0, |before| dropped - before);
            }
            PeerEvent::Left => self.absence.before = Some(dropped),
        }
        for port in &self.links {
            world.set_reachable(*port, event != PeerEvent::Left);
        }
    }
}
