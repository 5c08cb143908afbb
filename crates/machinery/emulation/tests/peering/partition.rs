//! Tests that cuts are balanced and cheap.

use timeloom_emulation::peering::partition::{Graph, of_world, partition, propose, spread};
use timeloom_emulation::peering::{Cut, CutError};
use timeloom_net::topology::{dumbbell, ring};
use timeloom_net::{FluidConfig, FluidPattern, LinkConfig, NetworkBuilder, TcpConfig, World};
use timeloom_time::Duration;

/// Creates a grid of `side` times `side` nodes.
fn grid(side: u32) -> Graph {
    let mut graph = Graph::new((side * side) as usize);
    for y in 0..side {
        for x in 0..side {
            let node = y * side + x;
            if x + 1 < side {
                graph.connect(node, node + 1, 1);
            }
            if y + 1 < side {
                graph.connect(node, node + side, 1);
            }
        }
    }
    graph
}

fn weights(graph: &Graph, parts: &[u16]) -> Vec<u64> {
    let count = usize::from(parts.iter().max().copied().unwrap_or(0)) + 1;
    let mut weights = vec![0; count];
    for (node, part) in parts.iter().enumerate() {
        weights[usize::from(*part)] += graph.nodes[node];
    }
    weights
}

#[test]
fn a_grid_is_cut_almost_straight() {
    for side in [8, 20, 40] {
        let graph = grid(side);
        let parts = partition(&graph, 2);
        let share = u64::from(side * side) / 2;
        for weight in weights(&graph, &parts) {
            assert!(weight.abs_diff(share) <= share / 9, "{weight} of {share}");
        }
        let cost = graph.cost(&parts);
        assert!(
            cost <= u64::from(side) * 3 / 2,
            "{cost} edges of a grid {side} wide"
        );
    }
}

#[test]
fn more_parts_share_evenly_too() {
    let graph = grid(24);
    for count in [3, 4, 7] {
        let parts = partition(&graph, count);
        let weights = weights(&graph, &parts);
        assert_eq!(weights.len(), usize::from(count));
        let share = 24 * 24 / u64::from(count);
        for weight in &weights {
            assert!(weight.abs_diff(share) <= share / 4, "{weights:?}");
        }
    }
}

#[test]
fn light_edges_are_cut_and_heavy_nodes_fit() {
    // The graph has two heavy clusters, a light bridge between them, and one node as heavy as a
    // cluster.
    let mut graph = Graph::new(21);
    for clump in [0, 10] {
        for a in clump..clump + 10 {
            for b in a + 1..clump + 10 {
                graph.connect(a, b, 5);
            }
        }
    }
    graph.connect(9, 10, 1);
    graph.connect(20, 0, 1);
    let parts = partition(&graph, 2);
    assert!((0..10).all(|node| parts[node] == parts[0]), "{parts:?}");
    assert!((10..20).all(|node| parts[node] == parts[10]), "{parts:?}");
    assert_ne!(parts[0], parts[10]);
    // No edges, one node that is far too heavy, and more parts than nodes: this must not loop
    // endlessly.
    let mut loose = Graph::new(5);
    loose.nodes[3] = 1_000;
    assert_eq!(partition(&loose, 2).len(), 5);
    assert_eq!(partition(&Graph::new(2), 9).len(), 2);
    assert!(partition(&Graph::new(0), 3).is_empty());
}

#[test]
fn a_dumbbell_is_cut_at_its_bar_unless_that_is_too_short() {
    let build = |bar_us| {
        let mut network = NetworkBuilder::new(1);
        let access = LinkConfig::new(1_000_000_000, Duration::from_ms(1));
        let bar = LinkConfig::new(10_000_000_000, Duration::from_us(bar_us));
        let ends = dumbbell(&mut network, "", 40, &access, &bar);
        let mut world = network.build().unwrap();
        for (from, to) in ends.left.iter().zip(&ends.right).take(3) {
            world.add_tcp(*from, *to, TcpConfig::default()).unwrap();
        }
        world
    };
    let world = build(500);
    let owners = of_world(&world, 2, Duration::from_us(100));
    let cut = Cut::new(&world, owners).unwrap();
    assert_eq!(cut.lookahead(), Duration::from_us(500));
    assert_eq!(cut.links().len(), 2);

    let world = build(10);
    let owners = of_world(&world, 2, Duration::from_us(100));
    let cut = Cut::new(&world, owners).unwrap();
    assert_eq!(cut.lookahead(), Duration::from_ms(1), "the bar stays whole");
}

#[test]
fn fluid_stays_in_one_engine_where_it_can() {
    let mut network = NetworkBuilder::new(1);
    let link = LinkConfig::new(1_000_000_000, Duration::from_ms(1));
    let hosts = ring(&mut network, "", 8, &link, &link);
    let mut world = network.build().unwrap();
    let rate_bps = 1_000_000;
    let fluid = FluidConfig::new(FluidPattern::Constant { rate_bps });
    let crosses = |world: &World, cut: &Cut| {
        let mut links = cut.links().iter();
        links.any(|(port, ..)| world.has_fluid(*port))
    };
    for (from, to) in [(0, 1), (4, 6)] {
        world
            .add_fluid(hosts[from], hosts[to], fluid.clone())
            .unwrap();
    }
    let owners = of_world(&world, 2, Duration::from_us(100));
    let cut = Cut::new(&world, owners).unwrap();
    assert!(cut.engines() == 2 && !crosses(&world, &cut));
    let cut = propose(&world, 2, &[]).expect("a cut").cut;
    assert!(!crosses(&world, &cut));

    for from in 0..8 {
        world
            .add_fluid(hosts[from], hosts[(from + 1) % 8], fluid.clone())
            .unwrap();
    }
    let cut = propose(&world, 2, &[]).expect("a cut all the same").cut;
    assert!(cut.engines() == 2 && crosses(&world, &cut));
}

#[test]
fn a_cut_without_delay_is_refused_with_the_place() {
    let mut network = NetworkBuilder::new(1);
    let (a, b) = (network.host("a"), network.host("b"));
    network.connect(a, b, LinkConfig::new(1_000_000, Duration::ZERO));
    let world = network.build().unwrap();
    let refused = Cut::new(&world, vec![0, 1]).unwrap_err();
    assert_eq!(refused, CutError::NoDelay("a".into(), "b".into()));
    assert_eq!(
        Cut::new(&world, vec![0]).unwrap_err(),
        CutError::Owners(2, 1)
    );
}

/// Creates four sites in a row with two hosts each. The cables between sites have 1 ms, 20 ms and 5
/// ms.
fn sites() -> (timeloom_net::World, Vec<timeloom_net::Node>) {
    let mut network = NetworkBuilder::new(1);
    let link = |us| LinkConfig::new(1_000_000_000, Duration::from_us(us));
    let routers: Vec<_> = (0..4)
        .map(|number| network.router(format!("r{number}")))
        .collect();
    for (between, us) in routers.windows(2).zip([1_000, 20_000, 5_000]) {
        network.connect(between[0], between[1], link(us));
    }
    for (number, router) in routers.iter().enumerate() {
        for host in 0..2 {
            let host = network.host(format!("h{number}-{host}"));
            network.connect(host, *router, link(0));
        }
    }
    (network.build().unwrap(), routers)
}

#[test]
fn the_longest_cable_is_cut_where_that_shares_the_work_well() {
    let (world, routers) = sites();
    let two = propose(&world, 2, &[]).unwrap();
    assert_eq!(two.cut.lookahead(), Duration::from_ms(20));
    assert!(two.imbalance() < 1.01, "{two:?}");
    assert_eq!(two.cut.links().len(), 2, "one cable");
    let four = propose(&world, 4, &[]).unwrap();
    assert_eq!(four.cut.lookahead(), Duration::from_ms(1));
    let five = propose(&world, 5, &[]);
    assert!(five.is_none(), "cables without delay stay whole");
    // If all real programs are at one end of the row, the middle does not halve the work.
    let busy = [routers[3], routers[2]];
    let laden = propose(&world, 2, &busy).unwrap();
    assert_eq!(laden.cut.lookahead(), Duration::from_ms(5), "{laden:?}");
}

#[test]
fn unassigned_nodes_go_with_the_nearest_assigned_node() {
    let (world, routers) = sites();
    let owners = spread(&world, &[(routers[0], 0), (routers[3], 1)]);
    let found: Vec<_> = routers.iter().map(|node| owners[node.0 as usize]).collect();
    assert_eq!(found, [0, 0, 1, 1]);
    let cut = Cut::new(&world, owners).unwrap();
    let lookahead = cut.lookahead();
    assert_eq!(
        lookahead,
        Duration::from_ms(20),
        "hosts go with their routers"
    );
}
