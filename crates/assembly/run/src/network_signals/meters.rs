//! Meters that compute a network's activity in an interval from its counters at both ends of that
//! interval.

use std::sync::Arc;

use timeloom_net::{FluidStats, LinkStats, TcpStats, TrafficStats, World};
use timeloom_scenario::{Background, NamedCable};
use timeloom_time::{Duration, Instant, Virtual};

use super::observation::{CutObservation, LinkObservation};
use crate::flow_stats::FlowStats;

/// A sample: virtual instant, name of the signal, value and unit.
pub(super) type Row = (Instant<Virtual>, Arc<str>, f64, &'static str);

/// Counters of one direction of a link at the last sample.
#[derive(Default)]
struct Direction {
    before: LinkStats,
    /// Bytes that had left the queue by the last sample. `fluid` has the bytes of fluid that had
    /// arrived by then, and those that were lost.
    sent_bytes: f64,
    fluid: (f64, f64),
}

/// A link and its counters at the last sample.
pub(super) struct LinkMeter {
    directions: [Direction; 2],
    /// Rate and delay at the last sample.
    rate_bps: f64,
    delay: Duration,
    throughput: Arc<str>,
    load: Arc<str>,
    loss: Arc<str>,
    delays: Arc<str>,
    queue: Arc<str>,
}

/// Activity of one direction of a link in an interval.
#[derive(Default)]
struct Figures {
    throughput_bps: f64,
    loss: f64,
    wait_s: f64,
    queue: f64,
}

impl LinkMeter {
    pub(super) fn new(cable: &NamedCable, world: &World) -> Self {
        let name = |quantity: &str| Arc::from(format!("link.{}.{quantity}", cable.name));
        Self {
            directions: Default::default(),
            rate_bps: world.rate_bps(cable.there) as f64,
            delay: world.delay(cable.there),
            throughput: name("throughput"),
            load: name("load"),
            loss: name("loss"),
            delays: name("delay"),
            queue: name("queue"),
        }
    }

    /// Appends the samples of the interval of length `every` that ends at `at`. Each figure is the
    /// worse one of the two directions. A direction whose engine is away is not observed, and does
    /// not count.
    pub(super) fn measure(
        &mut self,
        at: Instant<Virtual>,
        every: Duration,
        seen: [Option<&LinkObservation>; 2],
        rows: &mut Vec<Row>,
    ) {
        let mut worst = Figures::default();
        for (direction, seen) in self.directions.iter_mut().zip(seen) {
            let Some(seen) = seen else { continue };
            (self.rate_bps, self.delay) = (seen.rate_bps as f64, seen.delay);
            let now = direction.measure(every, self.rate_bps, seen);
            worst.throughput_bps = worst.throughput_bps.max(now.throughput_bps);
            worst.loss = worst.loss.max(now.loss);
            worst.wait_s = worst.wait_s.max(now.wait_s);
            worst.queue = worst.queue.max(now.queue);
        }
        let load = worst.throughput_bps / self.rate_bps;
        rows.extend([
            (
                at,
                Arc::clone(&self.throughput),
                worst.throughput_bps,
                "bit/s",
            ),
            (at, Arc::clone(&self.load), load, "1"),
            (at, Arc::clone(&self.loss), worst.loss, "1"),
            (
                at,
                Arc::clone(&self.delays),
                self.delay.as_s_f64() + worst.wait_s,
                "s",
            ),
            (at, Arc::clone(&self.queue), worst.queue, "packets"),
        ]);
    }
}

impl Direction {
    fn measure(&mut self, every: Duration, rate_bps: f64, seen: &LinkObservation) -> Figures {
        let (stats, fluid) = (seen.stats, seen.fluid);
        // Packets that are still in the queue have arrived, but do not count as sent.
        let backlog_bytes = seen.backlog.as_s_f64() * rate_bps / 8.0;
        let came = stats.bytes as f64 + fluid.arrived_bytes - fluid.lost_bytes;
        let sent_bytes = (came - backlog_bytes).max(self.sent_bytes);

        let before = std::mem::replace(&mut self.before, stats);
        let packets = stats.packets - before.packets;
        let dropped = stats.dropped - before.dropped;
        let gone = dropped + (stats.lost - before.lost);
        let waited_ns = stats.waited_ns - before.waited_ns;
        let (fluid_came, fluid_lost) = (
            fluid.arrived_bytes - self.fluid.0,
            fluid.lost_bytes - self.fluid.1,
        );
        self.fluid = (fluid.arrived_bytes, fluid.lost_bytes);
        let figures = Figures {
            throughput_bps: (sent_bytes - self.sent_bytes) * 8.0 / every.as_s_f64(),
            loss: share(gone as f64, (packets + dropped) as f64).max(share(fluid_lost, fluid_came)),
            wait_s: share(waited_ns as f64 * 1e-9, packets as f64),
            queue: f64::from(seen.waiting) + fluid.waiting_bytes / FLUID_PACKET,
        };
        self.sent_bytes = sent_bytes;
        figures
    }
}

/// A flow and its counters at the last sample. `delivered_bytes` counts the bytes that arrived.
/// `expected` and `lost` count the units (segments, packets or bytes) that were to arrive and those
/// that were lost.
pub(super) struct FlowMeter {
    /// Payload of a TCP segment, in bytes.
    segment_bytes: f64,
    delivered_bytes: f64,
    expected: f64,
    lost: f64,
    arrived: (u64, u64),
    throughput: Arc<str>,
    loss: Arc<str>,
    delay: Arc<str>,
}

impl FlowMeter {
    pub(super) fn new(name: &str, how: Background, world: &World) -> Self {
        let segment_bytes = match how {
            Background::Flow(flow) => f64::from(world.segment_bytes(flow)),
            Background::Source(_) | Background::Fluid(_) => 1.0,
        };
        let name = |quantity: &str| Arc::from(format!("flow.{name}.{quantity}"));
        Self {
            segment_bytes,
            delivered_bytes: 0.0,
            expected: 0.0,
            lost: 0.0,
            arrived: (0, 0),
            throughput: name("throughput"),
            loss: name("loss"),
            delay: name("delay"),
        }
    }

    pub(super) fn measure(
        &mut self,
        at: Instant<Virtual>,
        every: Duration,
        stats: FlowStats,
        rows: &mut Vec<Row>,
    ) {
        let (delivered, expected, lost, delay_s) = match stats {
            FlowStats::Tcp(stats) => of_tcp(&stats, self.segment_bytes),
            FlowStats::Source(stats) => self.of_source(&stats),
            FlowStats::Fluid(stats) => of_fluid(&stats),
        };
        // If the TCP receiver is not observed any more, the sender's count takes its place and may
        // be lower.
        let delivered = delivered.max(self.delivered_bytes);
        let bits = (delivered - self.delivered_bytes) * 8.0;
        let loss = share(lost - self.lost, expected - self.expected);
        (self.delivered_bytes, self.expected, self.lost) = (delivered, expected, lost);
        rows.push((
            at,
            Arc::clone(&self.throughput),
            bits / every.as_s_f64(),
            "bit/s",
        ));
        rows.push((at, Arc::clone(&self.loss), loss, "1"));
        if let Some(delay_s) = delay_s {
            rows.push((at, Arc::clone(&self.delay), delay_s, "s"));
        }
    }

    /// Returns bytes delivered, packets expected, packets lost, and the delay in seconds of a flow
    /// of datagrams. The delay is the mean over the packets that arrived in the interval.
    fn of_source(&mut self, stats: &TrafficStats) -> (f64, f64, f64, Option<f64>) {
        let came = stats.received - self.arrived.0;
        let delay_ns = stats.delay_sum_ns - self.arrived.1;
        self.arrived = (stats.received, stats.delay_sum_ns);
        let delay_s = (came > 0).then(|| delay_ns as f64 * 1e-9 / came as f64);
        let lost = stats.expected.saturating_sub(stats.received);
        (
            stats.received_bytes as f64,
            stats.expected as f64,
            lost as f64,
            delay_s,
        )
    }
}

/// Returns bytes delivered, segments expected, segments lost, and the delay in seconds of a TCP
/// flow. The delay is the smoothed round-trip time, and a retransmission counts as a loss.
fn of_tcp(stats: &TcpStats, segment_bytes: f64) -> (f64, f64, f64, Option<f64>) {
    let delivered = stats.delivered_bytes as f64;
    let segments = delivered / segment_bytes;
    let again = stats.retransmitted as f64;
    let rtt_s = stats.smoothed_rtt.as_s_f64();
    (
        delivered,
        segments + again,
        again,
        (rtt_s > 0.0).then_some(rtt_s),
    )
}

fn of_fluid(stats: &FluidStats) -> (f64, f64, f64, Option<f64>) {
    let rtt_s = stats.round_trip.as_s_f64();
    let delay_s = (rtt_s > 0.0).then_some(rtt_s);
    (
        stats.delivered_bytes,
        stats.sent_bytes,
        stats.lost_bytes,
        delay_s,
    )
}

/// Returns `part / whole`, or 0 if `whole` is 0.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        (part / whole).max(0.0)
    } else {
        0.0
    }
}

/// One direction between two engines, and its counters at the last sample.
pub(super) struct CutMeter {
    before: CutObservation,
    packets: Arc<str>,
    late: Arc<str>,
    lost: Arc<str>,
}

impl CutMeter {
    pub(super) fn new(name: &str) -> Self {
        let name = |quantity: &str| Arc::from(format!("cut.{name}.{quantity}"));
        Self {
            before: CutObservation::default(),
            packets: name("packets"),
            late: name("late"),
            lost: name("lost"),
        }
    }

    pub(super) fn measure(
        &mut self,
        at: Instant<Virtual>,
        every: Duration,
        now: CutObservation,
        rows: &mut Vec<Row>,
    ) {
        let before = std::mem::replace(&mut self.before, now);
        let packets = now.packets.saturating_sub(before.packets) as f64;
        let late = now.late.saturating_sub(before.late) as f64;
        let lost = now.lost.saturating_sub(before.lost) as f64;
        let rate = packets / every.as_s_f64();
        rows.push((at, Arc::clone(&self.packets), rate, "1/s"));
        rows.push((at, Arc::clone(&self.late), share(late, packets), "1"));
        rows.push((at, Arc::clone(&self.lost), lost, "packets"));
    }
}

/// Number of queued bytes of fluid that count as one packet.
const FLUID_PACKET: f64 = 1500.0;
