//! Pauses by users of nodes that act in turns.

use timeloom_bus::Bus;
use timeloom_time::{Instant, Virtual};

/// Channel by which a pause that a user requests at one node reaches all others. Requests of a node
/// take effect in their order.
pub(crate) trait UserPauses: Send + Sync {
    /// Pauses the other nodes, until [`Self::release`] with the same number.
    fn hold(&self, number: u64, reason: &str);

    /// Ends a pause of the other nodes.
    fn release(&self, number: u64);

    /// Lets no node pass `at`, until the next call at this node; `None` lets all pass. All nodes
    /// must be paused.
    fn stop_at(&self, at: Option<Instant<Virtual>>);

    /// Begins to hold for the users of other nodes, on the bus of this node's run.
    fn begin(&self, bus: Bus);
}
