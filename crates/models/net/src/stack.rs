//! Simulated hosts with a real TCP/IP stack, smoltcp.
//!
//! The stack is for hosts that must exchange real TCP packets with real machines or with each
//! other. For background traffic use [`crate::TcpConfig`], which has no payload bytes.
//!
//! smoltcp counts time in microseconds, and its minimum timeout is one second. An instant that is
//! passed to it is rounded up, so that it never acts early.

use std::collections::VecDeque;
use std::net::IpAddr;

use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::wire::{HardwareAddress, IpCidr};
use timeloom_engine::Agenda;
use timeloom_engine::queue::EventQueue;
use timeloom_time::{Instant, Virtual};

use crate::tables::address::Family;
use crate::{Node, PortId, World};

/// TCP/IP stack of one host. The caller passes packets that arrived at the host to
/// [`Stack::handle_packet`], calls [`Stack::poll`], and calls it again at the instant that it
/// returns.
pub struct Stack {
    node: Node,
    interface: Interface,
    device: Wire,
    /// Sockets of the stack, used as described in smoltcp's documentation.
    pub sockets: SocketSet<'static>,
}

impl Stack {
    /// Returns the stack of host `node`, and opens the host for packets of the stack. `seed`
    /// determines initial sequence numbers and port numbers.
    pub fn new(world: &mut World, node: Node, seed: u64, now: Instant<Virtual>) -> Self {
        world.open(node);
        let mut device = Wire::at(world, node);
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut device, stack_time(now));
        if let Some(port) = world.port_of(node) {
            give_addresses(&mut interface, &addresses(world, port));
        }
        Self {
            node,
            interface,
            device,
            sockets: SocketSet::new(Vec::new()),
        }
    }

    /// Returns the host of the stack.
    pub fn node(&self) -> Node {
        self.node
    }

    /// Returns interface and sockets, which smoltcp needs for connecting a socket.
    pub fn context(&mut self) -> (&mut Interface, &mut SocketSet<'static>) {
        (&mut self.interface, &mut self.sockets)
    }

    /// Passes a packet that arrived at the host to the stack.
    pub fn handle_packet(&mut self, bytes: &[u8]) {
        self.device.arrived.push_back(bytes.to_vec());
    }

    /// Runs the stack and sends its packets. Returns the instant of the next call; `None` if only a
    /// packet requires one.
    pub fn poll<Q: EventQueue>(
        &mut self,
        world: &mut World,
        agenda: &mut Agenda<Q>,
    ) -> Option<Instant<Virtual>> {
        let now = stack_time(agenda.now());
        self.interface
            .poll(now, &mut self.device, &mut self.sockets);
        while let Some(packet) = self.device.sent.pop_front() {
            world.send_raw(self.node, &packet, agenda);
        }
        let at = self.interface.poll_at(now, &self.sockets)?;
        Some(Instant::from_ns(at.total_micros() * 1_000).max(agenda.now()))
    }
}

/// Returns the addresses of an interface: IPv4, IPv6 or both.
pub(crate) fn addresses(world: &World, port: PortId) -> Vec<IpAddr> {
    let all = Family::BOTH.map(|family| world.ports.address(port, family));
    all.into_iter().flatten().collect()
}

/// Assigns addresses to the stack. With prefix length 0, the stack regards all destinations as
/// neighbours, since the model does the routing.
pub(crate) fn give_addresses(interface: &mut Interface, addresses: &[IpAddr]) {
    interface.update_ip_addrs(|list| {
        for address in addresses {
            // The list has room for two addresses (IFACE_MAX_ADDR_COUNT), and there are never more.
            let _ = list.push(IpCidr::new((*address).into(), 0));
        }
    });
}

/// Converts an instant to smoltcp's unit, rounded up.
pub(crate) fn stack_time(at: Instant<Virtual>) -> smoltcp::time::Instant {
    smoltcp::time::Instant::from_micros(
        at.as_ns().div_euclid(1_000) + i64::from(at.as_ns() % 1_000 != 0),
    )
}

/// The host's link, as smoltcp sees it.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) arrived: VecDeque<Vec<u8>>,
    pub(crate) sent: VecDeque<Vec<u8>>,
    /// Length of the longest packet on the link, in bytes.
    mtu: usize,
}

impl Wire {
    /// Returns the link of host `node`. If the host has an IPv6 address, the MTU is the minimum
    /// over all links of the network: routers do not fragment IPv6 packets, and smoltcp ignores the
    /// ICMP errors about their length.
    pub(crate) fn at(world: &World, node: Node) -> Self {
        let mtu = world.port_of(node).map(|port| {
            let speaks_v6 = world.address_v6(port).is_some();
            let all = world.cables().map(|cable| world.mtu(cable.port)).min();
            let least = all.filter(|_| speaks_v6).unwrap_or(u16::MAX);
            usize::from(world.mtu(port).min(least))
        });
        Self {
            arrived: VecDeque::new(),
            sent: VecDeque::new(),
            mtu: mtu.unwrap_or(MOST_MTU).min(MOST_MTU),
        }
    }
}

/// MTU of Ethernet, used if the host's link has a greater one.
const MOST_MTU: usize = 1_500;

pub(crate) struct Receive(Vec<u8>);
pub(crate) struct Send<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::RxToken for Receive {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl phy::TxToken for Send<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut packet = vec![0; length];
        let result = f(&mut packet);
        self.0.push_back(packet);
        result
    }
}

impl phy::Device for Wire {
    type RxToken<'a> = Receive;
    type TxToken<'a> = Send<'a>;

    fn receive(&mut self, _: smoltcp::time::Instant) -> Option<(Receive, Send<'_>)> {
        let packet = self.arrived.pop_front()?;
        Some((Receive(packet), Send(&mut self.sent)))
    }

    fn transmit(&mut self, _: smoltcp::time::Instant) -> Option<Send<'_>> {
        Some(Send(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}
