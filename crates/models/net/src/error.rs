//! Errors of a network or of traffic that are detected before the simulation starts.

use std::net::IpAddr;

/// Reason for which a network cannot be built, or traffic cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Two nodes have this name.
    #[error("two nodes are named `{0}`")]
    DuplicateName(String),
    /// A second cable was connected to this host, which has only one port.
    #[error("the port of host `{0}` is used twice; make it a router")]
    PortUsedTwice(String),
    /// This host has no cable.
    #[error("host `{0}` has no link")]
    NotConnected(String),
    /// A cable connects this node to itself.
    #[error("a link leads from `{0}` to itself")]
    SelfLoop(String),
    /// The cable between these nodes has a rate of 0.
    #[error("the link `{0}` – `{1}` has a rate of 0")]
    ZeroRate(String, String),
    /// The cable between these nodes has an invalid probability or a negative delay.
    #[error("the link `{0}` – `{1}` has a probability outside 0 … 1 or a negative time")]
    BadImpairment(String, String),
    /// The cable between these nodes has an MTU below 68 bytes, the minimum of IPv4 (RFC 791).
    #[error("the link `{0}` – `{1}` has an MTU below the 68 bytes that IPv4 needs")]
    BadMtu(String, String),
    /// The cable between these nodes has an MTU below 1280 bytes, the minimum of IPv6 (RFC 8200),
    /// in a network with IPv6 addresses.
    #[error("the link `{0}` – `{1}` has an MTU below the 1280 bytes that IPv6 needs")]
    BadMtuOfV6(String, String),
    /// The link between these nodes has both random early detection and jitter or reordering. The
    /// average of the former requires that the times of transmissions are known in advance.
    #[error("the link `{0}` – `{1}` has RED and jitter or reordering; put them on two links")]
    RedWithJitter(String, String),
    /// A flow or source is invalid for this reason.
    #[error("{0}")]
    BadTraffic(&'static str),
    /// A fluid flow passes the link between these nodes, whose queue decides on single packets.
    #[error(
        "fluid traffic passes drop-tail queues and RED without jitter or reordering, and not the \
         link `{0}` – `{1}`"
    )]
    FluidQueue(String, String),
    /// Interfaces of these two nodes have the same address.
    #[error("`{1}` and `{2}` both have {0}")]
    AddressConflict(IpAddr, String, String),
    /// Interfaces on one Ethernet segment belong to different networks.
    #[error("`{0}` and `{1}` are on one segment but their addresses are in different networks")]
    MixedPrefixes(String, String),
    /// Interfaces of one network are on two Ethernet segments.
    #[error("`{0}` and `{1}` have addresses of one network but are on different segments")]
    SplitNetwork(String, String),
    /// Switches form a ring, in which frames would circle for ever, since there is no spanning tree
    /// protocol. The cable between these nodes closes the ring.
    #[error("the link `{0}` – `{1}` closes a ring of switches")]
    SwitchLoop(String, String),
    /// The VLAN modes of two connected switch ports, or of a switch port and a station, do not
    /// match.
    #[error("the port modes at the ends of `{0}` – `{1}` do not fit")]
    VlanMismatch(String, String),
    /// The network has more than 2^28 ports, or 10.0.0.0/8 or a configured network has no address
    /// left.
    #[error("more ports than 2^28, or than addresses in 10.0.0.0/8 or a given network")]
    TooLarge,
    /// There is no route from the first node to the second.
    #[error("there is no route from `{0}` to `{1}`")]
    NoRoute(String, String),
    /// Traffic must begin and end at hosts, and this node is not a host.
    #[error("`{0}` is not a host")]
    NotAHost(String),
    /// A static route of the first node leads through the second, which is not its neighbour.
    #[error("`{1}` is not a neighbour of `{0}`")]
    NotANeighbour(String, String),
}

/// Reason for which a link cannot change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// A property has an impossible value.
    #[error("a probability must lie in 0 … 1, a time must not be negative, a rate must not be 0")]
    BadValue,
    /// The queue of the link decides about packets by times of transmissions that are known in
    /// advance.
    #[error(
        "a link with the discipline `red` or `step` cannot change; `drop-tail` and `codel` can"
    )]
    Red,
    /// The network has fluid traffic, whose rates assume links that stay as they are.
    #[error("links of a network with fluid traffic cannot change; use packet traffic")]
    Fluid,
}

impl BuildError {
    /// Returns the names of the nodes that the error is about.
    pub fn nodes(&self) -> Vec<&str> {
        match self {
            Self::DuplicateName(a)
            | Self::PortUsedTwice(a)
            | Self::NotConnected(a)
            | Self::SelfLoop(a)
            | Self::NotAHost(a) => vec![a],
            Self::ZeroRate(a, b)
            | Self::BadImpairment(a, b)
            | Self::BadMtu(a, b)
            | Self::BadMtuOfV6(a, b)
            | Self::RedWithJitter(a, b)
            | Self::FluidQueue(a, b)
            | Self::AddressConflict(_, a, b)
            | Self::MixedPrefixes(a, b)
            | Self::SplitNetwork(a, b)
            | Self::SwitchLoop(a, b)
            | Self::VlanMismatch(a, b)
            | Self::NoRoute(a, b)
            | Self::NotANeighbour(a, b) => vec![a, b],
            Self::BadTraffic(_) | Self::TooLarge => Vec::new(),
        }
    }
}
