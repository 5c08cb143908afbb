//! Transport of packets to one other engine: UDP, shared memory between threads, or streams between
//! machines that act in turns.

use std::io;
use std::net::UdpSocket;
use std::os::fd::BorrowedFd;

use timeloom_net::Owner;
use timeloom_time::{Instant, Wall};

use crate::peering::peer::{Datagrams, Peer, PeerConfig, PeerStats};
use crate::peering::ring::{Neighbour, Ring};
use crate::peering::socket::Socket;
use crate::peering::streamed::{Streamed, StreamedPeer};

/// One end of a connection between two engines.
#[derive(Debug)]
pub enum Endpoint {
    /// UDP socket to an engine on any machine.
    Udp(Socket),
    /// Shared memory to an engine in another thread of this process.
    Ring(Ring),
    /// Stream to an engine on a machine that acts in turns with this one.
    Streamed(Streamed),
}

impl Endpoint {
    /// Creates both ends of a pair of UDP sockets on this machine's loopback.
    ///
    /// # Errors
    /// Fails if no socket can be opened.
    pub fn udp_pair() -> io::Result<[Self; 2]> {
        let bind = || UdpSocket::bind("127.0.0.1:0");
        let (a, b) = (bind()?, bind()?);
        let (to_a, to_b) = (a.local_addr()?, b.local_addr()?);
        Ok([Socket::new(a, to_b)?, Socket::new(b, to_a)?].map(Self::Udp))
    }

    /// Creates both ends of a pair of rings with room for [`Ring::PACKETS`].
    ///
    /// # Errors
    /// Fails if no eventfd can be created.
    pub fn ring_pair() -> io::Result<[Self; 2]> {
        let (a, b) = Ring::pair(Ring::PACKETS)?;
        Ok([a, b].map(Self::Ring))
    }
}

/// Endpoint in use, with the state of the other engine.
#[derive(Debug)]
pub(crate) enum Transport {
    Udp(Box<Udp>),
    Ring(Box<Neighbour>),
    Streamed(Box<StreamedPeer>),
}

#[derive(Debug)]
pub(crate) struct Udp {
    pub(crate) peer: Peer,
    pub(crate) socket: Socket,
    pub(crate) out: Datagrams,
}

impl Udp {
    pub(crate) fn new(peer: Peer, socket: Socket) -> Self {
        let out = Datagrams::default();
        Self { peer, socket, out }
    }

    /// Sends the datagrams in `out`, and clears it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.socket.send(&self.out)?;
        self.out.clear();
        Ok(())
    }
}

impl Transport {
    pub(crate) fn config(&self) -> &PeerConfig {
        match self {
            Self::Udp(udp) => udp.peer.config(),
            Self::Ring(neighbour) => neighbour.config(),
            Self::Streamed(peer) => peer.config(),
        }
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(udp) => udp.socket.descriptor(),
            Self::Ring(neighbour) => neighbour.descriptor(),
            Self::Streamed(peer) => peer.descriptor(),
        }
    }

    pub(crate) fn next_wake(&self) -> Instant<Wall> {
        match self {
            Self::Udp(udp) => udp.peer.next_wake(),
            Self::Ring(neighbour) => neighbour.next_wake(),
            Self::Streamed(_) => Instant::FAR_FUTURE,
        }
    }

    /// Returns the number, the presence and the counters of the other engine.
    pub(crate) fn status(&self) -> (Owner, bool, PeerStats) {
        match self {
            Self::Udp(udp) => (udp.peer.there(), udp.peer.is_present(), udp.peer.stats()),
            Self::Ring(one) => (one.there(), one.is_present(), one.stats()),
            Self::Streamed(peer) => peer.status(),
        }
    }
}
