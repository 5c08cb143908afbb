//! Addresses of all interfaces, for one address family.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use timeloom_time::convert::{low_u32, low_u64, number_of};

use crate::packet::PortId;

/// Address family: IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    pub(crate) fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Returns the number of bits of an address: 32 or 128.
    pub(crate) fn width(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// Returns the address with these bits.
    pub(crate) fn address(self, bits: u128) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::from_bits(low_u32(low_u64(bits))).into(),
            Self::V6 => Ipv6Addr::from_bits(bits).into(),
        }
    }

    /// Returns the mask of the host part of an address in a network with this prefix length.
    pub(crate) fn host_mask(self, prefix: u8) -> u128 {
        let bits = u32::from(self.width().saturating_sub(prefix));
        match bits {
            0 => 0,
            bits => u128::MAX >> (128 - bits),
        }
    }
}

/// Returns the bits of an address, of either family.
pub(crate) fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Kind of an address within the networks of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subnet {
    /// The address belongs to the network of this interface.
    Of(PortId),
    /// The address is the broadcast address of a network.
    Broadcast,
}

/// Addresses of one family, with the prefix lengths of their networks. `W` has the width of an
/// address. All parts of one network share the table.
#[derive(Clone, Debug)]
pub(crate) struct Book<W> {
    family: Family,
    /// Address and prefix length by port; zero without an address. Empty if no port has an address.
    list: Arc<[(W, u8)]>,
    /// All interfaces, sorted by address.
    by_address: Arc<[(W, PortId)]>,
}

impl<W: Copy + Ord + Default + Into<u128>> Book<W> {
    /// Returns the table; `list` contains address and prefix length by port.
    pub(crate) fn new(family: Family, list: Vec<(W, u8)>) -> Self {
        let all = list.iter().enumerate();
        let used = all.filter(|(_, (address, _))| *address != W::default());
        let mut by_address: Vec<_> = used
            .map(|(port, (address, _))| (*address, PortId(number_of(port))))
            .collect();
        by_address.sort_unstable();
        Self {
            family,
            list: list.into(),
            by_address: by_address.into(),
        }
    }

    /// Returns the address of an interface and its prefix length; `None` without an address.
    #[inline]
    pub(crate) fn get(&self, port: PortId) -> Option<(W, u8)> {
        let entry = self.list.get(port.index()).copied();
        entry.filter(|(address, _)| *address != W::default())
    }

    /// Returns the interface with this address; `None` if there is none.
    #[inline]
    pub(crate) fn with(&self, address: W) -> Option<PortId> {
        let all = &self.by_address;
        let index = all.binary_search_by_key(&address, |entry| entry.0).ok()?;
        Some(all[index].1)
    }

    /// Returns the network of the world that contains an address; `None` if none does.
    pub(crate) fn subnet(&self, address: W) -> Option<Subnet> {
        let all = &self.by_address;
        let index = all.partition_point(|(other, _)| *other < address);
        let address: u128 = address.into();
        // Networks are disjoint ranges. If the address is in one, the interface with the next lower
        // or higher address is in the same network.
        let near = [index.checked_sub(1), Some(index)];
        near.into_iter().flatten().find_map(|index| {
            let (other, port) = *all.get(index)?;
            let other: u128 = other.into();
            let hosts = self.family.host_mask(self.get(port)?.1);
            let for_all = self.family == Family::V4 && address | hosts == address;
            (address | hosts == other | hosts).then_some(if for_all {
                Subnet::Broadcast
            } else {
                Subnet::Of(port)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the addresses of two hosts and a switch between them: the hosts have the addresses 1
    /// and 6 in a network of eight.
    fn two_hosts<W: From<u32> + Copy + Ord + Default + Into<u128>>(family: Family) -> Book<W> {
        let address = |host| (W::from(NET + host), family.width() - 3);
        let none = (W::default(), 0);
        Book::new(family, vec![address(1), none, address(6), none])
    }

    const NET: u32 = 0x0a00_0100;

    #[test]
    fn an_interface_is_found_by_its_address() {
        let book = two_hosts::<u32>(Family::V4);
        assert_eq!(book.with(NET + 6), Some(PortId(2)));
        assert_eq!(book.with(NET + 2), None);
        assert_eq!(book.with(0), None, "a switch's port has none");
        assert_eq!(book.get(PortId(2)), Some((NET + 6, 29)));
        assert_eq!((book.get(PortId(1)), book.get(PortId::NONE)), (None, None));
    }

    #[test]
    fn an_address_lies_in_the_network_of_its_neighbours() {
        let (v4, v6) = (two_hosts::<u32>(Family::V4), two_hosts::<u128>(Family::V6));
        for host in 0..8 {
            let found = [v4.subnet(NET + host), v6.subnet(u128::from(NET + host))];
            let of = |found| matches!(found, Some(Subnet::Of(_)));
            match host {
                7 => assert_eq!(found[0], Some(Subnet::Broadcast)),
                _ => assert!(of(found[0]), "host {host}: {found:?}"),
            }
            assert!(of(found[1]), "host {host}: {found:?}");
        }
        for beside in [NET + 8, NET - 1] {
            assert_eq!(v4.subnet(beside), None);
            assert_eq!(v6.subnet(beside.into()), None);
        }
    }

    #[test]
    fn the_host_mask_is_the_complement_of_the_prefix() {
        assert_eq!(Family::V4.host_mask(24), 0xff);
        assert_eq!(Family::V4.host_mask(32), 0);
        assert_eq!(Family::V4.host_mask(0), 0xffff_ffff);
        assert_eq!(Family::V6.host_mask(64), u128::from(u64::MAX));
        assert_eq!(Family::V6.host_mask(0), u128::MAX);
    }
}
