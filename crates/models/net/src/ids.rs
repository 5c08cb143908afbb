//! Numbers that identify objects of a world: flows, sources, events and nodes.

/// Number of a TCP flow in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowId(pub u32);

/// Number of a source of datagrams in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficSourceId(pub u32);

/// Kind of a node, with the index of its state in the table for that kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeRole {
    Host,
    Router(u32),
    Switch(u32),
}

/// Event tokens: the upper four bits give the kind of event, the lower 28 an index.
pub(crate) struct Token;

impl Token {
    /// The first packet on link number `index` arrives.
    pub(crate) const ARRIVAL: u32 = 0;
    /// The transmitter of link number `index` has sent its packet.
    pub(crate) const END: u32 = 1 << 28;
    /// The first of the packets that travel outside of the list of link number `index` arrives.
    pub(crate) const SINGLE: u32 = 2 << 28;
    pub(crate) const SENDER: u32 = 3 << 28;
    pub(crate) const RECEIVER: u32 = 4 << 28;
    pub(crate) const SOURCE: u32 = 5 << 28;
    pub(crate) const ARP: u32 = 6 << 28;
    pub(crate) const START: u32 = 7 << 28;
    /// The timer of resident number `index` has expired.
    pub(crate) const RESIDENT: u32 = 8 << 28;
    /// Event at the start of transmission number `index` of a resident's frame.
    pub(crate) const DEPARTURE: u32 = 9 << 28;
    /// A step of all fluid flows is due.
    pub(crate) const FLUID: u32 = 10 << 28;
    /// Timers that the network keeps for a host's kernel have expired.
    pub(crate) const KERNEL: u32 = 11 << 28;
    /// Change number `index` of a link is due.
    pub(crate) const CHANGE: u32 = 12 << 28;
    pub(crate) const INDEX: u32 = (1 << 28) - 1;
}

/// Number of a node, in a network that is being built and in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u32);
