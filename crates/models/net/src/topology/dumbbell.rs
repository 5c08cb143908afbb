//! Dumbbell: two routers with a bottleneck between them, and hosts on both sides.

use super::hosts;
use crate::{LinkConfig, NetworkBuilder, Node, PortId};

/// Nodes of a dumbbell, as in Figure 6 of the paper on parallel real-time simulation.
#[derive(Clone, Debug)]
pub struct Dumbbell {
    /// Hosts on the left side.
    pub left: Vec<Node>,
    /// Hosts on the right side.
    pub right: Vec<Node>,
    /// Port of the left router on the bottleneck.
    pub bottleneck: PortId,
}

/// Adds a dumbbell: `per_side` hosts on each side with links `access`, and a link `bottleneck`
/// between the routers.
pub fn dumbbell(
    network: &mut NetworkBuilder,
    prefix: &str,
    per_side: u32,
    access: &LinkConfig,
    bottleneck: &LinkConfig,
) -> Dumbbell {
    let left_router = network.router(format!("{prefix}left"));
    let right_router = network.router(format!("{prefix}right"));
    let (port, _) = network.connect(left_router, right_router, bottleneck.clone());
    let left = hosts(
        network,
        &format!("{prefix}l"),
        left_router,
        per_side,
        access,
    );
    let right = hosts(
        network,
        &format!("{prefix}r"),
        right_router,
        per_side,
        access,
    );
    Dumbbell {
        left,
        right,
        bottleneck: port,
    }
}
