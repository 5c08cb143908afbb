//! Campuses: a ring of backbone routers, buildings with LANs.

use super::hosts;
use crate::{LinkConfig, NetworkBuilder, Node};

/// Shape of a campus, after the "baseline network model" with which parallel network simulators are
/// commonly compared (Fujimoto et al., 2003): a backbone ring, routers of buildings on it, LANs of
/// hosts behind them.
#[derive(Clone, Debug)]
pub struct Campus {
    /// Routers on the backbone ring.
    pub backbone: u32,
    /// Building routers at each of them.
    pub buildings: u32,
    /// LANs, one switch each, at each building.
    pub lans: u32,
    /// Hosts on each LAN.
    pub hosts: u32,
    /// Links of the backbone and from it to the buildings.
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
