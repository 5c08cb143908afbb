//! TCP segments as the timers need them: RFC 9293, section 3.1, with the options of RFC 2018.

use std::net::{IpAddr, SocketAddr};

use timeloom_time::Duration;
use timeloom_time::convert::number_of;

use crate::bytes::{IpHeader, TCP, addresses, be16, be32, complete, length16, pseudo_sum, put16};

/// Addresses and ports of a connection: those of one host first, those of its peer second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Connection {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

impl Connection {
    pub(crate) fn reversed(self) -> Self {
        Self {
            local: self.remote,
            remote: self.local,
        }
    }
}

/// Fields of a segment, or of a train of segments with one header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// The connection, with the sender of the segment as first host.
    pub(crate) connection: Connection,
    pub(crate) seq: u32,
    /// Bytes of payload in all segments.
    pub(crate) payload: u32,
    /// Bytes of payload in each segment of a train; for a single segment, in that segment.
    pub(crate) each: u32,
    pub(crate) flags: u8,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    pub(crate) sack: SackBlocks,
    /// True if the SACK-permitted option is present, which only a SYN has.
    pub(crate) permits_sack: bool,
    /// Exponent of the window scale option, which only a SYN has (RFC 7323, section 2).
    pub(crate) scale: Option<u8>,
    /// Time stamp of the sender, and the stamp of the peer that it echoes (RFC 7323).
    pub(crate) stamps: Option<(u32, u32)>,
}

impl Segment {
    pub(crate) const FIN: u8 = 1;
    pub(crate) const SYN: u8 = 2;
    pub(crate) const RST: u8 = 4;
    pub(crate) const PSH: u8 = 8;
    pub(crate) const ACK: u8 = 16;

    /// Parses the header at the beginning of `packet`; returns `None` for other protocols and for
    /// fragments. In a train of segments with `each` bytes, `skipped` segments precede this one.
    /// The segment has `length` bytes from the IP header on.
    pub(crate) fn read(packet: &[u8], length: u16, train: Option<(u32, u32)>) -> Option<Self> {
        let ip = IpHeader::read(packet)?;
        if ip.protocol != TCP || ip.fragment {
            return None;
        }
        let tcp = packet.get(usize::from(ip.header)..)?;
        let fixed: &[u8; 20] = tcp.first_chunk()?;
        let header = usize::from(fixed[12] >> 4) * 4;
        let options = tcp.get(20..header)?;
        let headers = usize::from(ip.header) + header;
        let payload = number_of(usize::from(length).checked_sub(headers)?);
        let (skipped, each) = train.unwrap_or((0, payload));
        // FIN and PSH are flags of a train's last segment.
        let before = u64::from(skipped) * u64::from(each);
        let is_last = before + u64::from(payload) >= packet.len().saturating_sub(headers) as u64;
        let flags = match is_last {
            true => fixed[13],
            false => fixed[13] & !(Self::FIN | Self::PSH),
        };
        let (sack, permits_sack) = SackBlocks::read(options);
        let stamps = Options(options).find(|(_, kind, value)| *kind == STAMPS && value.len() == 8);
        let scale = Options(options).find(|(_, kind, value)| *kind == SCALE && value.len() == 1);
        let end = |address: IpAddr, at| SocketAddr::new(address, be16(fixed, at));
        Some(Self {
            connection: Connection {
                local: end(ip.src, 0),
                remote: end(ip.dst, 2),
            },
            seq: be32(fixed, 4).wrapping_add(skipped * each),
            payload,
            each: each.max(1),
            flags,
            ack: be32(fixed, 8),
            window: be16(fixed, 14),
            sack,
            permits_sack,
            scale: scale.map(|(_, _, value)| value[0].min(GREATEST_SCALE)),
            stamps: stamps.map(|(_, _, value)| (be32(value, 0), be32(value, 4))),
        })
    }

    /// Returns acknowledgement number, window and time stamps of this segment.
    pub(super) fn news(&self) -> News {
        News {
            ack: self.ack,
            window: self.window,
            stamps: self.stamps,
        }
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the length in sequence numbers: payload, plus one each for SYN and FIN.
    pub(super) fn length(&self) -> u32 {
        let controls = [Self::SYN, Self::FIN].map(|flag| u32::from(self.has(flag)));
        self.payload + controls.iter().sum::<u32>()
    }

    pub(super) fn end(&self) -> u32 {
        self.seq.wrapping_add(self.length())
    }

    /// Returns true for a SYN without an acknowledgement, the first segment of a connection.
    pub(crate) fn is_opening(&self) -> bool {
        self.flags & (Self::SYN | Self::ACK) == Self::SYN
    }

    /// Returns true for an acknowledgement without payload, SYN, FIN or RST.
    pub(super) fn is_pure_ack(&self) -> bool {
        self.length() == 0 && self.flags & (Self::ACK | Self::RST) == Self::ACK
    }

    /// Returns true for a segment that the peer has to acknowledge, so that a copy must be kept.
    pub(crate) fn needs_copy(&self) -> bool {
        self.length() > 0 && !self.has(Self::RST)
    }
}

/// Blocks of a selective acknowledgement (SACK option).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SackBlocks {
    blocks: [(u32, u32); 4],
    count: usize,
}

impl SackBlocks {
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.blocks[..self.count].iter().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the first four of `blocks`.
    pub(super) fn new(blocks: &[(u32, u32)]) -> Self {
        let mut all = Self::default();
        for (place, block) in all.blocks.iter_mut().zip(blocks) {
            *place = *block;
            all.count += 1;
        }
        all
    }

    fn read(options: &[u8]) -> (Self, bool) {
        let (mut all, mut permits) = (Self::default(), false);
        for (_, kind, value) in Options(options) {
            permits |= kind == SACK_PERMITTED;
            if kind == SACK {
                for block in value.chunks_exact(8).take(4 - all.count) {
                    all.blocks[all.count] = (be32(block, 0), be32(block, 4));
                    all.count += 1;
                }
            }
        }
        (all, permits)
    }
}

/// Iterator over the options of a TCP header: number of bytes that follow, kind, and value.
struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = (usize, u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while self.0.first() == Some(&NO_OPERATION) {
            self.0 = &self.0[1..];
        }
        let (&kind, &length) = (self.0.first()?, self.0.get(1)?);
        let value = self.0.get(2..usize::from(length)).filter(|_| kind != END)?;
        let left = self.0.len();
        self.0 = &self.0[usize::from(length)..];
        Some((left, kind, value))
    }
}

/// Largest exponent of a window scale; greater values count as this one.
const GREATEST_SCALE: u8 = 14;

/// Returns the bytes of a segment's window, given the exponent of its sender.
pub(super) fn window_bytes(window: u16, scale: u8) -> u32 {
    u32::from(window) << scale
}

/// Acknowledgement number, window and time stamps of the last segment that a host has sent. The
/// network writes them into retransmissions: a receiver may regard a segment with an older time
/// stamp as a delayed duplicate, and drop it (RFC 7323, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct News {
    ack: u32,
    pub(super) window: u16,
    stamps: Option<(u32, u32)>,
}

impl News {
    /// Writes these fields into a whole packet and updates its checksum. A SYN without an
    /// acknowledgement stays unchanged.
    pub(crate) fn renew(&self, packet: &mut [u8]) {
        let Some(ip) = IpHeader::read(packet) else {
            return;
        };
        let (start, end) = (usize::from(ip.header), usize::from(ip.length));
        let Some(tcp) = packet.get_mut(start..end).filter(|tcp| tcp.len() >= 20) else {
            return;
        };
        if tcp[13] & (Segment::ACK | Segment::SYN) != Segment::ACK {
            return;
        }
        tcp[8..12].copy_from_slice(&self.ack.to_be_bytes());
        put16(tcp, 14, self.window);
        let header = usize::from(tcp[12] >> 4) * 4;
        let options = tcp.get(20..header).unwrap_or_default();
        let mut stamped =
            Options(options).filter(|(_, kind, value)| *kind == STAMPS && value.len() == 8);
        let place = stamped.next().map(|(left, ..)| header - left + 2);
        if let (Some(place), Some((own, echoed))) = (place, self.stamps) {
            tcp[place..place + 4].copy_from_slice(&own.to_be_bytes());
            tcp[place + 4..place + 8].copy_from_slice(&echoed.to_be_bytes());
        }
        let length = length16(tcp.len());
        let sum = pseudo_sum(addresses(packet), TCP, length);
        put16(packet, start + 16, sum);
        complete(&mut packet[..end], ip.header, 16);
    }
}

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const STAMPS: u8 = 8;

/// Returns true if sequence number `a` precedes `b` (RFC 9293, section 3.4).
pub(super) fn before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

/// Returns `length` times `numerator` divided by `denominator`.
pub(super) fn scaled(length: Duration, numerator: i64, denominator: i64) -> Duration {
    Duration::from_ns(length.as_ns() * numerator / denominator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_across_a_wrap() {
        assert!(before(u32::MAX, 3) && !before(3, u32::MAX) && !before(7, 7));
    }

    /// Returns a segment with 3 bytes of payload and time stamps, from 10.0.0.1 to 10.0.0.2.
    fn stamped(own: u32) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 55, 0, 0, 0x40, 0, 64, 6, 0, 0];
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend([
            0x9c, 0x40, 0, 80, 0, 0, 0, 9, 0, 0, 0, 5, 0x80, 0x18, 1, 0, 0, 0, 0, 0,
        ]);
        packet.extend([1, 1, 8, 10]);
        packet.extend(own.to_be_bytes());
        packet.extend([0, 0, 0, 7, b'a', b'b', b'c']);
        let sum = pseudo_sum(&[10, 0, 0, 1, 10, 0, 0, 2], TCP, 35);
        put16(&mut packet, 36, sum);
        complete(&mut packet, 20, 16);
        packet
    }

    #[test]
    fn a_retransmission_carries_the_fields_of_the_last_segment() {
        let last = stamped(4_000);
        let news = Segment::read(&last, 55, None).unwrap().news();
        assert_eq!(news.stamps, Some((4_000, 7)));
        let mut renewed = stamped(3_000);
        assert_ne!(renewed, last);
        news.renew(&mut renewed);
        assert_eq!(renewed, last);
        for cut in 0..renewed.len() {
            news.renew(&mut renewed[..cut]);
        }
    }

    #[test]
    fn flags_of_the_end_of_a_train_are_those_of_its_last_segment() {
        let mut packet = stamped(1);
        packet[33] |= Segment::FIN;
        let whole = Segment::read(&packet, 55, None).unwrap();
        assert_eq!((whole.payload, whole.length()), (3, 4));
        // Three segments of a byte each; and one of the first two.
        let piece = |skipped, length| Segment::read(&packet, length, Some((skipped, 1))).unwrap();
        for (skipped, length, is_last) in [(0, 53, false), (1, 53, false), (0, 54, false)]
            .into_iter()
            .chain([(2, 53, true), (1, 54, true)])
        {
            let piece = piece(skipped, length);
            let flags = [Segment::FIN, Segment::PSH].map(|flag| piece.has(flag));
            assert_eq!(flags, [is_last; 2], "{length} bytes after {skipped}");
            assert!(piece.has(Segment::ACK));
        }
    }

    #[test]
    fn any_options_are_read_without_a_panic() {
        let block = [5, 10, 0, 0, 0, 1, 0, 0, 0, 9];
        let mut options = vec![1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0];
        options.extend(block);
        let (all, permits) = SackBlocks::read(&options);
        assert!(all.iter().eq([(1, 9)]) && !permits);
        assert!(SackBlocks::read(&[4, 2]).1);
        for cut in 0..options.len() {
            SackBlocks::read(&options[..cut]);
        }
        assert!(SackBlocks::read(&[5, 0, 0]).0.is_empty());
    }
}
