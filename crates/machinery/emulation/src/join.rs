//! Joining of the frames of a flow that are delivered together into one train.
//!
//! A link cuts a train into parts of a few segments, so that each part has an instant of its own.
//! Parts that are delivered in one iteration need not be sent one by one: a frame costs its way
//! through the receiving kernel, independently of its length. Consecutive parts are therefore
//! joined again, as every Ethernet driver does with the frames of one interrupt (Linux calls it
//! GRO, and the rules are those of its `tcp_gro_receive`). Joining never waits for frames that have
//! not arrived.

use timeloom_net::{Checksum, Frame, OffloadedWork, Train, TrainProtocol};
use timeloom_time::{Instant, Virtual};

use crate::segment::{
    ETHERNET, V6_HEADER, add, addresses, fold, header_of, is_v6, protocol_of, put, put_sum,
    set_length,
};

/// Frames that are held until the end of the iteration, or until they cannot be joined further.
#[derive(Debug, Default)]
pub(crate) struct Joiner {
    held: Vec<Aggregate>,
    /// Unused aggregates, which are kept for their allocated memory.
    spare: Vec<Aggregate>,
}

/// Train under construction.
#[derive(Debug, Default)]
struct Aggregate {
    head: Vec<u8>,
    payload: Vec<u8>,
    /// Offload data of the train, or of its only segment.
    offload: OffloadedWork,
    at: Instant<Virtual>,
    first_bit: Instant<Virtual>,
    /// Number of payload bytes in each segment except the last.
    each: usize,
    /// Number of frames of the model that this train contains.
    frames: u64,
    /// True if no frame can be appended, because the last segment was short or had the PSH flag.
    complete: bool,
}

/// Parts of a frame that can be joined with others.
#[derive(Clone, Copy)]
struct Parts<'a> {
    protocol: TrainProtocol,
    /// Ethernet and IP headers.
    network: &'a [u8],
    /// TCP or UDP header.
    transport: &'a [u8],
    payload: &'a [u8],
    each: usize,
}

/// Number of flows whose frames are held at the same time. If there are more, the oldest train is
/// sent.
const FLOWS: usize = 8;
/// Payload length in bytes above which copying costs more than joining saves.
const SHORT: usize = 32_768;
/// Maximum length of an IP packet in bytes.
const LONGEST: usize = 65_535;
/// Maximum number of datagrams that Linux accepts from a program in one call.
const DATAGRAMS: usize = 64;

impl Joiner {
    /// Adds a frame. `send` is called with each frame that can be held no longer, and with the
    /// number of the model's frames in it. The order within a flow is kept.
    pub(crate) fn add(&mut self, frame: &Frame<'_>, mut send: impl FnMut(&Frame<'_>, u64)) {
        let Some(parts) = Parts::of(frame) else {
            match flow_of(frame) {
                Some(flow) => self.let_go(|held| held.flow() == flow, &mut send),
                None => self.flush(&mut send),
            }
            return send(frame, 1);
        };
        let flow = parts.flow();
        if let Some(held) = self.held.iter_mut().find(|held| held.flow() == flow) {
            if held.join(&parts) {
                return;
            }
            self.let_go(|held| held.flow() == flow, &mut send);
        }
        if parts.payload.len() > SHORT {
            return send(frame, 1);
        }
        if self.held.len() == FLOWS {
            let oldest = self.held.remove(0);
            self.out(oldest, &mut send);
        }
        let mut held = self.spare.pop().unwrap_or_default();
        held.begin(frame, &parts);
        self.held.push(held);
    }

    /// Calls `send` with all frames that are held.
    pub(crate) fn flush(&mut self, mut send: impl FnMut(&Frame<'_>, u64)) {
        self.let_go(|_| true, &mut send);
    }

    fn let_go(
        &mut self,
        which: impl Fn(&Aggregate) -> bool,
        send: &mut impl FnMut(&Frame<'_>, u64),
    ) {
        let mut index = 0;
        while index < self.held.len() {
            if which(&self.held[index]) {
                let held = self.held.remove(index);
                self.out(held, send);
            } else {
                index += 1;
            }
        }
    }

    fn out(&mut self, mut held: Aggregate, send: &mut impl FnMut(&Frame<'_>, u64)) {
        held.finish();
        let frame = Frame {
            at: held.at,
            first_bit: held.first_bit,
            head: &held.head,
            rest: &held.payload,
            offload: held.offload,
        };
        send(&frame, held.frames);
        self.spare.push(held);
    }
}

impl<'a> Parts<'a> {
    /// Parses a frame. Returns `None` for a frame that must be sent alone. Only TCP segments with
    /// data and ordinary flags and unfragmented datagrams can be joined, and only if their checksum
    /// is left to the receiver.
    fn of(frame: &Frame<'a>) -> Option<Self> {
        let (network, after) = network_of(frame)?;
        let ip = &network[ETHERNET..];
        let (protocol, length, place) = match protocol_of(ip) {
            6 => (
                TrainProtocol::Tcp,
                usize::from(*after.get(12)? >> 4) * 4,
                16,
            ),
            17 => (TrainProtocol::Udp, 8, 6),
            _ => return None,
        };
        if is_fragment(network) {
            return None;
        }
        let usual = Checksum {
            start: network.len() as u16,
            offset: place,
        };
        if frame.offload.checksum != Some(usual) {
            return None;
        }
        // The transport header of a train is in the head. That of a single segment may be in the
        // rest.
        let (transport, payload) = if frame.head.len() == network.len() {
            frame.rest.split_at_checked(length)?
        } else {
            (after, frame.rest)
        };
        if transport.len() != length || payload.is_empty() {
            return None;
        }
        if protocol == TrainProtocol::Tcp
            && (length < 20 || transport[13] & !(ACK | PSH | ECE) != 0)
        {
            return None;
        }
        let each = match frame.offload.train {
            Some(train) if train.protocol == protocol => usize::from(train.payload_bytes),
            Some(_) => return None,
            None => payload.len(),
        };
        if each == 0 {
            return None;
        }
        Some(Self {
            protocol,
            network,
            transport,
            payload,
            each,
        })
    }

    fn flow(&self) -> Flow {
        let ip = &self.network[ETHERNET..];
        Flow::new(ip, self.transport)
    }
}

/// Key of a flow: addresses, protocol and ports.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Flow([u8; 37]);

impl Flow {
    fn new(ip: &[u8], transport: &[u8]) -> Self {
        let mut key = [0; 37];
        let ends = addresses(ip);
        key[..4].copy_from_slice(&transport[..4]);
        key[4] = protocol_of(ip);
        key[5..5 + ends.len()].copy_from_slice(ends);
        Self(key)
    }
}

/// Returns the Ethernet and IP headers, which are in the frame's head, and the bytes that follow
/// them in the head. If there are none, the second value is the frame's rest.
fn network_of<'a>(frame: &Frame<'a>) -> Option<(&'a [u8], &'a [u8])> {
    let ip = frame.head.get(ETHERNET..)?;
    let is_whole = match is_v6(frame.head) {
        true => ip.len() >= V6_HEADER && ip[0] >> 4 == 6,
        false => ip.len() >= 20 && ip[0] >> 4 == 4 && ip[0] & 15 >= 5,
    };
    if !is_whole || !is_v6(frame.head) && frame.head[12..14] != [8, 0] {
        return None;
    }
    let (network, after) = frame.head.split_at_checked(ETHERNET + header_of(ip))?;
    Some((network, if after.is_empty() { frame.rest } else { after }))
}

/// Returns true if the packet is an IPv4 fragment. IPv6 fragments have an extension header, so
/// their protocol number is none of those that are joined.
fn is_fragment(network: &[u8]) -> bool {
    let ip = &network[ETHERNET..];
    !is_v6(network) && (ip[6] & 0x3f != 0 || ip[7] != 0)
}

/// Returns the flow of a frame that is sent alone; `None` if it cannot be determined, as for
/// fragments.
fn flow_of(frame: &Frame<'_>) -> Option<Flow> {
    let (network, after) = network_of(frame)?;
    let ip = &network[ETHERNET..];
    let whole = !is_fragment(network) && matches!(protocol_of(ip), 6 | 17);
    (whole && after.len() >= 4).then(|| Flow::new(ip, after))
}

impl Aggregate {
    fn begin(&mut self, frame: &Frame<'_>, parts: &Parts<'_>) {
        self.head.clear();
        self.head.extend_from_slice(parts.network);
        self.head.extend_from_slice(parts.transport);
        self.payload.clear();
        self.payload.extend_from_slice(parts.payload);
        self.offload = frame.offload;
        self.at = frame.at;
        self.first_bit = frame.first_bit;
        self.each = parts.each;
        self.frames = 1;
        self.complete = parts.ends();
    }

    fn network(&self) -> usize {
        ETHERNET + header_of(&self.head[ETHERNET..])
    }

    fn flow(&self) -> Flow {
        Flow::new(&self.head[ETHERNET..], &self.head[self.network()..])
    }

    /// Appends a frame of the same flow to this train; returns false if the frame does not continue
    /// it.
    fn join(&mut self, next: &Parts<'_>) -> bool {
        if self.complete || !self.is_continued_by(next) {
            return false;
        }
        let protocol = next.protocol;
        if protocol == TrainProtocol::Tcp {
            let flags = self.network() + 13;
            self.head[flags] |= next.transport[13] & PSH;
        }
        self.payload.extend_from_slice(next.payload);
        self.frames += 1;
        self.complete = next.each < self.each || next.ends();
        self.offload.train = Some(Train {
            protocol,
            payload_bytes: self.each as u16,
        });
        true
    }

    fn is_continued_by(&self, next: &Parts<'_>) -> bool {
        let network = self.network();
        let (ip, transport) = self.head[ETHERNET..].split_at(network - ETHERNET);
        let next_ip = &next.network[ETHERNET..];
        let segments = self.payload.len().div_ceil(self.each);
        let total = self.head.len() - ETHERNET + self.payload.len() + next.payload.len();
        let same_ip = match is_v6(&self.head) {
            // In IPv6, all fields except the length must be equal.
            true => ip[..4] == next_ip[..4] && ip[6..] == next_ip[6..],
            false => {
                // If fragmentation is forbidden, the identification field has no meaning (RFC
                // 6864).
                let numbered = ip[6] & 0x40 != 0
                    || word(next_ip, 4) == word(ip, 4).wrapping_add(segments as u16);
                numbered
                    && ip.len() == next_ip.len()
                    && ip[..2] == next_ip[..2]
                    && ip[6..10] == next_ip[6..10]
                    && ip[12..] == next_ip[12..]
            }
        };
        let same_network = same_ip && self.head[..ETHERNET] == next.network[..ETHERNET];
        let full = self.payload.len().is_multiple_of(self.each);
        // All segments of a train have the same length, except that the last one may be shorter.
        let fits =
            next.each == self.each || (next.each < self.each && next.payload.len() == next.each);
        same_network
            && full
            && fits
            && total <= LONGEST
            && transport.len() == next.transport.len()
            && match next.protocol {
                TrainProtocol::Tcp => {
                    let sequence = long(transport, 4).wrapping_add(self.payload.len() as u32);
                    let [flags, next_flags] = [transport[13], next.transport[13]];
                    long(next.transport, 4) == sequence
                        // The acknowledgement number and the window must be equal.
                        && transport[8..12] == next.transport[8..12]
                        && transport[14..16] == next.transport[14..16]
                        && (flags ^ next_flags) & !PSH == 0
                        && transport[20..] == next.transport[20..]
                }
                TrainProtocol::Udp => segments < DATAGRAMS,
            }
    }

    /// Updates the headers so that they describe the whole train.
    fn finish(&mut self) {
        if self.frames < 2 {
            return;
        }
        let network = self.network();
        let total = (self.head.len() - ETHERNET + self.payload.len()) as u16;
        let (ip, transport) = self.head[ETHERNET..].split_at_mut(network - ETHERNET);
        set_length(ip, total);
        if ip[0] >> 4 == 4 {
            put_sum(ip);
        }
        let inner = total - ip.len() as u16;
        let protocol = protocol_of(ip);
        let pseudo = add(u64::from(inner) + u64::from(protocol), addresses(ip));
        if protocol == 17 {
            put(transport, 4, inner);
        }
        let place = if protocol == 17 { 6 } else { 16 };
        put(transport, place, fold(pseudo));
    }
}

impl Parts<'_> {
    /// Returns true if no further part can follow this one in a train.
    fn ends(&self) -> bool {
        let pushed = self.protocol == TrainProtocol::Tcp && self.transport[13] & PSH != 0;
        pushed || !self.payload.len().is_multiple_of(self.each)
    }
}

const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests;
