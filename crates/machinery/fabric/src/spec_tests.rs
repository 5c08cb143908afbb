use super::*;

fn station(name: &str, last: u8) -> StationSpec {
    StationSpec {
        name: name.to_owned(),
        addresses: vec![(Ipv4Addr::new(10, 0, 0, last).into(), 24)],
        mac: None,
    }
}

fn link(a: &str, b: &str) -> LinkSpec {
    LinkSpec {
        a: a.to_owned(),
        b: b.to_owned(),
        rate_bits_per_s: None,
    }
}

fn v6(address: &str, prefix_len: u8) -> (IpAddr, u8) {
    (address.parse().expect("an address"), prefix_len)
}

/// Returns the network h1 - s1 - s2 - h2.
fn line() -> NetworkSpec {
    NetworkSpec {
        switches: vec!["s1".to_owned(), "s2".to_owned()],
        stations: vec![station("h1", 1), station("h2", 2)],
        links: vec![link("h1", "s1"), link("s1", "s2"), link("s2", "h2")],
        ..NetworkSpec::default()
    }
}

fn refusal(change: impl FnOnce(&mut NetworkSpec)) -> String {
    let mut spec = line();
    change(&mut spec);
    spec.validate().expect_err("must be refused").to_string()
}

#[test]
fn a_sound_description_passes() {
    assert_eq!(line().validate(), Ok(()));
    assert_eq!(NetworkSpec::default().validate(), Ok(()));
    let mut of_both = line();
    of_both.stations[0].addresses.push(v6("fd00::1", 64));
    of_both.stations[1].addresses = vec![v6("fd00::2", 64)];
    assert_eq!(of_both.validate(), Ok(()));
}

#[test]
fn every_contradiction_is_named() {
    let cases: Vec<(&str, String)> = vec![
        (
            "two nodes are called `s1`",
            refusal(|spec| spec.switches.push("s1".into())),
        ),
        (
            "two nodes are called `s2`",
            refusal(|spec| spec.stations.push(station("s2", 3))),
        ),
        (
            "`a b` cannot name a node",
            refusal(|spec| spec.switches.push("a b".into())),
        ),
        (
            "no switch or station `h9`",
            refusal(|spec| spec.links.push(link("s1", "h9"))),
        ),
        (
            "joins `s1` to itself",
            refusal(|spec| spec.links.push(link("s1", "s1"))),
        ),
        (
            "`s2` and `s1` are linked twice",
            refusal(|spec| spec.links.push(link("s2", "s1"))),
        ),
        (
            "`s3 - s1` closes a loop",
            refusal(|spec| {
                spec.switches.push("s3".into());
                spec.links.extend([link("s2", "s3"), link("s3", "s1")]);
            }),
        ),
        (
            "`h1` has 2 links",
            refusal(|spec| spec.links.push(link("h1", "s2"))),
        ),
        ("`h2` has no link", refusal(|spec| drop(spec.links.pop()))),
        (
            "have the address 10.0.0.1",
            refusal(|spec| spec.stations[1].addresses[0].0 = [10, 0, 0, 1].into()),
        ),
        (
            "10.0.0.1/33",
            refusal(|spec| spec.stations[0].addresses[0].1 = 33),
        ),
        (
            "10.0.0.1/0",
            refusal(|spec| spec.stations[0].addresses[0].1 = 0),
        ),
        (
            "10.0.0.255/24",
            refusal(|spec| spec.stations[0].addresses[0].0 = [10, 0, 0, 255].into()),
        ),
        (
            "127.0.0.1/24",
            refusal(|spec| spec.stations[0].addresses[0].0 = [127, 0, 0, 1].into()),
        ),
        (
            "fe80::1/64",
            refusal(|spec| spec.stations[0].addresses.push(v6("fe80::1", 64))),
        ),
        (
            "fd00::1/129",
            refusal(|spec| spec.stations[0].addresses.push(v6("fd00::1", 129))),
        ),
        (
            "have the address fd00::1",
            refusal(|spec| {
                for station in &mut spec.stations {
                    station.addresses.push(v6("fd00::1", 64));
                }
            }),
        ),
        (
            "`h1` has no address",
            refusal(|spec| spec.stations[0].addresses.clear()),
        ),
        (
            "not a unicast MAC",
            refusal(|spec| spec.stations[0].mac = Some(MacAddress([1; 6]))),
        ),
        (
            "have the MAC address",
            refusal(|spec| {
                spec.stations
                    .iter_mut()
                    .for_each(|station| station.mac = Some(MacAddress([2; 6])));
            }),
        ),
        (
            "the minimum is 8",
            refusal(|spec| spec.links[0].rate_bits_per_s = Some(7)),
        ),
    ];
    for (expected, message) in cases {
        assert!(
            message.contains(expected),
            "expected `{expected}` in: {message}"
        );
    }
}

#[test]
fn a_derived_mac_gives_way_to_a_given_one() {
    let mut spec = line();
    let natural = spec.macs();
    assert_eq!(natural, line().macs());
    spec.stations[0].mac = Some(natural[1]);
    let macs = spec.macs();
    assert_eq!(macs[0], natural[1]);
    assert_ne!(macs[1], natural[1]);
}

#[test]
fn broadcast_addresses() {
    let with_prefix = |prefix_len| broadcast([10, 0, 0, 5].into(), prefix_len);
    assert_eq!(with_prefix(24), Some([10, 0, 0, 255].into()));
    assert_eq!(with_prefix(30), Some([10, 0, 0, 7].into()));
    assert_eq!(with_prefix(31), None);
    assert_eq!(with_prefix(32), None);
}
