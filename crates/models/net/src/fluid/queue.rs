//! Fluid in the queue of a link, between packets.
//!
//! A drop-tail queue in front of a transmitter is known by its *work*: how long
//! the transmitter still has to send. Between two packets fluid comes at a
//! constant rate, so that the work is a straight line that ends at zero or at
//! the limit, and is computed only when somebody asks. Times are in ns,
//! amounts in bytes on the wire.
//!
//! Fluid that stands for packets at random instants (Poisson) is those packets
//! as long as few of them come between two questions; when many come, the work
//! is a Brownian motion of the same mean and variance, reflected at zero, whose
//! mean in equilibrium is that of Pollaczek and Khinchine: ρs / 2(1 − ρ).

use timeloom_engine::Random;
use timeloom_time::{Duration, Instant, Virtual};

use super::red::FluidRed;
use super::{FluidLinkStats, Inflow};
use crate::config::RedConfig;
use crate::queue::Verdict;

/// The fluid at one direction of a link.
#[derive(Clone, Debug)]
pub(crate) struct FluidQueue {
    random: Random,
    /// Packets that may wait.
    limit: u32,
    /// Bytes per ns that come, smoothly and at random.
    smooth: f64,
    poisson: f64,
    /// Bytes of one of its packets; of those at random.
    packet: f64,
    poisson_packet: f64,
    /// Up to when the work is known.
    at: Instant<Virtual>,
    /// The end of the last real packet, ns and 2^-64 ns: what lies after it is
    /// fluid, and nothing before it can be taken back.
    last_end: u128,
    /// When the transmission of the last real packet begins.
    last_start: u128,
    /// Bytes of the packets that have not been sent.
    pub(crate) unsent_bytes: u64,
    /// What came lately, packets and fluid, and what of it found no room.
    came: f64,
    refused: f64,
    arrived: f64,
    pub(crate) lost: f64,
    red: Option<FluidRed>,
}

/// So many packets at random are drawn one by one; more are a Brownian motion.
const SINGLE_DRAWS: u32 = 32;
/// "Lately" is this part of the time that a full queue takes to be sent, and at
/// least that of so many packets.
const LATELY: f64 = 0.1;
const LEAST_LATELY: u32 = 16;
/// Work at random below so many packets is noise that concerns packets only,
/// not the rates at the next link.
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

    /// So much comes from now on until the next step. The work is known up to
    /// now. When the link is down, all of it is lost.
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

    /// Brings the work up to `now`: `free` is when the transmitter will have
    /// sent all, `per_byte` how many ns it takes for each; `unsent` packets are
    /// there beside it.
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
            // What RED drops of fluid never comes into the queue.
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

    /// Packets that wait, and those that the waiting fluid stands for.
    fn packets_waiting(&self, unsent: u32, free: u128, per_byte: f64) -> f64 {
        let sent = f64::from(unsent.saturating_sub(1));
        sent + self.waiting(free, per_byte) / self.packet
    }

    /// What RED makes of a packet that finds `unsent` others; `None` without RED.
    pub(crate) fn judge(&mut self, unsent: u32, free: u128, per_byte: f64) -> Option<Verdict> {
        let waiting = self.packets_waiting(unsent, free, per_byte);
        let red = self.red.as_mut()?;
        Some(red.judge(waiting, self.random.unit()))
    }

    /// The work after `elapsed` in which packets come at random.
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
        // The lowest point of a Brownian motion between two known ends; what it
        // went below zero is what reflection adds.
        let log = (1.0 - self.random.unit()).ln();
        let spread = ((end - work) * (end - work) - 2.0 * variance * log).sqrt();
        let lowest = (work + end - spread) / 2.0;
        end - lowest.min(0.0)
    }

    /// A sample of the standard normal distribution (Box and Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.random.unit()).ln()).sqrt();
        radius * (core::f64::consts::TAU * self.random.unit()).cos()
    }

    /// How long a packet would wait that came at the instant up to which the
    /// work is known, in ns.
    pub(crate) fn wait_ns(&self, free: u128) -> f64 {
        ns(free.saturating_sub(bits(self.at)))
    }

    /// Bytes of fluid that wait.
    fn waiting(&self, free: u128, per_byte: f64) -> f64 {
        (self.wait_ns(free) / per_byte - self.unsent_bytes as f64).max(0.0)
    }

    /// Bytes of fluid that wait, without what only chance has put there.
    pub(crate) fn waiting_bytes(&self, free: u128, per_byte: f64) -> f64 {
        let noise = if self.poisson > 0.0 {
            NOISE_PACKETS * self.poisson_packet
        } else {
            0.0
        };
        (self.waiting(free, per_byte) - noise).max(0.0)
    }

    /// Room for fluid beside `unsent` packets, one of which is being sent.
    fn room(&self, unsent: u32) -> f64 {
        let slots = u64::from(self.limit) + 1;
        slots.saturating_sub(u64::from(unsent)) as f64 * self.packet
    }

    /// The work of the fluid behind all packets: ns and 2^-64 ns.
    fn behind(&self, free: u128) -> u128 {
        free.saturating_sub(self.last_end.max(bits(self.at)))
    }

    /// Loses fluid down to `room` bytes, as far as it lies behind all packets.
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

    /// Loses what finds no room; to be called at each step.
    pub(crate) fn overflow(&mut self, unsent: u32, free: &mut u128, per_byte: f64) {
        self.trim(self.room(unsent), free, per_byte);
    }

    /// Whether a packet is let in that finds `unsent` others. When there is no
    /// room for it and the fluid, it is lost with the probability with which
    /// anything was lately; else fluid gives way, that which comes after it too.
    /// A burst does not fare worse than it would among packets, whose queue is
    /// never full for long.
    pub(crate) fn admits(&mut self, unsent: u32, free: &mut u128, per_byte: f64) -> bool {
        let room = self.room(unsent);
        self.trim(room, free, per_byte);
        let over = self.waiting(*free, per_byte) + self.packet - room;
        let mut admitted = unsent <= self.limit;
        if admitted && over > 0.0 {
            // What cannot give way, since it lies before other packets.
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

    /// A packet that was let in is sent from `start` to `end`.
    pub(crate) fn note_packet(&mut self, start: u128, end: u128, bytes: u32) {
        (self.last_start, self.last_end) = (start, end);
        self.unsent_bytes += u64::from(bytes);
    }

    /// A packet of so many bytes has been sent.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: u32) {
        self.unsent_bytes = self.unsent_bytes.saturating_sub(u64::from(bytes));
    }

    /// When the transmission of the last packet begins, rounded up.
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
