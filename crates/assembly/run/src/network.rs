//! Conversion of the plan's network to the specification from which the fabric builds it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use timeloom_fabric::{LinkSpec, MacAddress, NetworkSpec, OpenFlowSpec, StationSpec};
use timeloom_scenario::{Addresses, Medium, Plan, TunnelEnd};

/// Returns the specification. Hosts and field devices become stations. Each link to another agent
/// ends in a station of its own, to which the tunnel is attached.
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
    // Portals create the interfaces of stations in the simulated network.
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
            // The link ends in a namespace in which a portal receives the switch's frames. The
            // simulated link applies the rate.
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
            // The tunnel applies the rate.
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
        // The fabric requires a link for each station; a station without one gets a switch of its
        // own.
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
        // Unused, but a station must have an address.
        addresses: vec![(Ipv4Addr::from(LINK_LOCAL + link as u32).into(), 32)],
        mac: None,
    }
}

/// Returns the hardware addresses of a plan's stations, by station. They depend on the plan alone,
/// so all agents compute the same.
pub(crate) fn macs(plan: &Plan) -> BTreeMap<String, MacAddress> {
    let spec = specification(plan, &[]);
    let macs = spec.macs();
    let names = spec.stations.into_iter().map(|station| station.name);
    names.zip(macs).collect()
}

/// Returns the name of the station at the end of link number `index`. The station joins a real
/// switch to the simulated network, or a node to another agent. No node of a scenario can have this
/// name.
pub(crate) fn uplink(index: usize) -> String {
    format!("up.{index}")
}

/// Name of the switch of a host that is the only node. No node of a scenario can have this name.
const ALONE: &str = "alone.0";

/// Address 169.254.1.0; the stations at the ends of links have the following ones.
const LINK_LOCAL: u32 = 0xa9fe_0100;

fn station((name, own): (&String, &Addresses)) -> StationSpec {
    StationSpec {
        name: name.clone(),
        addresses: interfaces(*own),
        mac: None,
    }
}

/// Converts addresses to the form that the fabric takes.
pub(crate) fn interfaces(own: Addresses) -> Vec<(IpAddr, u8)> {
    let v4 = own.v4.map(|own| (own.address.into(), own.prefix));
    let v6 = own.v6.map(|own| (own.address.into(), own.prefix));
    v4.into_iter().chain(v6).collect()
}
