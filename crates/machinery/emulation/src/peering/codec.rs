//! Compact encoding of packet events: the content of a datagram between engines.
//!
//! Both engines know all flows and traffic sources. A record therefore describes a packet by its
//! differences from what its flow usually sends ([`Statics`]) and, within one datagram, from the
//! flow's previous packet. No state is kept between datagrams, so a lost datagram costs only its
//! own packets.
//!
//! A record is a tag byte, followed only by the fields that the tag announces:
//!
//! | bit | meaning |
//! |---|---|
//! | 7 | the flow occurred earlier in this datagram: slot byte; else kind (bits 0–3), link, flow |
//! | 6 | a mask follows, and one number for each header field that differs |
//! | 5 | the sequence number is not the expected one |
//! | 4 | there are selective acknowledgements |
//!
//! The distance from the previous record's arrival and the age of the packet are always present.
//! Numbers are little-endian base 128, and signed ones zigzag. Header fields are those of
//! [`Packet`]. The bytes of real packets follow after all records.

use timeloom_net::{Packet, PacketKind, PortId, World};
use timeloom_time::{Duration, Instant, Virtual};

use crate::peering::varint::{put, put_signed, take, take_byte, take_signed};

/// Properties of flows and sources that are known before any packet.
#[derive(Clone, Debug, Default)]
pub struct Statics {
    flows: Vec<(PortId, PortId, u16)>,
    sources: Vec<(PortId, PortId, u16)>,
    ack_bytes: u16,
}

impl Statics {
    /// Returns the properties of a world that has all its traffic.
    pub fn of(world: &World) -> Self {
        let (flows, sources) = world.traffic_counts();
        let all = |kind, count: usize| {
            let templates = (0..count as u32).filter_map(move |flow| world.template(kind, flow));
            templates
                .map(|packet| (packet.src, packet.dst, packet.size))
                .collect()
        };
        let ack = world.template(PacketKind::TcpAck, 0);
        Self {
            flows: all(PacketKind::TcpData, flows),
            sources: all(PacketKind::Udp, sources),
            ack_bytes: ack.map_or(0, |packet| packet.size),
        }
    }

    #[inline]
    fn template(&self, kind: PacketKind, flow: u32) -> Packet {
        let index = flow as usize;
        let none = (PortId(0), PortId(0), 0);
        let (src, dst, size) = match kind {
            PacketKind::TcpData => self.flows.get(index).copied().unwrap_or(none),
            PacketKind::TcpSyn => {
                let (from, to, _) = self.flows.get(index).copied().unwrap_or(none);
                (from, to, self.ack_bytes)
            }
            PacketKind::TcpAck | PacketKind::TcpSynAck => {
                let (from, to, _) = self.flows.get(index).copied().unwrap_or(none);
                (to, from, self.ack_bytes)
            }
            PacketKind::Udp | PacketKind::EchoRequest => {
                self.sources.get(index).copied().unwrap_or(none)
            }
            PacketKind::EchoReply => {
                let (from, to, size) = self.sources.get(index).copied().unwrap_or(none);
                (to, from, size)
            }
            PacketKind::ArpRequest | PacketKind::ArpReply | PacketKind::Raw | PacketKind::Fluid => {
                none
            }
        };
        Packet::new(kind, src, dst, flow, size)
    }
}

/// Last packet of a flow on a link in the present datagram.
#[derive(Clone, Copy, Debug)]
struct Context {
    /// Number of the datagram that contained the packet.
    round: u32,
    packet: Packet,
    age: i64,
    /// Last increment of the flow's sequence number.
    stride: i32,
}

const SLOTS: usize = 256;

/// State of an encoder or decoder. Both update it identically with every record.
#[derive(Clone, Debug)]
struct State {
    contexts: Vec<Context>,
    round: u32,
    at: i64,
    link: u32,
    ttl: u8,
}

impl State {
    fn new() -> Self {
        let nothing = Packet::new(PacketKind::Udp, PortId::NONE, PortId::NONE, u32::MAX, 0);
        let context = Context {
            round: 0,
            packet: nothing,
            age: 0,
            stride: 1,
        };
        Self {
            contexts: vec![context; SLOTS],
            round: 0,
            at: 0,
            link: 0,
            ttl: 64,
        }
    }

    fn begin(&mut self, base: i64) {
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            // Contexts from 2^32 datagrams ago must not appear to be of this datagram.
            *self = Self::new();
            self.round = 1;
        }
        self.at = base;
        self.link = 0;
        self.ttl = 64;
    }

    #[inline]
    fn slot(kind: PacketKind, link: u32, flow: u32) -> usize {
        let key = (flow ^ link.rotate_left(16) ^ (kind as u32) << 28).wrapping_mul(0x9e37_79b1);
        (key >> 24) as usize
    }

    #[inline]
    fn keep(&mut self, slot: usize, packet: &Packet, age: i64, stride: i32) {
        self.contexts[slot] = Context {
            round: self.round,
            packet: *packet,
            age,
            stride,
        };
        self.at = packet.at.as_ns();
        self.link = packet.link.0;
        self.ttl = packet.ttl;
    }
}

const KNOWN: u8 = 0x80;
const DIFFERS: u8 = 0x40;
const SEQUENCE: u8 = 0x20;
const SELECTIVE: u8 = 0x10;

/// Encoder of packets as records.
#[derive(Clone, Debug)]
pub struct Encoder(State);

/// Decoder of records.
#[derive(Clone, Debug)]
pub struct Decoder(State);

/// Error for bytes that are not valid. The bytes after them cannot be decoded either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError;

impl Default for Encoder {
    fn default() -> Self {
        Self(State::new())
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self(State::new())
    }
}

impl Encoder {
    /// Begins a datagram. `base` is an instant near those of its packets.
    pub fn begin(&mut self, base: Instant<Virtual>) {
        self.0.begin(base.as_ns());
    }

    /// Appends the record of `packet` to `out`.
    #[inline]
    pub fn put(&mut self, packet: &Packet, statics: &Statics, out: &mut Vec<u8>) {
        let state = &mut self.0;
        let slot = State::slot(packet.kind, packet.link.0, packet.flow);
        let context = &state.contexts[slot];
        let known = context.round == state.round
            && context.packet.kind == packet.kind
            && context.packet.link == packet.link
            && context.packet.flow == packet.flow;
        let place = out.len();
        let (expected, age_before, stride, mut tag);
        if known {
            (expected, age_before, stride) = (context.packet, context.age, context.stride);
            tag = KNOWN;
            out.extend_from_slice(&[0, slot as u8]);
        } else {
            let mut template = statics.template(packet.kind, packet.flow);
            template.ttl = state.ttl;
            (expected, age_before, stride) = (template, 0, 1);
            tag = packet.kind as u8;
            out.push(0);
            put_signed(out, i64::from(packet.link.0) - i64::from(state.link));
            put(out, u64::from(packet.flow));
        }
        put_signed(out, packet.at.as_ns() - state.at);
        let age = (packet.at - packet.stamp).as_ns();
        put_signed(out, age - age_before);
        let guess = if known {
            expected.seq.wrapping_add_signed(stride)
        } else {
            0
        };
        if packet.seq != guess {
            tag |= SEQUENCE;
            if known {
                put_signed(out, i64::from(packet.seq.wrapping_sub(guess) as i32));
            } else {
                put(out, u64::from(packet.seq));
            }
        }
        if packet.sack_from != 0 || packet.sack_to != 0 {
            tag |= SELECTIVE;
            put_signed(
                out,
                i64::from(packet.sack_from.wrapping_sub(packet.seq) as i32),
            );
            put_signed(
                out,
                i64::from(packet.sack_to.wrapping_sub(packet.sack_from) as i32),
            );
        }
        let (new, old) = (fields(packet), fields(&expected));
        if new != old {
            tag |= DIFFERS;
            let mask_place = out.len();
            out.push(0);
            for (bit, (new, old)) in new.iter().zip(&old).enumerate() {
                if new != old {
                    out[mask_place] |= 1 << bit;
                    put(out, u64::from(*new));
                }
            }
        }
        out[place] = tag;
        let grown = if known {
            packet.seq.wrapping_sub(expected.seq) as i32
        } else {
            1
        };
        state.keep(slot, packet, age, grown);
    }
}

impl Decoder {
    /// Begins a datagram. `base` must be the value that the encoder used.
    pub fn begin(&mut self, base: Instant<Virtual>) {
        self.0.begin(base.as_ns());
    }

    /// Decodes the record at the start of `bytes`, and removes it from there.
    ///
    /// # Errors
    ///
    /// Fails if the record is invalid.
    #[inline]
    pub fn take(&mut self, bytes: &mut &[u8], statics: &Statics) -> Result<Packet, DecodeError> {
        let state = &mut self.0;
        let tag = take_byte(bytes)?;
        let (mut packet, age_before, stride, slot);
        let known = tag & KNOWN != 0;
        if known {
            slot = usize::from(take_byte(bytes)?);
            let context = &state.contexts[slot];
            if context.round != state.round {
                return Err(DecodeError);
            }
            (packet, age_before, stride) = (context.packet, context.age, context.stride);
        } else {
            let kind = kind(tag & 15).ok_or(DecodeError)?;
            let link = i64::from(state.link).wrapping_add(take_signed(bytes)?);
            let link = u32::try_from(link).map_err(|_| DecodeError)?;
            let flow = u32::try_from(take(bytes)?).map_err(|_| DecodeError)?;
            packet = statics.template(kind, flow);
            packet.link = PortId(link);
            packet.ttl = state.ttl;
            (age_before, stride) = (0, 1);
            slot = State::slot(kind, link, flow);
        }
        let at = state.at.wrapping_add(take_signed(bytes)?);
        let age = take_signed(bytes)?.wrapping_add(age_before);
        packet.at = Instant::from_ns(at);
        packet.stamp = packet.at - Duration::from_ns(age);
        let seq_before = packet.seq;
        packet.seq = match (known, tag & SEQUENCE != 0) {
            (true, false) => seq_before.wrapping_add_signed(stride),
            (true, true) => seq_before
                .wrapping_add_signed(stride)
                .wrapping_add(take_signed(bytes)? as u32),
            (false, false) => 0,
            (false, true) => u32::try_from(take(bytes)?).map_err(|_| DecodeError)?,
        };
        (packet.sack_from, packet.sack_to) = (0, 0);
        if tag & SELECTIVE != 0 {
            packet.sack_from = packet.seq.wrapping_add(take_signed(bytes)? as u32);
            packet.sack_to = packet.sack_from.wrapping_add(take_signed(bytes)? as u32);
        }
        if tag & DIFFERS != 0 {
            let mask = take_byte(bytes)?;
            let mut all = fields(&packet);
            for (bit, field) in all.iter_mut().enumerate() {
                if mask & 1 << bit != 0 {
                    *field = u32::try_from(take(bytes)?).map_err(|_| DecodeError)?;
                }
            }
            set_fields(&mut packet, &all)?;
        }
        let grown = if known {
            packet.seq.wrapping_sub(seq_before) as i32
        } else {
            1
        };
        state.keep(slot, &packet, age, grown);
        Ok(packet)
    }
}

/// Returns the header fields that seldom differ between packets, in the order of the mask's bits.
#[inline]
fn fields(packet: &Packet) -> [u32; 8] {
    [
        packet.src.0,
        packet.dst.0,
        packet.src_mac.0,
        packet.dst_mac.0,
        u32::from(packet.size),
        u32::from(packet.vlan),
        u32::from(packet.ttl),
        u32::from(packet.tos) << 8 | u32::from(packet.flags),
    ]
}

fn set_fields(packet: &mut Packet, all: &[u32; 8]) -> Result<(), DecodeError> {
    let [src, dst, src_mac, dst_mac, size, vlan, ttl, rest] = *all;
    (packet.src, packet.dst) = (PortId(src), PortId(dst));
    (packet.src_mac, packet.dst_mac) = (PortId(src_mac), PortId(dst_mac));
    packet.size = u16::try_from(size).map_err(|_| DecodeError)?;
    packet.vlan = u16::try_from(vlan).map_err(|_| DecodeError)?;
    packet.ttl = u8::try_from(ttl).map_err(|_| DecodeError)?;
    packet.tos = u8::try_from(rest >> 8).map_err(|_| DecodeError)?;
    packet.flags = rest as u8;
    Ok(())
}

fn kind(number: u8) -> Option<PacketKind> {
    PacketKind::ALL.get(usize::from(number)).copied()
}
