//! Simulated hosts that serve real programs over TCP.
//!
//! A [`SimulatedServer`] is a [`crate::Resident`] of a host: TCP packets for the host go to a real
//! TCP/IP stack (smoltcp), byte for byte, and [`Service`]s answer. The model still handles
//! neighbour resolution, pings and datagrams. Real programs reach the server through a portal; this
//! module opens no socket of the machine.
//!
//! Resources for peers are limited: the number of connections, and the bytes for each of them. A
//! connection whose peer has vanished is dropped.

mod http;
mod pump;
mod service;

use std::net::IpAddr;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::wire::HardwareAddress;
use timeloom_time::{Instant, Virtual};

use self::service::Conversation;
use crate::bytes::{self, IpHeader, TCP, put16};
use crate::packet::NIL;
use crate::stack::{Wire, addresses, give_addresses, stack_time};
use crate::tables::residents::{FrameView, Outgoing, ReceivedFrame, Resident};
use crate::{Node, World};

/// Service at a port of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Sends received bytes back (RFC 862).
    Echo,
    /// Discards received bytes (RFC 863).
    Discard,
    /// Sends as fast as the peer receives: so many bytes, or without end for `None` (similar to RFC
    /// 864).
    Source(Option<u64>),
    /// Answers HTTP/1.1 requests: GET with a page of so many bytes, or of the number of bytes in
    /// the path; POST and PUT with the number of received bytes.
    Http(u64),
}

/// Configuration of a server.
#[derive(Clone, Debug)]
pub struct SimulatedServerOptions {
    /// Ports, each with its service. A port may occur only once.
    pub services: Vec<(u16, Service)>,
    /// Maximum number of connections; further ones are refused.
    pub connections: usize,
    /// Bytes buffered per connection and direction. They limit the window that the server offers,
    /// and its bytes in flight.
    pub buffer_bytes: usize,
    /// Seed of the initial sequence numbers.
    pub seed: u64,
}

/// Counters of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceStats {
    /// Opened connections.
    pub connections: u64,
    /// Received bytes.
    pub received: u64,
    /// Bytes passed to TCP for sending.
    pub sent: u64,
    /// Answered HTTP requests.
    pub requests: u64,
}

/// Simulated host with a TCP/IP stack and services.
pub struct SimulatedServer {
    addresses: Vec<IpAddr>,
    mac: [u8; 6],
    /// True if there are other stations on the host's segment. On a cable between two nodes,
    /// packets keep the MAC addresses of the previous link.
    shared: bool,
    interface: Interface,
    device: Wire,
    sockets: SocketSet<'static>,
    services: Vec<(u16, Service, ServiceStats)>,
    /// Listening socket of each service; `None` while there is no room for a connection.
    listening: Vec<Option<SocketHandle>>,
    /// Connections: socket, index of the service, and state of the conversation.
    open: Vec<(SocketHandle, usize, Conversation)>,
    connections: usize,
    buffer_bytes: usize,
    /// IP identification of the next packet, by which fragments are reassembled.
    identification: u16,
    wake: Option<Instant<Virtual>>,
}

/// Idle time after which a peer is probed. After [`GIVEN_UP_AFTER`] the connection is dropped. (RFC
/// 9293, section 3.8.4, assumes hours, but an experiment lasts minutes.)
const ASKED_AFTER: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(30);
const GIVEN_UP_AFTER: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(120);

/// Length of an IPv4 header without options, in bytes.
const MIN_IP: usize = 20;

impl SimulatedServer {
    /// Places a server at a host that has an IP address. Returns false if that is impossible. Must
    /// be called before the world starts.
    pub fn attach(world: &mut World, node: Node, options: &SimulatedServerOptions) -> bool {
        let Some(port) = world.port_of(node).filter(|_| world.is_host(node)) else {
            return false;
        };
        let addresses = addresses(world, port);
        let mut device = Wire::at(world, node);
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = options.seed;
        let mut interface = Interface::new(config, &mut device, stack_time(Instant::ZERO));
        give_addresses(&mut interface, &addresses);
        let services = options.services.iter();
        let mut server = Self {
            addresses,
            mac: world.mac(port),
            shared: world.ports[port].arp != NIL,
            interface,
            device,
            sockets: SocketSet::new(Vec::new()),
            services: services
                .map(|(port, what)| (*port, *what, ServiceStats::default()))
                .collect(),
            listening: vec![None; options.services.len()],
            open: Vec::new(),
            connections: options.connections.max(1),
            buffer_bytes: options.buffer_bytes.max(2_048),
            identification: 0,
            wake: None,
        };
        server.listen();
        world.attach(node, Box::new(server))
    }

    /// Returns the server at a node; `None` without one.
    pub fn at(world: &World, node: Node) -> Option<&Self> {
        let resident: &dyn core::any::Any = world.resident(node)?;
        resident.downcast_ref()
    }

    /// Returns the ports with their services and counters.
    pub fn services(&self) -> &[(u16, Service, ServiceStats)] {
        &self.services
    }

    fn is_at(&self, mac: [u8; 6]) -> bool {
        mac == self.mac || !self.shared
    }

    /// Opens a listening socket for each service that has none, while there is room for a
    /// connection.
    fn listen(&mut self) {
        let full = self.open.len() >= self.connections;
        for (place, (port, ..)) in self.listening.iter_mut().zip(&self.services) {
            if full {
                if let Some(handle) = place.take() {
                    self.sockets.remove(handle);
                }
            } else if place.is_none() {
                let buffer = || SocketBuffer::new(vec![0; self.buffer_bytes]);
                let mut socket = Socket::new(buffer(), buffer());
                socket.set_congestion_control(CongestionControl::Cubic);
                socket.set_keep_alive(Some(ASKED_AFTER));
                socket.set_timeout(Some(GIVEN_UP_AFTER));
                // The call fails only for port 0, which clients cannot reach anyway.
                let _ = socket.listen(*port);
                *place = Some(self.sockets.add(socket));
            }
        }
    }

    /// Runs the stack and the services until neither makes progress.
    fn work(&mut self, now: Instant<Virtual>, out: &mut Outgoing) {
        let at = stack_time(now);
        loop {
            self.interface.poll(at, &mut self.device, &mut self.sockets);
            self.accept();
            if !self.serve() {
                break;
            }
        }
        self.forget();
        self.listen();
        while let Some(mut packet) = self.device.sent.pop_front() {
            self.allow_cutting(&mut packet);
            out.send_packet(packet);
        }
        let due = self.interface.poll_at(at, &self.sockets);
        self.wake = due.map(|due| Instant::from_ns(due.total_micros() * 1_000).max(now));
    }

    /// Moves sockets with a connection from the listening sockets to the connections.
    fn accept(&mut self) {
        for (index, place) in self.listening.iter_mut().enumerate() {
            let Some(handle) = *place else { continue };
            if self.sockets.get::<Socket>(handle).state() != State::Listen {
                let (_, what, stats) = &mut self.services[index];
                stats.connections += 1;
                self.open.push((handle, index, Conversation::new(*what)));
                *place = None;
            }
        }
    }

    /// Continues the conversation of each connection; returns true if one of them made progress.
    fn serve(&mut self) -> bool {
        let mut any = false;
        for (handle, index, conversation) in &mut self.open {
            let socket = self.sockets.get_mut::<Socket>(*handle);
            any |= conversation.go_on(socket, &mut self.services[*index].2);
        }
        any
    }

    /// Removes closed connections. A connection that only waits for late packets (TIME-WAIT) is
    /// removed if its place is needed.
    fn forget(&mut self) {
        let full = self.open.len() >= self.connections;
        let sockets = &mut self.sockets;
        self.open.retain(|(handle, ..)| {
            let state = sockets.get::<Socket>(*handle).state();
            // A socket listens again after a SYN that led to no connection.
            let ended =
                matches!(state, State::Closed | State::Listen) || full && state == State::TimeWait;
            if ended {
                sockets.remove(*handle);
            }
            !ended
        });
    }

    /// Permits routers to fragment a packet. smoltcp does not discover the path MTU, so routers may
    /// have to fragment its packets; the fragments of each packet need an identification of their
    /// own (RFC 791, section 2.3). IPv6 packets always fit ([`Wire::at`]).
    fn allow_cutting(&mut self, packet: &mut [u8]) {
        if packet.len() >= MIN_IP && !bytes::is_v6(packet) {
            put16(packet, 4, self.identification);
            packet[6] &= !0x40;
            bytes::renew_ip_checksum(packet);
            self.identification = self.identification.wrapping_add(1);
        }
    }
}

impl Resident for SimulatedServer {
    fn wants(&self, glance: &FrameView<'_>) -> bool {
        matches!(glance.ethertype, 0x0800 | 0x86dd)
            && self.is_at(glance.destination)
            && IpHeader::read(glance.inner).is_some_and(|ip| {
                // The server does not reassemble fragments.
                ip.protocol == TCP && self.addresses.contains(&ip.dst) && !ip.fragment
            })
    }

    fn handle_frame(
        &mut self,
        now: Instant<Virtual>,
        frame: &ReceivedFrame<'_>,
        out: &mut Outgoing,
    ) {
        self.device.arrived.push_back(frame.inner.to_vec());
        self.work(now, out);
    }

    fn handle_wake(&mut self, now: Instant<Virtual>, out: &mut Outgoing) {
        self.work(now, out);
    }

    fn next_wake(&self) -> Option<Instant<Virtual>> {
        self.wake
    }
}

impl core::fmt::Debug for SimulatedServer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Server")
            .field("services", &self.services)
            .field("open", &self.open.len())
            .finish_non_exhaustive()
    }
}
