//! Buffers for the bytes of real packets.

use timeloom_time::convert::{low_u16, number_of};
use timeloom_time::{Instant, Virtual};

use crate::bytes::{self, TCP, UDP, V6_HEADER};
use crate::packet::Packet;

/// Sequence of segments that a kernel has passed on as one frame, with one header for all (TCP
/// segmentation offload, or the same for UDP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    /// Protocol of the segments.
    pub protocol: TrainProtocol,
    /// Payload of each segment but the last, in bytes; not 0.
    pub payload_bytes: u16,
}

/// Protocol of a [`Train`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainProtocol {
    /// TCP segments.
    Tcp,
    /// UDP datagrams.
    Udp,
}

/// Incomplete checksum, which must be completed before the frame is sent on a real wire. Positions
/// are relative to the first byte of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Position from which on the bytes are summed.
    pub start: u16,
    /// Position of the checksum, relative to `start`.
    pub offset: u16,
}

/// Work on a frame that its sender has left to the network card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffloadedWork {
    /// Segmentation that remains to be done; `None` if the frame is a single segment.
    pub train: Option<Train>,
    /// Checksum that remains to be completed; `None` if all are complete.
    pub checksum: Option<Checksum>,
}

/// Type of a buffer's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// IPv4 or IPv6 packet.
    Ip,
    /// ARP message for IPv4.
    Arp,
    /// IPv6 packet with a message of neighbour discovery, which routers do not forward.
    Nd,
    /// Any other content, which only switches forward.
    Other,
}

/// Bytes of one real packet, shared by its copies and fragments.
#[derive(Debug)]
pub(crate) struct Buffer {
    holders: u32,
    bytes: Vec<u8>,
    /// Number of bytes in use.
    used: u32,
    pub(crate) content: Content,
    /// Offset of the IP header or ARP message: 0, or the length of the Ethernet header.
    start: u16,
    /// Length of the headers of each segment, from `start` on.
    header: u16,
    offload: OffloadedWork,
    /// In a segment from another engine: the instant at which the segment with the echoed time
    /// stamp was sent.
    pub(crate) echo: Option<Instant<Virtual>>,
}

/// Properties of a buffer's content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description {
    pub(crate) used: u32,
    pub(crate) content: Content,
    pub(crate) start: u16,
    pub(crate) header: u16,
    pub(crate) offload: OffloadedWork,
}

/// All buffers of a world; free ones are reused.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    buffers: Vec<Buffer>,
    /// Numbers of free buffers: small ones, and ones of [`LARGE`] bytes.
    free: [Vec<u32>; 2],
}

/// Size of a large buffer: the longest IP packet with an Ethernet header and a tag, and a margin.
pub const LARGE: usize = 65_536 + 64;
/// Size up to which packets are copied to a small buffer, so that an acknowledgement does not
/// occupy 64 KiB of memory.
const SMALL: usize = 2_048;

impl Buffers {
    /// Copies `bytes` to a buffer and returns its number. The buffer has no owner yet.
    pub(crate) fn fill(&mut self, bytes: &[u8], what: Description) -> u32 {
        let index = self.take(usize::from(bytes.len() > SMALL), what);
        let buffer = &mut self.buffers[index as usize].bytes;
        if buffer.len() < bytes.len() {
            buffer.resize(bytes.len(), 0);
        }
        buffer[..bytes.len()].copy_from_slice(bytes);
        index
    }

    /// Stores `bytes` in a buffer without an owner and returns the buffer's number. Many bytes are
    /// exchanged for a free buffer, and not copied. `bytes` has a length of [`LARGE`] before and
    /// after the call.
    pub(crate) fn swap(&mut self, bytes: &mut Vec<u8>, what: Description) -> u32 {
        if what.used as usize <= SMALL || bytes.len() < LARGE {
            return self.fill(&bytes[..what.used as usize], what);
        }
        let index = self.take(1, what);
        let buffer = &mut self.buffers[index as usize].bytes;
        if buffer.len() < LARGE {
            buffer.resize(LARGE, 0);
        }
        core::mem::swap(buffer, bytes);
        index
    }

    fn take(&mut self, size: usize, what: Description) -> u32 {
        let index = self.free[size].pop().unwrap_or_else(|| {
            self.buffers.push(Buffer {
                holders: 0,
                bytes: Vec::new(),
                used: 0,
                content: Content::Other,
                start: 0,
                header: 0,
                offload: OffloadedWork::default(),
                echo: None,
            });
            number_of(self.buffers.len()) - 1
        });
        let buffer = &mut self.buffers[index as usize];
        buffer.used = what.used;
        buffer.content = what.content;
        buffer.start = what.start;
        buffer.header = what.header;
        buffer.offload = what.offload;
        buffer.echo = None;
        index
    }

    /// Records the instant that a segment from another engine carries.
    pub(crate) fn set_echo(&mut self, index: u32, echo: Instant<Virtual>) {
        self.buffers[index as usize].echo = Some(echo);
    }

    /// Leaves the transport's checksum of an IP packet open, as its sender's kernel has done.
    pub(crate) fn reopen(&mut self, index: u32) {
        let buffer = &mut self.buffers[index as usize];
        if buffer.content != Content::Ip {
            return;
        }
        let inner = usize::from(buffer.start)..buffer.used as usize;
        let ip = &mut buffer.bytes[inner];
        let Some((start, offset)) = bytes::transport_checksum(ip) else {
            return;
        };
        let protocol = if offset == 16 { TCP } else { UDP };
        let length = ip.len() - usize::from(start);
        let partial = bytes::pseudo_sum(bytes::addresses(ip), protocol, bytes::length16(length));
        bytes::put16(ip, usize::from(start + offset), partial);
        buffer.offload.checksum = Some(Checksum {
            start: buffer.start + start,
            offset,
        });
    }

    pub(crate) fn share(&mut self, index: u32) {
        self.buffers[index as usize].holders += 1;
    }

    pub(crate) fn release(&mut self, index: u32) {
        let buffer = &mut self.buffers[index as usize];
        buffer.holders -= 1;
        if buffer.holders == 0 {
            self.free[usize::from(buffer.bytes.len() > SMALL)].push(index);
        }
    }

    pub(crate) fn get(&self, index: u32) -> &Buffer {
        &self.buffers[index as usize]
    }
}

impl Buffer {
    /// Returns the bytes from the IP header or ARP message on.
    pub(crate) fn inner(&self) -> &[u8] {
        &self.bytes[usize::from(self.start)..self.used as usize]
    }

    /// Returns the Ethertype of the frame.
    pub(crate) fn ethertype(&self) -> u16 {
        match self.content {
            Content::Ip | Content::Nd if bytes::is_v6(self.inner()) => 0x86dd,
            Content::Ip | Content::Nd => 0x0800,
            Content::Arp => 0x0806,
            Content::Other => bytes::be16(&self.bytes, 12),
        }
    }

    /// Returns true if the checksum of the transport is open.
    pub(crate) fn is_open(&self) -> bool {
        let place = bytes::transport_checksum(self.inner());
        let place = place.filter(|_| self.content == Content::Ip);
        let place = place.map(|(start, offset)| Checksum {
            start: self.start + start,
            offset,
        });
        place.is_some() && place == self.offload.checksum
    }

    /// Returns the properties of the train in this buffer; `None` if it is a single packet.
    pub(crate) fn train(&self) -> Option<Train> {
        self.offload.train
    }

    /// Writes the Ethernet and other headers of `packet`, which has this buffer, to `head`. Returns
    /// the bytes that follow the headers, and the work that remains for a network card.
    pub(crate) fn write_head(
        &self,
        packet: &Packet,
        [src, dst]: [[u8; 6]; 2],
        head: &mut Vec<u8>,
    ) -> (&[u8], OffloadedWork) {
        head.clear();
        head.extend(dst);
        head.extend(src);
        let start = usize::from(self.start);
        let (bytes, used) = (&self.bytes[..], self.used as usize);
        head.extend(self.ethertype().to_be_bytes());
        if self.content != Content::Ip {
            return (&bytes[start..used], OffloadedWork::default());
        }
        let end = start + usize::from(self.header);
        head.extend(&bytes[start..end]);
        let moved = |checksum: Checksum| Checksum {
            start: checksum.start - self.start + ETHERNET,
            ..checksum
        };
        let checksum = self.offload.checksum.map(moved);
        let ip = &mut head[usize::from(ETHERNET)..];
        let Some(train) = self.offload.train else {
            bytes::set_tos_and_ttl(ip, packet.tos, packet.ttl);
            let rest = &bytes[end..used];
            return (
                rest,
                OffloadedWork {
                    checksum,
                    train: None,
                },
            );
        };
        let each = u32::from(train.payload_bytes);
        let from = end + (packet.seq * each) as usize;
        let payload = usize::from(packet.size - self.header);
        let is_last = from + payload >= used;
        part_of_train(ip, train, packet, is_last);
        let rest = &bytes[from.min(used)..(from + payload).min(used)];
        let train = (packet.segments() > 1).then_some(train);
        (rest, OffloadedWork { train, checksum })
    }
}

/// Changes the headers of a train to those of a part of it.
fn part_of_train(ip: &mut [u8], train: Train, packet: &Packet, is_last: bool) {
    let first = packet.seq;
    bytes::set_length(ip, packet.size);
    let header = if bytes::is_v6(ip) {
        V6_HEADER
    } else {
        let identification = bytes::be16(ip, 4).wrapping_add(low_u16(first.into()));
        bytes::put16(ip, 4, identification);
        usize::from(ip[0] & 15) * 4
    };
    bytes::set_tos_and_ttl(ip, packet.tos, packet.ttl);
    let (ip, transport) = ip.split_at_mut(header);
    let length = packet.size - bytes::length16(header);
    let partial = |protocol| bytes::pseudo_sum(bytes::addresses(ip), protocol, length);
    match train.protocol {
        TrainProtocol::Tcp => {
            let skipped = first * u32::from(train.payload_bytes);
            let sequence = bytes::be32(transport, 4).wrapping_add(skipped);
            transport[4..8].copy_from_slice(&sequence.to_be_bytes());
            // As in Linux, a flag that occurs once is in one segment: CWR in the first, FIN and PSH
            // in the last.
            if first > 0 {
                transport[13] &= !0x80;
            }
            if !is_last {
                transport[13] &= !0x09;
            }
            bytes::put16(transport, 16, partial(TCP));
        }
        TrainProtocol::Udp => {
            bytes::put16(transport, 4, length);
            bytes::put16(transport, 6, partial(UDP));
        }
    }
}

/// Length of an Ethernet header in bytes.
pub(crate) const ETHERNET: u16 = 14;
