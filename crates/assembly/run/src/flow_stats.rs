//! Statistics of a flow of background traffic. Its sender and its receiver may be in different
//! engines, each of which knows only its own end's statistics.

use timeloom_net::{FluidStats, TcpStats, TrafficStats, World};
use timeloom_scenario::Background;
use timeloom_time::Duration;

use crate::numbers::Numbers;

/// Statistics of a flow.
#[derive(Clone, Copy)]
pub(crate) enum FlowStats {
    Tcp(TcpStats),
    Source(TrafficStats),
    Fluid(FluidStats),
}

impl FlowStats {
    pub(crate) fn of(world: &World, how: Background) -> Self {
        match how {
            Background::Flow(flow) => Self::Tcp(world.tcp(flow)),
            Background::Source(source) => Self::Source(world.traffic(source)),
            Background::Fluid(flow) => Self::Fluid(world.fluid(flow)),
        }
    }

    /// Combines the statistics from the sender's engine with those from the receiver's engine.
    /// `None` stands for an engine that is not observed. A TCP sender alone suffices, because it
    /// counts the acknowledged bytes. A receiver of datagrams alone suffices, because their
    /// sequence numbers tell how many were sent. Otherwise the result is `None`.
    pub(crate) fn known(sender: Option<Self>, receiver: Option<Self>) -> Option<Self> {
        match (sender, receiver) {
            (Some(sender), Some(receiver)) => Some(Self::joined(sender, receiver)),
            (Some(Self::Tcp(sender)), None) => Some(Self::Tcp(TcpStats {
                delivered_bytes: sender.acknowledged_bytes,
                ..sender
            })),
            (None, Some(Self::Source(receiver))) => Some(Self::Source(TrafficStats {
                sent: receiver.expected,
                ..receiver
            })),
            _ => None,
        }
    }

    /// Combines the sender's and the receiver's statistics.
    fn joined(sender: Self, receiver: Self) -> Self {
        match (sender, receiver) {
            (Self::Tcp(sender), Self::Tcp(receiver)) => Self::Tcp(TcpStats {
                delivered_bytes: receiver.delivered_bytes,
                ..sender
            }),
            (Self::Source(sender), Self::Source(receiver)) => Self::Source(TrafficStats {
                sent: sender.sent,
                ..receiver
            }),
            // If both ends are in one engine, the two statistics are equal and complete.
            (Self::Fluid(sender), Self::Fluid(receiver)) if sender != receiver => {
                Self::Fluid(FluidStats {
                    delivered_bytes: receiver.delivered_bytes,
                    lost_bytes: sender.lost_bytes + receiver.lost_bytes,
                    waiting_bytes: sender.waiting_bytes + receiver.waiting_bytes,
                    ..sender
                })
            }
            (sender, _) => sender,
        }
    }

    /// Adds the statistics that an earlier process of the same engine counted for this end of the
    /// flow. A source's packet numbers continue from one process to the next, so their maximum is
    /// taken.
    pub(crate) fn add_earlier(&mut self, earlier: &Self) {
        match (self, earlier) {
            (Self::Tcp(now), Self::Tcp(before)) => {
                now.delivered_bytes += before.delivered_bytes;
                now.acknowledged_bytes += before.acknowledged_bytes;
                now.retransmitted += before.retransmitted;
                now.slowed_by_marks += before.slowed_by_marks;
                now.timeouts += before.timeouts;
                now.finished_at = now.finished_at.or(before.finished_at);
            }
            (Self::Source(now), Self::Source(before)) => {
                now.sent = now.sent.max(before.sent);
                now.expected = now.expected.max(before.expected);
                now.received += before.received;
                now.received_bytes += before.received_bytes;
                now.delay_sum_ns += before.delay_sum_ns;
                now.delay_max_ns = now.delay_max_ns.max(before.delay_max_ns);
                now.reordered += before.reordered;
            }
            (Self::Fluid(now), Self::Fluid(before)) => {
                now.sent_bytes += before.sent_bytes;
                now.delivered_bytes += before.delivered_bytes;
                now.lost_bytes += before.lost_bytes;
                now.slowed += before.slowed;
            }
            // A flow has the same kind in every process.
            _ => {}
        }
    }

    /// Describes the statistics of the flow called `name`.
    pub(crate) fn tell(&self, name: &str) -> String {
        match self {
            Self::Tcp(stats) => format!(
                "{name}: {} bytes by TCP, {} segments sent again, {} timeouts",
                stats.delivered_bytes, stats.retransmitted, stats.timeouts
            ),
            Self::Fluid(stats) => format!(
                "{name}: {:.0} bytes of fluid, {:.0} lost, slowed down {} times",
                stats.delivered_bytes, stats.lost_bytes, stats.slowed
            ),
            Self::Source(stats) => {
                let mean_ns = stats.delay_sum_ns / stats.received.max(1);
                format!(
                    "{name}: {} packets sent, {} arrived ({} bytes), {} lost, {} out of order; one way took {} on average and {} at most",
                    stats.sent,
                    stats.received,
                    stats.received_bytes,
                    stats.expected.saturating_sub(stats.received),
                    stats.reordered,
                    Duration::from_ns(mean_ns as i64),
                    Duration::from_ns(stats.delay_max_ns as i64)
                )
            }
        }
    }
}

impl Numbers for FlowStats {
    fn put(&self, row: &mut Vec<u64>) {
        match self {
            Self::Tcp(stats) => {
                row.push(0);
                stats.put(row);
            }
            Self::Source(stats) => {
                row.push(1);
                stats.put(row);
            }
            Self::Fluid(stats) => {
                row.push(2);
                stats.put(row);
            }
        }
    }

    fn take(row: &mut dyn Iterator<Item = u64>) -> Option<Self> {
        match row.next()? {
            0 => Numbers::take(row).map(Self::Tcp),
            1 => Numbers::take(row).map(Self::Source),
            2 => Numbers::take(row).map(Self::Fluid),
            _ => None,
        }
    }
}
