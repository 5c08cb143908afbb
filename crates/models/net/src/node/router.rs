//! Forwarding.

use timeloom_engine::Agenda;
use timeloom_engine::queue::EventQueue;

use crate::packet::{Kind, NIL, PortId};
use crate::route::Hop;
use crate::tables::refusal::Refusal;
use crate::tables::slab::PacketId;
use crate::world::World;

impl World {
    /// A packet has come to router `node`, from outside or from itself.
    #[inline]
    pub(crate) fn forward<Q: EventQueue>(
        &mut self,
        node: u32,
        index: u32,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let packet = &mut self.packets[id];
        let dst = packet.dst;
        if dst == PortId::NONE {
            // For an address that nobody here has.
            return self.refuse_unroutable((node, index), id, agenda);
        }
        if self.ports[dst.index()].node == node {
            return self.receive_at_router(node, index, id, agenda);
        }
        if packet.ttl <= 1 {
            self.counters.ttl_exceeded += 1;
            return self.refuse((node, index), id, Refusal::TimeExceeded, agenda);
        }
        packet.ttl -= 1;
        let flow = packet.path_key();
        match self.hop(node, index, dst, flow) {
            Some(hop) if self.is_too_long(hop.port, id) => {
                self.send_in_parts((node, index), hop, id, agenda);
            }
            Some(hop) => self.emit(hop.port, hop.via, id, agenda),
            None => self.refuse_unroutable((node, index), id, agenda),
        }
    }

    /// Where a router sends what is for interface `dst`.
    #[inline]
    pub(crate) fn hop(&self, node: u32, index: u32, dst: PortId, flow: u32) -> Option<Hop> {
        let place = self.ports[dst.index()];
        let router = &self.routers[index as usize];
        if let Some(hop) = self.static_hop(index, dst) {
            Some(hop)
        } else if place.peer_node == node {
            // The destination is at the other end of a cable of ours.
            Some(Hop {
                port: dst.peer(),
                via: dst,
            })
        } else if let Some((_, port)) = router.lans.iter().find(|(lan, _)| *lan == place.segment) {
            Some(Hop {
                port: *port,
                via: dst,
            })
        } else if place.target == NIL {
            None
        } else {
            self.routes.hop(router.number, place.target, flow)
        }
    }

    #[inline]
    fn static_hop(&self, index: u32, dst: PortId) -> Option<Hop> {
        let statics = &self.routers[index as usize].statics;
        if statics.is_empty() {
            return None;
        }
        let address = self.addresses[dst.index()].0;
        let mut fitting = statics.iter();
        let route = fitting.find(|route| address & route.mask == route.network)?;
        Some(route.hop)
    }

    /// Routers answer echo requests, refuse datagrams of real programs, and drop
    /// all else that is for them.
    fn receive_at_router<Q: EventQueue>(
        &mut self,
        node: u32,
        index: u32,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let packet = &mut self.packets[id];
        if packet.kind == Kind::Raw {
            return self.answer_echo(node, index, id, agenda);
        }
        if packet.kind != Kind::EchoRequest {
            self.counters.not_for_us += 1;
            return self.packets.remove(id);
        }
        packet.kind = Kind::EchoReply;
        packet.ttl = 64;
        core::mem::swap(&mut packet.src, &mut packet.dst);
        self.forward(node, index, id, agenda);
    }
}
