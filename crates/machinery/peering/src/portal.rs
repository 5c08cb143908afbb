//! The peering portal: one engine's gateway to all others.

use std::io;
use std::os::fd::BorrowedFd;

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Engine, Lateness, Limit, Pace};
use timeloom_net::{Owner, Packet, PortId, World};
use timeloom_time::{Duration, Instant, Virtual, Wall};

use crate::Cut;
use crate::codec::Statics;
use crate::datagram::Key;
use crate::peer::{Peer, PeerConfig, PeerEvent, PeerStats};
use crate::ring::Neighbour;
use crate::transport::{Endpoint, Transport, Udp};

/// Another engine, as OSPF has it of a router (RFC 2328, section 1.2): how to reach it, and
/// over which links.
#[derive(Debug)]
pub(crate) struct Adjacency {
    pub(crate) transport: Transport,
    /// Our links that lead there.
    links: Vec<PortId>,
    /// The delay of the shortest: nothing that happens here reaches there sooner.
    pub(crate) ahead: Duration,
    /// How late packets came from there, and how many came at all late.
    lateness: Lateness,
    late: u64,
    absence: Absence,
}

/// What the links to an engine drop while it is away.
#[derive(Debug, Default)]
struct Absence {
    /// What they had dropped when it left, of one that is away.
    before: Option<u64>,
    /// In all absences that are over.
    dropped: u64,
}

/// What has come from one engine and gone there.
#[derive(Clone, Debug)]
pub struct AdjacencyReport {
    /// The other engine.
    pub there: Owner,
    /// Whether it is here.
    pub is_present: bool,
    /// What was counted on the way.
    pub stats: PeerStats,
    /// How late its packets came, in virtual time: one entry for each that was taken over.
    pub lateness: Lateness,
    /// How many came after their instant, by however little.
    pub late: u64,
    /// How far apart the two engines' clocks may be, which is in both ([`PeerConfig`]).
    pub clocks_apart: Duration,
    /// Packets that the links to it dropped while it was away, of absences that are over.
    pub dropped_meanwhile: u64,
}

impl AdjacencyReport {
    /// Packets that the simulated network had not lost and that were never sent: those that
    /// found no room, and those to an engine that is gone without farewell.
    pub fn lost(&self) -> u64 {
        self.stats.dropped_full + self.stats.dropped_away + self.stats.too_large
    }

    /// Datagrams, of one packet or of many, that the other engine sent and that never came.
    pub fn missing(&self) -> u64 {
        self.stats.lost
    }
}

/// What has come through a portal, beyond single peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortalStats {
    /// Packets that came in and were taken over.
    pub taken: u64,
    /// Of those, how many came after their instant.
    pub late: u64,
    /// Packets refused because they arrive too far in the future, or because
    /// the simulation holds too many.
    pub refused: u64,
    /// Packets that make no sense in this network.
    pub senseless: u64,
    /// Packets for an engine to which there is no adjacency.
    pub no_route: u64,
}

/// Sends what leaves one engine to the others, and takes in what they send.
///
/// Links to an engine that is away are down. Starts with all down.
#[derive(Debug)]
pub struct Portal {
    here: Owner,
    pub(crate) cut: Cut,
    key: Key,
    epoch: u64,
    statics: Statics,
    pub(crate) adjacencies: Vec<Adjacency>,
    /// By engine: its place in `adjacencies`.
    by_owner: Vec<Option<usize>>,
    lateness: Lateness,
    limit: Limit,
    pub(crate) waits: bool,
    stats: PortalStats,
    /// What the engine follows; real time unless somebody says otherwise.
    pace: Option<Pace>,
}

/// Trains of datagrams taken in from one peer before the engine has its turn.
const BUDGET: usize = 64;
/// Packets in the simulation past which no more are taken over: 256 MiB.
const MOST_PACKETS: usize = 1 << 22;

impl Portal {
    /// The portal of engine `here`, whose world has all its traffic. `epoch`
    /// grows with each start: nanoseconds since 1970, for one. A packet later
    /// than `limit` says counts as late in [`Portal::lateness`].
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
            stats: PortalStats::default(),
            pace: None,
        }
    }

    /// Opens an adjacency to engine `there`, at the other end of `endpoint`, and puts the
    /// links to it down until it is here. Of `config`, a ring uses the heartbeat, the
    /// silence and the horizon: nothing waits for others there, and nothing is compressed.
    ///
    /// # Panics
    ///
    /// When the cut has no such engine.
    pub fn add(&mut self, world: &mut World, there: Owner, endpoint: Endpoint, config: PeerConfig) {
        let transport = match endpoint {
            Endpoint::Udp(socket) => {
                let peer = Peer::new(self.here, there, self.key.clone(), self.epoch, config);
                Transport::Udp(Box::new(Udp::new(peer, socket)))
            }
            Endpoint::Ring(ring) => Transport::Ring(Box::new(Neighbour::new(there, ring, config))),
        };
        let leads = |(port, from, to): &(PortId, Owner, Owner)| {
            (*from == self.here && *to == there).then_some(*port)
        };
        let links: Vec<PortId> = self.cut.links().iter().filter_map(leads).collect();
        for port in &links {
            world.set_link_up(*port, false);
        }
        let ahead = links.iter().map(|port| world.delay(*port)).min();
        self.by_owner[usize::from(there)] = Some(self.adjacencies.len());
        self.adjacencies.push(Adjacency {
            transport,
            links,
            ahead: ahead.unwrap_or(Duration::MAX),
            lateness: Lateness::new(self.limit),
            late: 0,
            absence: Absence::default(),
        });
    }

    /// Takes for gone the life of engine `there` that began at `epoch`, without waiting for its
    /// silence: whoever started it has seen it end. Another life may join.
    pub fn bury(&mut self, world: &mut World, there: Owner, epoch: u64) {
        let index = self.by_owner.get(usize::from(there)).copied().flatten();
        let Some(adjacency) = index.map(|index| &mut self.adjacencies[index]) else {
            return;
        };
        if let Transport::Udp(udp) = &mut adjacency.transport
            && let Some(event) = udp.peer.bury(epoch)
        {
            adjacency.set_links(world, event);
        }
    }

    /// What the engine follows from now on: how long a packet may wait for others
    /// depends on how soon its instant comes. [`mod@crate::run`] says so.
    pub fn follow(&mut self, pace: Pace) {
        self.pace = Some(pace);
    }

    /// Takes in, sends, and keeps the peers informed. `now` is the wall clock.
    ///
    /// # Errors
    ///
    /// When a socket is of no use any more.
    pub fn poll<Q: EventQueue>(
        &mut self,
        engine: &mut Engine<World, Q>,
        now: Instant<Wall>,
    ) -> io::Result<()> {
        self.receive(engine, now)?;
        self.send(engine, now)
    }

    /// Takes in what has come.
    ///
    /// # Errors
    ///
    /// When a socket is of no use any more.
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
            let mut take = |packet: &Packet, bytes: &[u8]| {
                if packet.at > horizon || engine.model.packets_alive() > MOST_PACKETS {
                    stats.refused += 1;
                    return;
                }
                let now = engine.now();
                let taken = engine.with(|world, agenda| world.take_over(packet, bytes, agenda));
                let Some(late) = taken else {
                    stats.senseless += 1;
                    return;
                };
                // By the sender's clock it may be so much later.
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

    /// Sends what has left the engine, and what is due.
    ///
    /// # Errors
    ///
    /// When a socket is of no use any more.
    pub fn send<Q: EventQueue>(
        &mut self,
        engine: &mut Engine<World, Q>,
        now: Instant<Wall>,
    ) -> io::Result<()> {
        let time_left = TimeLeft::at(now, self.pace, engine.now());
        let crossings = engine.model.crossings();
        let mut rest = &crossings.bytes[..];
        for packet in &crossings.packets {
            let real = packet.kind == timeloom_net::Kind::Raw;
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

    /// Says farewell to all.
    ///
    /// # Errors
    ///
    /// When a socket is of no use any more.
    pub fn close(&mut self, now: Instant<Wall>) -> io::Result<()> {
        for adjacency in &mut self.adjacencies {
            match &mut adjacency.transport {
                Transport::Ring(neighbour) => neighbour.close(now),
                Transport::Udp(udp) => {
                    udp.peer.close(now, &mut udp.out);
                    udp.flush()?;
                }
            }
        }
        Ok(())
    }

    /// When there is something to do even if nothing comes in.
    pub fn next_wake(&self) -> Instant<Wall> {
        let wakes = self
            .adjacencies
            .iter()
            .map(|adjacency| adjacency.transport.next_wake());
        wakes.min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// The descriptors on which something may come in.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.adjacencies
            .iter()
            .map(|adjacency| adjacency.transport.descriptor())
    }

    /// To be called before sleeping on the descriptors. False when something has
    /// come meanwhile, so that there is no sleeping.
    pub fn doze(&self) -> bool {
        let dozes = |adjacency: &Adjacency| match &adjacency.transport {
            Transport::Ring(neighbour) => neighbour.doze(),
            Transport::Udp(_) => true,
        };
        self.adjacencies.iter().all(dozes)
    }

    /// To be called after that, slept or not.
    pub fn wake(&self) {
        for adjacency in &self.adjacencies {
            if let Transport::Ring(neighbour) = &adjacency.transport {
                neighbour.wake();
            }
        }
    }

    /// How late packets came, in virtual time.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// What has come from each other engine and gone there.
    pub fn adjacencies(&self) -> impl Iterator<Item = AdjacencyReport> + '_ {
        self.adjacencies.iter().map(|adjacency| {
            let (there, is_present, stats) = adjacency.transport.status();
            AdjacencyReport {
                there,
                is_present,
                stats,
                lateness: adjacency.lateness.clone(),
                late: adjacency.late,
                clocks_apart: adjacency.transport.config().clocks_apart,
                dropped_meanwhile: adjacency.absence.dropped,
            }
        })
    }

    /// What has come through.
    pub fn stats(&self) -> PortalStats {
        self.stats
    }

    /// What has happened with each peer: its number, whether it is here, counts.
    pub fn peers(&self) -> impl Iterator<Item = (Owner, bool, PeerStats)> + '_ {
        self.adjacencies
            .iter()
            .map(|adjacency| adjacency.transport.status())
    }

    /// Whether every peer is here.
    pub fn is_complete(&self) -> bool {
        self.peers().all(|(_, present, _)| present)
    }
}

/// How soon instants of the simulation come.
struct TimeLeft {
    /// Where the simulation is now, or should be.
    reached: Instant<Virtual>,
    /// Wall over virtual time.
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

    /// The wall time until then; of a clock that stands, for ever.
    fn until(&self, at: Instant<Virtual>) -> Duration {
        let left = (at - self.reached).as_ns() as f64 * self.slowness;
        Duration::from_ns(left as i64)
    }
}

impl Adjacency {
    /// Puts the links there up or down, as the other engine is here or away.
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
            world.set_link_up(*port, event != PeerEvent::Left);
        }
    }
}
