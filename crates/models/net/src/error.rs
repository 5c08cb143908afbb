//! What is refused before the start, with the place.

use core::fmt;
use std::net::Ipv4Addr;

/// Why a network cannot be built, or a flow not be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// Two nodes have this name.
    DuplicateName(String),
    /// A host has one port, and a second cable was put into it.
    PortUsedTwice(String),
    /// A host without a cable.
    NotConnected(String),
    /// A cable from a node to itself.
    SelfLoop(String),
    /// A rate of 0 on the cable between these two.
    ZeroRate(String, String),
    /// A probability that is none, or a negative delay, on that cable.
    BadImpairment(String, String),
    /// An MTU below the 68 bytes that every IPv4 link takes (RFC 791), between
    /// these two.
    BadMtu(String, String),
    /// Random early detection on a link with jitter or reordering, between
    /// these two: its average needs a transmitter whose times are known.
    RedWithJitter(String, String),
    /// A flow or source that makes no sense, and why.
    BadTraffic(&'static str),
    /// A fluid flow on a link whose queue decides about packets one by one,
    /// between these two.
    FluidQueue(String, String),
    /// Two interfaces, on these nodes, have the same address.
    AddressConflict(Ipv4Addr, String, String),
    /// Interfaces on one Ethernet segment in different networks.
    MixedPrefixes(String, String),
    /// Interfaces of one network on two Ethernet segments.
    SplitNetwork(String, String),
    /// Switches in a ring: frames would circle for ever, there is no spanning
    /// tree protocol. The cable between these two closes the ring.
    SwitchLoop(String, String),
    /// The modes of two switch ports, or of a switch port and a station, do
    /// not fit together.
    VlanMismatch(String, String),
    /// More than 2^28 ports, or no addresses left in 10.0.0.0/8.
    TooLarge,
    /// There is no way from the first node to the second.
    NoRoute(String, String),
    /// Traffic begins and ends at hosts, and this is none.
    NotAHost(String),
    /// A static route leads through a node that is not a neighbour.
    NotANeighbour(String, String),
}

impl BuildError {
    /// The nodes that it is about.
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

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateName(name) => write!(f, "two nodes are named `{name}`"),
            Self::PortUsedTwice(name) => {
                write!(
                    f,
                    "the port of host `{name}` is used twice; make it a router"
                )
            }
            Self::NotConnected(name) => write!(f, "host `{name}` has no link"),
            Self::SelfLoop(name) => write!(f, "a link leads from `{name}` to itself"),
            Self::ZeroRate(a, b) => write!(f, "the link `{a}` – `{b}` has a rate of 0"),
            Self::BadImpairment(a, b) => write!(
                f,
                "the link `{a}` – `{b}` has a probability outside 0 … 1 or a negative time"
            ),
            Self::BadMtu(a, b) => write!(
                f,
                "the link `{a}` – `{b}` takes fewer than the 68 bytes that IPv4 needs"
            ),
            Self::RedWithJitter(a, b) => write!(
                f,
                "the link `{a}` – `{b}` has RED and jitter or reordering; put them on two links"
            ),
            Self::FluidQueue(a, b) => write!(
                f,
                "fluid traffic passes drop-tail queues and RED without jitter or reordering, and not the link `{a}` – `{b}`"
            ),
            Self::BadTraffic(why) => f.write_str(why),
            Self::AddressConflict(ip, a, b) => write!(f, "`{a}` and `{b}` both have {ip}"),
            Self::MixedPrefixes(a, b) => write!(
                f,
                "`{a}` and `{b}` are on one segment but their addresses are in different networks"
            ),
            Self::SplitNetwork(a, b) => write!(
                f,
                "`{a}` and `{b}` have addresses of one network but are on different segments"
            ),
            Self::SwitchLoop(a, b) => write!(f, "the link `{a}` – `{b}` closes a ring of switches"),
            Self::VlanMismatch(a, b) => {
                write!(f, "the port modes at the ends of `{a}` – `{b}` do not fit")
            }
            Self::TooLarge => write!(f, "more ports than 2^28, or than addresses in 10.0.0.0/8"),
            Self::NoRoute(a, b) => write!(f, "there is no route from `{a}` to `{b}`"),
            Self::NotAHost(name) => write!(f, "`{name}` is not a host"),
            Self::NotANeighbour(a, b) => write!(f, "`{b}` is not a neighbour of `{a}`"),
        }
    }
}

impl std::error::Error for BuildError {}
