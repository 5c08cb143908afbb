//! The peering portal: one engine's door to all others.

use std::io;

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Engine, Lateness, Limit};
use timeloom_net::{Owner, PortId, World};
use timeloom_time::{Duration, Instant, Wall};

use crate::Cut;
use crate::codec::Statics;
use crate::datagram::Key;
use crate::peer::{Datagrams, News, Peer, PeerConfig, PeerStats};
use crate::socket::Socket;

/// The door to one other engine.
#[derive(Debug)]
struct Line {
    peer: Peer,
    socket: Socket,
    out: Datagrams,
    /// Our links that lead there.
    links: Vec<PortId>,
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
        }
    }

    /// Opens a line to engine `there`, at the other end of `socket`, and puts
    /// the links to it down until it is here.
    ///
    /// # Panics
    ///
    /// When the cut has no such engine.
    pub fn add(&mut self, world: &mut World, there: Owner, socket: Socket, config: PeerConfig) {
        let leads = |(port, from, to): &(PortId, Owner, Owner)| {
            (*from == self.here && *to == there).then_some(*port)
        };
        let links: Vec<PortId> = self.cut.links().iter().filter_map(leads).collect();
        for port in &links {
            world.set_link_up(*port, false);
        }
        self.by_owner[usize::from(there)] = Some(self.lines.len());
        self.lines.push(Line {
            peer: Peer::new(self.here, there, self.key.clone(), self.epoch, config),
            socket,
            out: Datagrams::default(),
            links,
        });
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
            let Line {
                peer,
                socket,
                links,
                ..
            } = line;
            let horizon = engine.now() + peer.config().horizon;
            let mut news = Vec::new();
            socket.receive(BUDGET, |bytes| {
                let told = peer.handle_datagram(now, bytes, statics, |packet, bytes| {
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
                });
                news.extend(told);
            })?;
            for told in news {
                tell(&mut engine.model, links, told);
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
        let virtual_now = engine.now();
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
            let line = &mut self.lines[line];
            let slack = packet.at - virtual_now;
            line.peer
                .put(now, packet, bytes, slack, &self.statics, &mut line.out);
        }
        crossings.clear();
        for line in &mut self.lines {
            if let Some(news) = line.peer.poll(now, &mut line.out) {
                tell(&mut engine.model, &line.links, news);
            }
            line.socket.send(&line.out)?;
            line.out.clear();
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
            line.peer.close(now, &mut line.out);
            line.socket.send(&line.out)?;
            line.out.clear();
        }
        Ok(())
    }

    /// When there is something to do even if nothing comes in.
    pub fn next_wake(&self) -> Instant<Wall> {
        let wakes = self.lines.iter().map(|line| line.peer.next_wake());
        wakes.min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// The descriptors on which something may come in.
    pub fn descriptors(&self) -> impl Iterator<Item = std::os::fd::RawFd> + '_ {
        self.lines.iter().map(|line| line.socket.fd())
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
        let all = self.lines.iter().map(|line| &line.peer);
        all.map(|peer| (peer.there(), peer.is_present(), peer.stats()))
    }

    /// Whether every peer is here.
    pub fn is_complete(&self) -> bool {
        self.lines.iter().all(|line| line.peer.is_present())
    }
}

fn tell(world: &mut World, links: &[PortId], news: News) {
    for port in links {
        world.set_link_up(*port, news == News::Joined);
    }
}
