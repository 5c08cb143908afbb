//! Tests of PTP clocks in a simulated network: their nodes, signatures and attacks.

use timeloom_scenario::parse;

const CLOCKS: &str = r#"schema = "timeloom/1"
name = "clocks"
time = { duration = "10 s" }
[network]
ptp = { profile = "default", transport = "udp4", sync_interval = "125 ms" }
generate = [{ name = "g", shape = "star", size = 3 }]
[network.clocks.s1]
role = "transparent"
clock = { frequency = "30 ppm" }
resolution = "8 ns"
[network.clocks.gm]
role = "grandmaster"
address = "10.1.0.9/24"
[network.clocks.g-h0]
role = "slave"
[system]
switches = ["s1"]
links = [
    { between = ["a", "s1"] },
    { between = ["gm", "s1"] },
    { between = ["g-switch", "s1"] },
]
[system.hosts.a]
address = "10.1.0.1/24"
[[check]]
name = "close"
assert = "max(g-h0.clock.offset) < 0.001"
"#;

#[test]
fn ptp_clocks_are_at_switches_and_simulated_hosts() {
    let plan = parse(CLOCKS, "net.toml", &[]).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(parse(&plan.to_toml(), "again.toml", &[]), Ok(plan.clone()));
    let simulated = plan.simulated().unwrap().unwrap();
    let names: Vec<_> = simulated.clocks.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["g-h0", "gm", "s1"]);
    let world = &simulated.world;
    let gm = world.port_of(simulated.nodes["gm"]).unwrap();
    assert_eq!(world.address(gm).to_string(), "10.1.0.9");
    for (change, to, message) in [
        (
            "\"125 ms\"",
            "\"120 ms\"",
            "PTP has no such `sync_interval`",
        ),
        ("\"8 ns\"", "\"0 ns\"", "no clock has such a resolution"),
        ("30 ppm", "30000 ppm", "no oscillator has an error of"),
        (
            "clocks.s1",
            "clocks.s2",
            "there is no simulated switch `s2`",
        ),
        ("clocks.g-h0", "clocks.a", "`a`"),
        ("\"slave\"", "\"transparent\"", "`g-h0`"),
        (
            "\"grandmaster\"",
            "\"master\"",
            "`master` is not known here",
        ),
        (
            "between = [\"gm\", \"s1\"]",
            "between = [\"g-h1\", \"s1\"]",
            "g",
        ),
        ("g-h0.clock.offset", "gm.clock.offset", "is not recorded"),
    ] {
        assert!(CLOCKS.contains(change), "{change}");
        let text = CLOCKS.replacen(change, to, 1);
        let errors = parse(&text, "net.toml", &[]).expect_err(to).to_string();
        assert!(errors.contains(message), "{to}: {errors}");
    }
}

#[test]
fn time_can_be_signed_and_a_clock_be_a_rogue() {
    let signed = CLOCKS
        .replacen(
            "\"125 ms\" }",
            "\"125 ms\", security = \"bls-once\", policy = \"monitor\" }",
            1,
        )
        .replacen(
            "\"8 ns\"\n",
            "\"8 ns\"\nrogue = { attack = \"strip\", from = \"4 s\" }\n",
            1,
        )
        .replacen("g-h0.clock.offset", "g-h0.ptp.violations", 1);
    let plan = parse(&signed, "net.toml", &[]).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(parse(&plan.to_toml(), "again.toml", &[]), Ok(plan));
    for (change, to, message) in [
        ("\"bls-once\"", "\"rsa\"", "`rsa` is not known here"),
        ("\"bls-once\"", "\"none\"", "no effect without signatures"),
        (
            "security = \"bls-once\", policy = \"monitor\"",
            "domain = 3",
            "no signatures to attack",
        ),
        (
            "from = \"4 s\"",
            "by = \"1 us\"",
            "only `correction`, `lie` and `delay-sync`",
        ),
        (
            "\"strip\", from",
            "\"lie\", by = \"1 s\", from",
            "must change times by 1 ns",
        ),
        ("\"strip\"", "\"stripe\"", "`stripe` is not known here"),
        (
            "role = \"grandmaster\"",
            "role = \"grandmaster\"\nrogue = { attack = \"lie\" }",
            "only a hop can misstate its own contribution",
        ),
        (
            "role = \"slave\"",
            "role = \"slave\"\nrogue = { attack = \"replay\" }",
            "a slave does not distribute time",
        ),
    ] {
        assert!(signed.contains(change), "{change}");
        let text = signed.replacen(change, to, 1);
        let errors = parse(&text, "net.toml", &[]).expect_err(to).to_string();
        assert!(errors.contains(message), "{to}: {errors}");
    }
}

/// Scenario with two hosts whose cards have clocks, at a network whose clocks sign.
const CARDS: &str = r#"schema = "timeloom/1"
name = "cards"
time = { duration = "10 s" }
[network]
ptp = { security = "ed25519" }
engines = { parts = { west = ["a"], east = ["b"] }, mode = "free" }
[system]
links = [{ between = ["a", "b"], delay = "1 ms" }]
[system.hosts.a]
address = "10.1.0.1/24"
card = {}
[system.hosts.b]
address = "10.1.0.2/24"
card = { offset = "1 ms", frequency = "9 ppm" }
ptp = "slave"
[[check]]
name = "close"
assert = "max(b.card.offset) < 0.001"
"#;

#[test]
fn network_cards_have_clocks_at_simulated_networks_only() {
    let plan = parse(CARDS, "cards.toml", &[]).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(parse(&plan.to_toml(), "again.toml", &[]), Ok(plan.clone()));
    for (change, to, message) in [
        (
            "b.card.offset",
            "b.card.error",
            "`card.error` of `b` is not recorded",
        ),
        (
            "card = { offset = \"1 ms\", frequency = \"9 ppm\" }",
            "",
            "has no clock",
        ),
        ("9 ppm", "90000 ppm", "no oscillator has an error of"),
        (
            "frequency = \"9 ppm\" }",
            "cycles = { governor = \"ondemand\" } }",
            "counts cycles",
        ),
        (
            "mode = \"free\"",
            "mode = \"free\", processes = true",
            "engines that are processes",
        ),
        ("\"slave\"", "\"transparent\"", "a host has one port"),
        (
            "ptp = { security = \"ed25519\" }\n",
            "",
            "whose clocks sign",
        ),
    ] {
        let changed = CARDS.replacen(change, to, 1);
        assert_ne!(changed, CARDS, "{change}");
        let errors = parse(&changed, "cards.toml", &[])
            .expect_err(message)
            .to_string();
        assert!(errors.contains(message), "{message}: {errors}");
    }
    let kernel = CARDS.split("[network]").next().expect("a part").to_owned()
        + "[system]"
        + CARDS.split("[system]").nth(1).expect("a part");
    let kernel = kernel.replace(", delay = \"1 ms\"", "");
    let errors = parse(&kernel, "cards.toml", &[])
        .expect_err("no network")
        .to_string();
    assert!(errors.contains("this host is at a"), "{errors}");
}
