//! Residents: state machines at nodes of the network, for protocols that the model itself does not
//! have.
//!
//! A [`Resident`] receives the frames that it selects, with the instants at which their first bits
//! arrived. It sends frames of its own, which wait in the node's queues behind other packets. On
//! request it is informed when the first bit of such a frame has left. A clock that timestamps its
//! messages needs these instants (the message timestamp point of IEEE 1588-2008, 7.3.4.1). All
//! other frames are handled as usual: a switch forwards them, and a host answers or drops them.
//!
//! The resident of a switch is in VLAN 1 and does not receive frames of other VLANs.

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, NodeId};
use timeloom_time::{Instant, Virtual};

use crate::ids::{Node, NodeRole, Token};
use crate::packet::PortId;
use crate::tables::buffers::{Content, ETHERNET, OffloadedWork};
use crate::tables::residents::{FrameView, Outgoing, ReceivedFrame, Request, Resident};
use crate::tables::slab::PacketId;
use crate::tables::switch::PortMode;
use crate::world::World;

/// VLAN of residents at switches, and default VLAN of ports (IEEE 802.1Q, 9.6).
pub(super) const VLAN: u16 = 1;

/// Event for a resident.
pub(super) enum Input {
    /// A frame that the resident selected has arrived.
    Frame {
        port: usize,
        id: PacketId,
        into: PortId,
    },
    /// A frame that the resident sent has left, or was dropped.
    Departure {
        port: usize,
        tag: u64,
        at: Option<Instant<Virtual>>,
    },
    /// The resident's timer has expired.
    Wake,
}

impl World {
    /// Places `resident` at a host or switch, and replaces the node's resident, if any. Must be
    /// called before [`World::start`]. Returns false if the node is a router.
    pub fn attach(&mut self, node: Node, resident: Box<dyn Resident>) -> bool {
        let ports = match self.roles[node.0 as usize] {
            NodeRole::Host => vec![self.ports.first_of(node.0)],
            NodeRole::Switch(index) => {
                let ports = self.switches[index as usize].ports().iter();
                ports.map(|(port, _)| *port).collect()
            }
            NodeRole::Router(_) => return false,
        };
        self.residents
            .attach(node.0, self.roles.len(), ports, resident);
        true
    }

    /// Returns the resident at a node; `None` without one.
    pub fn resident(&self, node: Node) -> Option<&dyn Resident> {
        self.residents.get(self.residents.at(node.0)?)
    }

    /// Returns the resident at a node for modification; `None` without one.
    pub fn resident_mut(&mut self, node: Node) -> Option<&mut dyn Resident> {
        self.residents.get_mut(self.residents.at(node.0)?)
    }

    pub(crate) fn start_residents<Q: EventQueue>(&mut self, agenda: &mut Agenda<Q>) {
        for number in 0..self.residents.len() {
            if self.crossings.owns(self.residents.node_of(number)) {
                self.appoint(number, agenda);
            }
        }
    }

    /// Offers a real packet to the node's resident; returns true if the resident took it.
    pub(crate) fn offer_to_resident<Q: EventQueue>(
        &mut self,
        node: NodeId,
        into: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) -> bool {
        let Some(number) = self.residents.at(node.0) else {
            return false;
        };
        let packet = self.packets[id];
        let ports = self.residents.ports_of(number);
        let Some(port) = ports.iter().position(|port| *port == into) else {
            return false;
        };
        if !self.is_in_vlan(node, into, packet.vlan) {
            return false;
        }
        let buffer = self.packets.buffers.get(packet.flow);
        let frame = FrameView {
            destination: self.outside.macs.mac(packet.dst_mac),
            ethertype: buffer.ethertype(),
            inner: buffer.inner(),
        };
        let resident = self.residents.get(number);
        if !resident.is_some_and(|resident| resident.wants(&frame)) {
            return false;
        }
        if packet.segments() == 1 {
            self.act(number, Input::Frame { port, id, into }, agenda);
            self.packets.remove(id);
            return true;
        }
        // The resident receives a train as single frames.
        for segment in 0..packet.segments() {
            let part = self.piece(&packet, segment, 1);
            let id = self.packets.insert(part);
            self.act(number, Input::Frame { port, id, into }, agenda);
            self.packets.remove(id);
        }
        self.packets.remove(id);
        true
    }

    fn is_in_vlan(&self, node: NodeId, port: PortId, vlan: u16) -> bool {
        let NodeRole::Switch(index) = self.roles[node.0 as usize] else {
            return true;
        };
        match self.switches[index as usize].mode(port) {
            Some(PortMode::Access(own)) => *own == VLAN && vlan == 0,
            // On a trunk, untagged frames come from the resident of a neighbour.
            Some(PortMode::Trunk) => matches!(vlan, 0 | VLAN),
            None => false,
        }
    }

    /// Runs a resident with one event, and carries out its requests.
    pub(super) fn act<Q: EventQueue>(&mut self, number: u32, input: Input, agenda: &mut Agenda<Q>) {
        let Some(mut resident) = self.residents.take(number) else {
            return;
        };
        let now = agenda.now();
        let mut out = Outgoing::default();
        match input {
            Input::Frame { port, id, into } => {
                let packet = self.packets[id];
                let first_bit = packet.at - self.links[into.peer()].time_of(&packet);
                let mut scratch = self.outside.take_scratch();
                let buffer = self.packets.buffers.get(packet.flow);
                let macs = [packet.src_mac, packet.dst_mac];
                let macs = macs.map(|key| self.outside.macs.mac(key));
                let (rest, offload) = buffer.write_head(&packet, macs, &mut scratch);
                scratch.extend_from_slice(rest);
                complete(&mut scratch, buffer.content, offload);
                let frame = ReceivedFrame {
                    port,
                    first_bit,
                    source: macs[0],
                    ethertype: buffer.ethertype(),
                    inner: &scratch[usize::from(ETHERNET)..],
                };
                resident.handle_frame(now, &frame, &mut out);
                self.outside.return_scratch(scratch);
            }
            Input::Departure { port, tag, at } => {
                resident.handle_departure(now, port, tag, at, &mut out);
            }
            Input::Wake => resident.handle_wake(now, &mut out),
        }
        self.residents.put_back(number, resident);
        for request in out.into_requests() {
            match request {
                Request::Frame(port, frame, tag) => {
                    self.send_for_resident(number, port, &frame, tag, agenda);
                }
                Request::Packet(packet) => {
                    let node = Node(self.residents.node_of(number));
                    match self.roles[node.0 as usize] {
                        NodeRole::Host => self.send_raw(node, &packet, agenda),
                        _ => self.counters.malformed += 1,
                    }
                }
            }
        }
        self.appoint(number, agenda);
    }

    /// Handles a scheduled wake-up of a resident.
    pub(crate) fn wake_resident<Q: EventQueue>(&mut self, number: u32, agenda: &mut Agenda<Q>) {
        if !self.residents.keep_appointment(number, agenda.now()) {
            return;
        }
        let due = self.residents.get(number).and_then(Resident::next_wake);
        if due.is_some_and(|due| due <= agenda.now()) {
            return self.act(number, Input::Wake, agenda);
        }
        self.appoint(number, agenda);
    }

    fn appoint<Q: EventQueue>(&mut self, number: u32, agenda: &mut Agenda<Q>) {
        if let Some(due) = self.residents.appoint(number, agenda.now()) {
            let node = NodeId(self.residents.node_of(number));
            agenda.schedule(due, node, Token::RESIDENT | number);
        }
    }
}

/// Completes a checksum that a kernel has left to its network card.
fn complete(frame: &mut [u8], content: Content, offload: OffloadedWork) {
    if let (Content::Ip, Some(checksum)) = (content, offload.checksum) {
        crate::bytes::complete(frame, checksum.start, checksum.offset);
    }
}
