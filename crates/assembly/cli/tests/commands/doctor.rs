//! Tests of `timeloom doctor`, on the machine on which the tests run.

use crate::support::timeloom;
use serde_json::Value;

#[test]
fn findings_verdicts_and_exit_code_agree() {
    let ended = timeloom(&["doctor", "--json"]);
    let objects = ended.objects();
    let (verdicts, findings): (Vec<&Value>, Vec<&Value>) = objects
        .iter()
        .partition(|object| object["command"].is_string());

    for feature in [
        "kernel",
        "ptrace",
        "memfd",
        "clock source",
        "rights",
        "network: Open vSwitch",
        "arpspoof",
    ] {
        assert!(
            findings.iter().any(|finding| finding["feature"] == feature),
            "{feature}: {}",
            ended.out
        );
    }
    for finding in &findings {
        let bad = finding["state"] != "ok";
        assert_eq!(finding["consequence"].is_string(), bad, "{finding}");
        assert_eq!(finding["fix"].is_string(), bad, "{finding}");
    }
    let [exec, run] = verdicts[..] else {
        panic!("{}", ended.out);
    };
    assert_eq!(
        (&exec["command"], &run["command"]),
        (&"exec".into(), &"run".into())
    );
    let missing = findings
        .iter()
        .any(|finding| finding["needed_for"] == "exec" && finding["state"] == "missing");
    assert_eq!(exec["state"] == "missing", missing, "{}", ended.out);
    assert_eq!(ended.code, Some(if missing { 3 } else { 0 }));
    if missing {
        assert_eq!(run["state"], "missing", "run needs what exec needs");
    } else {
        // The doctor's findings must agree with what `exec` does.
        let ended = timeloom(&["exec", "--quiet", "--", "true"]);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
    }
}

/// The version of Open vSwitch and its datapath must be shown.
#[test]
fn the_datapath_of_open_vswitch_is_named() {
    timeloom_test_support::need("ovs-vsctl", "openvswitch-switch");
    let objects = timeloom(&["doctor", "--json"]).objects();
    let mut found = objects.iter();
    let found = found.find(|object| object["feature"] == "network: Open vSwitch");
    let found = found.expect("it is looked at");
    assert_eq!(found["state"], "ok", "{found}");
    let detail = found["detail"].as_str().expect("a text");
    assert!(detail.starts_with("Open vSwitch "), "{detail}");
    let names = ["the kernel's datapath", "the datapath in user space"];
    assert!(names.iter().any(|name| detail.contains(name)), "{detail}");
}

#[test]
fn people_get_a_line_for_each_and_a_verdict() {
    let ended = timeloom(&["doctor"]);
    assert!(matches!(ended.code, Some(0 | 3)), "{}", ended.err);
    for part in [
        "kernel",
        "network: ",
        "\ntimeloom exec  ",
        "\ntimeloom run   ",
    ] {
        assert!(ended.out.contains(part), "{part}: {}", ended.out);
    }
}

/// `ip netns exec` gives a program a `/sys` of its own without a cgroup mount. The fix that
/// `doctor` suggests must work there.
#[test]
fn the_suggested_fix_works_without_a_cgroup_mount() {
    let doctor = |prepare: &str| {
        let script = format!(
            "umount -l /sys && mount -t sysfs lab /sys && {prepare} exec {} doctor --json",
            env!("CARGO_BIN_EXE_timeloom")
        );
        let output = std::process::Command::new("unshare")
            .args(["--mount", "--net", "sh", "-c", &script])
            .output()
            .expect("unshare of util-linux is installed");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let found = said.lines().find(|line| line.contains("pause and resume"));
        let found = found.unwrap_or_else(|| panic!("{output:?}"));
        serde_json::from_str::<serde_json::Value>(found).expect("an object")
    };
    let hidden = doctor("");
    assert_eq!(hidden["state"], "degraded", "{hidden}");
    let fix = hidden["fix"].as_str().expect("a fix");
    assert!(fix.contains("nsenter --net="), "{fix}");
    let mount = "mount -t cgroup2 none /sys/fs/cgroup";
    assert!(fix.contains(mount), "{fix}");
    let mended = doctor(&format!("{mount} &&"));
    assert_eq!(mended["state"], "ok", "{mended}");
}
