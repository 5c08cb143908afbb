//! Star, line, ring and tree.

use super::hosts;
use crate::{LinkConfig, NetworkBuilder, Node};

/// Adds a LAN: `count` hosts around one switch.
pub fn star(
    network: &mut NetworkBuilder,
    prefix: &str,
    count: u32,
    link: &LinkConfig,
) -> Vec<Node> {
    let switch = network.switch(format!("{prefix}switch"));
    hosts(network, &format!("{prefix}h"), switch, count, link)
}

/// Adds a row of `count` routers with one host at each.
pub fn line(
    network: &mut NetworkBuilder,
    prefix: &str,
    count: u32,
    access: &LinkConfig,
    between: &LinkConfig,
) -> Vec<Node> {
    row(network, prefix, count, access, between).1
}

/// Adds a ring of `count` routers with one host at each.
pub fn ring(
    network: &mut NetworkBuilder,
    prefix: &str,
    count: u32,
    access: &LinkConfig,
    between: &LinkConfig,
) -> Vec<Node> {
    let (routers, hosts) = row(network, prefix, count, access, between);
    if let [first, _, .., last] = routers[..] {
        network.connect(last, first, between.clone());
    }
    hosts
}

fn row(
    network: &mut NetworkBuilder,
    prefix: &str,
    count: u32,
    access: &LinkConfig,
    between: &LinkConfig,
) -> (Vec<Node>, Vec<Node>) {
    let routers: Vec<Node> = (0..count)
        .map(|index| network.router(format!("{prefix}r{index}")))
        .collect();
    for pair in routers.windows(2) {
        network.connect(pair[0], pair[1], between.clone());
    }
    let mut all = Vec::new();
    for (index, router) in routers.iter().enumerate() {
        let name = format!("{prefix}h{index}-");
        all.extend(hosts(network, &name, *router, 1, access));
    }
    (routers, all)
}

/// Adds a tree of Ethernet switches with `depth` levels. Each switch has `fanout` branches, and
/// each leaf switch has `fanout` hosts.
pub fn tree(
    network: &mut NetworkBuilder,
    prefix: &str,
    depth: u32,
    fanout: u32,
    link: &LinkConfig,
) -> Vec<Node> {
    let mut level = vec![network.switch(format!("{prefix}s0"))];
    let mut switches = 1;
    for _ in 1..depth {
        let mut below = Vec::new();
        for parent in level {
            for _ in 0..fanout {
                let switch = network.switch(format!("{prefix}s{switches}"));
                switches += 1;
                network.connect(parent, switch, link.clone());
                below.push(switch);
            }
        }
        level = below;
    }
    let leaves = level.iter().enumerate();
    leaves
        .flat_map(|(leaf, switch)| {
            hosts(network, &format!("{prefix}h{leaf}-"), *switch, fanout, link)
        })
        .collect()
}
