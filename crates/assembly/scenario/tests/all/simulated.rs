//! Simulated networks that cannot be built must be rejected before the start, with position and
//! fix.

use timeloom_scenario::parse;

pub(crate) const GOOD: &str = r#"schema = "timeloom/1"
name = "net"
time = { duration = "10 s" }
[network]
routers = ["r1"]
link = { delay = "1 ms" }
generate = [{ name = "g", shape = "star", size = 3 }]
traffic = [{ from = "g-h0", to = "g-h1", kind = "reno" }]
[system]
switches = ["s1"]
links = [
    { between = ["a", "s1"], rate = "10 Mbit/s", loss = 0.01 },
    { between = ["b", "s1"] },
    { between = ["s1", "r1"] },
    { between = ["c", "r1"] },
    { between = ["g-switch", "r1"] },
]
[system.hosts.a]
address = "10.1.0.1/24"
[system.hosts.b]
address = "10.1.0.2/24"
[system.hosts.c]
address = "10.2.0.1/30"
"#;

/// Changes the valid file. Returns the message of its mistake, and the line.
fn wrong(change: &str, to: &str) -> (String, String) {
    assert!(GOOD.contains(change), "{change}");
    let text = GOOD.replacen(change, to, 1);
    let errors = parse(&text, "net.toml", &[]).expect_err(&format!("{to} is wrong"));
    let mistakes: Vec<_> = errors.to_string().lines().map(str::to_owned).collect();
    assert_eq!(mistakes.len(), 1, "{mistakes:#?}");
    let number: usize = mistakes[0].split(':').nth(1).unwrap().parse().unwrap();
    let line = text.lines().nth(number - 1).unwrap().to_owned();
    (mistakes[0].clone(), line)
}

#[test]
fn the_good_one_is_good() {
    let plan = parse(GOOD, "net.toml", &[]).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(plan.simulated().unwrap().is_ok());
}

#[test]
fn each_fault_is_found_where_it_stands() {
    // Replaced text, new text, a part of the reported line, and a part of the message.
    let cases = [
        (
            r#"["b", "s1"]"#,
            r#"["b", "s2"]"#,
            "s2",
            "`s2` is not a switch, router, host or device",
        ),
        (
            r#"["b", "s1"]"#,
            r#"["a", "s1"]"#,
            r#"["a", "s1"]"#,
            "attached already",
        ),
        (
            "10.1.0.2/24",
            "10.1.0.1/24",
            "10.1.0.1/24",
            "both have 10.1.0.1",
        ),
        (
            r#"kind = "reno""#,
            r#"kind = "on-off", rate = "1 Mbit/s""#,
            "on-off",
            "need a mean length",
        ),
        (
            r#"kind = "reno""#,
            r#"kind = "reno", model = "fluid", ecn = true"#,
            "fluid",
            "do not support congestion marks",
        ),
        (
            r#"kind = "reno""#,
            r#"kind = "bbr", model = "fluid""#,
            "fluid",
            "there is no fluid model of `bbr`",
        ),
        (
            r#"size = 3 }]
traffic = [{ from = "g-h0", to = "g-h1", kind = "reno" }]"#,
            r#"size = 3, access = { discipline = "codel" } }]
traffic = [{ from = "g-h0", to = "g-h1", kind = "reno", model = "fluid" }]"#,
            "fluid",
            "fluid traffic passes drop-tail queues and RED",
        ),
        (
            "routers = [",
            "fluid_step = \"0 s\"\nrouters = [",
            "fluid_step",
            "must be 10 us to 1 s",
        ),
        (
            "10.1.0.2/24",
            "10.9.0.2/24",
            "10.9.0.2/24",
            "in different networks",
        ),
        (
            r#"{ between = ["s1", "r1"] },"#,
            "",
            "hosts.c",
            "no route from `a` to `c`",
        ),
        ("loss = 0.01", "loss = 1.5", "1.5", "not a probability"),
        ("delay = \"1 ms\"", "delay = \"-1 ms\"", "-1 ms", "negative"),
        ("size = 3", "size = 0", "size = 0", "at least 1"),
        (
            r#"from = "g-h0""#,
            r#"from = "a""#,
            "from = \"a\"",
            "`a` is real",
        ),
        (
            r#"to = "g-h1""#,
            r#"to = "g-h7""#,
            "g-h7",
            "`g-h7` is not a node",
        ),
        ("kind = \"reno\"", "kind = \"udp\"", "udp", "needs a `rate`"),
        (
            r#"name = "g""#,
            r#"name = "x""#,
            "g-switch",
            "`g-switch` is not a switch",
        ),
    ];
    for (change, to, line, message) in cases {
        let (mistake, found) = wrong(change, to);
        assert!(mistake.contains(message), "{to}: {mistake}");
        assert!(found.contains(line), "{to}: {mistake} in `{found}`");
    }
}

#[test]
fn a_ring_of_switches_is_refused_and_one_of_routers_is_not() {
    let extra = r#"switches = ["s1"]"#;
    let with = r#"switches = ["s1", "s2", "s3"]"#;
    let link = r#"    { between = ["s1", "r1"] },"#;
    let ring = [["s1", "s2"], ["s2", "s3"], ["s3", "s1"]];
    let ring = ring
        .map(|[a, b]| format!("{{ between = [\"{a}\", \"{b}\"] }},\n"))
        .concat();
    let text = GOOD
        .replace(extra, with)
        .replace(link, &format!("{link}\n{ring}"));
    let errors = parse(&text, "net.toml", &[]).unwrap_err().to_string();
    assert!(errors.contains("closes a ring of switches"), "{errors}");
    let routers = text
        .replace(with, extra)
        .replace(r#"routers = ["r1"]"#, r#"routers = ["r1", "s2", "s3"]"#);
    parse(&routers, "net.toml", &[]).unwrap_or_else(|errors| panic!("{errors}"));
}

#[test]
fn delays_need_a_simulated_network() {
    let text = r#"schema = "timeloom/1"
name = "net"
time = { duration = "10 s" }
[system]
links = [{ between = ["a", "b"], delay = "1 ms" }]
[system.hosts.a]
address = "10.1.0.1/24"
[system.hosts.b]
address = "10.1.0.2/24"
"#;
    let errors = parse(text, "net.toml", &[]).unwrap_err().to_string();
    assert!(errors.starts_with("net.toml:5:"), "{errors}");
    assert!(errors.contains("add the table `[network]`"), "{errors}");
}

const ISLANDS: &str = r#"schema = "timeloom/1"
name = "islands"
time = { duration = "10 s" }
[network]
[system]
switches = ["s1", "s2", "core"]
links = [
    { between = ["a", "s1"] },
    { between = ["s1", "core"], delay = "5 ms" },
    { between = ["core", "s2"], delay = "5 ms" },
    { between = ["b", "s2"] },
    { between = ["c", "core"] },
]
[system.openflow]
switches = ["s1", "s2"]
[system.hosts.a]
address = "10.1.0.1/24"
[system.hosts.b]
address = "10.1.0.2/24"
[system.hosts.c]
address = "10.1.0.3/24"
"#;

#[test]
fn real_switches_are_islands_in_a_simulated_network() {
    let plan = parse(ISLANDS, "net.toml", &[]).unwrap_or_else(|errors| panic!("{errors}"));
    let simulated = plan.simulated().unwrap().unwrap();
    assert_eq!(simulated.uplinks.len(), 2);
    assert!(!simulated.nodes.contains_key("a") && simulated.nodes.contains_key("c"));
    let modelled: Vec<bool> = simulated.links.iter().map(Option::is_some).collect();
    assert_eq!(modelled, [false, true, true, false, true]);
}

#[test]
fn invalid_links_between_real_and_simulated_switches_are_refused() {
    for (change, to, message) in [
        (
            r#"{ between = ["a", "s1"] }"#,
            r#"{ between = ["a", "s1"], delay = "1 ms" }"#,
            "a link of real switches can have only a `rate`",
        ),
        (
            r#"["c", "core"] },"#,
            r#"["c", "core"] }, { between = ["s1", "s2"] },"#,
            "closes a loop",
        ),
        (
            r#"["c", "core"] },"#,
            r#"["c", "core"] }, { between = ["a", "core"] },"#,
            "`a` has a single interface and 2 links",
        ),
        ("10.1.0.2/24", "10.1.0.3/24", "have the same address"),
        ("[network]\n", "[network]\nrouters = [\"r\"]\n", ""),
    ] {
        let mut text = ISLANDS.replacen(change, to, 1);
        let mut message = message;
        if message.is_empty() {
            text = text.replace(r#"["s1", "core"]"#, r#"["s1", "r"]"#);
            message = "`s1` is a real switch, and `r` no simulated one";
        }
        let errors = parse(&text, "net.toml", &[]).expect_err(to);
        assert!(errors.to_string().contains(message), "{to}: {errors}");
    }
}

#[test]
fn addresses_of_ipv6_reach_the_model() {
    let text = SERVED
        .replace("\"10.1.0.9/24\"", "[\"10.1.0.9/24\", \"fd00:1::9/64\"]")
        .replace("\"10.1.0.1/24\"", "\"fd00:1::1/64\"");
    let plan = parse(&text, "net.toml", &[]).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(parse(&plan.to_toml(), "again.toml", &[]), Ok(plan.clone()));
    let simulated = plan.simulated().unwrap().unwrap();
    let world = &simulated.world;
    let port = |name: &str| world.port_of(simulated.nodes[name]).unwrap();
    let own = |name: &str| world.address_v6(port(name)).unwrap().0.to_string();
    assert_eq!(
        (own("web"), own("a")),
        ("fd00:1::9".into(), "fd00:1::1".into())
    );
    assert!(world.address(port("a")).is_unspecified());
    assert_eq!(
        world.gateway_v6(simulated.nodes["a"]),
        "fd00:1::2".parse().ok()
    );
    assert!(own("g-h0").starts_with("fd54:4c00:"), "{}", own("g-h0"));
    let narrow = "{ between = [\"s1\", \"r\"], mtu = 1000 }";
    let text = text.replace("{ between = [\"s1\", \"r\"] }", narrow);
    let errors = parse(&text, "net.toml", &[])
        .expect_err("too narrow")
        .to_string();
    assert!(errors.contains("1280 bytes that IPv6 needs"), "{errors}");
}

const SERVED: &str = r#"schema = "timeloom/1"
name = "served"
time = { duration = "10 s" }
[network]
routers = ["r"]
generate = [{ name = "g", shape = "star", size = 3 }]
[network.hosts.web]
address = "10.1.0.9/24"
services = [{ kind = "http", bytes = 5 }, { kind = "echo", port = 70 }]
[network.hosts.g-h0]
services = [{ kind = "source" }]
connections = 3
[system]
switches = ["s1"]
links = [
    { between = ["a", "s1"] },
    { between = ["web", "s1"] },
    { between = ["s1", "r"] },
    { between = ["r", "g-switch"] },
]
[system.hosts.a]
address = "10.1.0.1/24"
"#;

#[test]
fn simulated_hosts_serve_where_there_is_room_for_them() {
    let plan = parse(SERVED, "net.toml", &[]).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(parse(&plan.to_toml(), "again.toml", &[]), Ok(plan.clone()));
    let simulated = plan.simulated().unwrap().unwrap();
    let names: Vec<_> = simulated.hosts.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["g-h0", "web"]);
    let world = &simulated.world;
    let web = world.port_of(simulated.nodes["web"]).unwrap();
    assert_eq!(world.address(web).to_string(), "10.1.0.9");
    let hosts = &plan.network.as_ref().unwrap().hosts;
    let ports = |name: &str| hosts[name].services.iter().map(|service| service.port);
    assert!(ports("web").eq([80, 70]) && ports("g-h0").eq([19]));
    for (change, to, place, message) in [
        ("\"http\"", "\"https\"", ":9:", "`https` is not known here"),
        (
            "port = 70",
            "port = 0",
            ":9:",
            "port 0 accepts no connections",
        ),
        ("port = 70", "port = 80", ":9:", "port 80 of `web` already"),
        ("port = 70", "bytes = 70", ":9:", "only `http` and `source`"),
        (
            "connections = 3",
            "connections = 0",
            ":12:",
            "1 to 1024 connections",
        ),
        (
            "connections = 3",
            "buffer = 100",
            ":12:",
            "2048 to 4194304 bytes",
        ),
        ("hosts.web", "hosts.a", ":7:", "`a`"),
        ("hosts.g-h0", "hosts.r", ":10:", "`r` is not a host"),
        ("hosts.web", "hosts.lone", ":", "`web` is not a switch"),
        ("10.1.0.9/24", "10.1.0.1/24", ":", "10.1.0.1"),
        (
            "[system]",
            "[network.clocks.g-h0]\nrole = \"slave\"\n[system]",
            ":10:",
            "`g-h0` is a PTP clock already",
        ),
    ] {
        assert!(SERVED.contains(change), "{change}");
        let text = SERVED.replacen(change, to, 1);
        let errors = parse(&text, "net.toml", &[]).expect_err(to).to_string();
        assert!(
            errors.contains(message) && errors.contains(place),
            "{to}: {errors}"
        );
    }
}

/// Loads the valid file with these lines appended.
fn with(more: &str) -> Result<timeloom_scenario::Plan, String> {
    parse(&format!("{GOOD}{more}"), "net.toml", &[]).map_err(|errors| errors.to_string())
}

#[test]
fn signals_of_links_and_flows_may_be_checked_and_drawn() {
    let more = r#"
[[check]]
name = "one"
assert = "max(net.link.a-s1.loss) < 0.01"
[[check]]
name = "generated"
assert = "max(net.link.g-h2-g-switch.load) < 1"
[[panel]]
title = "Flow"
signals = [{ name = "net.flow.g-h0-g-h1.throughput" }]
"#;
    with(more).unwrap_or_else(|errors| panic!("{errors}"));
}

#[test]
fn a_misspelt_name_of_the_network_is_refused_with_the_one_that_was_meant() {
    let cases = [
        ("net.link.a-s2.loss", "no link `a-s2`; did you mean `a-s1`?"),
        ("net.link.a-s1.los", "did you mean `loss`?"),
        (
            "net.flow.g-h0-g-h2.loss",
            "no flow `g-h0-g-h2`; did you mean `g-h0-g-h1`?",
        ),
        (
            "net.flow.g-h0-g-h1.queue",
            "known: `throughput`, `loss`, `delay`",
        ),
        ("net.lnk.a-s1.loss", "net.link.NAME.QUANTITY"),
    ];
    for (signal, help) in cases {
        let more = format!("[[check]]\nname = \"x\"\nassert = \"max({signal}) < 1\"\n");
        let errors = with(&more).expect_err(signal);
        assert!(errors.contains(help), "{errors}");
    }
}

#[test]
fn a_link_and_a_flow_may_be_given_names() {
    let text = GOOD.replacen(
        r#"{ between = ["s1", "r1"] }"#,
        r#"{ between = ["s1", "r1"], name = "core" }"#,
        1,
    );
    let text = text.replacen(r#"kind = "reno""#, r#"kind = "reno", name = "bulk""#, 1);
    let plan = parse(&text, "net.toml", &[]).unwrap_or_else(|errors| panic!("{errors}"));
    let names = plan.simulated().unwrap().unwrap().names;
    let all: Vec<&str> = names.cables.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(all[..3], ["a-s1", "b-s1", "core"]);
    assert_eq!(all.len(), 8, "five links, three of the star");
    assert_eq!(names.flows, ["bulk"]);
    assert_eq!(parse(&plan.to_toml(), "again.toml", &[]), Ok(plan));
}

#[test]
fn generated_links_are_captured_and_misspelt_ones_refused() {
    with("[[capture]]\nlink = [\"g-h1\", \"g-switch\"]\n").unwrap();
    // The name in the link's signals must be accepted, too.
    let names = with("").unwrap().simulated().unwrap().unwrap().names;
    let generated = names.between(&["g-h1".to_owned(), "g-switch".to_owned()]);
    let name = &generated.expect("it is there").name;
    let plan = with(&format!("[[capture]]\nlink = {name:?}\n")).unwrap();
    assert_eq!(plan.captures[0].link.to_string(), *name);
    assert_eq!(names.cable(&plan.captures[0].link), generated);
    assert_eq!(parse(&plan.to_toml(), "again.toml", &[]), Ok(plan));
    let errors = with("[[capture]]\nlink = \"g-h1-g-swtch\"\n").unwrap_err();
    let message = "there is no link called `g-h1-g-swtch`; did you mean";
    assert!(errors.to_string().contains(message), "{errors}");
    let errors = with("[[capture]]\nlink = [\"g-h1\", \"g-swich\"]\n").unwrap_err();
    assert!(errors.contains("did you mean `g-switch`?"), "{errors}");
    let errors = with("[[capture]]\nlink = [\"g-h9\", \"g-switch\"]\n").unwrap_err();
    assert!(errors.contains("no link between `g-h9` and"), "{errors}");
}

#[test]
fn no_host_may_have_the_name_of_the_network() {
    let text = GOOD.replace("[system.hosts.c]", "[system.hosts.net]");
    let text = text.replace(r#"["c", "r1"]"#, r#"["net", "r1"]"#);
    let errors = parse(&text, "net.toml", &[]).unwrap_err().to_string();
    assert!(
        errors.contains("`net` is the simulated network itself"),
        "{errors}"
    );
}
