//! Errors that are detected before the start, with the place.

use std::net::IpAddr;

/// Reason why a network cannot be built, or traffic cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Two nodes have this name.
    #[error("two nodes are named `{0}`")]
    DuplicateName(String),
    /// A host has one port, and a second cable was put into it.
    #[error("the port of host `{0}` is used twice; make it a router")]
    PortUsedTwice(String),
    /// A host without a cable.
    #[error("host `{0}` has no link")]
    NotConnected(String),
    /// A cable from a node to itself.
    #[error("a link leads from `{0}` to itself")]
    SelfLoop(String),
    /// A rate of 0 on the cable between these two.
    #[error("the link `{0}` – `{1}` has a rate of 0")]
    ZeroRate(String, String),
    /// An invalid probability, or a negative delay, on that cable.
    #[error("the link `{0}` – `{1}` has a probability outside 0 … 1 or a negative time")]
    BadImpairment(String, String),
    /// An MTU below the 68 bytes that every IPv4 link takes (RFC 791), between these two.
    #[error("the link `{0}` – `{1}` takes fewer than the 68 bytes that IPv4 needs")]
    BadMtu(String, String),
    /// An MTU below the 1280 bytes that every IPv6 link takes (RFC 8200), in a network with
    /// addresses of IPv6, between these two.
    #[error("the link `{0}` – `{1}` takes fewer than the 1280 bytes that IPv6 needs")]
    BadMtuOfV6(String, String),
    /// Random early detection on a link with jitter or reordering, between
    /// these two: its average needs a transmitter whose times are known.
    #[error("the link `{0}` – `{1}` has RED and jitter or reordering; put them on two links")]
    RedWithJitter(String, String),
    /// A flow or source is invalid, for this reason.
    #[error("{0}")]
    BadTraffic(&'static str),
    /// A fluid flow on a link whose queue decides about packets one by one,
    /// between these two.
    #[error(
        "fluid traffic passes drop-tail queues and RED without jitter or reordering, and not the \
         link `{0}` – `{1}`"
    )]
    FluidQueue(String, String),
    /// Two interfaces, on these nodes, have the same address.
    #[error("`{1}` and `{2}` both have {0}")]
    AddressConflict(IpAddr, String, String),
    /// Interfaces on one Ethernet segment in different networks.
    #[error("`{0}` and `{1}` are on one segment but their addresses are in different networks")]
    MixedPrefixes(String, String),
    /// Interfaces of one network on two Ethernet segments.
    #[error("`{0}` and `{1}` have addresses of one network but are on different segments")]
    SplitNetwork(String, String),
    /// Switches in a ring: frames would circle for ever, since there is no spanning tree protocol.
    /// The cable between these two closes the ring.
    #[error("the link `{0}` – `{1}` closes a ring of switches")]
    SwitchLoop(String, String),
    /// The modes of two switch ports, or of a switch port and a station, do
    /// not fit together.
    #[error("the port modes at the ends of `{0}` – `{1}` do not fit")]
    VlanMismatch(String, String),
    /// More than 2^28 ports, or no addresses left in 10.0.0.0/8 or a given network.
    #[error("more ports than 2^28, or than addresses in 10.0.0.0/8 or a given network")]
    TooLarge,
    /// There is no route from the first node to the second.
    #[error("there is no route from `{0}` to `{1}`")]
    NoRoute(String, String),
    /// Traffic begins and ends at hosts, and this node is none.
    #[error("`{0}` is not a host")]
    NotAHost(String),
    /// A static route leads through a node that is not a neighbour.
    #[error("`{1}` is not a neighbour of `{0}`")]
    NotANeighbour(String, String),
}

impl BuildError {
    /// Returns the nodes that the error is about.
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
