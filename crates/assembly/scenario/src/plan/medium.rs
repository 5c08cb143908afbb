//! What nodes and links are made of: parts of the kernel, or a model.
//!
//! Without `[network]` everything is real. With it everything is modelled but
//! the switches that speak OpenFlow and what hangs on them: real islands, whose
//! *uplinks* lead into the model.

use crate::plan::{Link, Plan};

/// What a link is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium<'a> {
    /// Parts of the kernel.
    Kernel,
    /// It is simulated.
    Model,
    /// It is simulated, and at one end frames of a real switch enter it.
    Uplink {
        /// The real end.
        switch: &'a str,
        /// The simulated end.
        node: &'a str,
    },
}

impl Plan {
    /// Whether a switch, host or device is joined to real cables rather than to
    /// the model.
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

    /// What one of this plan's links is made of.
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
