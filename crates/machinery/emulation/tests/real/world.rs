//! Two namespaces that a simulated network connects.

use std::net::Ipv4Addr;
use std::sync::Arc;

use timeloom_emulation::{
    Address, Emulation, EmulationOptions, FrameFilter, ManualClock, Portals, Tap, Timing,
};
use timeloom_fabric::{Fabric, Namespace, NetworkSpec, StationSpec};
use timeloom_net::{LinkConfig, NetworkBuilder, Node, World};
use timeloom_time::{Duration, Rate};

/// Objects of a test. The field order makes the emulation end before the namespaces.
pub(crate) struct Testbed {
    pub(crate) emulation: Emulation,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) b_address: Ipv4Addr,
    fabric: Fabric,
}

/// Settings of a testbed.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) rate: Option<Rate>,
    pub(crate) steps: bool,
    pub(crate) filters: [FrameFilter; 2],
    pub(crate) options: EmulationOptions,
    /// True if both ports of the link between the router and `b` are watched.
    pub(crate) watch: bool,
}

/// Creates the namespaces `a` (10.0.0.1) and `b` (10.0.0.`b`), each in a network of four addresses.
/// Their interfaces are not connected yet.
pub(crate) fn two_hosts(b: u8) -> Fabric {
    let station = |name: &str, last| StationSpec {
        name: name.into(),
        addresses: vec![([10, 0, 0, last].into(), 30)],
        mac: None,
    };
    Fabric::build(&NetworkSpec {
        stations: vec![station("a", 1), station("b", b)],
        unplugged: vec!["a".into(), "b".into()],
        ..NetworkSpec::default()
    })
    .expect("run this test as root")
}

/// Builds the network a – router – b, whose second link is `link`.
pub(crate) fn build(link: LinkConfig, mut setup: Setup) -> Testbed {
    let fabric = two_hosts(5);
    let mut network = NetworkBuilder::new(3);
    let (a, router, b) = (network.host("a"), network.router("r"), network.host("b"));
    network.connect(
        a,
        router,
        LinkConfig::new(1_000_000_000_000, Duration::ZERO),
    );
    let (to_b, from_b) = network.connect(router, b, link);
    let world = network.build().unwrap();
    if setup.watch {
        setup.options.watch = vec![to_b, from_b];
    }
    let mut portals = Portals::new();
    for (node, name) in [(a, "a"), (b, "b")] {
        let tap = tap(&world, node, fabric.station(name).unwrap());
        let filters = if name == "a" {
            setup.filters.clone()
        } else {
            Default::default()
        };
        portals.join(node, name, Box::new(tap), filters).unwrap();
    }
    let b_address = world.address(world.port_of(b).unwrap());
    let clock = Arc::new(ManualClock::new(setup.rate.unwrap_or(Rate::ONE)));
    let timing = if setup.steps {
        Timing::Steps
    } else {
        Timing::Follow(Box::new(Arc::clone(&clock)))
    };
    let emulation = Emulation::start(world, portals, timing, setup.options).unwrap();
    Testbed {
        emulation,
        clock,
        b_address,
        fabric,
    }
}

pub(crate) fn tap(world: &World, node: Node, namespace: &Namespace) -> Tap {
    let address = Address::of(world, node).unwrap();
    Tap::create(namespace, "eth0", &address).unwrap()
}

impl Testbed {
    pub(crate) fn namespace(&self, name: &str) -> &Namespace {
        self.fabric.station(name).unwrap()
    }
}
