//! Events in the queue, and the order in which events of the same instant are handled.

use core::cmp::Ordering;

use timeloom_time::{Instant, Virtual};

/// Part of the model in which an event takes place. The model assigns dense ids, which must be the
/// same in every run of a scenario because they determine the order of simultaneous events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// Scheduled event: node `node` receives `token` at the instant `at`.
///
/// The structure has 24 bytes and is `Copy`, because queues mostly move events. The model defines
/// the meaning of the token, usually a few bits for the kind of event and an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Virtual instant of the event.
    pub at: Instant<Virtual>,
    /// Sequence number of the event within its engine; unique.
    pub seq: u64,
    /// Node in which the event takes place.
    pub node: NodeId,
    /// Value whose meaning the model defines.
    pub token: u32,
}

/// Order in which events are handled: by instant, then node id, then token, then the order of
/// scheduling.
///
/// The order never depends on the queue in use, so two queues, or two runs, give the same history.
/// It does not depend on the origin of an event either. A model that is split over several engines
/// therefore gives the same history as in one engine, provided that the order of scheduling is
/// fixed for all events of one node with the same token.
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
