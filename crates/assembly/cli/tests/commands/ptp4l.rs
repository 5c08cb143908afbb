//! The real ptp4l, unmodified, with software time stamps, on a host whose oscillator has a
//! frequency error. The scenario's own checks state how close to true time the clock must come.

use std::fs;
use std::path::Path;
use std::process::Command;

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
