//! Tests of overrides from the command line.

use timeloom_scenario::{Plan, ScenarioErrors, parse};
use timeloom_time::Duration;

const EVERYTHING: &str = include_str!("../../examples/everything.toml");

fn with(sets: &[&str]) -> Result<Plan, ScenarioErrors> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    parse(EVERYTHING, "test.toml", &sets)
}

#[test]
fn sets_replace_and_add() {
    let plan = with(&[
        "seed=0x10",
        "time.duration=30 s",
        "attack.dos.enabled=false",
        "system.hosts.sensor.programs.sensor.start=\"1 s\"",
        "system.hosts.sensor.programs.sensor.env.DEBUG=1",
        "system.links.1.rate=1 Gbit/s",
        "system.hosts.sensor.programs.\"sensor\".env.'A.B'=2.0.1",
        "simulation.plants.grid.config.model=other.dss",
        "simulation.plants.grid.config.list=[1, { a = 2 }]",
        "panel.0.title=Sag",
        "simulation.plants.grid.env.THREADS=1",
        "check.no-sag.assert=min(grid.bus.680.v1) >= 1 until 30 s",
        "seed=17",
    ])
    .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(plan.seed, 17, "the last one counts");
    assert_eq!(plan.time.duration, Duration::from_s(30));
    assert!(!plan.attacks[0].enabled);
    let sensor = &plan.system.hosts["sensor"].programs[0];
    assert_eq!(sensor.start, Duration::from_s(1));
    assert_eq!(sensor.env["DEBUG"], "1");
    assert_eq!(sensor.env["A.B"], "2.0.1");
    assert_eq!(
        plan.system.links[1].wire.rate.unwrap().as_bits_per_s(),
        1_000_000_000
    );
    let config = &plan.simulation.plants["grid"].config;
    assert_eq!(config["model"], "other.dss");
    assert_eq!(config["list"], serde_json::json!([1, { "a": 2 }]));
    assert_eq!(plan.panels[0].title, "Sag");
    assert_eq!(plan.simulation.plants["grid"].env["THREADS"], "1");
    assert_eq!(plan.checks[1].assert.bound, 1.0);
    assert_eq!(plan.programs().count(), 4, "a disabled attack runs nothing");
}

#[test]
fn a_mistake_in_a_set_is_called_one() {
    for (set, message) in [
        ("seed", "--set seed: a set must be KEY=VALUE; as in"),
        ("=1", "--set =1: `` is not a key"),
        ("sed=1", "unknown key `sed` in a scenario; "),
        (
            "attack.dso.enabled=false",
            "there is no `dso` in `attack`; did you mean `dos`?",
        ),
        (
            "attack.dos.enabeld=false",
            "unknown key `enabeld` in an attack; did you mean `enabled`?",
        ),
        (
            "system.links.9.rate=1 bit/s",
            "there is no `9` in `system.links`; its elements are 0 … 5",
        ),
        (
            "seed.x=1",
            "there is no `x` in `seed`; the value there is a whole number",
        ),
        (
            "time.duration=90",
            "--set time.duration=90: a length of time needs a unit",
        ),
        (
            "time.duration=0 s",
            "--set time.duration=0 s: this length of time must be",
        ),
        (
            "system.hosts.sensor.address=10.0.9.9/24",
            "`sensor` is not in the subnet",
        ),
        ("seed=99999999999999999999", "does not fit into 64 bits"),
    ] {
        let errors = with(&[set]).expect_err(set);
        let text = errors.to_string();
        assert!(text.contains(message), "{set}: {text}");
        assert!(
            errors
                .mistakes()
                .iter()
                .any(|m| m.origin == format!("--set {set}")),
            "{text}"
        );
        errors.render(true);
    }
}

#[test]
fn a_set_is_shown_with_the_mark_under_it() {
    let shown = with(&["time.mode=fast"]).unwrap_err().render(false);
    assert!(shown.contains("--> --set:1:11"), "{shown}");
    assert!(shown.contains("time.mode=fast"), "{shown}");
}

/// Events of a disabled attack may be after the end of the run.
#[test]
fn events_of_a_disabled_attack_may_lie_beyond_the_end() {
    let short = "time.duration=3 s";
    let errors = with(&[short]).expect_err("the attack begins later");
    assert!(
        errors.to_string().contains("not before the end of the run"),
        "{errors}"
    );
    let off = with(&[
        short,
        "attack.dos.enabled=false",
        "check.no-sag.assert=max(grid.bus.680.v1) < 9",
    ]);
    let plan = off.unwrap_or_else(|errors| panic!("{errors}"));
    assert!(plan.attacks[0].at > Some(plan.time.duration));
}
