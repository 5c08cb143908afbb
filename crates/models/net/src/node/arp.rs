//! ARP (RFC 826) and neighbour discovery (RFC 4861): resolution of MAC addresses on a LAN.

use std::net::Ipv4Addr;

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, NodeId};
use timeloom_time::Duration;

use crate::bytes::NdMessage;
use crate::ids::{NodeRole, Token};
use crate::packet::{Packet, PacketKind, PortId};
use crate::tables::address::Family;
use crate::tables::arp::{Neighbour, Retry, Unresolved};
use crate::tables::outside::{Opened, Outbox};
use crate::tables::refusal::Refusal;
use crate::tables::slab::PacketId;
use crate::world::World;

/// Interval between requests: at most one request per second and destination (RFC 1122, section
/// 2.3.2.1). RFC 4861, section 10, has the same interval and number of requests.
const RETRY: Duration = Duration::from_s(1);
/// Returns the length of a request or reply in bytes, from the IP header on (for ARP: of the
/// message).
fn message_bytes(family: Family) -> u16 {
    match family {
        Family::V4 => 46,
        Family::V6 => NdMessage::BYTES,
    }
}

/// Returns a request or reply that the model sends, without payload bytes.
fn message(kind: PacketKind, port: PortId, to: PortId, family: Family) -> Packet {
    let mut message = Packet::new(kind, port, to, 0, message_bytes(family));
    if family == Family::V6 {
        message.flags |= Packet::IPV6;
    }
    message
}

/// Returns the reply of interface `port` to a request of a real program with the addresses
/// `address` and `mac`. `asker` is the interface that has `address`, if there is one.
pub(crate) fn reply_to_stranger(
    port: PortId,
    asker: Option<PortId>,
    address: Ipv4Addr,
    mac: PortId,
) -> Packet {
    let to = asker.unwrap_or(PortId::NONE);
    let mut reply = message(PacketKind::ArpReply, port, to, Family::V4);
    reply.dst_mac = mac;
    reply.seq = address.to_bits();
    reply
}

impl World {
    /// Sends a packet out of an interface to the neighbouring interface `via`. On a LAN, the MAC
    /// address is resolved first.
    #[inline]
    pub(crate) fn emit<Q: EventQueue>(
        &mut self,
        port: PortId,
        via: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        if self.ports[port].arp == crate::packet::NIL {
            return self.transmit(port, id, agenda);
        }
        self.emit_on_lan(port, via, id, agenda);
    }

    fn emit_on_lan<Q: EventQueue>(
        &mut self,
        port: PortId,
        via: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let cache = &mut self.arps[self.ports[port].arp];
        let packet = &mut self.packets[id];
        packet.src_mac = port;
        let neighbour = Neighbour::new(via, packet.family());
        if let Some(mac) = cache.lookup(neighbour, agenda.now()) {
            packet.dst_mac = mac;
            return self.transmit(port, id, agenda);
        }
        match cache.enqueue(neighbour, id, &mut self.packets) {
            Unresolved::Waits => {}
            Unresolved::Full => {
                self.counters.arp_failed += 1;
                self.packets.remove(id);
            }
            Unresolved::Ask { start_timer } => {
                if start_timer {
                    self.schedule_arp_timer(port, agenda);
                }
                self.ask(port, neighbour, agenda);
            }
        }
    }

    fn schedule_arp_timer<Q: EventQueue>(&self, port: PortId, agenda: &mut Agenda<Q>) {
        let node = NodeId(self.ports[port].node);
        agenda.schedule(agenda.now() + RETRY, node, Token::ARP | port.0);
    }

    fn ask<Q: EventQueue>(&mut self, port: PortId, neighbour: Neighbour, agenda: &mut Agenda<Q>) {
        let mut request = message(
            PacketKind::ArpRequest,
            port,
            neighbour.interface(),
            neighbour.family(),
        );
        request.dst_mac = PortId::NONE;
        let id = self.packets.insert(request);
        self.transmit(port, id, agenda);
    }

    /// Handles a request or reply of the model that arrived at an interface.
    pub(crate) fn handle_arp<Q: EventQueue>(
        &mut self,
        port: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let node = self.ports[port].node;
        if self.outside.opened(node) == Opened::Frames {
            // A kernel outside of the model answers for this interface.
            if let Some(number) = self.kernel_timers.at(node) {
                self.note_received(number, id, agenda);
            }
            return self.queue_outside(Outbox::Frames, node, id, agenda.now());
        }
        let asks = self.packets[id];
        self.packets.remove(id);
        if asks.dst != port || self.ports[port].arp == crate::packet::NIL {
            return;
        }
        // A request contains the MAC address of its sender (RFC 826, packet reception).
        let neighbour = Neighbour::new(asks.src, asks.family());
        self.learn_neighbour(port, neighbour, asks.src_mac, agenda);
        if asks.kind == PacketKind::ArpRequest {
            let reply = message(PacketKind::ArpReply, port, asks.src, asks.family());
            let id = self.packets.insert(reply);
            self.transmit(port, id, agenda);
        }
    }

    /// Stores at `port` that `neighbour` has this MAC address, and sends the packets that waited
    /// for the address.
    pub(crate) fn learn_neighbour<Q: EventQueue>(
        &mut self,
        port: PortId,
        neighbour: Neighbour,
        mac: PortId,
        agenda: &mut Agenda<Q>,
    ) {
        let Some(cache) = self.arps.get_mut(self.ports[port].arp) else {
            return;
        };
        let mut waited = cache.learn(neighbour, mac, agenda.now());
        while let Some(id) = waited.pop(&self.packets) {
            self.packets[id].dst_mac = mac;
            self.transmit(port, id, agenda);
        }
    }

    /// Handles the timer of an interface, one second after a request.
    pub(crate) fn handle_arp_timer<Q: EventQueue>(&mut self, port: PortId, agenda: &mut Agenda<Q>) {
        let cache = &mut self.arps[self.ports[port].arp];
        let Retry { again, lost } = cache.retry(&self.packets);
        if !again.is_empty() {
            self.schedule_arp_timer(port, agenda);
        }
        for neighbour in again {
            self.ask(port, neighbour, agenda);
        }
        self.counters.arp_failed += lost.len() as u64;
        let node = self.ports[port].node;
        for id in lost {
            match self.roles[node as usize] {
                NodeRole::Router(index) => {
                    self.refuse((node, index), id, Refusal::HostUnreachable, agenda);
                }
                _ => self.packets.remove(id),
            }
        }
    }
}
