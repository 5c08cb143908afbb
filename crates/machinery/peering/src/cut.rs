//! Which engine has which node, and what follows from that.

use std::sync::Arc;

use timeloom_net::{Node, Owner, PortId, World};
use timeloom_time::Duration;

/// A network in parts. Copies share what they say of each node and port.
#[derive(Clone, Debug)]
pub struct Cut {
    owners: Arc<[Owner]>,
    /// By port: the engine at the far end of the link out of it.
    ends: Arc<[Owner]>,
    /// The links that lead from one engine to another.
    links: Arc<[(PortId, Owner, Owner)]>,
    engines: Owner,
    lookahead: Duration,
}

/// Why a network cannot be cut so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// There are so many nodes, and owners for so many.
    #[error("{1} owners were given for {0} nodes")]
    Owners(usize, usize),
    /// A cut cable without delay, between these two: what leaves on it would
    /// arrive before anybody could be told.
    #[error("the cut link `{0}` – `{1}` has no delay; put both ends into one engine")]
    NoDelay(String, String),
}

impl Cut {
    /// The cut of `world` by `owners`, one for each node.
    ///
    /// # Errors
    ///
    /// When their number is wrong, or a cut cable has no delay.
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

    /// The part of `world` that engine `here` has; see [`World::part`].
    pub fn part(&self, world: &World, here: Owner) -> World {
        world.part(&self.owners, here)
    }

    /// Leaves in `world` what belongs to engine `here`.
    pub fn apply(&self, world: &mut World, here: Owner) {
        world.keep_only(&self.owners, here);
    }

    /// The engine of each node.
    pub fn owners(&self) -> &[Owner] {
        &self.owners
    }

    /// How many engines there are.
    pub fn engines(&self) -> Owner {
        self.engines
    }

    /// The engine at the far end of a link; `None` for a port that nothing has.
    #[inline]
    pub fn end(&self, port: PortId) -> Option<Owner> {
        self.ends.get(port.0 as usize).copied()
    }

    /// Links from one engine to another: port, from, to.
    pub fn links(&self) -> &[(PortId, Owner, Owner)] {
        &self.links
    }

    /// The delay of the shortest cut cable: nothing that an engine does reaches
    /// another sooner. [`Duration::MAX`] when nothing is cut.
    pub fn lookahead(&self) -> Duration {
        self.lookahead
    }
}
