//! Campus networks: a ring of backbone routers, and buildings with LANs.

use super::hosts;
use crate::{LinkConfig, NetworkBuilder, Node};

/// Shape of a campus, after the "baseline network model" by which parallel network simulators are
/// often compared (Fujimoto et al., 2003): a ring of backbone routers, building routers connected
/// to it, and LANs of hosts behind those.
#[derive(Clone, Debug)]
pub struct Campus {
    /// Number of routers on the backbone ring.
    pub backbone: u32,
    /// Number of building routers at each backbone router.
    pub buildings: u32,
    /// Number of LANs at each building router; each LAN has one switch.
    pub lans: u32,
    /// Number of hosts on each LAN.
    pub hosts: u32,
    /// Links of the backbone, and from the backbone to the buildings.
    pub trunk: LinkConfig,
    /// Links of the LANs.
    pub lan: LinkConfig,
}

/// Adds a campus; returns its hosts, LAN by LAN.
pub fn campus(network: &mut NetworkBuilder, prefix: &str, shape: &Campus) -> Vec<Node> {
    let backbone: Vec<Node> = (0..shape.backbone)
        .map(|index| network.router(format!("{prefix}b{index}")))
        .collect();
    for pair in backbone.windows(2) {
        network.connect(pair[0], pair[1], shape.trunk.clone());
    }
    if let [first, _, .., last] = backbone[..] {
        network.connect(last, first, shape.trunk.clone());
    }
    let mut all = Vec::new();
    for (at, router) in backbone.iter().enumerate() {
        for building in 0..shape.buildings {
            let gate = network.router(format!("{prefix}g{at}-{building}"));
            network.connect(*router, gate, shape.trunk.clone());
            for lan in 0..shape.lans {
                let name = format!("{prefix}{at}-{building}-{lan}");
                let switch = network.switch(format!("{name}-s"));
                network.connect(gate, switch, shape.lan.clone());
                let name = format!("{name}-h");
                all.extend(hosts(network, &name, switch, shape.hosts, &shape.lan));
            }
        }
    }
    all
}
