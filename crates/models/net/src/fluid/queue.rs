//! Fluid and packets in the queue of one link.
//!
//! The state of a drop-tail queue is its *work*: the time that the transmitter needs to send all
//! that waits. Between two packets fluid arrives at a constant rate, so the work changes linearly
//! until it reaches zero or the limit, and needs to be computed only on demand. Times are in ns,
//! amounts in bytes on the wire.
//!
//! Some fluid represents packets that arrive at random instants (Poisson). If few of them arrive
//! between two queries, they are drawn one by one. If many arrive, the work is a Brownian motion
//! with the same mean and variance, reflected at zero. Its mean in equilibrium is that of Pollaczek
//! and Khinchine: ρs / 2(1 − ρ).

use timeloom_engine::Random;
use timeloom_time::convert::{high_u64, saturating_u128};
use timeloom_time::{Duration, Instant, Virtual};

use super::red::FluidRed;
use super::{FluidLinkStats, Inflow};
use crate::config::RedConfig;
use crate::queue::Verdict;

/// Fluid in the queue of one direction of a cable.
#[derive(Clone, Debug)]
pub(crate) struct FluidQueue {
    random: Random,
    /// Maximum number of waiting packets, including those that fluid represents.
    limit: u32,
    /// Smooth arrivals, in bytes per ns.
    smooth: f64,
    /// Random arrivals, in bytes per ns.
    poisson: f64,
    /// Size in bytes of all packets that the fluid represents.
    packet: f64,
    /// Size in bytes of the packets that arrive at random.
    poisson_packet: f64,
    /// Virtual instant up to which the work has been computed.
    at: Instant<Virtual>,
    /// End of the transmission of the last real packet, in units of 2^-64 ns. All work after it is
    /// fluid; fluid before it can no longer be dropped.
    last_end: u128,
    /// Start of the transmission of the last real packet, in units of 2^-64 ns.
    last_start: u128,
    /// Bytes of the real packets that have not been sent yet.
    pub(crate) unsent_bytes: u64,
    /// Recent arrivals of packets and fluid, and the amount of them that was refused.
    came: f64,
    refused: f64,
    arrived: f64,
    pub(crate) lost: f64,
    red: Option<FluidRed>,
}

/// Maximum number of random packets that are drawn one by one; more are treated as Brownian motion.
const SINGLE_DRAWS: u32 = 32;
/// Length of the period that counts as recent, as a fraction of the time in which a full queue is
/// sent.
const LATELY: f64 = 0.1;
/// Minimum length of the period that counts as recent, as the time of a number of packets.
const LEAST_LATELY: u32 = 16;
/// Random work below this number of packets counts as noise: it delays packets, but does not change
/// the rates at the next link.
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

    /// Sets the arrivals from now until the next step. The work must have been computed up to now.
    /// If the link is down, all arrivals are lost.
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

    /// Advances the work to `now`. `free` is the instant at which the transmitter has sent all,
    /// `per_byte` the ns for each byte, and `unsent` the number of real packets that have not been
    /// sent.
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
            // The fluid that RED drops never enters the queue.
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

    /// Returns the number of waiting packets, including those that waiting fluid represents.
    fn packets_waiting(&self, unsent: u32, free: u128, per_byte: f64) -> f64 {
        let sent = f64::from(unsent.saturating_sub(1));
        sent + self.waiting(free, per_byte) / self.packet
    }

    /// Returns RED's verdict on a packet that finds `unsent` others in the queue; `None` without
    /// RED.
    pub(crate) fn judge(&mut self, unsent: u32, free: u128, per_byte: f64) -> Option<Verdict> {
        let waiting = self.packets_waiting(unsent, free, per_byte);
        let red = self.red.as_mut()?;
        Some(red.judge(waiting, self.random.unit()))
    }

    /// Returns the work after `elapsed`, during which packets arrive at random.
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
        // Draws the minimum of a Brownian motion between two known ends; reflection at zero adds
        // the part of it below zero.
        let log = (1.0 - self.random.unit()).ln();
        let spread = ((end - work) * (end - work) - 2.0 * variance * log).sqrt();
        let lowest = (work + end - spread) / 2.0;
        end - lowest.min(0.0)
    }

    /// Returns a sample of the standard normal distribution (Box–Muller transform).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.random.unit()).ln()).sqrt();
        radius * (core::f64::consts::TAU * self.random.unit()).cos()
    }

    /// Returns the waiting time, in ns, of a packet that arrives at the instant up to which the
    /// work has been computed.
    pub(crate) fn wait_ns(&self, free: u128) -> f64 {
        ns(free.saturating_sub(bits(self.at)))
    }

    /// Returns the bytes of fluid that wait.
    fn waiting(&self, free: u128, per_byte: f64) -> f64 {
        (self.wait_ns(free) / per_byte - self.unsent_bytes as f64).max(0.0)
    }

    /// Returns the bytes of fluid that wait, without random noise.
    pub(crate) fn waiting_bytes(&self, free: u128, per_byte: f64) -> f64 {
        let noise = if self.poisson > 0.0 {
            NOISE_PACKETS * self.poisson_packet
        } else {
            0.0
        };
        (self.waiting(free, per_byte) - noise).max(0.0)
    }

    /// Returns the bytes of fluid that have room beside `unsent` packets, one of which is being
    /// sent.
    fn room(&self, unsent: u32) -> f64 {
        let slots = u64::from(self.limit) + 1;
        slots.saturating_sub(u64::from(unsent)) as f64 * self.packet
    }

    /// Returns the work of the fluid behind all real packets, in units of 2^-64 ns.
    fn behind(&self, free: u128) -> u128 {
        free.saturating_sub(self.last_end.max(bits(self.at)))
    }

    /// Drops fluid until `room` bytes remain, as far as it is behind all real packets.
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

    /// Drops the fluid for which there is no room; must be called in each step.
    pub(crate) fn overflow(&mut self, unsent: u32, free: &mut u128, per_byte: f64) {
        self.trim(self.room(unsent), free, per_byte);
    }

    /// Returns true if a packet that finds `unsent` others is admitted. If there is no room for
    /// both packet and fluid, the packet is lost with the recent probability of a loss. Otherwise
    /// fluid is dropped in its place, if necessary fluid that arrives later. A burst of packets
    /// then loses no more than it would in a queue of packets only, which is never full for long.
    pub(crate) fn admits(&mut self, unsent: u32, free: &mut u128, per_byte: f64) -> bool {
        let room = self.room(unsent);
        self.trim(room, free, per_byte);
        let over = self.waiting(*free, per_byte) + self.packet - room;
        let mut admitted = unsent <= self.limit;
        if admitted && over > 0.0 {
            // Fluid in front of real packets, which cannot be dropped.
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

    /// Records that an admitted packet will be sent from `start` to `end` (in units of 2^-64 ns).
    pub(crate) fn note_packet(&mut self, start: u128, end: u128, bytes: u32) {
        (self.last_start, self.last_end) = (start, end);
        self.unsent_bytes += u64::from(bytes);
    }

    /// Records that a packet of this many bytes has been sent.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: u32) {
        self.unsent_bytes = self.unsent_bytes.saturating_sub(u64::from(bytes));
    }

    /// Returns the start of the last real packet's transmission, rounded up to whole ns.
    pub(crate) fn last_start(&self) -> Instant<Virtual> {
        Instant::from_ns(high_u64(self.last_start + u128::from(u64::MAX)).cast_signed())
    }
}

fn bits(at: Instant<Virtual>) -> u128 {
    u128::from(at.as_ns().max(0).cast_unsigned()) << 64
}

const FRACTION: f64 = (1u128 << 64) as f64;

fn ns(bits: u128) -> f64 {
    bits as f64 / FRACTION
}

fn from_ns(ns: f64) -> u128 {
    saturating_u128(ns * FRACTION)
}
