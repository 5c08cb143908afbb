//! The plan's network as the fabric wants it.

use timeloom_fabric::{LinkSpec, NetworkSpec, OpenFlowSpec, StationSpec};
use timeloom_scenario::Plan;

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
    NetworkSpec {
        openflow: openflow.map_or_else(OpenFlowSpec::default, |openflow| OpenFlowSpec {
            switches: openflow.switches.clone(),
            controlled: openflow.controller.is_some(),
        }),
        switches: plan.system.switches.clone(),
        stations: hosts
            .chain(devices)
            .map(|(name, interface)| StationSpec {
                name: name.clone(),
                address: interface.address,
                prefix_len: interface.prefix,
                mac: None,
            })
            .collect(),
        links: plan
            .system
            .links
            .iter()
            .map(|link| LinkSpec {
                a: link.between[0].clone(),
                b: link.between[1].clone(),
                rate_bits_per_s: link.rate.map(|rate| rate.as_bits_per_s()),
            })
            .collect(),
        unplugged: Vec::new(),
    }
}
