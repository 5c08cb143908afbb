//! Switches whose controller is a program of the experiment.

use std::path::Path;

use timeloom_results::Outcome;

use crate::support::{Lab, samples};

/// Returns a scenario with a plant behind two Open vSwitch bridges, and a client that reads it.
fn scenario(controller: &str) -> String {
    format!(
        r#"
schema = "timeloom/1"
name = "openflow"
[time]
duration = "600 s"
start = "2019-06-03T00:00:00Z"
[system]
switches = ["s1", "s2"]
links = [
    {{ between = ["s1", "s2"] }},
    {{ between = ["a", "s1"], rate = "100 Mbit/s" }},
    {{ between = ["meter", "s2"] }},
]
[system.openflow]
switches = ["s1", "s2"]
controller = {controller}
[system.hosts.a]
address = "10.0.0.1/24"
programs = [{{ name = "poll", run = ["python3", "poll.py", "10.0.0.10", "0.1"], after = ["controller"] }}]
[system.devices.meter]
address = "10.0.0.10/24"
registers = [
    {{ table = "input", at = 0, type = "f64", signal = "world.t_ns" }},
    {{ table = "input", at = 4, type = "f64", signal = "world.level" }},
]
[simulation.plants.world]
run = ["python3", "plant.py"]
step = "10 ms"
"#
    )
}

fn controller() -> String {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/sdn/learning_switch.py");
    format!(
        r#"{{ name = "controller", run = ["python3", "{}", "--switches", "2"], ready = "log:all 2 switches", ready_timeout = "300 s" }}"#,
        script.display()
    )
}

/// Runs until the plant has answered, and then ends the run. Switches, controller and client start
/// in wall time, which takes long on a busy machine.
fn until_polled(lab: &Lab) {
    let mut run = lab.start(&[]);
    run.wait_for_line("poll", "sample ");
    run.signal(libc::SIGINT);
    let run = run.wait();
    assert_eq!(
        run.manifest().outcome,
        Outcome::Interrupted,
        "{}",
        run.output()
    );
}

#[test]
fn frames_pass_where_the_controller_lets_them() {
    timeloom_test_support::need("ovs-vsctl", "openvswitch-switch");
    let lab = Lab::with_text(&scenario(&controller()));
    until_polled(&lab);
}

#[test]
fn a_dead_controller_is_the_culprit() {
    timeloom_test_support::need("ovs-vsctl", "openvswitch-switch");
    let controller = r#"{ name = "controller", run = ["false"], ready = "tcp:6653" }"#;
    let run = Lab::with_text(&scenario(controller)).run(&[]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stdout.contains("controller"), "{}", run.stdout);
}

/// There are two real switches, and a simulated one between them. Frames that cross it must take
/// the simulated delay, four times for each request.
#[test]
fn real_switches_are_joined_by_a_simulated_network() {
    timeloom_test_support::need("ovs-vsctl", "openvswitch-switch");
    let text = scenario(&controller())
        .replace(
            r#"{ between = ["s1", "s2"] }"#,
            r#"{ between = ["s1", "core"], delay = "3 ms" }, { between = ["core", "s2"], delay = "2 ms" }"#,
        )
        .replacen(r#"switches = ["s1", "s2"]"#, r#"switches = ["s1", "core", "s2"]"#, 1)
        .replace("[system]\n", "[network]\n[system]\n");
    let lab = Lab::with_text(&text);
    until_polled(&lab);
    let polled = samples(&lab.run_path(), "poll");
    let soonest = polled.iter().map(|sample| sample.lasted).min().unwrap_or(0);
    assert!(soonest >= 10_000_000, "{soonest} ns there and back");
}
