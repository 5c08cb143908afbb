//! Assignment of nodes to engines, and what follows from it for the links.

use std::sync::Arc;

use timeloom_net::{Node, Owner, PortId, World};
use timeloom_time::Duration;

/// Partitioned network. Clones share the tables of nodes and ports.
#[derive(Clone, Debug)]
pub struct Cut {
    owners: Arc<[Owner]>,
    /// Engine at the far end of each port's link.
    ends: Arc<[Owner]>,
    /// Links between two engines: port, sending engine, receiving engine.
    links: Arc<[(PortId, Owner, Owner)]>,
    engines: Owner,
    lookahead: Duration,
}

/// Reason why a network cannot be partitioned in this way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// The network has `.0` nodes, but owners were given for `.1` nodes.
    #[error("{1} owners were given for {0} nodes")]
    Owners(usize, usize),
    /// The cable between these two nodes is cut but has no delay. Packets on it would arrive before
    /// the other engine could receive them.
    #[error("the cut link `{0}` – `{1}` has no delay; put both ends into one engine")]
    NoDelay(String, String),
}

impl Cut {
    /// Partitions `world`. `owners` has the engine of each node, in the order of the nodes.
    ///
    /// # Errors
    ///
    /// Fails if the number of owners is wrong, or if a cut cable has no delay.
    pub fn new(world: &World, owners: Vec<Owner>) -> Result<Self, CutError> {
        if owners.len() != world.nodes() {
            return Err(CutError::Owners(world.nodes(), owners.len()));
        }
        let owner = |node: Node| owners[node.0 as usize];
        let mut lookahead = Duration::MAX;
        let mut links = Vec::new();
        let mut ends = Vec::new();
        for cable in world.cables() {
            let (from, to) = (owner(cable.from), owner(cable.to));
            ends.push(to);
            if from == to {
                continue;
            }
            if cable.delay <= Duration::ZERO {
                let name = |node| world.name(node).to_owned();
                return Err(CutError::NoDelay(name(cable.from), name(cable.to)));
            }
            lookahead = lookahead.min(cable.delay);
            links.push((cable.port, from, to));
        }
        let engines = owners.iter().max().map_or(1, |most| most + 1);
        Ok(Self {
            owners: owners.into(),
            ends: ends.into(),
            links: links.into(),
            engines,
            lookahead,
        })
    }

    /// Returns the part of `world` that belongs to engine `here`; see [`World::part`].
    pub fn part(&self, world: &World, here: Owner) -> World {
        world.part(&self.owners, here)
    }

    /// Removes everything from `world` that does not belong to engine `here`.
    pub fn apply(&self, world: &mut World, here: Owner) {
        world.keep_only(&self.owners, here);
    }

    /// Returns the engine of each node, in the order of the nodes.
    pub fn owners(&self) -> &[Owner] {
        &self.owners
    }

    /// Returns the number of engines.
    pub fn engines(&self) -> Owner {
        self.engines
    }

    /// Returns the engine at the far end of the port's link; `None` for an unknown port.
    #[inline]
    pub fn end(&self, port: PortId) -> Option<Owner> {
        self.ends.get(port.0 as usize).copied()
    }

    /// Returns the links between engines: port, sending engine, receiving engine.
    pub fn links(&self) -> &[(PortId, Owner, Owner)] {
        &self.links
    }

    /// Returns the delay of the shortest cut cable. An event in one engine affects other engines no
    /// sooner than after this time. [`Duration::MAX`] if no cable is cut.
    pub fn lookahead(&self) -> Duration {
        self.lookahead
    }
}
