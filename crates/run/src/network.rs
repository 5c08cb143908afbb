//! The plan's network as the fabric wants it.

use timeloom_fabric::{LinkSpec, NetworkSpec, OpenFlowSpec, StationSpec};
use timeloom_scenario::{Ipv4Interface, Plan};

/// Hosts and field devices become stations alike.
pub(crate) fn specification(plan: &Plan) -> NetworkSpec {
    let hosts = plan
        .system
        .hosts
        .iter()
        .map(|(name, host)| (name, &host.address));
    let devices = plan
        .system
        .devices
        .iter()
        .map(|(name, device)| (name, &device.address));
    let openflow = plan.system.openflow.as_ref();
    if plan.network.is_some() {
        // Portals make the interfaces; switches and links are in the model.
        let stations: Vec<StationSpec> = hosts.chain(devices).map(station).collect();
        let unplugged = stations.iter().map(|station| station.name.clone());
        return NetworkSpec {
            unplugged: unplugged.collect(),
            stations,
            ..NetworkSpec::default()
        };
    }
    NetworkSpec {
        openflow: openflow.map_or_else(OpenFlowSpec::default, |openflow| OpenFlowSpec {
            switches: openflow.switches.clone(),
            controlled: openflow.controller.is_some(),
        }),
        switches: plan.system.switches.clone(),
        stations: hosts.chain(devices).map(station).collect(),
        links: plan
            .system
            .links
            .iter()
            .map(|link| LinkSpec {
                a: link.between[0].clone(),
                b: link.between[1].clone(),
                rate_bits_per_s: link.wire.rate.map(|rate| rate.as_bits_per_s()),
            })
            .collect(),
        unplugged: Vec::new(),
    }
}

fn station((name, interface): (&String, &Ipv4Interface)) -> StationSpec {
    StationSpec {
        name: name.clone(),
        address: interface.address,
        prefix_len: interface.prefix,
        mac: None,
    }
}
