//! Tests that stations can reach each other, and of the delays directly after construction.

use std::time::Duration;

use crate::world::{H1, H2, build, host, inside, line, link, ping, station};
use timeloom_fabric::{MacAddress, NetworkSpec, StationDilation, StationTimers};

#[test]
fn the_first_ping_over_four_switches_arrives() {
    let fabric = build(&line(4, None));
    let h1 = host(&fabric, "h1");
    // There is one attempt directly after the construction, because no frame may be lost while
    // links come up.
    let first = ping(h1, H2, Duration::from_millis(100)).expect("a reply to the very first echo");
    let mut times: Vec<_> = (0..100)
        .map(|_| ping(h1, H2, Duration::from_secs(1)).expect("a reply"))
        .collect();
    times.sort();
    println!(
        "ping over 4 switches: first {first:?}, median {:?}, worst {:?}",
        times[50], times[99]
    );

    let neighbours = inside(h1, "ip -o neigh show dev eth0");
    let mac = fabric.mac("h2").expect("h2 has one").to_string();
    assert!(neighbours.contains(&mac), "{neighbours}: no {mac}");
    assert!(neighbours.contains(&H2.to_string()), "{neighbours}");
}

#[test]
fn stations_are_set_up_as_described() {
    let mut spec = line(2, None);
    let mac = MacAddress([2, 0, 0x5e, 0, 0, 7]);
    spec.stations[0].mac = Some(mac);
    let fabric = build(&spec);
    assert_eq!(fabric.mac("h1"), Some(mac));
    let h1 = host(&fabric, "h1");
    let links = inside(h1, "ip -o link");
    assert_eq!(links.lines().count(), 2, "lo and eth0 only: {links}");
    assert!(links.contains("lo: <LOOPBACK,UP,LOWER_UP>"), "{links}");
    assert!(
        links.contains("eth0@") && links.contains(&mac.to_string()),
        "{links}"
    );
    let addresses = inside(h1, "ip -o addr show dev eth0");
    assert!(
        addresses.contains("inet 10.0.0.1/16 brd 10.0.255.255"),
        "{addresses}"
    );
    assert!(!addresses.contains("inet6"), "{addresses}");
    assert_eq!(inside(h1, "cat /proc/sys/net/ipv4/ip_forward"), "0\n");

    let bridge = inside(fabric.fabric_namespace(), "ip -d -o link show dev s1");
    for setting in [
        "stp_state 0",
        "forward_delay 0",
        "mcast_snooping 0",
        "ageing_time 30000",
    ] {
        assert!(bridge.contains(setting), "{setting}: {bridge}");
    }
}

/// Tests of kernel settings; without any one of them, TCP depends on measured time.
#[test]
fn the_tcp_of_a_station_is_made_to_go_by_acknowledgements_alone() {
    let fabric = build(&line(1, None));
    let (h1, h2) = (host(&fabric, "h1"), host(&fabric, "h2"));
    timeloom_fabric::make_self_clocking(h1, None).expect("this kernel has the settings");
    // A second call changes nothing.
    timeloom_fabric::make_self_clocking(h1, None).expect("this kernel has the settings");
    let setting = |of, key| inside(of, &format!("cat /proc/sys/net/ipv4/{key}"));
    assert_eq!(setting(h1, "tcp_congestion_control"), "reno\n");
    assert_eq!(setting(h1, "tcp_rmem"), "4096\t368640\t368640\n");
    let routes = inside(h1, "ip -4 route");
    assert_eq!(routes.lines().count(), 1, "{routes}");
    assert!(
        routes.contains("10.0.0.0/16 dev eth0")
            && routes.contains("rto_min lock 120s")
            && routes.contains("quickack 1"),
        "{routes}"
    );
    let other = inside(h2, "ip -4 route");
    assert!(!other.contains("quickack"), "{other}");
    assert_ne!(setting(h2, "tcp_rmem"), setting(h1, "tcp_rmem"));
}

/// Default first timeout of a connection.
const FIRST: Duration = Duration::from_secs(1);

#[test]
fn the_timers_of_a_station_are_as_long_as_virtual_time_has_them() {
    let fabric = build(&line(1, None));
    let h1 = host(&fabric, "h1");
    let setting = |key: &str| {
        let text = inside(h1, &format!("cat /proc/sys/net/ipv4/{key}"));
        text.trim().parse::<u64>().expect("a number")
    };
    let keys = [
        "neigh/eth0/retrans_time_ms",
        "neigh/eth0/delay_first_probe_time",
        "ipfrag_time",
        "tcp_syn_retries",
    ];
    let found = keys.map(setting);
    let h2 = host(&fabric, "h2");
    let mut both = [h1, h2].map(|host| StationTimers::of(host).expect("a descriptor"));
    let mut dilate = |factors: [f64; 2]| {
        let all = both.iter_mut().zip(factors);
        let all = all.map(|(timers, dilation)| StationDilation {
            timers,
            dilation,
            first: FIRST,
        });
        StationTimers::dilate(all).expect("this kernel has the settings");
    };
    dilate([8.0, 2.0]);
    let [retrans, probe, fragments, retries] = keys.map(setting);
    assert_eq!(
        [retrans, probe, fragments],
        [8 * found[0], 8 * found[1], 8 * found[2]]
    );
    assert!(retries > found[3], "{retries}");
    let routes = inside(h1, "ip -4 route");
    assert!(routes.contains("rto_min lock 1.6s"), "{routes}");
    let other = inside(h2, "ip -4 route");
    assert!(other.contains("rto_min lock 400ms"), "{other}");
    // Repeated changes multiply the original values, not the changed ones.
    dilate([3.0, 1.0]);
    assert_eq!(setting(keys[0]), 3 * found[0]);
    dilate([1.0, 1.0]);
    assert_eq!(keys.map(setting), found);
    // A program may have removed its host's interface.
    inside(h2, "ip link delete eth0");
    dilate([1.0, 2.0]);
}

#[test]
fn ports_are_found_by_the_names_of_the_description() {
    let fabric = build(&line(2, None));
    let port = |a, b| {
        fabric
            .port(a, b)
            .map(|port| (port.namespace.name(), port.interface))
    };
    assert_eq!(port("s1", "h1"), Some(("fabric", "s1-h1")));
    assert_eq!(port("h1", "s1"), Some(("h1", "eth0")));
    assert_eq!(port("s2", "s1"), Some(("fabric", "s2-s1")));
    assert_eq!(port("s2", "h1"), None);
    let tap = |a, b| fabric.link_interface(a, b).map(|port| port.interface);
    assert_eq!(tap("h1", "s1"), Some("s1-h1"));
    assert_eq!(tap("s1", "s2"), Some("s1-s2"));
    assert!(fabric.station("s1").is_none());
}

#[test]
fn long_names_and_a_cable_without_a_switch() {
    let spec = NetworkSpec {
        switches: vec!["substation-west".into(), "substation-west-hall-2".into()],
        stations: vec![
            station("relay-feeder-1", H1),
            station("control-room", H2),
            station("left", [10, 1, 0, 1].into()),
            station("right", [10, 1, 0, 2].into()),
        ],
        links: vec![
            link("relay-feeder-1", "substation-west", None),
            link(
                "substation-west",
                "substation-west-hall-2",
                Some(100_000_000),
            ),
            link("control-room", "substation-west-hall-2", None),
            link("left", "right", Some(10_000_000)),
        ],
        ..NetworkSpec::default()
    };
    let fabric = build(&spec);
    let reaches = |from, to| ping(host(&fabric, from), to, Duration::from_secs(1)).is_some();
    assert!(reaches("relay-feeder-1", H2));
    assert!(reaches("left", [10, 1, 0, 2].into()));
    let tap = fabric.link_interface("left", "right").expect("the cable");
    assert_eq!((tap.namespace.name(), tap.interface), ("left", "eth0"));
}

#[test]
fn sockets_and_programs_land_inside() {
    let fabric = build(&line(1, None));
    let (h1, h2) = (host(&fabric, "h1"), host(&fabric, "h2"));
    let listener = h2
        .tcp_listener((H2, 502))
        .expect("a listener on its own address");
    assert!(
        h1.tcp_listener((H2, 502)).is_err(),
        "that address is not h1's"
    );
    let client = h1
        .run(|| std::net::TcpStream::connect((H2, 502)))
        .unwrap()
        .expect("connect");
    let (_, peer) = listener.accept().expect("accept");
    assert_eq!(peer, client.local_addr().unwrap());
    assert_eq!(
        h2.udp_socket((H2, 0)).unwrap().local_addr().unwrap().ip(),
        H2
    );
    let link = inside(h1, "readlink /proc/self/ns/net");
    assert_eq!(link.trim(), format!("net:[{}]", h1.inode().unwrap()));
}

#[test]
fn forty_stations_are_there_once_it_is_built() {
    let spec = NetworkSpec {
        switches: vec!["core".into(), "edge".into()],
        stations: (1..=40)
            .map(|i| station(&format!("h{i}"), [10, 0, 0, i].into()))
            .collect(),
        links: (1..=40)
            .map(|i| {
                link(
                    &format!("h{i}"),
                    if i % 2 == 0 { "core" } else { "edge" },
                    Some(100_000_000),
                )
            })
            .chain([link("core", "edge", None)])
            .collect(),
        ..NetworkSpec::default()
    };
    let fabric = build(&spec);
    // No port has to come up or to learn first: every port of both switches forwards already (with
    // a spanning tree it would listen first), and every interface has its carrier.
    let ports = inside(fabric.fabric_namespace(), "bridge -o link show");
    let forwarding = |line: &&str| line.contains("state forwarding");
    assert_eq!(ports.lines().filter(forwarding).count(), 42, "{ports}");
    for i in 1..=40 {
        let eth0 = inside(
            host(&fabric, &format!("h{i}")),
            "ip -o address show dev eth0",
        );
        assert!(eth0.contains(&format!("10.0.0.{i}/16")), "{eth0}");
        let eth0 = inside(host(&fabric, &format!("h{i}")), "ip -o link show dev eth0");
        assert!(
            eth0.contains("LOWER_UP") && eth0.contains("state UP"),
            "{eth0}"
        );
    }
    // The first request is therefore answered.
    let first = ping(
        host(&fabric, "h1"),
        [10, 0, 0, 40].into(),
        Duration::from_secs(120),
    );
    assert!(first.is_some());
}
