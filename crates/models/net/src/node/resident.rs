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

use core::any::Any;
use core::fmt;

use timeloom_engine::queue::EventQueue;
use timeloom_engine::{Agenda, NodeId};
use timeloom_time::{Instant, Virtual};

use crate::build::Node;
use crate::node::switch::PortMode;
use crate::packet::{NIL, Packet, PortId};
use crate::tables::buffers::{Content, ETHERNET, Offload};
use crate::tables::slab::PacketId;
use crate::world::{Place, Token, World};

/// A machine at a node. Ports are counted from 0, in the order of the node's
/// cables.
pub trait Resident: Any + fmt::Debug + Send {
    /// Whether a frame is for it. Asked of every frame of a real program that
    /// comes by, so it should look at little.
    fn wants(&self, glance: &Glance<'_>) -> bool;

    /// A frame that it wanted has come; it goes no further.
    fn handle_frame(&mut self, now: Instant<Virtual>, frame: &Arrived<'_>, out: &mut Outgoing);

    /// The first bit of the frame that was sent with `tag` went out at `at`;
    /// `None` when it was dropped and never will.
    fn handle_departure(
        &mut self,
        now: Instant<Virtual>,
        port: usize,
        tag: u64,
        at: Option<Instant<Virtual>>,
        out: &mut Outgoing,
    );

    /// It is due.
    fn handle_wake(&mut self, now: Instant<Virtual>, out: &mut Outgoing);

    /// When it is due next.
    fn next_wake(&self) -> Option<Instant<Virtual>>;
}

/// What decides about a frame.
#[derive(Clone, Copy, Debug)]
pub struct Glance<'a> {
    /// Who it is for on this Ethernet segment.
    pub destination: [u8; 6],
    /// Its Ethertype; 0x8100 before a tag.
    pub ethertype: u16,
    /// What follows the Ethertype. Checksums may be incomplete.
    pub inner: &'a [u8],
}

/// A frame that has come.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// By which port.
    pub port: usize,
    /// When its first bit came; its last one has come now.
    pub first_bit: Instant<Virtual>,
    /// Who sent it on this Ethernet segment.
    pub source: [u8; 6],
    /// Its Ethertype; 0x8100 before a tag.
    pub ethertype: u16,
    /// What follows the Ethertype, complete.
    pub inner: &'a [u8],
}

/// What a resident wants sent, in order.
#[derive(Debug, Default)]
pub struct Outgoing(Vec<Sent>);

#[derive(Debug)]
enum Sent {
    Frame(usize, Vec<u8>, Option<u64>),
    Packet(Vec<u8>),
}

impl Outgoing {
    /// Sends an Ethernet frame (without check sequence) out of a port. With a
    /// tag, [`Resident::handle_departure`] tells when it left. What is no frame
    /// or no port is dropped and counted.
    pub fn send(&mut self, port: usize, frame: Vec<u8>, tag: Option<u64>) {
        self.0.push(Sent::Frame(port, frame, tag));
    }

    /// Sends an IPv4 packet from a host, which finds the way and asks for the
    /// next MAC address as it does for its own packets. What is no packet, or
    /// comes from a switch, is dropped and counted.
    pub fn send_packet(&mut self, packet: Vec<u8>) {
        self.0.push(Sent::Packet(packet));
    }
}

/// All residents of a world.
#[derive(Debug, Default)]
pub(crate) struct Residents {
    list: Vec<Lodging>,
    /// Index into the list by node; empty while there is none.
    by_node: Vec<u32>,
    /// Departures that somebody waits for, by their number modulo the length.
    departing: Vec<Option<Departing>>,
    next_departure: u32,
}

#[derive(Debug)]
struct Lodging {
    node: u32,
    ports: Vec<PortId>,
    /// Absent while it acts.
    resident: Option<Box<dyn Resident>>,
    /// The earliest appointment made; later ones are made when it is kept.
    appointment: Instant<Virtual>,
}

#[derive(Clone, Copy, Debug)]
struct Departing {
    number: u32,
    lodging: u32,
    port: usize,
    tag: u64,
}

/// Frames whose departure is waited for at once, in the whole world. Who waits
/// longer than it takes to send as many more is told that the frame was lost:
/// some queues drop without a word.
const MOST_DEPARTING: usize = 1 << 14;
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
