//! Topology of a simulated network, for the results.

use timeloom_results::{NodeKind, Topology, TopologyFlow, TopologyLink, TopologyNode};
use timeloom_scenario::{Plan, Simulated};

/// Returns the nodes, links and flows of a network. `recorded` is true for the cables with signals.
pub(super) fn topology(plan: &Plan, simulated: &Simulated, recorded: &[bool]) -> Topology {
    let world = &simulated.world;
    let system = &plan.system;
    let is_real = |name: &str| system.hosts.contains_key(name) || system.devices.contains_key(name);
    let mut named: Vec<_> = simulated.nodes.iter().collect();
    named.sort_by_key(|(_, node)| **node);
    let nodes: Vec<TopologyNode> = named
        .iter()
        .map(|(name, node)| TopologyNode {
            name: (*name).clone(),
            kind: match () {
                () if is_real(name) => NodeKind::Real,
                () if world.is_host(**node) => NodeKind::Host,
                () if world.is_switch(**node) => NodeKind::Switch,
                () => NodeKind::Router,
            },
        })
        .collect();
    let places: std::collections::HashMap<&str, usize> = (nodes.iter().enumerate())
        .map(|(place, node)| (node.name.as_str(), place))
        .collect();
    let cables = simulated.names.cables.iter().zip(recorded);
    let links = cables.filter_map(|(cable, recorded)| {
        let [a, b] = &cable.ends;
        Some(TopologyLink {
            name: cable.name.clone(),
            ends: [*places.get(a.as_str())?, *places.get(b.as_str())?],
            rate_bps: world.rate_bps(cable.there),
            delay_ns: world.delay(cable.there).as_ns(),
            recorded: *recorded,
        })
    });
    let traffic = plan.network.iter().flat_map(|network| &network.traffic);
    let flows = simulated.names.flows.iter().zip(traffic);
    let flows = flows.map(|(name, flow)| TopologyFlow {
        name: name.clone(),
        from: flow.from.clone(),
        to: flow.to.clone(),
        kind: flow.kind.word().to_owned(),
    });
    Topology {
        links: links.collect(),
        flows: flows.collect(),
        nodes,
    }
}
