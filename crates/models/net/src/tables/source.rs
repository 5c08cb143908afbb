//! Sources of datagrams: sizes and instants of their packets, and results.

use timeloom_engine::Random;
use timeloom_time::convert::{clamped_u64, index, low_u32, saturating_u16};
use timeloom_time::{Duration, Instant, Virtual};

use crate::packet::{Packet, PacketKind, PortId};

/// Pattern by which a source sends.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Constant rate in bits per second, IP headers included. The k-th packet is sent at exactly k
    /// times the duration of a packet, rounded up.
    Constant {
        /// Bits per second.
        rate_bps: u64,
    },
    /// Random instants; the intervals are exponential with this mean.
    Poisson {
        /// Mean interval between two packets.
        mean: Duration,
    },
    /// Alternates between [`Pattern::Constant`] and silence; each period has an exponential length.
    OnOff {
        /// Bits per second during a burst.
        rate_bps: u64,
        /// Mean length of a burst.
        mean_on: Duration,
        /// Mean length of a silence.
        mean_off: Duration,
    },
    /// Packets at given offsets from the start, with given sizes in bytes; repeated after `every`,
    /// if that is given.
    Trace {
        /// Offset and size in bytes of each packet, with ascending offsets.
        packets: Vec<(Duration, u16)>,
        /// Length of one repetition.
        every: Option<Duration>,
    },
}

/// Sizes of packets, in bytes from the IP header on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PacketSize {
    /// The same size for all packets.
    Fixed(u16),
    /// Exponential sizes with this mean, limited to 28 … 65535.
    Exponential(f64),
}

/// Configuration of a source of datagrams from one host to another.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficConfig {
    /// Sending pattern.
    pub pattern: Pattern,
    /// Sizes of the packets; ignored for a trace, which contains sizes.
    pub size: PacketSize,
    /// IP type of service of the packets.
    pub tos: u8,
    /// True if the packets are ICMP echo requests, which are answered.
    pub echo: bool,
    /// Virtual instant at which the source starts.
    pub start: Instant<Virtual>,
    /// Virtual instant at which the source stops.
    pub stop: Instant<Virtual>,
}

impl TrafficConfig {
    /// Returns a source of UDP datagrams with this pattern and size, which starts at zero and never
    /// stops.
    pub fn udp(pattern: Pattern, size: PacketSize) -> Self {
        Self {
            pattern,
            size,
            tos: 0,
            echo: false,
            start: Instant::ZERO,
            stop: Instant::FAR_FUTURE,
        }
    }

    /// Returns the reason for which this source is invalid; `None` if it is valid. Usually an
    /// invalid source would send an endless number of packets at one instant.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let empty = match self.size {
            PacketSize::Fixed(size) => size == 0,
            PacketSize::Exponential(mean) => !(mean > 0.0 && mean.is_finite()),
        };
        let zero = |length: &Duration| *length <= Duration::ZERO;
        match &self.pattern {
            Pattern::Trace { packets, every } => {
                let offsets = packets.windows(2).all(|pair| pair[0].0 <= pair[1].0);
                let last = packets.last().map_or(Duration::ZERO, |last| last.0);
                let negative = packets.first().is_some_and(|first| first.0.is_negative());
                if !offsets || negative {
                    return Some(
                        "the offsets of a trace must start at or after 0 and must not \
                        decrease",
                    );
                }
                let short = |every: &Duration| zero(every) || *every < last;
                let short = every.as_ref().is_some_and(short);
                short.then_some(
                    "the period of a trace must be positive and not shorter than the \
                    trace",
                )
            }
            _ if empty => Some("a packet must have at least one byte"),
            Pattern::Constant { rate_bps: 0 } | Pattern::OnOff { rate_bps: 0, .. } => {
                Some("a rate must be at least 1 bit/s")
            }
            Pattern::Poisson { mean } if zero(mean) => {
                Some("the mean interval between packets must be positive")
            }
            Pattern::OnOff {
                mean_on, mean_off, ..
            } if zero(mean_on) || zero(mean_off) => {
                Some("the mean durations of bursts and silences must be positive")
            }
            _ => None,
        }
    }

    /// Returns one echo request of 84 bytes per second, as `ping` does.
    pub fn ping() -> Self {
        let pattern = Pattern::Constant { rate_bps: 84 * 8 };
        Self {
            echo: true,
            ..Self::udp(pattern, PacketSize::Fixed(84))
        }
    }
}

/// Results of a source's packets so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficStats {
    /// Number of packets sent.
    pub sent: u64,
    /// Number of packets that arrived; for pings, of replies.
    pub received: u64,
    /// Number of bytes that arrived.
    pub received_bytes: u64,
    /// Sum of the one-way delays in ns; for pings, of the round-trip times.
    pub delay_sum_ns: u64,
    /// Greatest delay, in ns.
    pub delay_max_ns: u64,
    /// Number of packets that arrived after a packet that was sent later.
    pub reordered: u64,
    /// Number of packets sent up to the newest one that has arrived. Those among them that have not
    /// arrived were lost, or will arrive out of order (RFC 3550, appendix A.3).
    pub expected: u64,
}

/// State of a source: its ends, its progress and its results.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    config: TrafficConfig,
    from: PortId,
    to: PortId,
    stats: TrafficStats,
    /// Greatest sequence number that has arrived.
    highest: u32,
    random: Random,
    /// Number of packets sent since `base`.
    count: u64,
    /// Start of the present burst, or of the present repetition of a trace.
    base: Instant<Virtual>,
    burst_ends: Instant<Virtual>,
    /// Size of the next packet, in bytes.
    next_size: u16,
}

impl Source {
    pub(crate) fn new(config: TrafficConfig, from: PortId, to: PortId, random: Random) -> Self {
        let base = config.start;
        Self {
            config,
            from,
            to,
            stats: TrafficStats::default(),
            highest: 0,
            random,
            count: 0,
            base,
            burst_ends: base,
            next_size: 0,
        }
    }

    #[inline]
    pub(crate) fn from(&self) -> PortId {
        self.from
    }

    pub(crate) fn to(&self) -> PortId {
        self.to
    }

    pub(crate) fn stats(&self) -> TrafficStats {
        self.stats
    }

    /// Returns the size of the packets in bytes; `None` if it is not the same for all.
    pub(crate) fn fixed_size(&self) -> Option<u16> {
        match self.config.size {
            PacketSize::Fixed(size) => Some(size),
            PacketSize::Exponential(_) => None,
        }
    }

    /// Advances to the next packet and returns its instant; `None` if there is none.
    pub(crate) fn advance(&mut self) -> Option<Instant<Virtual>> {
        let (at, size) = self.next()?;
        self.next_size = size;
        (at < self.config.stop && at != Instant::FAR_FUTURE).then_some(at)
    }

    /// Advances to the first packet that is due at `now` or later, when the source starts. Earlier
    /// packets count as sent, so that the receiver counts them as missing.
    pub(crate) fn advance_to(&mut self, now: Instant<Virtual>) -> Option<Instant<Virtual>> {
        if let (Pattern::Constant { rate_bps }, PacketSize::Fixed(size)) =
            (&self.config.pattern, self.config.size)
        {
            // Number of packets since then, which may be too large for a loop.
            let passed = now.min(self.config.stop) - self.base;
            let bits = u128::from(passed.as_unsigned_ns()) * u128::from(*rate_bps);
            self.count = clamped_u64(bits / (u128::from(size) * 8 * 1_000_000_000));
            self.stats.sent = self.count;
        }
        loop {
            let at = self.advance()?;
            if at >= now {
                return Some(at);
            }
            self.stats.sent += 1;
        }
    }

    /// Returns the packet to which [`Source::advance`] has advanced; `number` is the number of this
    /// source.
    #[inline]
    pub(crate) fn send(&mut self, number: u32) -> Packet {
        let kind = if self.config.echo {
            PacketKind::EchoRequest
        } else {
            PacketKind::Udp
        };
        let mut packet = Packet::new(kind, self.from, self.to, number, self.next_size);
        packet.seq = low_u32(self.stats.sent);
        packet.tos = self.config.tos;
        self.stats.sent += 1;
        packet
    }

    /// Counts a datagram, or the reply to a ping, that arrived at its destination.
    #[inline]
    pub(crate) fn count_arrival(&mut self, packet: &Packet, now: Instant<Virtual>) {
        let stats = &mut self.stats;
        let delay = (now - packet.stamp).as_unsigned_ns();
        stats.received += 1;
        stats.received_bytes += u64::from(packet.size);
        stats.delay_sum_ns += delay;
        stats.delay_max_ns = stats.delay_max_ns.max(delay);
        if packet.seq < self.highest {
            stats.reordered += 1;
        }
        self.highest = self.highest.max(packet.seq);
        stats.expected = u64::from(self.highest) + 1;
    }

    /// Returns the instant and the size of the next packet.
    fn next(&mut self) -> Option<(Instant<Virtual>, u16)> {
        let size = match self.config.size {
            PacketSize::Fixed(size) => size,
            PacketSize::Exponential(mean) => {
                saturating_u16(self.random.exponential(mean).max(28.0))
            }
        };
        let at = match &self.config.pattern {
            Pattern::Constant { rate_bps } => self.base + time_of(self.count, size, *rate_bps),
            Pattern::Poisson { mean } => {
                let wait = self.random.exponential(mean.as_ns() as f64);
                self.base += Duration::from_ns_f64(wait);
                self.base
            }
            Pattern::OnOff {
                rate_bps,
                mean_on,
                mean_off,
            } => {
                let at = self.base + time_of(self.count, size, *rate_bps);
                if at < self.burst_ends {
                    at
                } else {
                    let off = self.random.exponential(mean_off.as_ns() as f64);
                    let on = self.random.exponential(mean_on.as_ns() as f64);
                    self.base = self.burst_ends.max(self.base) + Duration::from_ns_f64(off);
                    self.burst_ends = self.base + Duration::from_ns_f64(on) + Duration::from_ns(1);
                    self.count = 0;
                    self.base
                }
            }
            Pattern::Trace { packets, every } => {
                let length = packets.len() as u64;
                if self.count == length {
                    self.base += (*every)?;
                    self.count = 0;
                }
                let (offset, size) = *packets.get(index(self.count))?;
                self.count += 1;
                return Some((self.base + offset, size));
            }
        };
        self.count += 1;
        Some((at, size))
    }
}

/// Returns the time from the first packet to packet number `count`, rounded up to whole ns.
fn time_of(count: u64, size: u16, rate_bps: u64) -> Duration {
    let bits = u128::from(count) * u128::from(size) * 8;
    let ns = (bits * 1_000_000_000).div_ceil(u128::from(rate_bps.max(1)));
    Duration::from_ns(i64::try_from(ns).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(pattern: Pattern, size: PacketSize, stop_ms: i64) -> Source {
        let config = TrafficConfig {
            stop: Instant::ZERO + Duration::from_ms(stop_ms),
            ..TrafficConfig::udp(pattern, size)
        };
        Source::new(config, PortId(0), PortId(3), Random::new(1, 0))
    }

    fn instants_ns(mut source: Source) -> Vec<i64> {
        core::iter::from_fn(|| source.advance().map(|at| at.as_ns())).collect()
    }

    #[test]
    fn a_constant_rate_adds_up_no_roundings() {
        // 100 bytes at 3 Mbit/s take 266,666 2/3 ns.
        let pattern = Pattern::Constant {
            rate_bps: 3_000_000,
        };
        let instants = instants_ns(source(pattern, PacketSize::Fixed(100), 1));
        assert_eq!(instants, [0, 266_667, 533_334, 800_000]);
    }

    #[test]
    fn a_source_that_begins_late_goes_on_where_it_would_be() {
        let at = |us: i64| Instant::ZERO + Duration::from_us(us);
        let constant = Pattern::Constant {
            rate_bps: 3_000_000,
        };
        let poisson = Pattern::Poisson {
            mean: Duration::from_us(20),
        };
        for pattern in [constant, poisson] {
            let whole = source(pattern.clone(), PacketSize::Fixed(100), 1);
            let all = instants_ns(whole.clone());
            for now in [0, 1, 400, 534, 801, 5_000] {
                let mut late = whole.clone();
                let first = late.advance_to(at(now)).map(|at| at.as_ns());
                let before = all.iter().filter(|ns| **ns < now * 1_000).count();
                assert_eq!(first, all.get(before).copied(), "{pattern:?} from {now} us");
                assert_eq!(late.stats.sent, before as u64, "{pattern:?} from {now} us");
                let rest = &all[all.len().min(before + 1)..];
                assert_eq!(instants_ns(late), rest);
            }
        }
    }

    #[test]
    fn a_trace_is_repeated_until_the_source_stops() {
        let packets = vec![(Duration::ZERO, 40), (Duration::from_us(300), 1_500)];
        let every = Some(Duration::from_us(400));
        let mut source = source(Pattern::Trace { packets, every }, PacketSize::Fixed(1), 1);
        let sizes = core::iter::from_fn(|| source.advance().map(|_| source.send(7).size));
        assert!(sizes.eq([40, 1_500, 40, 1_500, 40]));
    }

    #[test]
    fn packets_that_were_overtaken_are_counted() {
        let pattern = Pattern::Constant {
            rate_bps: 8_000_000,
        };
        let mut source = source(pattern, PacketSize::Fixed(100), 1_000);
        let [first, second] = [(); 2].map(|()| {
            source.advance();
            source.send(7)
        });
        assert_eq!((first.seq, second.seq, first.flow), (0, 1, 7));
        for packet in [second, first] {
            source.count_arrival(&packet, Instant::ZERO + Duration::from_us(5));
        }
        let stats = source.stats();
        assert_eq!((stats.sent, stats.received, stats.reordered), (2, 2, 1));
        assert_eq!((stats.received_bytes, stats.delay_sum_ns), (200, 10_000));
    }
}
