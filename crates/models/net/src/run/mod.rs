//! Interface to the engine: dispatch of events, and the steps of fluid flows.

mod changes;
mod fluid;
mod fluid_cut;
mod path;

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, Event, Model, NodeId};
use timeloom_time::convert::number_of;

use crate::ids::{NodeRole, Token};
use crate::packet::{Packet, PacketKind, PortId};
use crate::tables::ports::Port;
use crate::tables::slab::PacketId;
use crate::tables::source::Source;
use crate::world::World;

impl<Q: EventQueue> Model<Q> for World {
    #[inline]
    fn handle(&mut self, event: Event, agenda: &mut Agenda<Q>) {
        let index = event.token & Token::INDEX;
        match event.token & !Token::INDEX {
            Token::ARRIVAL => {
                let (first, next) = self.links[PortId(index)].arrive(&self.packets);
                if let Some(at) = next {
                    agenda.schedule(at, event.node, event.token);
                }
                if let Some(id) = first {
                    self.deliver(event.node, PortId(index).peer(), id, agenda);
                }
            }
            Token::END => self.end_of_transmission(PortId(index), agenda),
            Token::SINGLE => {
                if let Some(id) = self.links[PortId(index)].take_single() {
                    self.deliver(event.node, PortId(index).peer(), id, agenda);
                }
            }
            Token::SENDER => self.handle_sender_timer(index, agenda),
            Token::RECEIVER => self.handle_receiver_timer(index, agenda),
            Token::SOURCE => self.handle_source(index, agenda),
            Token::ARP => self.handle_arp_timer(PortId(index), agenda),
            Token::RESIDENT => self.wake_resident(index, agenda),
            Token::KERNEL => self.wake_kernel_timers(index, agenda),
            Token::FLUID => self.handle_fluid_step(agenda),
            Token::CHANGE => self.handle_change(index, agenda),
            Token::DEPARTURE => self.departed(index, Some(event.at), agenda),
            _ => self.pump(index, agenda),
        }
    }
}

impl World {
    /// Schedules the first events of all flows and sources. Must be called once, at the beginning.
    ///
    /// The beginning may be later than zero, for a part whose engine replaces a lost one. Sources
    /// continue as if they had sent all along. An endless TCP flow is opened again, and the engine
    /// of its other host must be informed ([`World::reopen`]). A TCP flow with an end that had
    /// begun is broken off, so that nothing is sent twice.
    pub fn start<Q: EventQueue>(&mut self, agenda: &mut Agenda<Q>) {
        self.links.prepare();
        for (index, flow) in self.flows.iter() {
            let node = NodeId(self.ports[flow.from].node);
            if !self.crossings.owns(node.0) {
                continue;
            }
            let had_begun = flow.start < agenda.now();
            if had_begun && !flow.sender.is_endless() {
                continue;
            }
            let at = flow.start.max(agenda.now());
            agenda.schedule(at, node, Token::START | index);
        }
        for index in 0..number_of(self.sources.len()) {
            let source = self.sources.get(index);
            let is_ours = |source: &Source| self.crossings.owns(self.ports[source.from()].node);
            if source.is_some_and(is_ours) {
                self.begin_source(index, agenda);
            }
        }
        self.start_changes(agenda);
        self.start_residents(agenda);
        self.start_fluid(agenda);
    }

    fn end_of_transmission<Q: EventQueue>(&mut self, port: PortId, agenda: &mut Agenda<Q>) {
        let link = &mut self.links[port];
        let done = link.end_of_transmission(agenda.now(), &mut self.packets);
        let Port {
            node, peer_node, ..
        } = self.ports[port];
        if let Some(at) = done.next_end {
            agenda.schedule(at, NodeId(node), Token::END | port.0);
        }
        if let Some(number) = done.begun {
            self.departed(number, Some(agenda.now()), agenda);
        }
        for id in done.packets.into_iter().flatten() {
            if self.links[port].crosses() {
                self.export(port, id);
                self.packets.remove(id);
                continue;
            }
            let at = self.packets[id].at;
            self.links[port].add_single(at, id);
            agenda.schedule(at, NodeId(peer_node), Token::SINGLE | port.0);
        }
    }

    #[inline]
    fn deliver<Q: EventQueue>(
        &mut self,
        node: NodeId,
        into: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        self.counters.hops += 1;
        let packet = &self.packets[id];
        if packet.flags & Packet::LOST != 0 {
            return self.packets.remove(id);
        }
        if matches!(packet.kind, PacketKind::Raw | PacketKind::Fluid) {
            return self.deliver_raw(node, into, id, agenda);
        }
        match self.roles[node.0 as usize] {
            NodeRole::Host => self.receive(into, id, agenda),
            NodeRole::Router(_)
                if matches!(packet.kind, PacketKind::ArpRequest | PacketKind::ArpReply) =>
            {
                self.handle_arp(into, id, agenda);
            }
            NodeRole::Router(index) => self.forward(node.0, index, id, agenda),
            NodeRole::Switch(index) => self.bridge(index, into, id, agenda),
        }
    }
}
