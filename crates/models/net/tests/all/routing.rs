//! Switches, routers, ARP, echo requests and topologies; and invalid configurations.

use std::net::Ipv4Addr;

use crate::common::{GBIT, MBIT, bare, ms, run};
use timeloom_net::topology::{Campus, campus, dumbbell, fat_tree, line, ring, star, tree};
use timeloom_net::{
    BuildError, LinkConfig, NetworkBuilder, Node, PacketSize, Pattern, PortMode, TcpConfig,
    TrafficConfig,
};
use timeloom_time::{Duration, Instant};

fn gigabit() -> LinkConfig {
    LinkConfig::new(GBIT, Duration::from_us(10))
}

/// Sends pings from the first host to all others, all of which must be answered. Returns the
/// greatest round-trip time of the second pings (the first ones resolve addresses), and the hops of
/// all packets.
fn ping_all(network: NetworkBuilder, hosts: &[Node]) -> (u64, u64) {
    let mut world = network.build().unwrap();
    let pings: Vec<_> = hosts[1..]
        .iter()
        .flat_map(|other| [(hosts[0], *other), (*other, hosts[0])])
        .map(|(from, to)| world.add_traffic(from, to, TrafficConfig::ping()).unwrap())
        .collect();
    let mut engine = run(world, ms(900));
    let first: Vec<_> = pings
        .iter()
        .map(|ping| engine.model.traffic(*ping))
        .collect();
    engine.run_until(ms(1_900), u64::MAX);
    let mut longest = 0;
    for (ping, first) in pings.iter().zip(first) {
        let stats = engine.model.traffic(*ping);
        assert_eq!((stats.sent, stats.received), (2, 2), "{ping:?}");
        longest = longest.max(stats.delay_sum_ns - first.delay_sum_ns);
    }
    let counters = engine.model.counters();
    assert_eq!(
        counters.no_route + counters.ttl_exceeded + counters.arp_failed,
        0
    );
    (longest, counters.hops)
}

#[test]
fn every_topology_connects_all_its_hosts() {
    let mut cases = Vec::new();
    let mut case = |name, make: &dyn Fn(&mut NetworkBuilder) -> Vec<Node>, count| {
        let mut network = NetworkBuilder::new(1);
        let hosts = make(&mut network);
        assert_eq!(hosts.len(), count, "{name}");
        cases.push((name, ping_all(network, &hosts)));
    };
    let link = gigabit();
    case("star", &|n| star(n, "", 20, &link), 20);
    case("line", &|n| line(n, "", 8, &link, &link), 8);
    case("ring", &|n| ring(n, "", 8, &link, &link), 8);
    case("tree", &|n| tree(n, "", 3, 3, &link), 27);
    case("fat tree", &|n| fat_tree(n, "", 4, &link), 16);
    case(
        "dumbbell",
        &|n| {
            let ends = dumbbell(n, "", 5, &link, &link);
            [ends.left, ends.right].concat()
        },
        10,
    );
    let shape = Campus {
        backbone: 4,
        buildings: 2,
        lans: 2,
        hosts: 3,
        trunk: link.clone(),
        lan: link.clone(),
    };
    case("campus", &|n| campus(n, "", &shape), 48);
    for (name, (longest, hops)) in cases {
        // In each direction there are up to 10 links, each with a delay of 10 µs and about a
        // microsecond of transmission, and some queueing.
        assert!(longest < 600_000 && hops > 0, "{name}: {longest} ns");
    }
}

#[test]
fn the_ring_goes_the_short_way() {
    // On a ring of 8 routers, there are at most 4 links between routers and 2 to hosts, in each
    // direction.
    let mut network = NetworkBuilder::new(1);
    let link = bare(GBIT, Duration::from_us(10), 100);
    let hosts = ring(&mut network, "", 8, &link, &link);
    let mut world = network.build().unwrap();
    let ping = world
        .add_traffic(hosts[0], hosts[4], TrafficConfig::ping())
        .unwrap();
    let stats = run(world, ms(500)).model.traffic(ping);
    assert_eq!(stats.delay_sum_ns, 2 * 6 * (10_000 + 84 * 8));
}

#[test]
fn arp_is_asked_once_and_then_known() {
    let mut network = NetworkBuilder::new(1);
    let hosts = star(&mut network, "", 3, &bare(GBIT, Duration::from_us(10), 100));
    let mut world = network.build().unwrap();
    let ping = world
        .add_traffic(hosts[0], hosts[1], TrafficConfig::ping())
        .unwrap();
    let mut engine = run(world, ms(500));
    let first = engine.model.traffic(ping).delay_sum_ns;
    engine.run_until(ms(1_500), u64::MAX);
    let second = engine.model.traffic(ping).delay_sum_ns - first;
    // Each direction has two links, through the switch. The first ping additionally waits for an
    // ARP request and its reply, of 46 bytes each.
    let way = |bytes: u64| 2 * (10_000 + bytes * 8);
    assert_eq!(second, 2 * way(84));
    assert_eq!(first, 2 * way(84) + 2 * way(46));
    // The request was flooded to the third host, which did not answer it.
    assert_eq!(engine.model.counters().not_for_us, 0);
}

/// Returns two switches with a trunk between them, and hosts of two VLANs at each.
fn two_vlans() -> (NetworkBuilder, [Node; 4]) {
    let mut network = NetworkBuilder::new(1);
    let switches = [network.switch("s0"), network.switch("s1")];
    network.connect(switches[0], switches[1], gigabit());
    let hosts = ["a10", "b10", "a20", "b20"].map(|name| network.host(name));
    for (index, host) in hosts.iter().enumerate() {
        let (_, port) = network.connect(*host, switches[index % 2], gigabit());
        network.set_mode(port, PortMode::Access(if index < 2 { 10 } else { 20 }));
    }
    (network, hosts)
}

#[test]
fn vlans_do_not_hear_one_another() {
    let (network, [a10, b10, a20, b20]) = two_vlans();
    let mut world = network.build().unwrap();
    assert!(matches!(
        world.add_traffic(a10, a20, TrafficConfig::ping()),
        Err(BuildError::NoRoute(..))
    ));
    let same = world.add_traffic(a10, b10, TrafficConfig::ping()).unwrap();
    let other = world.add_traffic(a20, b20, TrafficConfig::ping()).unwrap();
    let engine = run(world, ms(500));
    assert_eq!(engine.model.traffic(same).received, 1);
    assert_eq!(engine.model.traffic(other).received, 1);
    // In each VLAN there are 3 hops for the ARP request, 3 for the reply, and 2 × 3 for the ping. A
    // leak between VLANs would cause more.
    assert_eq!(engine.model.counters().hops, 2 * 12);
}

#[test]
fn a_router_joins_vlans() {
    let (mut network, [a10, b10, a20, _]) = two_vlans();
    let router = network.router("r");
    for vlan in [10, 20] {
        let (_, port) = network.connect(router, Node(0), gigabit());
        network.set_mode(port, PortMode::Access(vlan));
    }
    ping_all(network, &[a10, b10, a20]);
}

#[test]
fn a_static_route_overrules_the_shortest_path() {
    let link = bare(GBIT, Duration::from_us(10), 100);
    let build = |detour: bool| {
        let mut network = NetworkBuilder::new(1);
        let hosts = ring(&mut network, "", 4, &link, &link);
        let port = network.port(hosts[1], 0).unwrap();
        network.set_address(port, Ipv4Addr::new(192, 168, 7, 1), 24);
        if detour {
            // Routers are numbered 0 … 3 first. The static route makes router 0 send in the longer
            // direction.
            let prefix = (Ipv4Addr::new(192, 168, 0, 0), 16);
            network.route(Node(0), prefix, Node(3));
            network.route(Node(3), prefix, Node(2));
        }
        let mut world = network.build().unwrap();
        let flow = TrafficConfig::udp(
            Pattern::Constant { rate_bps: MBIT },
            PacketSize::Fixed(1000),
        );
        let source = world.add_traffic(hosts[0], hosts[1], flow).unwrap();
        let stats = run(world, ms(100)).model.traffic(source);
        stats.delay_sum_ns / stats.received
    };
    assert_eq!(build(false), 3 * (10_000 + 8_000));
    assert_eq!(build(true), 5 * (10_000 + 8_000));
}

#[test]
fn a_routing_loop_ends_with_the_time_to_live() {
    let link = bare(GBIT, Duration::from_us(10), 100);
    let mut network = NetworkBuilder::new(1);
    let hosts = ring(&mut network, "", 4, &link, &link);
    let port = network.port(hosts[1], 0).unwrap();
    network.set_address(port, Ipv4Addr::new(192, 168, 7, 1), 24);
    let prefix = (Ipv4Addr::new(192, 168, 7, 0), 24);
    network.route(Node(0), prefix, Node(3));
    network.route(Node(3), prefix, Node(0));
    let mut world = network.build().unwrap();
    world
        .add_traffic(hosts[0], hosts[1], TrafficConfig::ping())
        .unwrap();
    let engine = run(world, ms(500));
    assert_eq!(engine.model.counters().ttl_exceeded, 1);
    assert_eq!(engine.model.counters().hops, 64);
    assert_eq!(engine.model.packets_alive(), 0);
}

#[test]
fn equal_paths_of_a_fat_tree_share_the_load() {
    let mut network = NetworkBuilder::new(1);
    let hosts = fat_tree(&mut network, "", 4, &gigabit());
    let mut world = network.build().unwrap();
    // All hosts of pod 0 send to pod 3, in many small flows. 4 hosts × 900 Mbit/s fit on the 4
    // uplinks of 1 Gbit/s only if all uplinks are used.
    let flow = TrafficConfig {
        start: Instant::ZERO,
        ..TrafficConfig::udp(
            Pattern::Poisson {
                mean: Duration::from_us(800),
            },
            PacketSize::Fixed(1000),
        )
    };
    let mut flows = Vec::new();
    for host in 0..4 {
        for _ in 0..64 {
            flows.push(
                world
                    .add_traffic(hosts[host], hosts[12 + host], flow.clone())
                    .unwrap(),
            );
        }
    }
    let engine = run(world, ms(200));
    let stats = flows.iter().map(|flow| engine.model.traffic(*flow));
    let (sent, received) = stats.fold((0, 0), |(sent, received), stats| {
        (sent + stats.sent, received + stats.received)
    });
    assert!(received as f64 > 0.97 * sent as f64, "{received} of {sent}");
}

#[test]
fn invalid_networks_are_refused_with_the_place() {
    type Make = fn(&mut NetworkBuilder, Node, Node, Node);
    let cases: [(Make, &str); 8] = [
        (
            |n, a, _, r| _ = n.connect(a, r, gigabit()),
            "the port of host `a` is used twice",
        ),
        (
            |n, _, _, _| _ = n.host("lonely"),
            "host `lonely` has no link",
        ),
        (|n, _, _, _| _ = n.router("a"), "two nodes are named `a`"),
        (
            |n, _, _, r| _ = n.connect(r, r, gigabit()),
            "from `r` to itself",
        ),
        (
            |n, _, _, r| {
                let s = n.switch("s");
                n.connect(
                    s,
                    r,
                    LinkConfig {
                        rate_bps: 0,
                        ..gigabit()
                    },
                );
            },
            "`s` – `r` has a rate of 0",
        ),
        (
            |n, a, b, _| {
                for host in [a, b] {
                    let port = n.port(host, 0).unwrap();
                    n.set_address(port, Ipv4Addr::new(10, 1, 1, 1), 24);
                }
            },
            "`a` and `b` both have 10.1.1.1",
        ),
        (
            |n, _, _, _| {
                let s = ["s0", "s1", "s2"].map(|name| n.switch(name));
                let h = n.host("h");
                n.connect(h, s[0], gigabit());
                for index in 0..3 {
                    n.connect(s[index], s[(index + 1) % 3], gigabit());
                }
            },
            "`s2` – `s0` closes a ring of switches",
        ),
        (
            |n, _, b, r| n.route(b, (Ipv4Addr::UNSPECIFIED, 0), Node(r.0 + 1)),
            "`far` is not a neighbour of `b`",
        ),
    ];
    for (spoil, message) in cases {
        let mut network = NetworkBuilder::new(1);
        let (a, b) = (network.host("a"), network.host("b"));
        let router = network.router("r");
        let far = network.router("far");
        let beyond = network.host("beyond");
        network.connect(a, router, gigabit());
        network.connect(b, router, gigabit());
        network.connect(far, beyond, gigabit());
        spoil(&mut network, a, b, router);
        let error = network.build().unwrap_err().to_string();
        assert!(
            error.contains(message),
            "`{error}` does not say `{message}`"
        );
    }
}

#[test]
fn parts_that_are_not_connected_have_no_route() {
    let mut network = NetworkBuilder::new(1);
    let ends = [0, 1].map(|index| {
        let router = network.router(format!("r{index}"));
        let host = network.host(format!("h{index}"));
        network.connect(host, router, gigabit());
        (host, router)
    });
    let mut world = network.build().unwrap();
    let ping = TrafficConfig::ping;
    let error = world.add_traffic(ends[0].0, ends[1].0, ping()).unwrap_err();
    assert_eq!(error.to_string(), "there is no route from `h0` to `h1`");
    let error = world.add_traffic(ends[0].0, ends[1].1, ping()).unwrap_err();
    assert_eq!(error.to_string(), "`r1` is not a host");
}

#[test]
fn traffic_that_makes_no_sense_is_refused() {
    let link = bare(GBIT, Duration::ZERO, 10);
    let (network, [a, _, b]) = crate::common::pair(1, link.clone(), link);
    let mut world = network.build().unwrap();
    let zero = Duration::ZERO;
    let trace = |packets: &[(i64, u16)], every| Pattern::Trace {
        packets: packets
            .iter()
            .map(|(at, size)| (Duration::from_ns(*at), *size))
            .collect(),
        every,
    };
    for (pattern, size) in [
        (Pattern::Constant { rate_bps: 0 }, PacketSize::Fixed(100)),
        (Pattern::Constant { rate_bps: 1 }, PacketSize::Fixed(0)),
        (
            Pattern::Constant { rate_bps: 1 },
            PacketSize::Exponential(f64::NAN),
        ),
        (Pattern::Poisson { mean: zero }, PacketSize::Fixed(100)),
        (
            Pattern::OnOff {
                rate_bps: 1,
                mean_on: zero,
                mean_off: zero,
            },
            PacketSize::Fixed(100),
        ),
        (trace(&[(5, 100), (4, 100)], None), PacketSize::Fixed(0)),
        (trace(&[(-1, 100)], None), PacketSize::Fixed(0)),
        (trace(&[(0, 100)], Some(zero)), PacketSize::Fixed(0)),
    ] {
        let config = TrafficConfig::udp(pattern, size);
        let result = world.add_traffic(a, b, config.clone());
        assert!(
            matches!(result, Err(BuildError::BadTraffic(_))),
            "{config:?}"
        );
    }
    let config = TcpConfig {
        segment_bytes: 65_500,
        ..TcpConfig::default()
    };
    assert!(matches!(
        world.add_tcp(a, b, config),
        Err(BuildError::BadTraffic(_))
    ));
}
