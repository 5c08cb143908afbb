//! Tests of stations with IPv6, which must send no additional messages.

use timeloom_fabric::{NetworkSpec, StationDilation, StationSpec, StationTimers};

use crate::world::{build, host, inside, line};

/// Returns a network in which h1 has addresses of both kinds, and h2 an IPv6 address only.
fn both() -> NetworkSpec {
    let mut spec = line(2, None);
    let own = |last| (format!("fd00::{last}").parse().expect("an address"), 64);
    spec.stations[0].addresses.push(own(1));
    let second: &mut StationSpec = &mut spec.stations[1];
    second.addresses = vec![own(2)];
    spec
}

/// Returns the value of the kernel's IPv6 counter of this name.
fn counted(host: &timeloom_fabric::Namespace, name: &str) -> u64 {
    let all = inside(host, "cat /proc/net/snmp6");
    let line = all.lines().find_map(|line| line.strip_prefix(name));
    let count = line.unwrap_or_else(|| panic!("no {name} in {all}"));
    count.trim().parse().expect("a number")
}

#[test]
fn the_first_ping_over_ipv6_arrives_without_earlier_solicitations() {
    let fabric = build(&both());
    let [h1, h2] = ["h1", "h2"].map(|name| host(&fabric, name));
    for host in [h1, h2] {
        assert_eq!(counted(host, "Icmp6OutRouterSolicits"), 0);
        assert_eq!(counted(host, "Icmp6OutNeighborSolicits"), 0);
        assert!(counted(host, "Icmp6OutMLDv2Reports") > 0, "they are over");
    }
    // Directly after the construction, no address waits for duplicate address detection.
    let said = inside(h1, "ping -6 -n -c 3 -i 0.2 -W 10 fd00::2");
    assert!(said.contains("3 packets transmitted, 3 received"), "{said}");
    let neighbours = inside(h1, "ip -6 -o neigh show dev eth0");
    let mac = fabric.mac("h2").expect("h2 has one").to_string();
    assert!(
        neighbours.contains("fd00::2") && neighbours.contains(&mac),
        "{neighbours}"
    );
    let itself = inside(h2, "ping -6 -n -c 1 -W 10 ::1");
    assert!(itself.contains("1 received"), "{itself}");

    let addresses = inside(h2, "ip -o addr show dev eth0");
    assert!(addresses.contains("inet6 fd00::2/64"), "{addresses}");
    assert!(addresses.contains("inet6 fe80::"), "{addresses}");
    assert!(
        !addresses.contains("inet ") && !addresses.contains("tentative"),
        "{addresses}"
    );
}

#[test]
fn neighbours_of_ipv6_are_waited_for_by_virtual_time() {
    let fabric = build(&both());
    let h2 = host(&fabric, "h2");
    let names = [
        "neigh/eth0/retrans_time_ms",
        "neigh/eth0/base_reachable_time_ms",
        "neigh/eth0/delay_first_probe_time",
        "neigh/eth0/gc_stale_time",
        "icmp/ratelimit",
        "ip6frag_time",
    ];
    let read = || -> Vec<u64> {
        let file = |name: &&str| inside(h2, &format!("cat /proc/sys/net/ipv6/{name}"));
        let number = |name| file(name).trim().parse().expect("a number");
        names.iter().map(number).collect()
    };
    let found = read();
    let mut timers = StationTimers::of(h2).expect("a descriptor");
    let dilation = StationDilation {
        timers: &mut timers,
        dilation: 10.0,
        first: std::time::Duration::from_secs(1),
    };
    StationTimers::dilate(std::iter::once(dilation)).expect("this kernel has the settings");
    let tenfold: Vec<u64> = found.iter().map(|value| value * 10).collect();
    assert_eq!(read(), tenfold);
    // The minimum timeout is also set on routes to other IPv6 hosts.
    let routes = inside(h2, "ip -6 -d route show fd00::/64");
    assert!(routes.contains("rto_min lock 2s"), "{routes}");
}

#[test]
fn a_host_keeps_its_address_of_ipv6_beside_its_machine() {
    let spec = both();
    let fabric = build(&spec);
    let h1 = host(&fabric, "h1");
    h1.attach_machine(&spec.stations[0]).expect("a card for it");
    let card = inside(h1, "ip -o addr show dev eth0");
    for own in ["inet 10.0.0.1/16", "inet6 fd00::1/64", "inet6 fe80::"] {
        assert!(card.contains(own), "{own}: {card}");
    }
    let cable = inside(h1, "ip -o addr show dev wire0");
    assert!(!cable.contains("inet"), "{cable}");
    let said = inside(h1, "ping -6 -n -c 1 -W 60 fd00::2");
    assert!(said.contains("1 received"), "{said}");
}
