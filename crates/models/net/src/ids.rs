//! Identifiers of a world's objects: numbers for nodes, flows, sources and events.

/// TCP flow of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowId(pub u32);

/// Source of datagrams of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceId(pub u32);

/// Kind of a node, and the index of its state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeRole {
    Host,
    Router(u32),
    Switch(u32),
}

/// Event tokens: four bits of kind, 28 of index.
pub(crate) struct Token;

impl Token {
    /// The first packet of this link arrives.
    pub(crate) const ARRIVAL: u32 = 0;
    /// This link's transmitter has sent its packet.
    pub(crate) const END: u32 = 1 << 28;
    /// The first of the packets that travel outside this link's list arrives.
    pub(crate) const SINGLE: u32 = 2 << 28;
    pub(crate) const SENDER: u32 = 3 << 28;
    pub(crate) const RECEIVER: u32 = 4 << 28;
    pub(crate) const SOURCE: u32 = 5 << 28;
    pub(crate) const ARP: u32 = 6 << 28;
    pub(crate) const START: u32 = 7 << 28;
    /// The timer of this resident has expired.
    pub(crate) const RESIDENT: u32 = 8 << 28;
    /// The transmission with this number of a resident's frame begins.
    pub(crate) const DEPARTURE: u32 = 9 << 28;
    /// A step of all fluid flows.
    pub(crate) const FLUID: u32 = 10 << 28;
    /// Kernel timers kept for a host have expired.
    pub(crate) const KERNEL: u32 = 11 << 28;
    pub(crate) const INDEX: u32 = (1 << 28) - 1;
}

/// Node of a network that is being built, and of the world built from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u32);
