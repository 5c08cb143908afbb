//! Events in the queue, and the specified order of ties.

use core::cmp::Ordering;

use timeloom_time::{Instant, Virtual};

/// Part of the model in which an event takes place. Ids are dense, assigned by the model, and the
/// same on every run of one scenario: they determine the order of ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// Scheduled event: at `at`, node `node` gets `token`.
///
/// 24 bytes and `Copy`, because moving events is the most frequent operation of queues. The meaning
/// of the token is defined by the model, usually a few bits of kind and an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Instant of the event.
    pub at: Instant<Virtual>,
    /// Sequence number within this engine; unique.
    pub seq: u64,
    /// Node of the event.
    pub node: NodeId,
    /// Token, defined by the model.
    pub token: u32,
}

/// Order in which events are handled: instant, then node id, then token, then the order in which
/// they were scheduled. It never depends on the queue in use, so that two queues, or two runs, give
/// the same history. Nor does it depend on the origin of an event: a model split over several
/// engines gives the same history as one engine, if no two events of a node with the same token can
/// be scheduled in two orders.
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
