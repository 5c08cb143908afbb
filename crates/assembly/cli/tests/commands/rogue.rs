//! Example of an attack on time in a simulated network. With signatures all its checks must hold,
//! and without them not all. Needs root.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::passed;

fn run(directory: &Path, sets: &[&str]) -> Output {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/simnet/rogue.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_timeloom"));
    command.arg("run").arg(file).arg("-o").arg(directory);
    for set in sets {
        command.args(["--set", set]);
    }
    command.output().unwrap()
}

/// Returns the names of the failed checks, as the run recorded them.
fn failed(directory: &Path) -> Vec<String> {
    let text = fs::read_to_string(directory.join("checks.json")).unwrap();
    let checks: serde_json::Value = serde_json::from_str(&text).unwrap();
    let checks = checks
        .as_array()
        .or_else(|| checks["checks"].as_array())
        .unwrap();
    let failed = checks.iter().filter(|check| check["passed"] != true);
    failed
        .map(|check| check["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_signed_slave_withstands_a_rogue_switch_and_an_unsigned_one_does_not() {
    let base = std::env::temp_dir().join(format!("timeloom-rogue-{}", std::process::id()));
    fs::create_dir_all(&base).unwrap();
    for suite in ["ed25519", "bls"] {
        let directory = base.join(suite);
        let output = run(&directory, &[&format!("network.ptp.security={suite}")]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(passed(output.status), "{suite}: {said}");
        assert!(failed(&directory).is_empty(), "{suite}");
    }
    let directory = base.join("none");
    let output = run(&directory, &["network.ptp.security=none"]);
    // The exit code for a machine that is too busy takes precedence over that for a failed check.
    assert!(matches!(output.status.code(), Some(1 | 4)), "{output:?}");
    assert_eq!(failed(&directory), ["noticed", "not-led-astray"]);
    fs::remove_dir_all(&base).unwrap();
}
