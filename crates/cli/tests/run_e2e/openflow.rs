//! Switches that a controller of the experiment tells what to do.

use std::path::Path;

use crate::support::{Lab, log_lines, need_program};

/// A plant behind two Open vSwitch bridges, and somebody who reads it.
fn scenario(controller: &str) -> String {
    format!(
        r#"
schema = "timeloom/1"
name = "openflow"
[time]
duration = "4 s"
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

#[test]
fn frames_pass_where_the_controller_lets_them() {
    need_program("ovs-vsctl", "openvswitch-switch");
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sdn/learning_switch.py");
    let controller = format!(
        r#"{{ name = "controller", run = ["python3", "{}", "--switches", "2"], ready = "log:all 2 switches" }}"#,
        script.display()
    );
    let lab = Lab::with_text(&scenario(&controller));
    let run = lab.run(&[]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        !log_lines(&lab.run_path(), "poll").is_empty(),
        "{}",
        run.stderr
    );
}

#[test]
fn a_dead_controller_is_the_culprit() {
    need_program("ovs-vsctl", "openvswitch-switch");
    let controller = r#"{ name = "controller", run = ["false"], ready = "tcp:6653" }"#;
    let run = Lab::with_text(&scenario(controller)).run(&[]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stdout.contains("controller"), "{}", run.stdout);
}
