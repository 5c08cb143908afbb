//! Test bed: two namespaces with an engine between them, and additional simulated hosts.

use std::sync::Arc;

use timeloom_emulation::peering::datagram::Key;
use timeloom_emulation::peering::peer::PeerConfig;
use timeloom_emulation::peering::{Cut, Endpoint, Portal, Ring};
use timeloom_emulation::{Address, Emulation, EmulationOptions, ManualClock, Portals, Tap, Timing};
use timeloom_engine::Limit;
use timeloom_fabric::{Fabric, NetworkSpec, StationSpec};
use timeloom_net::{
    LinkConfig, NetworkBuilder, Node, Owner, PacketSize, Pattern, QueueConfig, TrafficConfig,
    World, topology,
};
use timeloom_sys::wall_now;
use timeloom_time::{Duration, Rate};

use crate::error::BenchError;

pub(in crate::net) const GBIT: u64 = 1_000_000_000;
pub(in crate::net) const DELAY: Duration = Duration::from_ms(1);

/// Parameters of a link between the namespaces `a` and `b`.
#[derive(Clone, Copy)]
pub(in crate::net) struct Between {
    pub(super) rate_bps: u64,
    pub(super) delay: Duration,
    pub(super) queue: u32,
    /// Number of additional simulated hosts; half of them send to the other half.
    pub(super) hosts: u32,
    pub(super) cutting: Cutting,
}

/// Synchronisation with a second engine, which has `b` and half of the additional hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) enum Cutting {
    Whole,
    /// The engines do not wait for each other.
    Free,
    /// The engines wait for each other.
    Exact,
}

impl Between {
    pub(in crate::net) const fn cut(mut self, cutting: Cutting) -> Self {
        self.cutting = cutting;
        self
    }

    pub(in crate::net) const fn new(rate_bps: u64, delay: Duration) -> Self {
        Self {
            rate_bps,
            delay,
            // Two bandwidth-delay products at 1 Gbit/s and 1 ms are 330 packets; at 10 Gbit/s they
            // are ten times as many.
            queue: if rate_bps > GBIT { 8_000 } else { 1_000 },
            hosts: 1_000,
            cutting: Cutting::Whole,
        }
    }
}

/// Fields are dropped in this order: the emulation ends before the namespaces.
pub(in crate::net) struct Bed {
    pub(in crate::net) emulation: Emulation,
    /// Emulation of the part with `b`, if the link is cut.
    beyond: Option<Emulation>,
    pub(in crate::net) fabric: Fabric,
    pub(in crate::net) target: String,
}

pub(in crate::net) fn broken(error: impl std::fmt::Display) -> BenchError {
    BenchError::Worker(error.to_string())
}

/// Returns the two stations, in different networks of four addresses or in one network of eight.
pub(super) fn stations(prefix_len: u8) -> Vec<StationSpec> {
    let station = |(name, last): (&str, u8)| StationSpec {
        name: name.into(),
        addresses: vec![([10, 0, 0, last].into(), prefix_len)],
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
    /// Builds the bed with a clock in real time.
    pub(super) fn build(between: Between) -> Result<Self, BenchError> {
        Self::build_served(between, EmulationOptions::default())
    }

    pub(super) fn build_served(
        between: Between,
        serving: EmulationOptions,
    ) -> Result<Self, BenchError> {
        let real = || {
            let clock = Arc::new(ManualClock::new(Rate::ONE));
            Timing::Follow(Box::new(clock))
        };
        Self::build_with(between, real, serving)
    }

    /// Builds the bed. `timing` returns the clock after all else is built, because a network whose
    /// clock ran during that time would start late.
    pub(in crate::net) fn build_at(
        between: Between,
        timing: impl Fn() -> Timing,
    ) -> Result<Self, BenchError> {
        Self::build_with(between, timing, EmulationOptions::default())
    }

    /// Returns the emulations of all engines.
    pub(in crate::net) fn emulations(&self) -> impl Iterator<Item = &Emulation> {
        std::iter::once(&self.emulation).chain(&self.beyond)
    }

    fn build_with(
        between: Between,
        timing: impl Fn() -> Timing,
        serving: EmulationOptions,
    ) -> Result<Self, BenchError> {
        let fabric = namespaces()?;
        let mut network = NetworkBuilder::new(1);
        let (a, router, b) = (network.host("a"), network.router("r"), network.host("b"));
        // A host passes frames to its first link as to a network card.
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
            let traffic = TrafficConfig::udp(pattern, PacketSize::Fixed(500));
            world.add_traffic(from, to, traffic).map_err(broken)?;
        }
        let mut portals = [Portals::new(), Portals::new()];
        let is_cut = between.cutting != Cutting::Whole;
        for (node, name) in [(a, "a"), (b, "b")] {
            let portals = &mut portals[usize::from(is_cut && name == "b")];
            let station = fabric.station(name).expect("just built");
            let tap = Tap::create(station, "eth0", &address(&world, node)).map_err(broken)?;
            let filters = Default::default();
            portals
                .join(node, name, Box::new(tap), filters)
                .map_err(broken)?;
        }
        let target = world.port_of(b).map(|port| world.address(port).to_string());
        let target = target.expect("it has a link");
        let [here, there] = portals;
        let (emulation, beyond) = if is_cut {
            let is_far = |name: &str| name == "b" || name.starts_with("beside-r");
            let [(world, peers), (far, far_peers)] = halves(&world, is_far, between.cutting)?;
            let with = |peers| EmulationOptions {
                peers: Some(peers),
                // Without this, packets between the engines would be late.
                moderation: Duration::ZERO,
                ..EmulationOptions::default()
            };
            let far = Emulation::start(far, there, timing(), with(far_peers)).map_err(broken)?;
            let near = Emulation::start(world, here, timing(), with(peers)).map_err(broken)?;
            (near, Some(far))
        } else {
            let one = Emulation::start(world, here, timing(), serving).map_err(broken)?;
            (one, None)
        };
        Ok(Self {
            emulation,
            beyond,
            fabric,
            target,
        })
    }
}

/// Returns the parts of a network for two engines, and the connections between them. The second
/// engine has the nodes whose names mark them as far.
pub(in crate::net) fn halves(
    world: &World,
    is_far: impl Fn(&str) -> bool,
    cutting: Cutting,
) -> Result<[(World, Portal); 2], BenchError> {
    let nodes = (0..world.nodes() as u32).map(|node| world.name(Node(node)));
    let owners = nodes.map(|name| Owner::from(is_far(name)));
    let cut = Cut::new(world, owners.collect()).map_err(broken)?;
    let (left, right) = Ring::pair(Ring::PACKETS).map_err(broken)?;
    let half = |here: Owner, ring: Ring| {
        let mut part = cut.part(world, here);
        let key = Key::new([0; 32]);
        let mut peers = Portal::new(&part, cut.clone(), here, key, 1, Limit::default());
        if cutting == Cutting::Exact {
            peers.wait_for_others();
        }
        let patient = PeerConfig {
            silence: Duration::from_s(600),
            horizon: Duration::from_s(600),
            ..PeerConfig::default()
        };
        peers.add(&mut part, 1 - here, Endpoint::Ring(ring), patient);
        (part, peers)
    };
    left.greet(wall_now());
    right.greet(wall_now());
    Ok([half(0, left), half(1, right)])
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
    Address::of(world, node).expect("it has a link")
}
