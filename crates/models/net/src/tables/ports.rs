//! What is known about each port.

/// What is often looked up about a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    pub(crate) node: u32,
    pub(crate) peer_node: u32,
    pub(crate) segment: u32,
    /// The router that serves the segment, [`NIL`] when none does.
    pub(crate) target: u32,
    /// Index of the ARP state, [`NIL`] where no LAN is.
    pub(crate) arp: u32,
}
