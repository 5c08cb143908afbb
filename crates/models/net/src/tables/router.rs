//! State of a router, in addition to the common table of shortest paths.

use core::cmp::Reverse;
use std::net::IpAddr;

use crate::packet::PortId;
use crate::route::Hop;
use crate::tables::address::{Family, bits};

/// State of a router, in addition to the common table [`crate::route::Routes`].
#[derive(Debug)]
pub(crate) struct Router {
    number: u32,
    /// Static routes; those with longer prefixes come first.
    statics: Vec<StaticRoute>,
    /// The router's interfaces on LANs, by segment.
    lans: Vec<(u32, PortId)>,
}

#[derive(Clone, Copy, Debug)]
struct StaticRoute {
    network: IpAddr,
    prefix: u8,
    hop: Hop,
}

impl Router {
    /// Returns a router without static routes; `number` is its index in the common table.
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

    /// Adds a static route. If there are two for the same prefix, the first one counts.
    pub(crate) fn add_static(&mut self, network: IpAddr, prefix: u8, hop: Hop) {
        self.statics.push(StaticRoute {
            network,
            prefix,
            hop,
        });
        self.statics.sort_by_key(|route| Reverse(route.prefix));
    }

    #[inline]
    pub(crate) fn has_statics(&self) -> bool {
        !self.statics.is_empty()
    }

    /// Returns the hop of the static route with the longest matching prefix; `None` if none
    /// matches.
    #[inline]
    pub(crate) fn static_hop(&self, address: IpAddr) -> Option<Hop> {
        let family = Family::of(address);
        let mut routes = self.statics.iter();
        let route = routes.find(|route| {
            let differs = bits(address) ^ bits(route.network);
            Family::of(route.network) == family && differs & !family.host_mask(route.prefix) == 0
        })?;
        Some(route.hop)
    }

    /// Returns the router's interface on a LAN; `None` if it has none there.
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
    fn the_longest_prefix_wins_and_then_the_first_route() {
        let mut router = Router::new(0);
        let at = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert!(!router.has_statics() && router.static_hop(at("0.0.0.1")).is_none());
        router.add_static(at("10.0.0.0"), 8, hop(0));
        router.add_static(at("10.1.255.255"), 16, hop(2));
        router.add_static(at("10.1.0.0"), 16, hop(4));
        assert_eq!(router.static_hop(at("10.1.2.3")), Some(hop(2)));
        assert_eq!(router.static_hop(at("10.2.2.3")), Some(hop(0)));
        assert_eq!(router.static_hop(at("11.0.0.0")), None);
        router.add_static(at("::"), 0, hop(8));
        router.add_static(at("fd00:1::"), 32, hop(10));
        assert_eq!(router.static_hop(at("fd00:1::9")), Some(hop(10)));
        assert_eq!(router.static_hop(at("fd00:2::9")), Some(hop(8)));
        assert_eq!(router.static_hop(at("11.0.0.0")), None, "of the other kind");
        router.add_static(at("0.0.0.0"), 0, hop(6));
        assert_eq!(router.static_hop(at("11.0.0.0")), Some(hop(6)));
        assert_eq!(router.static_hop(at("fd00:2::9")), Some(hop(8)));
    }

    #[test]
    fn a_lan_is_reached_by_the_interface_on_it() {
        let mut router = Router::new(0);
        router.add_lan(3, PortId(8));
        assert_eq!((router.lan(3), router.lan(4)), (Some(PortId(8)), None));
    }
}
