//! Packets of real programs: bytes that go through the model as they are.
//!
//! A portal (or a TCP/IP stack beside the simulation) opens a host, hands in
//! IPv4 packets and takes out those that arrived. On the way they are packets
//! like all others; only their bytes lie in a buffer that is used again.

use std::collections::VecDeque;

use timeloom_engine::Agenda;
use timeloom_engine::queue::EventQueue;
use timeloom_time::{Instant, Virtual};

use crate::build::Node;
use crate::packet::{Kind, Packet, PortId};
use crate::slab::PacketId;
use crate::world::World;

/// Bytes of packets, shared by copies (a duplicated or flooded packet).
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    buffers: Vec<(u32, Vec<u8>)>,
    free: Vec<u32>,
}

impl Buffers {
    /// A buffer with these bytes that nobody holds yet.
    pub(crate) fn fill(&mut self, bytes: &[u8]) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.buffers.push((0, Vec::new()));
            self.buffers.len() as u32 - 1
        });
        let (_, buffer) = &mut self.buffers[index as usize];
        buffer.clear();
        buffer.extend_from_slice(bytes);
        index
    }

    pub(crate) fn share(&mut self, index: u32) {
        self.buffers[index as usize].0 += 1;
    }

    pub(crate) fn release(&mut self, index: u32) {
        let (holders, _) = &mut self.buffers[index as usize];
        *holders -= 1;
        if *holders == 0 {
            self.free.push(index);
        }
    }

    pub(crate) fn bytes(&self, index: u32) -> &[u8] {
        &self.buffers[index as usize].1
    }
}

/// What belongs to the outside, and what waits for it.
#[derive(Debug)]
pub(crate) struct Outside {
    /// By node: whether it is opened.
    open: Vec<bool>,
    arrived: VecDeque<(Node, PacketId)>,
    /// The packet being worked on; kept so that none has to be allocated.
    scratch: Vec<u8>,
}

impl Outside {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            open: vec![false; nodes],
            arrived: VecDeque::new(),
            scratch: Vec::new(),
        }
    }
}

/// Packets that may wait to be taken out; past this they are dropped and
/// counted, so that a reader that has stopped reading costs no memory.
const ARRIVED_AT_MOST: usize = 65_536;

impl World {
    /// Opens a host to the outside: packets of real programs that arrive there
    /// wait for [`World::take_raw`]. At a host that is not open, echo requests
    /// are answered by the model and all else is dropped.
    pub fn open(&mut self, node: Node) {
        self.outside.open[node.0 as usize] = true;
    }

    /// Sends an IPv4 packet from a host. What is no IPv4 packet, or is for an
    /// address that nobody has, is dropped and counted.
    pub fn send_raw<Q: EventQueue>(&mut self, node: Node, bytes: &[u8], agenda: &mut Agenda<Q>) {
        let Some(header) = Header::read(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        let place = self
            .by_address
            .binary_search_by_key(&header.dst, |entry| entry.0);
        let (Ok(place), Some(src)) = (place, self.port_of(node)) else {
            self.counters.no_route += 1;
            return;
        };
        let dst = self.by_address[place].1;
        let bytes = &bytes[..usize::from(header.length)];
        let buffer = self.packets.buffers.fill(bytes);
        let mut packet = Packet::new(Kind::Raw, src, dst, buffer, header.length);
        packet.ttl = header.ttl;
        packet.tos = header.tos;
        self.originate(packet, agenda);
    }

    /// The next packet that arrived at an opened host: where, when, and its
    /// bytes, which `take` may look at. `None` when there is none.
    pub fn take_raw<R>(
        &mut self,
        take: impl FnOnce(Node, Instant<Virtual>, &[u8]) -> R,
    ) -> Option<R> {
        let (node, id) = self.outside.arrived.pop_front()?;
        let packet = self.packets[id];
        let taken = take(node, packet.at, self.packets.buffers.bytes(packet.flow));
        self.packets.remove(id);
        Some(taken)
    }

    /// A real packet has come to the host whose interface is `port`.
    #[cold]
    pub(crate) fn receive_raw<Q: EventQueue>(
        &mut self,
        port: PortId,
        id: PacketId,
        agenda: &mut Agenda<Q>,
    ) {
        let node = Node(self.ports[port.index()].node);
        let packet = self.packets[id];
        if packet.dst != port {
            self.counters.not_for_us += 1;
            return self.packets.remove(id);
        }
        // The bytes may be shared with a copy, which has its own time to live.
        let mut bytes = core::mem::take(&mut self.outside.scratch);
        bytes.clear();
        bytes.extend_from_slice(self.packets.buffers.bytes(packet.flow));
        self.packets.remove(id);
        set_ttl(&mut bytes, packet.ttl);
        if self.outside.open[node.0 as usize] {
            self.keep(node, packet, &bytes, agenda.now());
        } else if turn_into_echo_reply(&mut bytes) {
            self.send_raw(node, &bytes, agenda);
        } else {
            self.counters.not_for_us += 1;
        }
        self.outside.scratch = bytes;
    }

    fn keep(&mut self, node: Node, packet: Packet, bytes: &[u8], now: Instant<Virtual>) {
        if self.outside.arrived.len() >= ARRIVED_AT_MOST {
            self.counters.not_taken += 1;
            return;
        }
        let flow = self.packets.buffers.fill(bytes);
        let waiting = Packet {
            flow,
            at: now,
            ..packet
        };
        let id = self.packets.insert(waiting);
        self.outside.arrived.push_back((node, id));
    }
}

/// What the model needs of an IPv4 header (RFC 791, section 3.1).
struct Header {
    length: u16,
    tos: u8,
    ttl: u8,
    dst: u32,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; 20] = bytes.first_chunk()?;
        let words = usize::from(header[0] & 15);
        let length = u16::from_be_bytes([header[2], header[3]]);
        let fits = usize::from(length) <= bytes.len() && usize::from(length) >= words * 4;
        (header[0] >> 4 == 4 && words >= 5 && fits).then(|| Self {
            length,
            tos: header[1],
            ttl: header[8],
            dst: u32::from_be_bytes([header[16], header[17], header[18], header[19]]),
        })
    }
}

/// Writes the time to live and the header's checksum anew.
fn set_ttl(bytes: &mut [u8], ttl: u8) {
    let header = usize::from(bytes[0] & 15) * 4;
    bytes[8] = ttl;
    bytes[10..12].fill(0);
    let sum = checksum(&bytes[..header]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let pairs = bytes.chunks(2);
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u32 = pairs.map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Makes an ICMP echo request the reply to itself (RFC 792); says whether it
/// was one.
fn turn_into_echo_reply(bytes: &mut [u8]) -> bool {
    const ICMP: u8 = 1;
    const ECHO_REQUEST: u8 = 8;
    let header = usize::from(bytes[0] & 15) * 4;
    if bytes[9] != ICMP || bytes.len() < header + 8 || bytes[header] != ECHO_REQUEST {
        return false;
    }
    let (before, dst) = bytes.split_at_mut(16);
    before[12..16].swap_with_slice(&mut dst[..4]);
    bytes[header] = 0;
    bytes[header + 2..header + 4].fill(0);
    let sum = checksum(&bytes[header..]);
    bytes[header + 2..header + 4].copy_from_slice(&sum.to_be_bytes());
    set_ttl(bytes, 64);
    true
}
