//! The plan's network as the fabric wants it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use timeloom_fabric::{LinkSpec, MacAddress, NetworkSpec, OpenFlowSpec, StationSpec};
use timeloom_scenario::{Addresses, Medium, Plan, TunnelEnd};

/// Hosts and field devices become stations alike. Links to other agents end in stations
/// of their own.
pub(crate) fn specification(plan: &Plan, tunnels: &[TunnelEnd]) -> NetworkSpec {
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
    let (plugged, unplugged): (Vec<_>, Vec<_>) = hosts
        .chain(devices)
        .map(station)
        .partition(|station| plan.is_real(&station.name));
    // Portals make the others' interfaces.
    let names = unplugged.iter().map(|station| station.name.clone());
    let names: Vec<String> = names.collect();
    let mut stations = [plugged, unplugged].concat();
    let mut links = Vec::new();
    for (index, link) in plan.system.links.iter().enumerate() {
        let [a, b] = &link.between;
        let rate_bits_per_s = link.wire.rate.map(|rate| rate.as_bits_per_s());
        match plan.medium(link) {
            Medium::Model => {}
            Medium::Kernel => links.push(LinkSpec {
                a: a.clone(),
                b: b.clone(),
                rate_bits_per_s,
            }),
            // A namespace in which a portal takes what the switch sends; the
            // model has the rate.
            Medium::Uplink { switch, .. } => {
                let name = uplink(index);
                links.push(LinkSpec {
                    a: switch.to_owned(),
                    b: name.clone(),
                    rate_bits_per_s: None,
                });
                stations.push(in_between(name, index));
            }
        }
    }
    for end in tunnels {
        let name = uplink(end.link);
        links.push(LinkSpec {
            a: end.node.clone(),
            b: name.clone(),
            // The tunnel has it.
            rate_bits_per_s: None,
        });
        stations.push(in_between(name, end.link));
    }
    let switches = plan.system.switches.iter();
    let mut switches: Vec<String> = switches
        .filter(|name| plan.is_real(name))
        .cloned()
        .collect();
    if let ([station], [], []) = (&stations[..], &links[..], &switches[..])
        && names.is_empty()
    {
        // A station has a cable, if only to a switch that nobody else is at.
        links.push(LinkSpec {
            a: station.name.clone(),
            b: ALONE.to_owned(),
            rate_bits_per_s: None,
        });
        switches.push(ALONE.to_owned());
    }
    NetworkSpec {
        openflow: openflow.map_or_else(OpenFlowSpec::default, |openflow| OpenFlowSpec {
            switches: openflow.switches.clone(),
            controlled: openflow.controller.is_some(),
        }),
        switches,
        stations,
        links,
        unplugged: names,
    }
}

fn in_between(name: String, link: usize) -> StationSpec {
    StationSpec {
        name,
        // Nobody asks for it: a station has to have one.
        addresses: vec![(Ipv4Addr::from(LINK_LOCAL + link as u32).into(), 32)],
        mac: None,
    }
}

/// The hardware addresses of a plan's stations, which are the same on each machine.
pub(crate) fn macs(plan: &Plan) -> BTreeMap<String, MacAddress> {
    let spec = specification(plan, &[]);
    let macs = spec.macs();
    let names = spec.stations.into_iter().map(|station| station.name);
    names.zip(macs).collect()
}

/// The name of the station that stands between a real switch and the model, or a node and
/// another agent, at link number `index`. No node of a scenario can have it.
pub(crate) fn uplink(index: usize) -> String {
    format!("up.{index}")
}

/// The switch of a host that is the only node. No node of a scenario can have this name.
const ALONE: &str = "alone.0";

/// 169.254.1.0
const LINK_LOCAL: u32 = 0xa9fe_0100;

fn station((name, own): (&String, &Addresses)) -> StationSpec {
    StationSpec {
        name: name.clone(),
        addresses: interfaces(*own),
        mac: None,
    }
}

/// The addresses as the fabric wants them.
pub(crate) fn interfaces(own: Addresses) -> Vec<(IpAddr, u8)> {
    let v4 = own.v4.map(|own| (own.address.into(), own.prefix));
    let v6 = own.v6.map(|own| (own.address.into(), own.prefix));
    v4.into_iter().chain(v6).collect()
}
