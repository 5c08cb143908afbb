//! Chain of namespaces: grandmaster, hops and slave, with the cables between them.

use std::net::Ipv4Addr;

use timeloom_fabric::{FabricError, MacAddress, Namespace, Plug, connect};
use timeloom_wire::ClockIdentity;

/// Name of a node's interface towards the grandmaster.
pub(super) const UP: &str = "up";
/// Name of a node's interface towards the slave.
pub(super) const DOWN: &str = "down";

/// Node of the chain: its name and its namespace.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) name: String,
    pub(super) namespace: Namespace,
    pub(super) interfaces: Vec<&'static str>,
    pub(super) clock: ClockIdentity,
}

/// All nodes, and the namespace of the attacker's cable if there is one.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) sites: Vec<Site>,
    pub(super) wire: Option<Namespace>,
}

fn mac(node: usize, interface: u8) -> MacAddress {
    MacAddress([0x02, 0x54, 0x4c, 0x00, node as u8, interface])
}

fn name_of(node: usize, count: usize) -> String {
    match node {
        0 => "gm".to_owned(),
        _ if node + 1 == count => "slave".to_owned(),
        hop => format!("tc{hop}"),
    }
}

/// Returns the clock identity derived from the MAC address of a node's first interface.
fn identity(node: usize) -> ClockIdentity {
    ClockIdentity::from_mac(mac(node, if node == 0 { 2 } else { 1 }))
}

/// Returns the two addresses of the cable that connects `node` directly to the slave, as a part of
/// the second network: first the node's address, then the slave's.
pub(super) fn aside(node: usize) -> [Ipv4Addr; 2] {
    [
        Ipv4Addr::new(10, 85, node as u8, 2),
        Ipv4Addr::new(10, 85, node as u8, 1),
    ]
}

impl Chain {
    /// Builds a chain of `count` nodes. The cable after node `tapped` passes through an attacker's
    /// namespace, which has interfaces named `up` and `down` too.
    pub(super) fn build(
        count: usize,
        tapped: Option<usize>,
        second_network: bool,
    ) -> Result<Self, FabricError> {
        let mut sites = Vec::new();
        for node in 0..count {
            let name = name_of(node, count);
            let mut interfaces = Vec::new();
            if node > 0 {
                interfaces.push(UP);
            }
            if node + 1 < count {
                interfaces.push(DOWN);
            }
            sites.push(Site {
                namespace: Namespace::quiet(&name)?,
                name,
                interfaces,
                clock: identity(node),
            });
        }
        let wire = tapped.map(|_| Namespace::quiet("attacker")).transpose()?;
        for node in 0..count - 1 {
            let link = node as u8;
            let from = Plug {
                namespace: &sites[node].namespace,
                interface: DOWN,
                mac: mac(node, 2),
                address: Some(Ipv4Addr::new(10, 84, link, 1)),
            };
            let to = Plug {
                namespace: &sites[node + 1].namespace,
                interface: UP,
                mac: mac(node + 1, 1),
                address: Some(Ipv4Addr::new(10, 84, link, 2)),
            };
            match &wire {
                Some(wire) if tapped == Some(node) => {
                    let end = |interface, number| Plug {
                        namespace: wire,
                        interface,
                        mac: mac(0xee, number),
                        address: None,
                    };
                    connect(&from, &end(UP, 1))?;
                    connect(&to, &end(DOWN, 2))?;
                }
                _ => connect(&from, &to)?,
            }
        }
        if second_network {
            let slave = &sites[count - 1].namespace;
            for (node, site) in sites[..count - 1].iter().enumerate() {
                let interface = format!("aside{node}");
                let [near, far] = aside(node);
                let ours = Plug {
                    namespace: &site.namespace,
                    interface: "aside",
                    mac: mac(node, 3),
                    address: Some(near),
                };
                let theirs = Plug {
                    namespace: slave,
                    interface: &interface,
                    mac: mac(node, 4),
                    address: Some(far),
                };
                connect(&ours, &theirs)?;
            }
        }
        Ok(Self { sites, wire })
    }
}
