//! The ports of all nodes: which cable they are at, which network, which address.

use core::ops::Index;
use std::sync::Arc;

use crate::packet::PortId;

/// What is often looked up about a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    pub(crate) node: u32,
    pub(crate) peer_node: u32,
    pub(crate) segment: u32,
    /// The router that serves the segment, [`NIL`](crate::packet::NIL) when none does.
    pub(crate) target: u32,
    /// Index of the ARP cache, [`NIL`](crate::packet::NIL) where no LAN is.
    pub(crate) arp: u32,
}

/// An IPv4 address of an interface and the length of its network's prefix; both 0 without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) bits: u32,
    pub(crate) prefix: u8,
}

/// Where in a network an address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subnet {
    /// In that of this interface.
    Of(PortId),
    /// In one whose stations it means all of.
    Broadcast,
}

/// All ports, by number. Parts of one network share them.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    list: Arc<[Port]>,
    addresses: Arc<[Address]>,
    /// All interfaces by address, sorted.
    by_address: Arc<[(u32, PortId)]>,
    /// The first port of each node, [`PortId::NONE`] without one.
    first: Arc<[PortId]>,
    /// The interface of each host's router, [`PortId::NONE`] without one.
    gateways: Arc<[PortId]>,
}

impl Ports {
    /// `list` and `addresses` are by port, `first` and `gateways` by node.
    pub(crate) fn new(
        list: Vec<Port>,
        addresses: Vec<Address>,
        first: Vec<PortId>,
        gateways: Vec<PortId>,
    ) -> Self {
        let all = addresses.iter().enumerate();
        let used = all.filter(|(_, address)| address.bits != 0);
        let mut by_address: Vec<_> = used
            .map(|(port, address)| (address.bits, PortId(port as u32)))
            .collect();
        by_address.sort_unstable();
        Self {
            list: list.into(),
            addresses: addresses.into(),
            by_address: by_address.into(),
            first: first.into(),
            gateways: gateways.into(),
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    #[inline]
    pub(crate) fn get(&self, port: PortId) -> Option<&Port> {
        self.list.get(port.index())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Port> {
        self.list.iter()
    }

    /// The first port of a node, [`PortId::NONE`] without one.
    #[inline]
    pub(crate) fn first_of(&self, node: u32) -> PortId {
        self.first[node as usize]
    }

    /// The interface of a host's router, [`PortId::NONE`] without one.
    #[inline]
    pub(crate) fn gateway_of(&self, node: u32) -> PortId {
        self.gateways[node as usize]
    }

    #[inline]
    pub(crate) fn address(&self, port: PortId) -> Address {
        self.addresses[port.index()]
    }

    /// The interface that has this address.
    #[inline]
    pub(crate) fn with_address(&self, address: u32) -> Option<PortId> {
        let all = &self.by_address;
        let index = all.binary_search_by_key(&address, |entry| entry.0).ok()?;
        Some(all[index].1)
    }

    /// The network here that an address lies in.
    pub(crate) fn subnet(&self, address: u32) -> Option<Subnet> {
        let all = &self.by_address;
        let index = all.partition_point(|(other, _)| *other < address);
        // Networks are ranges apart from one another: when it lies in one, so
        // does a neighbour of its.
        let near = [index.checked_sub(1), Some(index)];
        near.into_iter().flatten().find_map(|index| {
            let (other, port) = all.get(index)?;
            let length = u32::from(self.address(*port).prefix);
            let hosts = u32::MAX.checked_shr(length).unwrap_or(0);
            (address | hosts == other | hosts).then_some(if address | hosts == address {
                Subnet::Broadcast
            } else {
                Subnet::Of(*port)
            })
        })
    }
}

impl Index<PortId> for Ports {
    type Output = Port;
    #[inline]
    fn index(&self, port: PortId) -> &Port {
        &self.list[port.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NET: u32 = 0x0a00_0100;

    /// Two hosts, 10.0.1.1/29 and 10.0.1.6/29, and a switch between them.
    fn two_hosts() -> Ports {
        let port = |node, peer_node| Port {
            node,
            peer_node,
            segment: 0,
            target: 0,
            arp: 0,
        };
        let address = |host| Address {
            bits: NET + host,
            prefix: 29,
        };
        Ports::new(
            vec![port(0, 2), port(2, 0), port(1, 2), port(2, 1)],
            vec![
                address(1),
                Address::default(),
                address(6),
                Address::default(),
            ],
            vec![PortId(0), PortId(2), PortId(1)],
            vec![PortId::NONE; 3],
        )
    }

    #[test]
    fn an_interface_is_found_by_its_address() {
        let ports = two_hosts();
        assert_eq!(ports.with_address(NET + 6), Some(PortId(2)));
        assert_eq!(ports.with_address(NET + 2), None);
        assert_eq!(ports.with_address(0), None, "a switch's port has none");
        assert_eq!(ports.address(PortId(2)).prefix, 29);
        assert_eq!(
            (ports.first_of(1), ports[PortId(3)].peer_node),
            (PortId(2), 1)
        );
        assert!(ports.get(PortId(4)).is_none() && ports.get(PortId::NONE).is_none());
    }

    #[test]
    fn an_address_lies_in_the_network_of_its_neighbours() {
        let ports = two_hosts();
        for host in 0..8 {
            let found = ports.subnet(NET + host);
            match host {
                7 => assert_eq!(found, Some(Subnet::Broadcast)),
                _ => assert!(
                    matches!(found, Some(Subnet::Of(_))),
                    "host {host}: {found:?}"
                ),
            }
        }
        assert_eq!(ports.subnet(NET + 8), None);
        assert_eq!(ports.subnet(NET - 1), None);
    }
}
