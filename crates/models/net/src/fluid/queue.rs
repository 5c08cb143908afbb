//! Fluid in the queue of a link, between packets.
//!
//! The state of a drop-tail queue in front of a transmitter is its *work*: the time that the
//! transmitter needs to send all. Between two packets fluid arrives at a constant rate, so the work
//! is a straight line that ends at zero or at the limit, and is computed only on demand. Times are
//! in ns, amounts in bytes on the wire.
//!
//! Fluid that represents packets at random instants (Poisson) is treated as single packets if few
//! of them arrive between two queries; if many arrive, the work is a Brownian motion of the same
//! mean and variance, reflected at zero, whose mean in equilibrium is that of Pollaczek and
//! Khinchine: ρs / 2(1 − ρ).

use timeloom_engine::Random;
use timeloom_time::{Duration, Instant, Virtual};

use super::red::FluidRed;
use super::{FluidLinkStats, Inflow};
use crate::config::RedConfig;
use crate::queue::Verdict;

/// Fluid at one direction of a link.
#[derive(Clone, Debug)]
pub(crate) struct FluidQueue {
    random: Random,
    /// Maximum number of waiting packets.
    limit: u32,
    /// Bytes per ns that arrive, smoothly and at random.
    smooth: f64,
    poisson: f64,
    /// Size of the fluid's packets in bytes; of the random part's.
    packet: f64,
    poisson_packet: f64,
    /// Instant up to which the work is known.
    at: Instant<Virtual>,
    /// End of the last real packet, ns and 2^-64 ns: all work after it is fluid, and none before it
    /// can be removed.
    last_end: u128,
    /// Start of the transmission of the last real packet.
    last_start: u128,
    /// Bytes of the packets that have not been sent.
    pub(crate) unsent_bytes: u64,
    /// Recent arrivals, packets and fluid, and the part that was refused.
    came: f64,
    refused: f64,
    arrived: f64,
    pub(crate) lost: f64,
    red: Option<FluidRed>,
}

/// Maximum number of random packets that are drawn one by one; more are a Brownian motion.
const SINGLE_DRAWS: u32 = 32;
/// Length of "recent", as a part of the time that a full queue takes to be sent, and at least the
/// time of so many packets.
const LATELY: f64 = 0.1;
const LEAST_LATELY: u32 = 16;
/// Random work below this number of packets is noise that concerns packets only, not the rates at
/// the next link.
const NOISE_PACKETS: f64 = 32.0;

impl FluidQueue {
    pub(crate) fn new(random: Random, limit: u32, red: Option<RedConfig>) -> Self {
        Self {
            random,
            limit,
            smooth: 0.0,
            poisson: 0.0,
            packet: 1_000.0,
            poisson_packet: 1_000.0,
            at: Instant::ZERO,
            last_end: 0,
            last_start: 0,
            unsent_bytes: 0,
            came: 0.0,
            refused: 0.0,
            arrived: 0.0,
            lost: 0.0,
            red: red.map(FluidRed::new),
        }
    }

    /// Sets the arrivals from now on until the next step. The work is known up to now. If the link
    /// is down, all of them are lost.
    pub(crate) fn set_rates(&mut self, smooth: Inflow, poisson: Inflow, step: Duration, up: bool) {
        let (bytes, packets) = (
            smooth.bytes + poisson.bytes,
            smooth.packets + poisson.packets,
        );
        if bytes > 0.0 {
            self.packet = bytes / packets;
        }
        if poisson.bytes > 0.0 {
            self.poisson_packet = poisson.bytes / poisson.packets;
        }
        let per_ns = if up { 1.0 / step.as_ns() as f64 } else { 0.0 };
        if !up {
            self.arrived += bytes;
            self.lost += bytes;
        }
        self.smooth = smooth.bytes * per_ns;
        self.poisson = poisson.bytes * per_ns;
    }

    pub(crate) fn stats(&self, free: u128, per_byte: f64) -> FluidLinkStats {
        FluidLinkStats {
            arrived_bytes: self.arrived,
            lost_bytes: self.lost,
            waiting_bytes: self.waiting(free, per_byte),
        }
    }

    /// Advances the work to `now`: `free` is the instant when the transmitter will have sent all,
    /// `per_byte` the ns that it takes for each byte; `unsent` packets are there beside the fluid.
    pub(crate) fn advance(
        &mut self,
        now: Instant<Virtual>,
        unsent: u32,
        free: &mut u128,
        per_byte: f64,
    ) {
        let elapsed = (now - self.at).as_ns() as f64;
        let before = bits(self.at);
        self.at = now;
        if elapsed <= 0.0 {
            return;
        }
        let came = (self.smooth + self.poisson) * elapsed;
        let lately = f64::from(self.limit.max(LEAST_LATELY)) * self.packet * per_byte * LATELY;
        let left = lately / (lately + elapsed);
        self.came = self.came * left + came;
        self.refused *= left;
        self.arrived += came;
        let work = ns(free.saturating_sub(before));
        if came > 0.0 {
            // The part that RED drops never enters the queue.
            let early = self.red.as_ref().map_or(0.0, FluidRed::loss);
            self.lost += came * early;
            let (smooth, poisson) = (self.smooth * (1.0 - early), self.poisson * (1.0 - early));
            let drain = 1.0 - smooth * per_byte;
            let work = if poisson > 0.0 {
                self.walk(work, elapsed, drain, poisson, per_byte)
            } else {
                (work - drain * elapsed).max(0.0)
            };
            *free = (bits(now) + from_ns(work)).max(self.last_end);
        }
        if self.red.is_some() {
            let idle_ns = (elapsed - work - came * per_byte).max(0.0);
            let packets = (came + idle_ns / per_byte) / self.packet;
            let waiting = self.packets_waiting(unsent, *free, per_byte);
            if let Some(red) = &mut self.red {
                red.see(packets, waiting);
            }
        }
    }

    /// Returns the number of waiting packets, including those that the waiting fluid represents.
    fn packets_waiting(&self, unsent: u32, free: u128, per_byte: f64) -> f64 {
        let sent = f64::from(unsent.saturating_sub(1));
        sent + self.waiting(free, per_byte) / self.packet
    }

    /// Returns RED's verdict on a packet that finds `unsent` others; `None` without RED.
    pub(crate) fn judge(&mut self, unsent: u32, free: u128, per_byte: f64) -> Option<Verdict> {
        let waiting = self.packets_waiting(unsent, free, per_byte);
        let red = self.red.as_mut()?;
        Some(red.judge(waiting, self.random.unit()))
    }

    /// Returns the work after `elapsed` in which packets arrive at random.
    fn walk(
        &mut self,
        mut work: f64,
        mut elapsed: f64,
        drain: f64,
        poisson: f64,
        per_byte: f64,
    ) -> f64 {
        let service = self.poisson_packet * per_byte;
        let distance = self.poisson_packet / poisson;
        for _ in 0..SINGLE_DRAWS {
            let gap = self.random.exponential(distance);
            if gap >= elapsed {
                return (work - drain * elapsed).max(0.0);
            }
            elapsed -= gap;
            work = (work - drain * gap).max(0.0) + service;
        }
        let drift = poisson * per_byte - drain;
        let variance = service * service / distance * elapsed;
        let end = work + drift * elapsed + variance.sqrt() * self.normal();
        // The minimum of a Brownian motion between two known ends; reflection adds the part below
        // zero.
        let log = (1.0 - self.random.unit()).ln();
        let spread = ((end - work) * (end - work) - 2.0 * variance * log).sqrt();
        let lowest = (work + end - spread) / 2.0;
        end - lowest.min(0.0)
    }

    /// Returns a sample of the standard normal distribution (Box and Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.random.unit()).ln()).sqrt();
        radius * (core::f64::consts::TAU * self.random.unit()).cos()
    }

    /// Returns the waiting time of a packet that arrives at the instant up to which the work is
    /// known, in ns.
    pub(crate) fn wait_ns(&self, free: u128) -> f64 {
        ns(free.saturating_sub(bits(self.at)))
    }

    /// Returns the bytes of waiting fluid.
    fn waiting(&self, free: u128, per_byte: f64) -> f64 {
        (self.wait_ns(free) / per_byte - self.unsent_bytes as f64).max(0.0)
    }

    /// Returns the bytes of waiting fluid, without random noise.
    pub(crate) fn waiting_bytes(&self, free: u128, per_byte: f64) -> f64 {
        let noise = if self.poisson > 0.0 {
            NOISE_PACKETS * self.poisson_packet
        } else {
            0.0
        };
        (self.waiting(free, per_byte) - noise).max(0.0)
    }

    /// Returns the room for fluid beside `unsent` packets, one of which is being sent.
    fn room(&self, unsent: u32) -> f64 {
        let slots = u64::from(self.limit) + 1;
        slots.saturating_sub(u64::from(unsent)) as f64 * self.packet
    }

    /// Returns the work of the fluid behind all packets: ns and 2^-64 ns.
    fn behind(&self, free: u128) -> u128 {
        free.saturating_sub(self.last_end.max(bits(self.at)))
    }

    /// Drops fluid down to `room` bytes, as far as it is behind all packets.
    fn trim(&mut self, room: f64, free: &mut u128, per_byte: f64) {
        let over = self.waiting(*free, per_byte) - room;
        if over <= 0.0 {
            return;
        }
        let taken = from_ns(over * per_byte).min(self.behind(*free));
        *free -= taken;
        let bytes = ns(taken) / per_byte;
        self.lost += bytes;
        self.refused += bytes;
    }

    /// Drops fluid that finds no room; must be called at each step.
    pub(crate) fn overflow(&mut self, unsent: u32, free: &mut u128, per_byte: f64) {
        self.trim(self.room(unsent), free, per_byte);
    }

    /// Returns true if a packet that finds `unsent` others is admitted. If there is no room for it
    /// and the fluid, it is lost with the recent probability of a loss; otherwise fluid is dropped
    /// in its place, also fluid that arrives after it. A burst then loses no more than it would
    /// among packets, whose queue is never full for long.
    pub(crate) fn admits(&mut self, unsent: u32, free: &mut u128, per_byte: f64) -> bool {
        let room = self.room(unsent);
        self.trim(room, free, per_byte);
        let over = self.waiting(*free, per_byte) + self.packet - room;
        let mut admitted = unsent <= self.limit;
        if admitted && over > 0.0 {
            // Fluid that cannot be dropped, since it is before other packets.
            let firm = (over - ns(self.behind(*free)) / per_byte).max(0.0);
            let loss = (self.refused + firm) / (self.came + firm).max(self.packet);
            admitted = !self.random.chance(loss);
        }
        self.came += self.packet;
        if admitted {
            self.trim((room - self.packet).max(0.0), free, per_byte);
        } else {
            self.refused += self.packet;
        }
        admitted
    }

    /// Records that an admitted packet is sent from `start` to `end`.
    pub(crate) fn note_packet(&mut self, start: u128, end: u128, bytes: u32) {
        (self.last_start, self.last_end) = (start, end);
        self.unsent_bytes += u64::from(bytes);
    }

    /// Records that a packet of this many bytes has been sent.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: u32) {
        self.unsent_bytes = self.unsent_bytes.saturating_sub(u64::from(bytes));
    }

    /// Returns the start of the transmission of the last packet, rounded up.
    pub(crate) fn last_start(&self) -> Instant<Virtual> {
        Instant::from_ns(((self.last_start + u128::from(u64::MAX)) >> 64) as i64)
    }
}

fn bits(at: Instant<Virtual>) -> u128 {
    (at.as_ns().max(0) as u128) << 64
}

const FRACTION: f64 = (1u128 << 64) as f64;

fn ns(bits: u128) -> f64 {
    bits as f64 / FRACTION
}

fn from_ns(ns: f64) -> u128 {
    (ns.max(0.0) * FRACTION) as u128
}
