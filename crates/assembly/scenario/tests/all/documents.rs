//! The reference and the examples of the repository must agree with the reader.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use timeloom_scenario::{MachineChecks, Plan, json_schema, load_for, parse};
use timeloom_time::Duration;

const REFERENCE: &str = include_str!("../../../../../docs/scenario.md");

fn example(file: &str) -> Plan {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../examples")
        .join(file);
    load_for(path, &[], MachineChecks::Ignored).unwrap_or_else(|errors| panic!("{errors}"))
}

fn keys(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(table) => {
            if let Some(Value::Object(properties)) = table.get("properties") {
                found.extend(properties.keys().cloned());
            }
            table.values().for_each(|value| keys(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
        _ => {}
    }
}

#[test]
fn the_reference_names_every_key() {
    let mut known = BTreeSet::new();
    keys(&json_schema(), &mut known);
    assert!(known.len() > 50, "{known:?}");
    // The key must be in code, as a separate word.
    let mut named = BTreeSet::new();
    for code in REFERENCE.split('`').skip(1).step_by(2) {
        let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        named.extend(code.split(word).map(str::to_owned));
    }
    let absent: Vec<_> = known.difference(&named).collect();
    assert!(absent.is_empty(), "docs/scenario.md lacks {absent:?}");
}

#[test]
fn the_example_in_the_reference_is_right() {
    let (_, rest) = REFERENCE.split_once("```toml\n").expect("an example");
    let (text, _) = rest.split_once("```").expect("its end");
    let plan = parse(text, "docs/scenario.md", &[]).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(parse(&plan.to_toml(), "again.toml", &[]), Ok(plan));
}

/// The expected values are from the paper and from examples/ieee13/README.md.
#[test]
fn the_case_of_the_paper_is_as_published() {
    let plan = example("ieee13/ieee13.toml");
    assert_eq!((plan.seed, plan.time.duration), (7, Duration::from_s(90)));
    let attack = &plan.attacks[0];
    assert_eq!(attack.at, Some(Duration::from_ms(22_500)));
    assert!(attack.enabled);
    let address = |host: &str| {
        plan.system.hosts[host]
            .address
            .v4
            .expect("one of IPv4")
            .address
            .to_string()
    };
    let ends = [address("controller"), address("sensor")];
    let [_, spoofs @ ..] = &attack.programs[..] else {
        panic!("an attack without programs");
    };
    assert_eq!(spoofs.len(), 2);
    for (program, [target, other]) in spoofs.iter().zip([[0, 1], [1, 0]]) {
        let wanted = ["arpspoof", "-i", "eth0", "-t", &ends[target], &ends[other]];
        assert_eq!(program.run, wanted, "both ways");
    }
    let device = |name: &str| {
        plan.system.devices[name]
            .address
            .v4
            .expect("one of IPv4")
            .address
            .to_string()
    };
    let run = |host: &str| plan.system.hosts[host].programs[0].run.join(" ");
    let (storage, meter) = (device("storage"), device("generator"));
    assert!(run("controller").ends_with(&format!("--storage {storage}:502")));
    let sensor = format!("--meter {meter}:502 --controller {}:5000", ends[0]);
    assert!(run("sensor").ends_with(&sensor));
    let grid = &plan.simulation.plants["grid"];
    assert_eq!(grid.step, Duration::from_ms(10));
    assert_eq!(grid.record.every, Duration::from_ms(100));
    for file in grid.config["profiles"].as_object().unwrap().values() {
        assert!(grid.directory.join(file.as_str().unwrap()).is_file());
    }
    let titles: Vec<_> = plan.panels.iter().map(|panel| &*panel.title).collect();
    let expected = [
        "Voltage at bus 680",
        "Output of the wind generator",
        "Voltage at bus 646",
        "Power of the storage",
    ];
    assert_eq!(titles, expected, "figure 12");
    assert_eq!(parse(&plan.to_toml(), "again.toml", &[]), Ok(plan));
}

#[test]
fn the_first_examples_are_right() {
    assert_eq!(example("hello/hello.toml").programs().count(), 2);
    for plan in [example("hello/hello.toml"), example("hello/plant.toml")] {
        assert_eq!(parse(&plan.to_toml(), "again.toml", &[]), Ok(plan));
    }
}
