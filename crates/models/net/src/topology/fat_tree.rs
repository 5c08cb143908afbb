//! The k-ary fat tree of data centres.

use super::hosts;
use crate::{LinkConfig, NetworkBuilder, Node};

/// Adds a fat tree (Al-Fares, Loukissas and Vahdat, "A scalable, commodity data center network
/// architecture", SIGCOMM 2008) and returns its hosts. It has `k` pods of `k/2` edge and `k/2`
/// aggregation routers, `(k/2)²` core routers, and `k³/4` hosts. Flows are spread over equal-cost
/// paths. `k` is rounded down to an even number.
pub fn fat_tree(
    network: &mut NetworkBuilder,
    prefix: &str,
    k: u32,
    link: &LinkConfig,
) -> Vec<Node> {
    let half = k / 2;
    let cores: Vec<Node> = (0..half * half)
        .map(|core| network.router(format!("{prefix}core{core}")))
        .collect();
    let mut all = Vec::new();
    for pod in 0..half * 2 {
        let aggregation: Vec<Node> = (0..half)
            .map(|index| network.router(format!("{prefix}agg{pod}-{index}")))
            .collect();
        for (router, cores) in aggregation.iter().zip(cores.chunks(half as usize)) {
            for core in cores {
                network.connect(*router, *core, link.clone());
            }
        }
        for index in 0..half {
            let edge = network.router(format!("{prefix}edge{pod}-{index}"));
            for router in &aggregation {
                network.connect(edge, *router, link.clone());
            }
            let name = format!("{prefix}h{pod}-{index}-");
            all.extend(hosts(network, &name, edge, half, link));
        }
    }
    all
}
