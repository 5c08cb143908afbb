//! What a router has of its own, beside the shared table of shortest paths.

use crate::packet::PortId;
use crate::route::Hop;

/// What a router has beyond the shared table of [`crate::route::Routes`].
#[derive(Debug, Default)]
pub(crate) struct Router {
    /// Its number in that table.
    pub(crate) number: u32,
    /// Routes that were written down, the longest prefix first.
    pub(crate) statics: Vec<StaticRoute>,
    /// Its interfaces on LANs, by segment.
    pub(crate) lans: Vec<(u32, PortId)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct StaticRoute {
    pub(crate) network: u32,
    pub(crate) mask: u32,
    pub(crate) hop: Hop,
}
