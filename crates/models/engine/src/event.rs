//! What waits in the queue, and the written order of ties.

use core::cmp::Ordering;

use timeloom_time::{Instant, Virtual};

/// The part of the model in which an event takes place. Ids are dense, given
/// by the model, and the same on every run of one scenario: ties are ordered
/// by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// An appointment: at `at`, node `node` gets `token`.
///
/// 24 bytes and `Copy`, because queues move events more often than anything
/// else happens to them. What the token means is the model's affair, usually a
/// few bits of kind and an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it takes place.
    pub at: Instant<Virtual>,
    /// The how-manieth event of this engine; no two are alike.
    pub seq: u64,
    /// Where it takes place.
    pub node: NodeId,
    /// What the model makes of it.
    pub token: u32,
}

/// The order in which events are handled: instant, then node id, then token,
/// then the order in which they were scheduled. It never depends on the queue
/// in use, so that two queues, or two runs, give the same history. Nor does it
/// depend on where an event came from: a model of which other engines run
/// parts gives the same history as one engine, when no two events of a node
/// with the same token can be scheduled in two orders.
impl Ord for Event {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.at
            .cmp(&other.at)
            .then_with(|| self.node.cmp(&other.node))
            .then_with(|| (self.token, self.seq).cmp(&(other.token, other.seq)))
    }
}

impl PartialOrd for Event {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

const _: () = assert!(size_of::<Event>() == 24);
