//! Description of a network, and its validation.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::names::is_node_name;
use crate::names::mac_of_name;
use crate::{OpenFlowSpec, SpecError};
use timeloom_wire::MacAddress;

/// Network of switches and stations that are joined by links. The order of the lists determines
/// nothing but interface numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkSpec {
    /// Names of the switches.
    pub switches: Vec<String>,
    /// Stations: hosts and field devices.
    pub stations: Vec<StationSpec>,
    /// Links between nodes. They form trees, and a station has one link.
    pub links: Vec<LinkSpec>,
    /// Switches that are Open vSwitch bridges; all others are kernel bridges.
    pub openflow: OpenFlowSpec,
    /// Names of stations without a link. Another component, such as a portal, creates their `eth0`
    /// and adds the station's address.
    pub unplugged: Vec<String>,
}

/// A host or field device with one interface, `eth0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StationSpec {
    /// Name, unique among stations and switches.
    pub name: String,
    /// Addresses of the station, at least one, each with its prefix length: 1 to 32, or up to 128
    /// for IPv6.
    pub addresses: Vec<(IpAddr, u8)>,
    /// MAC address of the station; derived from the name if `None`.
    pub mac: Option<MacAddress>,
}

/// A cable between two nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSpec {
    /// One end: a switch or a station.
    pub a: String,
    /// The other end.
    pub b: String,
    /// Rate of each direction, specified as for an Ethernet port: preamble, checksum and interframe
    /// gap count. `None` if the link is as fast as the machine.
    pub rate_bits_per_s: Option<u64>,
}

impl LinkSpec {
    fn title(&self) -> String {
        format!("{} - {}", self.a, self.b)
    }
}

impl NetworkSpec {
    /// Checks everything that can be checked without the kernel.
    ///
    /// # Errors
    /// Returns the first contradiction, in the order of the lists.
    pub fn validate(&self) -> Result<(), SpecError> {
        let nodes = self.check_names()?;
        self.check_links(&nodes)?;
        self.check_addresses()
    }

    fn check_names(&self) -> Result<HashMap<&str, usize>, SpecError> {
        let stations = self.stations.iter().map(|station| &station.name);
        let mut nodes = HashMap::new();
        for name in self.switches.iter().chain(stations) {
            if !is_node_name(name) {
                return Err(SpecError::BadName(name.clone()));
            }
            let index = nodes.len();
            if nodes.insert(name.as_str(), index).is_some() {
                return Err(SpecError::DuplicateName(name.clone()));
            }
        }
        let mut named = HashSet::new();
        for name in &self.openflow.switches {
            if !self.switches.contains(name) || !named.insert(name) {
                return Err(SpecError::NoSwitch(name.clone()));
            }
        }
        Ok(nodes)
    }

    fn check_links(&self, nodes: &HashMap<&str, usize>) -> Result<(), SpecError> {
        let mut pairs = HashSet::new();
        let mut degree = vec![0; nodes.len()];
        // `island[n]` leads from node to node to the representative of the connected component of n
        // (union-find). A link between two nodes of the same component closes a loop.
        let mut island: Vec<usize> = (0..nodes.len()).collect();
        let root = |island: &[usize], mut node: usize| {
            while island[node] != node {
                node = island[node];
            }
            node
        };
        for link in &self.links {
            let node = |name: &String| {
                nodes
                    .get(name.as_str())
                    .copied()
                    .ok_or_else(|| SpecError::UnknownNode {
                        name: name.clone(),
                        link: link.title(),
                    })
            };
            let (a, b) = (node(&link.a)?, node(&link.b)?);
            if a == b {
                return Err(SpecError::SelfLink(link.a.clone()));
            }
            if !pairs.insert((a.min(b), a.max(b))) {
                return Err(SpecError::DuplicateLink(link.a.clone(), link.b.clone()));
            }
            degree[a] += 1;
            degree[b] += 1;
            // A station that closes a loop has two links. That error is clearer, and is reported
            // below.
            let between_switches = a < self.switches.len() && b < self.switches.len();
            let (root_a, root_b) = (root(&island, a), root(&island, b));
            if between_switches && root_a == root_b {
                return Err(SpecError::Loop(link.a.clone(), link.b.clone()));
            }
            island[root_a] = root_b;
            if let Some(rate_bits_per_s) = link.rate_bits_per_s.filter(|rate| *rate < 8) {
                return Err(SpecError::BadRate {
                    link: link.title(),
                    rate_bits_per_s,
                });
            }
        }
        for (station, links) in self.stations.iter().zip(&degree[self.switches.len()..]) {
            if *links != usize::from(!self.unplugged.contains(&station.name)) {
                return Err(SpecError::StationLinks {
                    station: station.name.clone(),
                    links: *links,
                });
            }
        }
        Ok(())
    }

    fn check_addresses(&self) -> Result<(), SpecError> {
        let mut addresses = HashSet::new();
        let mut macs = HashSet::new();
        for station in &self.stations {
            if station.addresses.is_empty() {
                return Err(SpecError::NoAddress(station.name.clone()));
            }
            for &(address, prefix_len) in &station.addresses {
                if !is_usable(address, prefix_len) {
                    let station = station.name.clone();
                    return Err(SpecError::BadAddress {
                        station,
                        address,
                        prefix_len,
                    });
                }
                if !addresses.insert(address) {
                    return Err(SpecError::DuplicateAddress(address));
                }
            }
            if let Some(mac) = station.mac {
                if !mac.is_unicast() {
                    return Err(SpecError::BadMac(mac));
                }
                if !macs.insert(mac) {
                    return Err(SpecError::DuplicateMac(mac));
                }
            }
        }
        Ok(())
    }

    /// Returns the MAC address of every station, in the order of the list. It is the specified one,
    /// or a generated one that is unique.
    pub fn macs(&self) -> Vec<MacAddress> {
        let mut taken: HashSet<MacAddress> = self
            .stations
            .iter()
            .filter_map(|station| station.mac)
            .collect();
        let mut pick = |station: &StationSpec| {
            (0..)
                .map(|attempt| mac_of_name(&station.name, attempt))
                .find(|mac| taken.insert(*mac))
                .expect("2^32 attempts")
        };
        self.stations
            .iter()
            .map(|station| station.mac.unwrap_or_else(|| pick(station)))
            .collect()
    }
}

impl StationSpec {
    /// Returns the IPv6 addresses of the station, with their prefix lengths.
    pub(crate) fn of_ipv6(&self) -> Vec<(Ipv6Addr, u8)> {
        let own = self.addresses.iter();
        own.filter_map(|(address, prefix_len)| match address {
            IpAddr::V6(address) => Some((*address, *prefix_len)),
            IpAddr::V4(_) => None,
        })
        .collect()
    }
}

/// Returns the broadcast address of a subnet; `None` if the subnet has none.
pub(crate) fn broadcast(address: Ipv4Addr, prefix_len: u8) -> Option<Ipv4Addr> {
    let bits = address.to_bits() | host_mask(prefix_len);
    (prefix_len < 31).then(|| Ipv4Addr::from(bits))
}

/// Returns true if a station may have this address and prefix length.
fn is_usable(address: IpAddr, prefix_len: u8) -> bool {
    if address.is_unspecified() || address.is_loopback() || address.is_multicast() {
        return false;
    }
    match address {
        IpAddr::V4(address) => {
            let host = address.to_bits() & host_mask(prefix_len);
            // The address must be neither that of the subnet itself nor the broadcast address.
            let names_all = prefix_len < 31 && (host == 0 || host == host_mask(prefix_len));
            (1..=32).contains(&prefix_len) && !address.is_broadcast() && !names_all
        }
        IpAddr::V6(address) => (1..=128).contains(&prefix_len) && !address.is_unicast_link_local(),
    }
}

fn host_mask(prefix_len: u8) -> u32 {
    u32::MAX.checked_shr(u32::from(prefix_len)).unwrap_or(0)
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
