//! TCP segments as the timers see them: RFC 9293, section 3.1, with the options of RFC 2018.

use std::net::{IpAddr, SocketAddr};

use timeloom_time::{Duration, Instant, Virtual};

use crate::bytes::{IpHeader, TCP, be16, be32};

/// Ends of a connection, as one of its hosts sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Connection {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

impl Connection {
    pub(super) fn reversed(self) -> Self {
        Self {
            local: self.remote,
            remote: self.local,
        }
    }
}

/// Fields of a segment, or of a train of segments with one header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// The sender's view of the connection.
    pub(crate) connection: Connection,
    pub(crate) seq: u32,
    /// Bytes of payload.
    pub(crate) payload: u32,
    /// Bytes of payload in each segment of a train, or of the only one.
    pub(crate) each: u32,
    pub(crate) flags: u8,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    pub(crate) sack: SackBlocks,
    /// SACK-permitted, which only a SYN carries.
    pub(crate) permits_sack: bool,
}

impl Segment {
    pub(crate) const FIN: u8 = 1;
    pub(crate) const SYN: u8 = 2;
    pub(crate) const RST: u8 = 4;
    pub(crate) const PSH: u8 = 8;
    pub(crate) const ACK: u8 = 16;

    /// Reads the header that `packet` begins with; `None` for other protocols and for parts of
    /// a packet. `skipped` segments of a train of `each` bytes come before this one, which has
    /// `length` bytes from the IP header on.
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
        let payload = usize::from(length).checked_sub(headers)? as u32;
        let (skipped, each) = train.unwrap_or((0, payload));
        let (sack, permits_sack) = SackBlocks::read(options);
        let end = |address: IpAddr, at| SocketAddr::new(address, be16(fixed, at));
        Some(Self {
            connection: Connection {
                local: end(ip.src, 0),
                remote: end(ip.dst, 2),
            },
            seq: be32(fixed, 4).wrapping_add(skipped * each),
            payload,
            each: each.max(1),
            flags: fixed[13],
            ack: be32(fixed, 8),
            window: be16(fixed, 14),
            sack,
            permits_sack,
        })
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Sequence numbers that it takes: payload, SYN and FIN.
    pub(super) fn length(&self) -> u32 {
        let controls = [Self::SYN, Self::FIN].map(|flag| u32::from(self.has(flag)));
        self.payload + controls.iter().sum::<u32>()
    }

    pub(super) fn end(&self) -> u32 {
        self.seq.wrapping_add(self.length())
    }

    /// Returns true for an acknowledgement that carries nothing else.
    pub(super) fn is_pure_ack(&self) -> bool {
        self.length() == 0 && self.flags & (Self::ACK | Self::RST) == Self::ACK
    }

    /// Returns true for a segment that a peer has to acknowledge.
    pub(crate) fn needs_copy(&self) -> bool {
        self.length() > 0 && !self.has(Self::RST)
    }
}

/// Blocks of a selective acknowledgement.
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

    #[cfg(test)]
    pub(super) fn one(from: u32, to: u32) -> Self {
        let mut all = Self::default();
        (all.blocks[0], all.count) = ((from, to), 1);
        all
    }

    fn read(mut options: &[u8]) -> (Self, bool) {
        let (mut all, mut permits) = (Self::default(), false);
        while let Some((&kind, rest)) = options.split_first() {
            if kind == END {
                break;
            }
            if kind == NO_OPERATION {
                options = rest;
                continue;
            }
            let length = rest.first().map_or(0, |length| usize::from(*length));
            let Some(value) = options.get(2..length) else {
                break;
            };
            permits |= kind == SACK_PERMITTED;
            if kind == SACK {
                for block in value.chunks_exact(8).take(4) {
                    all.blocks[all.count] = (be32(block, 0), be32(block, 4));
                    all.count += 1;
                }
            }
            options = &options[length..];
        }
        (all, permits)
    }
}

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;

/// Returns true if sequence number `a` comes before `b` (RFC 9293, section 3.4).
pub(super) fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Returns `numerator` parts of `denominator` of a duration.
pub(super) fn scaled(length: Duration, numerator: i64, denominator: i64) -> Duration {
    Duration::from_ns(length.as_ns() * numerator / denominator)
}

/// Expiration of a timer of Linux that is set `now` for `timeout`: in whole ticks, and as late
/// as the wheel of timers rounds it (Linux, kernel/time/timer.c). Beyond 63 ticks the wheel
/// counts in eighths, beyond 504 in sixty-fourths, and so on.
pub(super) fn expiration(
    now: Instant<Virtual>,
    timeout: Duration,
    tick: Duration,
) -> Instant<Virtual> {
    let tick_ns = tick.as_ns().max(1);
    let ticks = (timeout.as_ns().max(0) + tick_ns - 1) / tick_ns;
    let expires = (now - Instant::ZERO).as_ns() / tick_ns + ticks;
    let mut shift = 0;
    while ticks >= 63 << shift && shift < 24 {
        shift += 3;
    }
    Instant::from_ns(((expires >> shift) + 1) * (tick_ns << shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_across_a_wrap() {
        assert!(before(u32::MAX, 3) && !before(3, u32::MAX) && !before(7, 7));
    }

    #[test]
    fn timers_expire_in_whole_ticks_and_never_early() {
        let tick = Duration::from_ms(4);
        for (timeout_ms, latest_ms) in [(40, 4), (204, 4), (1000, 32), (8000, 256)] {
            for now_ns in [0, 1, 3_999_999, 4_000_000, 777_777_777] {
                let (now, timeout) = (Instant::from_ns(now_ns), Duration::from_ms(timeout_ms));
                let late = expiration(now, timeout, tick) - now - timeout;
                assert!(late > -tick && late <= Duration::from_ms(latest_ms), "{late}");
            }
        }
    }

    #[test]
    fn options_are_read_whatever_they_are() {
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
