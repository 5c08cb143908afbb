//! Two namespaces with an engine between them, and simulated hosts beside.

use std::sync::Arc;

use timeloom_fabric::{Fabric, NetworkSpec, StationSpec};
use timeloom_net::{
    LinkConfig, NetworkBuilder, Node, Pattern, QueueConfig, Size, TrafficConfig, World, topology,
};
use timeloom_portal::{Address, Commanded, Emulation, Options as Serving, Portals, Tap, Timing};
use timeloom_time::{Duration, Rate};

use crate::error::BenchError;

pub(in crate::net) const GBIT: u64 = 1_000_000_000;
pub(in crate::net) const DELAY: Duration = Duration::from_ms(1);

/// A link between the namespaces `a` and `b`.
#[derive(Clone, Copy)]
pub(in crate::net) struct Between {
    pub(super) rate_bps: u64,
    pub(super) delay: Duration,
    pub(super) queue: u32,
    /// Simulated hosts beside it, half of them sending to the others.
    pub(super) hosts: u32,
}

impl Between {
    pub(in crate::net) const fn new(rate_bps: u64, delay: Duration) -> Self {
        Self {
            rate_bps,
            delay,
            // Two bandwidth-delay products at 1 Gbit/s and 1 ms are 330
            // packets; ten times that at 10 Gbit/s.
            queue: if rate_bps > GBIT { 8_000 } else { 1_000 },
            hosts: 1_000,
        }
    }
}

/// The emulation ends before the namespaces.
pub(in crate::net) struct Bed {
    pub(in crate::net) emulation: Emulation,
    pub(in crate::net) fabric: Fabric,
    pub(in crate::net) target: String,
}

pub(in crate::net) fn broken(error: impl std::fmt::Display) -> BenchError {
    BenchError::Worker(error.to_string())
}

/// In networks of four addresses, or in one of eight.
pub(super) fn stations(prefix_len: u8) -> Vec<StationSpec> {
    let station = |(name, last): (&str, u8)| StationSpec {
        name: name.into(),
        address: [10, 0, 0, last].into(),
        prefix_len,
        mac: None,
    };
    [("a", 1), ("b", 6)].into_iter().map(station).collect()
}

pub(super) fn namespaces() -> Result<Fabric, BenchError> {
    let spec = NetworkSpec {
        stations: stations(30),
        unplugged: vec!["a".into(), "b".into()],
        ..NetworkSpec::default()
    };
    Fabric::build(&spec).map_err(broken)
}

impl Bed {
    /// In real time.
    pub(super) fn build(between: Between) -> Result<Self, BenchError> {
        Self::build_served(between, Serving::default())
    }

    pub(super) fn build_served(between: Between, serving: Serving) -> Result<Self, BenchError> {
        let real = || {
            let clock = Arc::new(Commanded::new(Rate::ONE));
            Timing::Follow(Box::new(clock))
        };
        Self::build_with(between, real, serving)
    }

    /// By the clock that `timing` gives once all is there: a network whose clock
    /// ran while it was built would begin behind.
    pub(in crate::net) fn build_at(
        between: Between,
        timing: impl FnOnce() -> Timing,
    ) -> Result<Self, BenchError> {
        Self::build_with(between, timing, Serving::default())
    }

    fn build_with(
        between: Between,
        timing: impl FnOnce() -> Timing,
        serving: Serving,
    ) -> Result<Self, BenchError> {
        let fabric = namespaces()?;
        let mut network = NetworkBuilder::new(1);
        let (a, router, b) = (network.host("a"), network.router("r"), network.host("b"));
        // A host gives its frames to the first link as to a card.
        network.connect(a, router, LinkConfig::new(1_000 * GBIT, Duration::ZERO));
        let queue = QueueConfig::DropTail {
            packets: between.queue,
        };
        let link = LinkConfig::new(between.rate_bps, between.delay).with_queue(queue);
        network.connect(router, b, link);
        let beside = beside(&mut network, between.hosts);
        let mut world = network.build().map_err(broken)?;
        for (from, to) in beside {
            let pattern = Pattern::Constant { rate_bps: 40_000 };
            let traffic = TrafficConfig::udp(pattern, Size::Fixed(500));
            world.add_traffic(from, to, traffic).map_err(broken)?;
        }
        let mut portals = Portals::new();
        for (node, name) in [(a, "a"), (b, "b")] {
            let station = fabric.station(name).expect("just built");
            let tap = Tap::create(station, "eth0", &address(&world, node)).map_err(broken)?;
            let filters = Default::default();
            portals
                .join(node, name, Box::new(tap), filters)
                .map_err(broken)?;
        }
        let target = address(&world, b).address.to_string();
        let emulation = Emulation::start(world, portals, timing(), serving).map_err(broken)?;
        Ok(Self {
            emulation,
            fabric,
            target,
        })
    }
}

fn beside(network: &mut NetworkBuilder, hosts: u32) -> Vec<(Node, Node)> {
    if hosts == 0 {
        return Vec::new();
    }
    let access = LinkConfig::new(GBIT, DELAY);
    let trunk = LinkConfig::new(10 * GBIT, DELAY);
    let both = topology::dumbbell(network, "beside-", hosts / 2, &access, &trunk);
    both.left.into_iter().zip(both.right).collect()
}

fn address(world: &World, node: Node) -> Address {
    let port = world.port_of(node).expect("it has a link");
    Address {
        address: world.address(port),
        prefix: world.prefix(port),
        mac: world.mac(port),
        gateway: world.gateway(node),
    }
}
