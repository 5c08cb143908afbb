//! Generators of common topologies, and readers of GML and GraphML files.
//!
//! Each generator adds nodes and cables to a [`NetworkBuilder`] and returns the hosts. Names of
//! nodes begin with `prefix`, so that one network can contain several topologies.

mod campus;
mod dumbbell;
mod fat_tree;
mod gml;
mod graph;
mod graphml;
mod simple;

pub use campus::{Campus, campus};
pub use dumbbell::{Dumbbell, dumbbell};
pub use fat_tree::fat_tree;
pub use gml::gml;
pub use graph::GraphError;
pub use graphml::graphml;
pub use simple::{line, ring, star, tree};

use crate::{LinkConfig, NetworkBuilder, Node};

/// Adds `count` hosts with cables to node `at`.
fn hosts(
    network: &mut NetworkBuilder,
    prefix: &str,
    at: Node,
    count: u32,
    link: &LinkConfig,
) -> Vec<Node> {
    (0..count)
        .map(|index| {
            let host = network.host(format!("{prefix}{index}"));
            network.connect(host, at, link.clone());
            host
        })
        .collect()
}
