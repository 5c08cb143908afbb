//! Samples of a simulated network whose engines are on several nodes.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};

/// Message of an engine to the node that records the network.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Sample {
    /// Observation at a virtual instant in ns, as numbers.
    Observation(i64, Vec<u64>),
    /// Final statistics of the flows, as numbers; no sample follows.
    Flows(Vec<u64>),
}

/// Channel by which nodes that act in turns send their samples to the first of them, which records
/// the network as a run on one machine does.
pub(crate) trait SampleChannel: Send + Sync {
    /// Returns true if this node records the samples of all nodes.
    fn collects(&self) -> bool;

    /// Returns true while the other nodes are connected.
    fn is_open(&self) -> bool;

    /// Drops the callback, so that samples have no effect any more.
    fn close(&self);

    /// Sends a sample to the node that records.
    fn send(&self, sample: Sample);

    /// Sets the callback that receives the samples of the other nodes, by the number of the node;
    /// `None` means that none follows. Must be called before virtual time begins.
    fn receive(&self, callback: SampleCallback);
}

/// Callback for the samples of other nodes.
pub(crate) type SampleCallback = Box<dyn FnMut(usize, Option<Sample>) + Send>;

/// Final statistics of the flows, as they come from the other nodes.
#[derive(Default)]
pub(crate) struct FinalFlows {
    /// Numbers of each node that has ended; `None` for a node that has sent none.
    ended: Mutex<Vec<(usize, Option<Vec<u64>>)>>,
    changed: Condvar,
}

impl FinalFlows {
    /// Records that a node sends no more. Only the first call for a node counts.
    pub(crate) fn end(&self, node: usize, flows: Option<Vec<u64>>) {
        let mut ended = self.ended.lock();
        if ended.iter().all(|(known, _)| *known != node) {
            ended.push((node, flows));
        }
        self.changed.notify_all();
    }

    /// Waits until `count` nodes have ended, for `patience` at most. Returns the statistics by
    /// node.
    pub(crate) fn wait(&self, count: usize, patience: Duration) -> Vec<(usize, Vec<u64>)> {
        let mut ended = self.ended.lock();
        let is_missing = |ended: &mut Vec<_>| ended.len() < count;
        self.changed
            .wait_while_for(&mut ended, is_missing, patience);
        let known = std::mem::take(&mut *ended).into_iter();
        known
            .filter_map(|(node, flows)| Some((node, flows?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_ends_without_statistics_is_not_waited_for() {
        let flows = FinalFlows::default();
        flows.end(1, Some(vec![7]));
        flows.end(2, None);
        // The stream of a node ends after its statistics.
        flows.end(1, None);
        let known = flows.wait(2, Duration::from_secs(600));
        assert_eq!(known, [(1, vec![7])]);
        assert_eq!(flows.wait(1, Duration::ZERO), []);
    }
}
