//! The peering portal: one engine's door to all others.

use std::io;
use std::os::fd::BorrowedFd;

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Engine, Lateness, Limit, Pace};
use timeloom_net::{Owner, Packet, PortId, World};
use timeloom_time::{Duration, Instant, Virtual, Wall};

use crate::Cut;
use crate::codec::Statics;
use crate::datagram::Key;
use crate::peer::{Datagrams, News, Peer, PeerConfig, PeerStats};
use crate::ring::{Neighbour, Ring};
use crate::socket::Socket;

/// The door to one other engine.
#[derive(Debug)]
struct Line {
    way: Way,
    /// Our links that lead there.
    links: Vec<PortId>,
}

/// What carries packets there.
#[derive(Debug)]
enum Way {
    Udp(Box<Udp>),
    Ring(Box<Neighbour>),
}

#[derive(Debug)]
struct Udp {
    peer: Peer,
    socket: Socket,
    out: Datagrams,
}

impl Way {
    fn config(&self) -> &PeerConfig {
        match self {
            Self::Udp(udp) => udp.peer.config(),
            Self::Ring(neighbour) => neighbour.config(),
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(udp) => udp.socket.descriptor(),
            Self::Ring(neighbour) => neighbour.descriptor(),
        }
    }

    fn next_wake(&self) -> Instant<Wall> {
        match self {
            Self::Udp(udp) => udp.peer.next_wake(),
            Self::Ring(neighbour) => neighbour.next_wake(),
        }
    }

    /// Its number, whether it is here, and what has happened.
    fn told(&self) -> (Owner, bool, PeerStats) {
        match self {
            Self::Udp(udp) => (udp.peer.there(), udp.peer.is_present(), udp.peer.stats()),
            Self::Ring(one) => (one.there(), one.is_present(), one.stats()),
        }
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
    /// Packets for an engine to which there is no line.
    pub no_line: u64,
}

/// Sends what leaves one engine to the others, and takes in what they send.
///
/// Links to an engine that is away are down. Starts with all down.
#[derive(Debug)]
pub struct Portal {
    here: Owner,
    cut: Cut,
    key: Key,
    epoch: u64,
    statics: Statics,
    lines: Vec<Line>,
    /// By engine: its line.
    by_owner: Vec<Option<usize>>,
    lateness: Lateness,
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
            lines: Vec::new(),
            by_owner,
            lateness: Lateness::new(limit),
            stats: PortalStats::default(),
            pace: None,
        }
    }

    /// Opens a line to engine `there`, at the other end of `socket`, and puts
    /// the links to it down until it is here.
    ///
    /// # Panics
    ///
    /// When the cut has no such engine.
    pub fn add(&mut self, world: &mut World, there: Owner, socket: Socket, config: PeerConfig) {
        let peer = Peer::new(self.here, there, self.key.clone(), self.epoch, config);
        let out = Datagrams::default();
        self.open(world, there, Way::Udp(Box::new(Udp { peer, socket, out })));
    }

    /// Opens a line to an engine on another thread of this process, which has the other
    /// end of `ring`, and puts the links to it down until it is here. Of `config`, the heartbeat, the silence and the horizon
    /// count: nothing waits for others, and nothing is compressed.
    ///
    /// # Panics
    ///
    /// When the cut has no such engine.
    pub fn add_ring(&mut self, world: &mut World, there: Owner, ring: Ring, config: PeerConfig) {
        let neighbour = Neighbour::new(there, ring, config);
        self.open(world, there, Way::Ring(Box::new(neighbour)));
    }

    fn open(&mut self, world: &mut World, there: Owner, way: Way) {
        let leads = |(port, from, to): &(PortId, Owner, Owner)| {
            (*from == self.here && *to == there).then_some(*port)
        };
        let links: Vec<PortId> = self.cut.links().iter().filter_map(leads).collect();
        for port in &links {
            world.set_link_up(*port, false);
        }
        self.by_owner[usize::from(there)] = Some(self.lines.len());
        self.lines.push(Line { way, links });
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
        for line in &mut self.lines {
            let horizon = engine.now() + line.way.config().horizon;
            let mut take = |packet: &Packet, bytes: &[u8]| {
                if packet.at > horizon || engine.model.packets_alive() > MOST_PACKETS {
                    stats.refused += 1;
                    return;
                }
                let taken = engine.with(|world, agenda| world.take_over(packet, bytes, agenda));
                let Some(late) = taken else {
                    stats.senseless += 1;
                    return;
                };
                stats.taken += 1;
                stats.late += u64::from(late > Duration::ZERO);
                lateness.record(late, 1);
            };
            let mut news = Vec::new();
            match &mut line.way {
                Way::Ring(neighbour) => neighbour.receive(take),
                Way::Udp(udp) => {
                    let Udp { peer, socket, .. } = &mut **udp;
                    socket.receive(BUDGET, |bytes| {
                        news.extend(peer.handle_datagram(now, bytes, statics, &mut take));
                    })?;
                }
            }
            for told in news {
                tell(&mut engine.model, &line.links, told);
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
            let line = to.and_then(|to| *self.by_owner.get(usize::from(to))?);
            let Some(line) = line else {
                self.stats.no_line += 1;
                continue;
            };
            match &mut self.lines[line].way {
                Way::Ring(neighbour) => neighbour.put(packet, bytes),
                Way::Udp(udp) => {
                    let Udp { peer, out, .. } = &mut **udp;
                    let slack = time_left.until(packet.at);
                    peer.put(now, packet, bytes, slack, &self.statics, out);
                }
            }
        }
        crossings.clear();
        for line in &mut self.lines {
            let news = match &mut line.way {
                Way::Ring(neighbour) => neighbour.poll(now),
                Way::Udp(udp) => {
                    let news = udp.peer.poll(now, &mut udp.out);
                    udp.socket.send(&udp.out)?;
                    udp.out.clear();
                    news
                }
            };
            if let Some(news) = news {
                tell(&mut engine.model, &line.links, news);
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
        for line in &mut self.lines {
            match &mut line.way {
                Way::Ring(neighbour) => neighbour.close(now),
                Way::Udp(udp) => {
                    udp.peer.close(now, &mut udp.out);
                    udp.socket.send(&udp.out)?;
                    udp.out.clear();
                }
            }
        }
        Ok(())
    }

    /// When there is something to do even if nothing comes in.
    pub fn next_wake(&self) -> Instant<Wall> {
        let wakes = self.lines.iter().map(|line| line.way.next_wake());
        wakes.min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// The descriptors on which something may come in.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.lines.iter().map(|line| line.way.descriptor())
    }

    /// To be called before sleeping on the descriptors. False when something has
    /// come meanwhile, so that there is no sleeping.
    pub fn doze(&self) -> bool {
        let dozes = |line: &Line| match &line.way {
            Way::Ring(neighbour) => neighbour.doze(),
            Way::Udp(_) => true,
        };
        self.lines.iter().all(dozes)
    }

    /// To be called after that, slept or not.
    pub fn wake(&self) {
        for line in &self.lines {
            if let Way::Ring(neighbour) = &line.way {
                neighbour.wake();
            }
        }
    }

    /// How late packets came, in virtual time.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// What has come through.
    pub fn stats(&self) -> PortalStats {
        self.stats
    }

    /// What has happened with each peer: its number, whether it is here, counts.
    pub fn peers(&self) -> impl Iterator<Item = (Owner, bool, PeerStats)> + '_ {
        self.lines.iter().map(|line| line.way.told())
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

fn tell(world: &mut World, links: &[PortId], news: News) {
    for port in links {
        world.set_link_up(*port, news == News::Joined);
    }
}
