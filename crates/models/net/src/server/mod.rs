//! Simulated hosts that serve real programs over TCP.
//!
//! A [`Server`] lives at a host of the model ([`crate::Resident`]): TCP packets for the host go to
//! its own stack (smoltcp), byte for byte, and [`Service`]s answer. The model still handles
//! neighbours, pings and datagrams. Real programs reach it through a portal; nothing here opens a
//! socket of the machine.
//!
//! Input from outside is bounded: the number of connections, the bytes for each, and a connection
//! whose peer has vanished is dropped.

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

/// Function of a server's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Sends received bytes back (RFC 862).
    Echo,
    /// Discards received bytes (RFC 863).
    Discard,
    /// Sends as fast as the peer receives, this much in all or, with `None`, until the peer closes
    /// (after RFC 864).
    Source(Option<u64>),
    /// HTTP/1.1: answers GET with a page of this many bytes, or of the number in the path; answers
    /// POST and PUT with the number of received bytes.
    Http(u64),
}

/// Configuration of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Ports and their functions; no port twice.
    pub services: Vec<(u16, Service)>,
    /// Maximum number of connections; further ones are refused.
    pub connections: usize,
    /// Bytes buffered for each connection and direction: the window that it offers, and its maximum
    /// in flight.
    pub buffer_bytes: usize,
    /// Seed of the sequence numbers.
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

/// Simulated host with services.
pub struct Server {
    addresses: Vec<IpAddr>,
    mac: [u8; 6],
    /// Other stations are on the same segment: on a cable between two nodes the model leaves MAC
    /// addresses as they were on the last one.
    shared: bool,
    interface: Interface,
    device: Wire,
    sockets: SocketSet<'static>,
    services: Vec<(u16, Service, ServiceStats)>,
    /// Listening sockets by service, while there is room for a connection.
    listening: Vec<Option<SocketHandle>>,
    /// Opened sockets, with their service and the state of the conversation.
    open: Vec<(SocketHandle, usize, Conversation)>,
    connections: usize,
    buffer_bytes: usize,
    /// Number of the next packet, which identifies its fragments.
    identification: u16,
    wake: Option<Instant<Virtual>>,
}

/// Idle time after which a peer is probed; after [`GIVEN_UP_AFTER`] the connection is dropped
/// (RFC 9293, section 3.8.4, assumes hours; an experiment lasts minutes).
const ASKED_AFTER: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(30);
const GIVEN_UP_AFTER: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(120);

/// Bytes of an IPv4 header without options.
const MIN_IP: usize = 20;

impl Server {
    /// Places a server at a host with an address, from the start on; returns false if that is
    /// impossible.
    pub fn attach(world: &mut World, node: Node, options: &ServerOptions) -> bool {
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

    /// Returns the server at a node.
    pub fn at(world: &World, node: Node) -> Option<&Self> {
        let resident: &dyn core::any::Any = world.resident(node)?;
        resident.downcast_ref()
    }

    /// Returns its ports, with their functions and counters.
    pub fn services(&self) -> &[(u16, Service, ServiceStats)] {
        &self.services
    }

    fn is_at(&self, mac: [u8; 6]) -> bool {
        mac == self.mac || !self.shared
    }

    /// Keeps one socket listening for each service while there is room.
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
                // Fails for port 0 only, which cannot be reached.
                let _ = socket.listen(*port);
                *place = Some(self.sockets.add(socket));
            }
        }
    }

    /// Runs stack and services until neither has anything to do.
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

    /// Moves sockets that are no longer listening out of the list.
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

    /// Continues every conversation; returns true if one made progress.
    fn serve(&mut self) -> bool {
        let mut any = false;
        for (handle, index, conversation) in &mut self.open {
            let socket = self.sockets.get_mut::<Socket>(*handle);
            any |= conversation.go_on(socket, &mut self.services[*index].2);
        }
        any
    }

    /// Removes closed sockets. A socket that only waits for late packets (TIME-WAIT) is removed if
    /// its place is needed.
    fn forget(&mut self) {
        let full = self.open.len() >= self.connections;
        let sockets = &mut self.sockets;
        self.open.retain(|(handle, ..)| {
            let state = sockets.get::<Socket>(*handle).state();
            // After a SYN without a connection the socket listens again.
            let ended =
                matches!(state, State::Closed | State::Listen) || full && state == State::TimeWait;
            if ended {
                sockets.remove(*handle);
            }
            !ended
        });
    }

    /// Allows fragmentation of a packet. smoltcp does not discover the path MTU, so its packets may
    /// be fragmented; the fragments of each need a number of their own (RFC 791, section 2.3).
    /// Those of IPv6 fit ([`Wire::at`]).
    fn allow_cutting(&mut self, packet: &mut [u8]) {
        if packet.len() >= MIN_IP && !bytes::is_v6(packet) {
            put16(packet, 4, self.identification);
            packet[6] &= !0x40;
            bytes::renew_ip_checksum(packet);
            self.identification = self.identification.wrapping_add(1);
        }
    }
}

impl Resident for Server {
    fn wants(&self, glance: &FrameView<'_>) -> bool {
        matches!(glance.ethertype, 0x0800 | 0x86dd)
            && self.is_at(glance.destination)
            && IpHeader::read(glance.inner).is_some_and(|ip| {
                // Fragments are not reassembled.
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

impl core::fmt::Debug for Server {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Server")
            .field("services", &self.services)
            .field("open", &self.open.len())
            .finish_non_exhaustive()
    }
}
