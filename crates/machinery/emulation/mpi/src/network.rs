//! Networks for the comparison, which are the same in all ranks, and their cuts.

use core::fmt;
use std::str::FromStr;

use timeloom_emulation::peering::{Cut, partition};
use timeloom_net::topology::{dumbbell, ring};
use timeloom_net::{
    Control, Impairment, LinkConfig, NetworkBuilder, Node, Owner, PacketSize, Pattern, QueueConfig,
    TcpConfig, TrafficConfig, World,
};
use timeloom_time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// 2 × 64 hosts with TCP flows from left to right. Two engines are cut at the trunk.
    Dumbbell,
    /// Hosts of the dumbbell with 14 TCP flows within each side and 2 across. The cut is at the
    /// trunk, which carries little traffic.
    Thin,
    /// Twelve routers with a host each, TCP flows and UDP sources between all of them, jitter, loss
    /// and duplication.
    Ring,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dumbbell => "dumbbell",
            Self::Thin => "thin",
            Self::Ring => "ring",
        })
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Dumbbell, Self::Thin, Self::Ring]
            .into_iter()
            .find(|shape| shape.to_string() == text)
            .ok_or_else(|| format!("no shape `{text}`; there are dumbbell, thin and ring"))
    }
}

/// Parameters of the simulated network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    pub(crate) shape: Shape,
    pub(crate) seed: u64,
    /// Number of flows of the dumbbell, 1 to 64.
    pub(crate) flows: usize,
    /// Delay of each cable that may be cut.
    pub(crate) delay: Duration,
    pub(crate) length: Duration,
}

impl Model {
    /// Returns this model with its duration multiplied by `factor`, or unchanged if `factor` is
    /// below 1.
    pub(crate) fn lengthened(&self, factor: f64) -> Self {
        let ns = self.length.as_ns() as f64 * factor.max(1.0);
        Self {
            length: Duration::from_ns(ns as i64),
            ..*self
        }
    }

    pub(crate) fn end(&self) -> Instant<timeloom_time::Virtual> {
        Instant::ZERO + self.length
    }

    pub(crate) fn build(&self) -> Result<World, String> {
        let mut network = NetworkBuilder::new(self.seed);
        let link = |rate_bps, delay| {
            LinkConfig::new(rate_bps, delay).with_queue(QueueConfig::DropTail { packets: 1_000 })
        };
        let access = link(1_000_000_000, Duration::from_ms(1));
        let pairs: Vec<(Node, Node)> = match self.shape {
            Shape::Dumbbell | Shape::Thin => {
                let bar = link(10_000_000_000, self.delay);
                let ends = dumbbell(&mut network, "", 64, &access, &bar);
                let within = (0..14).flat_map(|flow| {
                    [&ends.left, &ends.right].map(|side| (side[63 - 2 * flow], side[62 - 2 * flow]))
                });
                let across = ends.left.iter().copied().zip(ends.right.iter().copied());
                match self.shape {
                    Shape::Thin => across.take(2).chain(within).collect(),
                    _ => across.take(self.flows).collect(),
                }
            }
            Shape::Ring => {
                let rough = Impairment {
                    loss: 0.000_1,
                    duplication: 0.001,
                    jitter: Duration::from_us(50),
                    jitter_reorders: true,
                    reordering: 0.0,
                };
                let trunk = link(1_000_000_000, self.delay).with_impairment(rough);
                let hosts = ring(&mut network, "", 12, &access, &trunk);
                let pair = |index: usize| {
                    let (from, ahead) = (index % 12, [2, 5][index / 12]);
                    (hosts[from], hosts[(from + ahead) % 12])
                };
                (0..24).map(pair).collect()
            }
        };
        let mut world = network.build().map_err(|error| error.to_string())?;
        for (index, (from, to)) in pairs.into_iter().enumerate() {
            let config = TcpConfig {
                control: [Control::NewReno, Control::Cubic][index % 2],
                start: Instant::from_ns(index as i64 * 370_000),
                // The window is large enough to fill the path within a side.
                receive_window: match self.shape {
                    Shape::Thin => 512,
                    _ => TcpConfig::default().receive_window,
                },
                ..TcpConfig::default()
            };
            let added = world.add_tcp(from, to, config);
            added.map_err(|error| error.to_string())?;
            if self.shape == Shape::Ring {
                let mean = Duration::from_us(100);
                let udp = TrafficConfig::udp(Pattern::Poisson { mean }, PacketSize::Fixed(400));
                let added = world.add_traffic(to, from, udp);
                added.map_err(|error| error.to_string())?;
            }
        }
        Ok(world)
    }

    /// Cuts `world` into `parts` parts.
    pub(crate) fn cut(&self, world: &World, parts: Owner) -> Result<Cut, String> {
        let owners = match (self.shape, parts) {
            (Shape::Dumbbell | Shape::Thin, 2) => {
                let nodes = (0..world.nodes() as u32).map(Node);
                let right = |node| world.name(node).starts_with('r');
                nodes.map(|node| Owner::from(right(node))).collect()
            }
            _ => partition::of_world(world, parts, self.delay),
        };
        let cut = Cut::new(world, owners).map_err(|error| error.to_string())?;
        if cut.engines() != parts {
            return Err(format!("{} parts for {parts} engines", cut.engines()));
        }
        Ok(cut)
    }
}
