//! Scenarios that are spread over agents.

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

#[test]
fn what_cannot_be_spread_is_said() {
    for (old, new, says) in [
        (
            "239.1.2.3:5501",
            "10.1.2.3:5501",
            "is no group of IPv4 and a port",
        ),
        (
            "239.1.2.3:5501",
            "239.1.2.3:0",
            "is no group of IPv4 and a port",
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
        (
            "10.9.0.2:5500",
            "10.9.0.2",
            "is not where an agent can be reached",
        ),
    ] {
        let text = SPREAD.replace(old, new);
        assert_ne!(text, SPREAD);
        let said = read(&text).expect_err(says);
        assert!(said.contains(says), "{says}: {said}");
    }
}
