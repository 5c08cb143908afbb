//! Changes of links that are planned for certain instants.

use timeloom_time::{Duration, Instant, Virtual};

use crate::config::LinkChange;
use crate::packet::PortId;

/// Change of the link out of a port at an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedChange {
    pub(crate) port: PortId,
    pub(crate) at: Instant<Virtual>,
    pub(crate) change: LinkChange,
}

/// All changes of a world, by number. They are the same in all engines of a network, except those
/// that were added while the network ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes(Vec<PlannedChange>);

impl Changes {
    /// Adds a change and returns its number.
    pub(crate) fn add(&mut self, change: PlannedChange) -> usize {
        self.0.push(change);
        self.0.len() - 1
    }

    pub(crate) fn get(&self, number: u32) -> Option<PlannedChange> {
        self.0.get(number as usize).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the shortest delay that the link out of `port` is to have; `None` if no change sets
    /// one.
    pub(crate) fn least_delay(&self, port: PortId) -> Option<Duration> {
        let own = self.0.iter().filter(|planned| planned.port == port);
        own.filter_map(|planned| planned.change.delay).min()
    }
}
