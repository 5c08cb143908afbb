//! Ports of all nodes: their cables, networks and addresses.

use core::ops::Index;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::packet::PortId;
use crate::tables::address::{Book, Family, Subnet};

/// Properties of a port that are used for most packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    pub(crate) node: u32,
    pub(crate) peer_node: u32,
    pub(crate) segment: u32,
    /// Router that serves the port's segment; [`NIL`](crate::packet::NIL) if there is none.
    pub(crate) target: u32,
    /// Index of the port's ARP cache; [`NIL`](crate::packet::NIL) if the port is not on a LAN.
    pub(crate) arp: u32,
}

/// All ports, by number. The parts of one network share them.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    list: Arc<[Port]>,
    v4: Book<u32>,
    v6: Book<u128>,
    /// First port of each node; [`PortId::NONE`] for nodes without a port.
    first: Arc<[PortId]>,
    /// Interface of each host's router; [`PortId::NONE`] for hosts without a router.
    gateways: Arc<[PortId]>,
}

impl Ports {
    /// Returns the table; `list` is by port, `first` and `gateways` are by node.
    pub(crate) fn new(
        list: Vec<Port>,
        (v4, v6): (Book<u32>, Book<u128>),
        first: Vec<PortId>,
        gateways: Vec<PortId>,
    ) -> Self {
        Self {
            list: list.into(),
            v4,
            v6,
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

    /// Returns the first port of a node; [`PortId::NONE`] if it has none.
    #[inline]
    pub(crate) fn first_of(&self, node: u32) -> PortId {
        self.first[node as usize]
    }

    /// Returns the interface of a host's router; [`PortId::NONE`] if it has none.
    #[inline]
    pub(crate) fn gateway_of(&self, node: u32) -> PortId {
        self.gateways[node as usize]
    }

    /// Returns the IPv4 address of an interface and its prefix length; `None` if it has none.
    #[inline]
    pub(crate) fn v4(&self, port: PortId) -> Option<(Ipv4Addr, u8)> {
        let (bits, prefix) = self.v4.get(port)?;
        Some((bits.into(), prefix))
    }

    /// Returns the IPv6 address of an interface and its prefix length; `None` if it has none.
    #[inline]
    pub(crate) fn v6(&self, port: PortId) -> Option<(Ipv6Addr, u8)> {
        let (bits, prefix) = self.v6.get(port)?;
        Some((bits.into(), prefix))
    }

    /// Returns the address of an interface in this family; `None` if it has none.
    #[inline]
    pub(crate) fn address(&self, port: PortId, family: Family) -> Option<IpAddr> {
        match family {
            Family::V4 => self.v4(port).map(|(address, _)| address.into()),
            Family::V6 => self.v6(port).map(|(address, _)| address.into()),
        }
    }

    /// Returns the interface with this address; `None` if there is none.
    #[inline]
    pub(crate) fn with_address(&self, address: IpAddr) -> Option<PortId> {
        match address {
            IpAddr::V4(address) => self.v4.with(address.to_bits()),
            IpAddr::V6(address) => self.v6.with(address.to_bits()),
        }
    }

    /// Returns the network of the world that contains an address; `None` if none does.
    pub(crate) fn subnet(&self, address: IpAddr) -> Option<Subnet> {
        match address {
            IpAddr::V4(address) => self.v4.subnet(address.to_bits()),
            IpAddr::V6(address) => self.v6.subnet(address.to_bits()),
        }
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

    #[test]
    fn an_interface_is_found_by_its_address_of_either_kind() {
        let port = |node, peer_node| Port {
            node,
            peer_node,
            segment: 0,
            target: 0,
            arp: 0,
        };
        let own: Ipv6Addr = "fd00::1".parse().unwrap();
        let ports = Ports::new(
            vec![port(0, 1), port(1, 0)],
            (
                Book::new(Family::V4, vec![(0x0a00_0001, 24), (0x0a00_0002, 24)]),
                Book::new(Family::V6, vec![(own.to_bits(), 64), (0, 0)]),
            ),
            vec![PortId(0), PortId(1)],
            vec![PortId::NONE; 2],
        );
        for family in Family::BOTH {
            let address = ports.address(PortId(0), family).expect("it has both");
            assert_eq!(ports.with_address(address), Some(PortId(0)));
        }
        assert_eq!(ports.address(PortId(1), Family::V6), None);
        assert_eq!(ports.with_address(Ipv6Addr::UNSPECIFIED.into()), None);
        assert_eq!(
            (ports.first_of(1), ports[PortId(1)].peer_node),
            (PortId(1), 0)
        );
        assert!(ports.get(PortId(2)).is_none() && ports.get(PortId::NONE).is_none());
    }
}
