//! Machines that live at a node of the network and speak a protocol that the
//! model itself does not know.
//!
//! A [`Resident`] sees the frames that it asks for, with the instants at which
//! their first bits arrived, and sends frames of its own, which wait in the
//! node's queues behind all others; on demand it is told when the first bit of
//! one went out. That is what a clock needs that stamps its messages (the
//! message timestamp point of IEEE 1588-2008, 7.3.4.1). What it does not ask for
//! goes its usual way: a switch forwards it, a host answers or drops it.
//!
//! At a switch it lives in VLAN 1: what is tagged otherwise passes it by.

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, NodeId};
use timeloom_time::{Instant, Virtual};

use crate::ids::{Node, Place, Token};
use crate::packet::{NIL, Packet, PortId};
use crate::tables::buffers::{Content, ETHERNET, Offload};
use crate::tables::residents::{
    Arrived, Departing, Glance, Lodging, MOST_DEPARTING, Outgoing, Resident, Sent,
};
use crate::tables::slab::PacketId;
use crate::tables::switch::PortMode;
use crate::world::World;

/// The VLAN that residents of switches live in, and that ports are in which
/// nobody has said anything about (IEEE 802.1Q, 9.6).
const VLAN: u16 = 1;

enum Told {
    Frame {
        port: usize,
        id: PacketId,
        into: PortId,
    },
    Departure {
        port: usize,
        tag: u64,
        at: Option<Instant<Virtual>>,
    },
    Wake,
}

impl World {
    /// Lets `resident` live at a host or switch, in the place of another if
    /// there is one. To be called before [`World::start`]; false when the node is
    /// a router.
    pub fn lodge(&mut self, node: Node, resident: Box<dyn Resident>) -> bool {
        let ports = match self.places[node.0 as usize] {
            Place::Host => vec![self.first_port[node.0 as usize]],
            Place::Switch(index) => {
                let ports = self.switches[index as usize].ports.iter();
                ports.map(|(port, _)| *port).collect()
            }
            Place::Router(_) => return false,
        };
        let residents = &mut self.residents;
        residents.by_node.resize(self.places.len(), NIL);
        let lodging = Lodging {
            node: node.0,
            ports,
            resident: Some(resident),
            appointment: Instant::FAR_FUTURE,
        };
        match residents.by_node[node.0 as usize] {
            NIL => {
                residents.by_node[node.0 as usize] = residents.list.len() as u32;
                residents.list.push(lodging);
            }
            there => residents.list[there as usize] = lodging,
        }
        true
    }

    /// Whether a node is a switch.
    pub fn is_switch(&self, node: Node) -> bool {
        matches!(self.places[node.0 as usize], Place::Switch(_))
    }

    /// Whether a node is a host.
    pub fn is_host(&self, node: Node) -> bool {
        matches!(self.places[node.0 as usize], Place::Host)
    }

    /// Who lives at a node.
    pub fn resident(&self, node: Node) -> Option<&dyn Resident> {
        let lodging = *self.residents.by_node.get(node.0 as usize)?;
        self.residents
            .list
            .get(lodging as usize)?
            .resident
            .as_deref()
    }

    /// The same, to be changed.
    pub fn resident_mut(&mut self, node: Node) -> Option<&mut dyn Resident> {
        let lodging = *self.residents.by_node.get(node.0 as usize)?;
        let lodging = self.residents.list.get_mut(lodging as usize)?;
        lodging.resident.as_deref_mut()
    }

    pub(crate) fn start_residents<Q: EventQueue>(&mut self, agenda: &mut Agenda<Q>) {
        for index in 0..self.residents.list.len() as u32 {
            if self
                .crossings
                .owns(self.residents.list[index as usize].node)
            {
                self.appoint(index, agenda);
            }
        }
    }

    /// Gives a real packet to the node's resident if it wants it; says whether
    /// it was taken.
    pub(crate) fn offer_to_resident<Q: EventQueue>(
        &mut self,
        node: NodeId,
        into: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) -> bool {
        let Some(&lodging) = self.residents.by_node.get(node.0 as usize) else {
            return false;
        };
        let Some(place) = self.residents.list.get(lodging as usize) else {
            return false;
        };
        let packet = self.packets[id];
        let Some(port) = place.ports.iter().position(|port| *port == into) else {
            return false;
        };
        if !self.is_in_vlan(node, into, packet.vlan) {
            return false;
        }
        let buffer = self.packets.buffers.get(packet.flow);
        let glance = Glance {
            destination: self.outside.macs.mac(packet.dst_mac),
            ethertype: buffer.ethertype(),
            inner: buffer.inner(),
        };
        let resident = place.resident.as_ref();
        if !resident.is_some_and(|resident| resident.wants(&glance)) {
            return false;
        }
        if packet.segments() == 1 {
            self.tell(lodging, Told::Frame { port, id, into }, agenda);
            self.packets.remove(id);
            return true;
        }
        // A train is told as what it stands for, frame by frame.
        for segment in 0..packet.segments() {
            let part = self.part(&packet, segment, 1);
            let id = self.packets.insert(part);
            self.tell(lodging, Told::Frame { port, id, into }, agenda);
            self.packets.remove(id);
        }
        self.packets.remove(id);
        true
    }

    fn is_in_vlan(&self, node: NodeId, port: PortId, vlan: u16) -> bool {
        let Place::Switch(index) = self.places[node.0 as usize] else {
            return true;
        };
        match self.switches[index as usize].mode(port) {
            Some(PortMode::Access(own)) => *own == VLAN && vlan == 0,
            // Untagged on a trunk is what a neighbour's resident says to this one.
            Some(PortMode::Trunk) => matches!(vlan, 0 | VLAN),
            None => false,
        }
    }

    /// Lets a resident act, and does what it wants done.
    fn tell<Q: EventQueue>(&mut self, lodging: u32, what: Told, agenda: &mut Agenda<Q>) {
        let place = &mut self.residents.list[lodging as usize];
        let Some(mut resident) = place.resident.take() else {
            return;
        };
        let now = agenda.now();
        let mut out = Outgoing::default();
        match what {
            Told::Frame { port, id, into } => {
                let packet = self.packets[id];
                let first_bit = packet.at - self.links[into.peer().index()].time_of(&packet);
                let mut scratch = core::mem::take(&mut self.outside.scratch);
                let buffer = self.packets.buffers.get(packet.flow);
                let macs = [packet.src_mac, packet.dst_mac];
                let macs = macs.map(|key| self.outside.macs.mac(key));
                let (rest, offload) = buffer.write_head(&packet, macs, &mut scratch);
                scratch.extend_from_slice(rest);
                complete(&mut scratch, buffer.content, offload);
                let arrived = Arrived {
                    port,
                    first_bit,
                    source: macs[0],
                    ethertype: buffer.ethertype(),
                    inner: &scratch[usize::from(ETHERNET)..],
                };
                resident.handle_frame(now, &arrived, &mut out);
                self.outside.scratch = scratch;
            }
            Told::Departure { port, tag, at } => {
                resident.handle_departure(now, port, tag, at, &mut out);
            }
            Told::Wake => resident.handle_wake(now, &mut out),
        }
        self.residents.list[lodging as usize].resident = Some(resident);
        for sent in out.0 {
            match sent {
                Sent::Frame(port, frame, tag) => {
                    self.send_for_resident(lodging, port, &frame, tag, agenda);
                }
                Sent::Packet(packet) => {
                    let node = Node(self.residents.list[lodging as usize].node);
                    match self.places[node.0 as usize] {
                        Place::Host => self.send_raw(node, &packet, agenda),
                        _ => self.counters.malformed += 1,
                    }
                }
            }
        }
        self.appoint(lodging, agenda);
    }

    fn send_for_resident<Q: EventQueue>(
        &mut self,
        lodging: u32,
        port: usize,
        frame: &[u8],
        tag: Option<u64>,
        agenda: &mut Agenda<Q>,
    ) {
        let place = &self.residents.list[lodging as usize];
        let node = place.node;
        let at = place.ports.get(port).copied();
        let vlan = at.and_then(|at| self.vlan_out(node, at));
        let read = self.read_frame(frame, Offload::default());
        let (Some(at), Some(vlan), Some((mut packet, what))) = (at, vlan, read) else {
            self.counters.malformed += u64::from(vlan.is_some());
            return self.give_up(lodging, port, tag, agenda);
        };
        packet.flow = self.packets.buffers.fill(frame, what);
        packet.src = at;
        packet.vlan = vlan;
        packet.stamp = agenda.now();
        let number = tag.map(|tag| self.expect_departure(lodging, port, tag, agenda));
        if let Some(number) = number {
            packet.flags |= Packet::STAMPED;
            packet.link = PortId(number);
        }
        let start = self.links[at.index()].next_start(agenda.now());
        let dropped = self.links[at.index()].stats.dropped;
        let id = self.packets.insert(packet);
        self.transmit_one(at, id, agenda);
        let Some(number) = number else { return };
        let link = &mut self.links[at.index()];
        if link.stats.dropped != dropped {
            self.departed(number, None, agenda);
        } else if let Some(start) = start {
            let start = link.last_start().unwrap_or(start);
            agenda.schedule(start, NodeId(node), Token::DEPARTURE | number);
        } else if let Some(begun) = link.take_begun() {
            self.departed(begun, Some(agenda.now()), agenda);
        }
    }

    /// The VLAN on the wire behind a port of a node; `None` where a resident's
    /// frames do not go.
    fn vlan_out(&self, node: u32, port: PortId) -> Option<u16> {
        let Place::Switch(index) = self.places[node as usize] else {
            return Some(0);
        };
        match self.switches[index as usize].mode(port)? {
            PortMode::Access(own) => (*own == VLAN).then_some(0),
            PortMode::Trunk => Some(VLAN),
        }
    }

    fn expect_departure<Q: EventQueue>(
        &mut self,
        lodging: u32,
        port: usize,
        tag: u64,
        agenda: &mut Agenda<Q>,
    ) -> u32 {
        let number = self.residents.next_departure;
        self.residents.next_departure = (number + 1) & Token::INDEX;
        let departing = &mut self.residents.departing;
        departing.resize(MOST_DEPARTING, None);
        let place = &mut departing[number as usize % MOST_DEPARTING];
        let old = place.replace(Departing {
            number,
            lodging,
            port,
            tag,
        });
        if let Some(old) = old {
            self.give_up(old.lodging, old.port, Some(old.tag), agenda);
        }
        number
    }

    fn give_up<Q: EventQueue>(
        &mut self,
        lodging: u32,
        port: usize,
        tag: Option<u64>,
        agenda: &mut Agenda<Q>,
    ) {
        if let Some(tag) = tag {
            let at = None;
            self.tell(lodging, Told::Departure { port, tag, at }, agenda);
        }
    }

    /// Departure number `number` has taken place, or will not.
    pub(crate) fn departed<Q: EventQueue>(
        &mut self,
        number: u32,
        at: Option<Instant<Virtual>>,
        agenda: &mut Agenda<Q>,
    ) {
        let all = &mut self.residents.departing;
        let Some(place) = all.get_mut(number as usize % MOST_DEPARTING) else {
            return;
        };
        let Some(of) = place.take_if(|departing| departing.number == number) else {
            return; // given up long ago
        };
        let (port, tag) = (of.port, of.tag);
        self.tell(of.lodging, Told::Departure { port, tag, at }, agenda);
    }

    /// An appointment with a resident is due.
    pub(crate) fn wake_resident<Q: EventQueue>(&mut self, lodging: u32, agenda: &mut Agenda<Q>) {
        let Some(place) = self.residents.list.get_mut(lodging as usize) else {
            return;
        };
        if place.appointment != agenda.now() {
            return;
        }
        place.appointment = Instant::FAR_FUTURE;
        let due = place.resident.as_ref().and_then(|r| r.next_wake());
        if due.is_some_and(|due| due <= agenda.now()) {
            return self.tell(lodging, Told::Wake, agenda);
        }
        self.appoint(lodging, agenda);
    }

    fn appoint<Q: EventQueue>(&mut self, lodging: u32, agenda: &mut Agenda<Q>) {
        let place = &mut self.residents.list[lodging as usize];
        let due = place.resident.as_ref().and_then(|r| r.next_wake());
        let Some(due) = due.map(|due| due.max(agenda.now())) else {
            return;
        };
        if due < place.appointment {
            place.appointment = due;
            let node = NodeId(place.node);
            agenda.schedule(due, node, Token::RESIDENT | lodging);
        }
    }
}

/// Completes the checksum that a kernel left to its card.
fn complete(frame: &mut [u8], content: Content, offload: Offload) {
    if let (Content::Ip, Some(checksum)) = (content, offload.checksum) {
        crate::bytes::complete(frame, checksum.start, checksum.offset);
    }
}
