//! The real ptp4l, unmodified: with software time stamps, on a host whose oscillator has a frequency
//! error; and with hardware time stamps of a network card of the model. The scenarios' own checks
//! state how close to true time the clocks must come.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::support::passed;

#[test]
fn ptp4l_disciplines_a_hosts_clock_by_the_kernels_time_stamps() {
    let directory = std::env::temp_dir().join(format!("timeloom-ptp4l-{}", std::process::id()));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let output = Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .args(["run", "examples/ptp4l/ptp4l.toml", "-o"])
        .arg(&directory)
        .current_dir(&root)
        .output()
        .expect("our own program");
    let log = fs::read_to_string(directory.join("logs/slave.log")).unwrap_or_default();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(passed(output.status), "{text}\n{log}");
    // Servo state 2 means that the servo has locked.
    assert!(log.contains(" s2 freq"), "{log}");
    fs::remove_dir_all(&directory).expect("our own");
}

/// Lock of the tests that make the machine busy, which run one after another.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs the example with these settings, beside two processes that compute. On such a machine a run
/// may not be trusted, but its checks hold: the stamps are instants of the model.
fn disciplines_a_card(name: &str, sets: &[&str]) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let name = format!("timeloom-card-{name}-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let busy = || {
        Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
    };
    let mut busy = [busy(), busy()].map(|it| it.expect("a shell"));
    let output = Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .args(["run", "examples/ptp4l/card.toml", "-o"])
        .arg(&directory)
        .args(sets.iter().flat_map(|set| ["--set", set]))
        .current_dir(&root)
        .output();
    for process in &mut busy {
        process.kill().expect("our own");
        process.wait().expect("our own");
    }
    let output = output.expect("our own program");
    let log = fs::read_to_string(directory.join("logs/slave.log")).unwrap_or_default();
    let text = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout);
    let holds = |check| format!("{printed}{text}").contains(&format!("check {check}: holds"));
    for check in [
        "wrong-before",
        "near-true-time-above",
        "near-true-time-below",
    ] {
        assert!(holds(check), "{check}: {printed}\n{text}\n{log}");
    }
    fs::remove_dir_all(&directory).expect("our own");
}

#[test]
fn ptp4l_disciplines_a_card_to_nanoseconds_on_a_busy_machine_in_virtual_time() {
    disciplines_a_card("virtual", &["time.mode=virtual", "time.compute=real"]);
}

#[test]
fn ptp4l_disciplines_a_card_to_nanoseconds_on_a_busy_machine_where_time_skips() {
    disciplines_a_card("skip", &["time.compute=real"]);
    disciplines_a_card("none", &[]);
}

#[test]
fn ptp4l_disciplines_a_card_to_nanoseconds_on_a_busy_machine_in_dilated_time() {
    let sets = [
        "time.mode=virtual",
        "time.compute=real",
        "time.dilation=2.0",
    ];
    disciplines_a_card("dilated", &sets);
}
