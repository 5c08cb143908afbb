//! Tests of scenarios that are distributed over agents.

use timeloom_scenario::{Plan, parse};

const SPREAD: &str = r#"
schema = "timeloom/1"
name = "spread"
[time]
duration = "1 s"
[system]
links = [{ between = ["meter", "reader"] }]
[system.hosts.meter]
address = "10.0.0.1/24"
[system.hosts.reader]
address = "10.0.0.2/24"
[placement]
key_file = "agents.key"
default = "a"
nodes = { reader = "b" }
group = "239.1.2.3:5501"
gpio_stuck = "3 s"
[placement.agents]
a = { address = "10.9.0.1:5500", gpio = "gpiochip0:17,27,22" }
b = { address = "10.9.0.2:5500" }
"#;

fn read(text: &str) -> Result<Plan, String> {
    parse(text, "spread.toml", &[]).map_err(|errors| errors.render(false))
}

#[test]
fn a_spread_scenario_is_read_and_written_alike() {
    let plan = read(SPREAD).expect("a plan");
    let placement = &plan.placement;
    assert_eq!(placement.of_node("meter"), "a");
    assert_eq!(placement.of_node("reader"), "b");
    assert_eq!(placement.group.as_deref(), Some("239.1.2.3:5501"));
    assert_eq!(placement.gpio_stuck.as_ns(), 3_000_000_000);
    assert_eq!(placement.gpio_debounce.as_ns(), 20_000);
    let pins = |agent: &str| placement.agents[agent].gpio.as_deref();
    assert_eq!((pins("a"), pins("b")), (Some("gpiochip0:17,27,22"), None));
    let again = read(&plan.to_toml()).expect("what agents are sent");
    assert_eq!(again.placement, plan.placement);
}

/// Returns the text of a scenario with this line under `[time]`.
fn timed(text: &str, line: &str) -> String {
    let duration = "duration = \"1 s\"\n";
    assert!(text.contains(duration));
    text.replace(duration, &format!("{duration}{line}\n"))
}

/// Every agent gets the dilation with the plan, also if it has an engine of a simulated network.
#[test]
fn a_spread_scenario_can_be_dilated() {
    for factor in [3.0, 0.5] {
        let plan = read(&timed(SPREAD, &format!("dilation = {factor}")));
        let plan = plan.expect("a plan");
        assert_eq!(plan.time.dilation, factor);
        for agent in ["a", "b"] {
            assert_eq!(plan.part(agent).plan.time.dilation, factor);
        }
        let again = read(&plan.to_toml()).expect("what agents are sent");
        assert_eq!(again.time, plan.time);
    }
    let plan = read(&timed(&modelled(MODELLED), "dilation = 3")).expect("a plan");
    assert_eq!(plan.part("b").plan.time.dilation, 3.0);
    for (line, says) in [
        ("mode = \"skip\"", "only if computing takes no time"),
        ("dilation = 2000", "is out of range"),
    ] {
        let said = read(&timed(SPREAD, line)).expect_err(says);
        assert!(said.contains(says), "{says}: {said}");
    }
}

/// Simulated network with an engine for each agent.
const MODELLED: &str = r#"
[network]
routers = ["r1", "r2", "r3"]
[network.engines]
parts = { a = ["r1"], b = ["r3"] }
"#;

/// Returns [`SPREAD`] with the text `network`, and with links between the routers of that text.
fn modelled(network: &str) -> String {
    let links = r#"links = [
    { between = ["meter", "r1"] },
    { between = ["r1", "r2"], delay = "1 ms" },
    { between = ["r2", "r3"], delay = "2 ms" },
    { between = ["r3", "reader"] },
]"#;
    let text = SPREAD.replace(r#"links = [{ between = ["meter", "reader"] }]"#, links);
    format!("{text}{network}").replace("10.0.0.2/24", "10.0.1.2/24")
}

#[test]
fn a_simulated_network_has_an_engine_on_each_agent() {
    let plan = read(&modelled(MODELLED)).expect("a plan");
    let simulated = plan.simulated().expect("a network").expect("that can be");
    let parts = simulated.parts.expect("several engines");
    assert_eq!(parts.names, ["a", "b"]);
    let owner = |name: &str| parts.cut().owners()[simulated.nodes[name].0 as usize];
    let owners = ["meter", "r1", "r3", "reader"].map(owner);
    assert_eq!(
        owners,
        [0, 0, 1, 1],
        "hosts are in the parts of their agents"
    );
    // The agents of nodes determine the engines of the nodes near them.
    let named = MODELLED
        .replace(r#"["r1"]"#, "[]")
        .replace(r#"["r3"]"#, "[]");
    read(&modelled(&named)).expect("a plan");
    let share = plan.part("b");
    assert!(share.tunnels.is_empty(), "links are the model's");
    assert_eq!(
        share.plan.system.hosts.keys().collect::<Vec<_>>(),
        ["reader"]
    );

    let [parts, place] = [
        r#"parts = { a = ["r1"], b = ["r3"] }"#,
        "[network.engines]\n",
    ];
    for (old, new, says) in [
        (parts, "count = 2", "name them as the agents"),
        (place, "", "has an engine on each agent"),
        (r#"b = ["r3"]"#, "", "the agent `b` has no engine"),
        (r#"b = ["r3"]"#, r#"c = ["r3"]"#, "there is no agent `c`"),
        (
            r#"b = ["r3"]"#,
            r#"b = ["r3", "meter"]"#,
            "`meter` runs on agent `a`",
        ),
        (
            place,
            "[network.engines]\nmode = \"exact\"\n",
            "cannot wait",
        ),
        (
            place,
            "[network.engines]\nprocesses = true\n",
            "is a thread of the agent",
        ),
        (
            place,
            "[network.engines]\nfailure = \"restart\"\n",
            "stops the run",
        ),
    ] {
        let network = MODELLED.replace(old, new);
        let network = match old == place && new.is_empty() {
            true => network.replace(parts, ""),
            false => network,
        };
        assert_ne!(network, MODELLED);
        let said = read(&modelled(&network)).expect_err(says);
        assert!(said.contains(says), "{says}: {said}");
    }
}

#[test]
fn invalid_placements_are_reported() {
    for (old, new, says) in [
        (
            "239.1.2.3:5501",
            "10.1.2.3:5501",
            "is not a group of IPv4 and a port",
        ),
        (
            "239.1.2.3:5501",
            "239.1.2.3:0",
            "is not a group of IPv4 and a port",
        ),
        (
            "10.9.0.2:5500",
            "[fd00::2]:5500",
            "the agent `b` has no address of IPv4",
        ),
        (
            "17,27,22",
            "17,27",
            "does not name a chip and three lines of it",
        ),
        (
            "17,27,22",
            "17,27,27",
            "does not name a chip and three lines of it",
        ),
        (
            "gpiochip0:",
            ":",
            "does not name a chip and three lines of it",
        ),
        ("reader = \"b\"", "reader = \"c\"", "there is no agent `c`"),
        (
            "reader = \"b\"",
            "reader = \"a\"",
            "the agent `b` has nothing to run",
        ),
        ("default = \"a\"\n", "", "`meter` is placed on no agent"),
        ("key_file = \"agents.key\"\n", "", "agents need a key"),
        ("10.9.0.2:5500", "10.9.0.2", "is not an address of an agent"),
    ] {
        let text = SPREAD.replace(old, new);
        assert_ne!(text, SPREAD);
        let said = read(&text).expect_err(says);
        assert!(said.contains(says), "{says}: {said}");
    }
}
