//! What a router has of its own, beside the shared table of shortest paths.

use core::cmp::Reverse;

use crate::packet::PortId;
use crate::route::Hop;

/// What a router has beyond the shared table of [`crate::route::Routes`].
#[derive(Debug)]
pub(crate) struct Router {
    number: u32,
    /// Routes that were written down, the longest prefix first.
    statics: Vec<StaticRoute>,
    /// Its interfaces on LANs, by segment.
    lans: Vec<(u32, PortId)>,
}

#[derive(Clone, Copy, Debug)]
struct StaticRoute {
    network: u32,
    mask: u32,
    hop: Hop,
}

impl Router {
    /// `number` is its place in the shared table.
    pub(crate) fn new(number: u32) -> Self {
        Self {
            number,
            statics: Vec::new(),
            lans: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn add_lan(&mut self, segment: u32, port: PortId) {
        self.lans.push((segment, port));
    }

    /// Of two routes for one prefix the first that was added holds.
    pub(crate) fn add_static(&mut self, network: u32, mask: u32, hop: Hop) {
        let network = network & mask;
        self.statics.push(StaticRoute { network, mask, hop });
        self.statics.sort_by_key(|route| Reverse(route.mask));
    }

    #[inline]
    pub(crate) fn has_statics(&self) -> bool {
        !self.statics.is_empty()
    }

    /// The written route with the longest prefix that an address has.
    #[inline]
    pub(crate) fn static_hop(&self, address: u32) -> Option<Hop> {
        let mut routes = self.statics.iter();
        let route = routes.find(|route| address & route.mask == route.network)?;
        Some(route.hop)
    }

    /// Its interface on a LAN.
    #[inline]
    pub(crate) fn lan(&self, segment: u32) -> Option<PortId> {
        let mut lans = self.lans.iter();
        lans.find(|(lan, _)| *lan == segment).map(|(_, port)| *port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(port: u32) -> Hop {
        Hop {
            port: PortId(port),
            via: PortId(port + 1),
        }
    }

    #[test]
    fn the_longest_prefix_decides_and_then_what_was_said_first() {
        let mut router = Router::new(0);
        assert!(!router.has_statics() && router.static_hop(1).is_none());
        router.add_static(0x0a00_0000, 0xff00_0000, hop(0));
        router.add_static(0x0a01_ffff, 0xffff_0000, hop(2));
        router.add_static(0x0a01_0000, 0xffff_0000, hop(4));
        assert_eq!(router.static_hop(0x0a01_0203), Some(hop(2)));
        assert_eq!(router.static_hop(0x0a02_0203), Some(hop(0)));
        assert_eq!(router.static_hop(0x0b00_0000), None);
        router.add_static(0, 0, hop(6));
        assert_eq!(router.static_hop(0x0b00_0000), Some(hop(6)));
    }

    #[test]
    fn a_lan_is_reached_by_the_interface_on_it() {
        let mut router = Router::new(0);
        router.add_lan(3, PortId(8));
        assert_eq!((router.lan(3), router.lan(4)), (Some(PortId(8)), None));
    }
}
