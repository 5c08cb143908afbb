//! Implementation of nodes and links, either by kernel objects or by a model.
//!
//! Without `[network]`, all nodes and links are kernel objects. With it, everything is simulated
//! except the switches that speak OpenFlow and the hosts and devices attached to them. These form
//! real islands, whose *uplinks* lead into the simulated network.

use crate::plan::{Link, Plan};

/// Implementation of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium<'a> {
    /// Kernel objects.
    Kernel,
    /// Simulated.
    Model,
    /// Simulated link, at one end of which frames of a real switch enter.
    Uplink {
        /// Switch at the real end.
        switch: &'a str,
        /// Node at the simulated end.
        node: &'a str,
    },
}

impl Plan {
    /// Returns true if a switch, host or device is implemented by kernel objects.
    pub fn is_real(&self, node: &str) -> bool {
        if self.network.is_none() {
            return true;
        }
        let is_station =
            self.system.hosts.contains_key(node) || self.system.devices.contains_key(node);
        self.speaks_openflow(node)
            || is_station
                && self.system.links.iter().any(
                    |Link {
                         between: [a, b], ..
                     }| {
                        a == node && self.speaks_openflow(b) || b == node && self.speaks_openflow(a)
                    },
                )
    }

    /// Returns the implementation of one of this plan's links.
    pub fn medium<'a>(&self, link: &'a Link) -> Medium<'a> {
        let [a, b] = &link.between;
        match (self.is_real(a), self.is_real(b)) {
            (true, true) => Medium::Kernel,
            (true, false) if self.speaks_openflow(a) => Medium::Uplink { switch: a, node: b },
            (false, true) if self.speaks_openflow(b) => Medium::Uplink { switch: b, node: a },
            _ => Medium::Model,
        }
    }

    fn speaks_openflow(&self, node: &str) -> bool {
        let openflow = self.system.openflow.as_ref();
        openflow.is_some_and(|openflow| openflow.switches.iter().any(|name| name == node))
    }
}
