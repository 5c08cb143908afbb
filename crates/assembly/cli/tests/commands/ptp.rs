//! Tests of `timeloom ptp` for users: keys, a laboratory, the end on a signal, and messages about
//! mistakes. Needs root, for network namespaces.

use std::process::{Command, Stdio};

use timeloom_test_support::{eventually, wait_for};

use crate::support::{Scratch, timeloom};

#[test]
fn keys_from_the_command_line() {
    let scratch = Scratch::new("ptp-keys");
    let at = |name: &str| scratch.path(name).display().to_string();
    let done = |arguments: &[&str]| {
        let ended = timeloom(&[&["ptp"], arguments].concat());
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.err);
        ended
    };
    done(&["keygen", &at("ops"), "--authority"]);
    done(&[
        "keygen",
        &at("gm"),
        "--name",
        "gm",
        "--clock",
        "02544c.fffe.000001",
        "--suite",
        "bls-once",
        "--ports",
        "2",
    ]);
    let (key, ring, public) = (
        at("ops/authority.key"),
        at("ops/ring.toml"),
        at("gm/node.pub"),
    );
    let sign = [
        "sign",
        "--authority",
        &key,
        "--ring",
        &ring,
        "--grandmaster",
        "gm",
        &public,
    ];
    assert!(done(&sign).out.contains("serial 1"));
    for file in ["ring.toml", "authority.pub"] {
        std::fs::copy(
            scratch.path("ops").join(file),
            scratch.path("gm").join(file),
        )
        .unwrap();
    }
    let shown = &done(&["show", &at("gm"), "--json"]).objects()[0];
    assert_eq!(shown["suite"], "bls-once");
    assert_eq!(shown["may_lead"], true);
    assert!(done(&["rotate", &at("gm")]).out.contains("epoch 2"));
    // An epoch that has ended must be reported with its reason, and with the exit code for user
    // errors.
    let ended = done(&[&sign[..], &["--not-after", "2001-01-01T00:00:00Z"]].concat());
    assert!(ended.out.contains("serial 2"), "{}", ended.out);
    std::fs::copy(scratch.path("ops/ring.toml"), scratch.path("gm/ring.toml")).unwrap();
    let refused = timeloom(&["ptp", "show", &at("gm")]);
    assert!(
        refused.code == Some(2) && refused.err.contains("expired"),
        "{}",
        refused.err
    );
}

#[test]
fn mistakes_are_said() {
    for (arguments, word) in [
        (&["slave", "-i", "nosuch0"][..], "nosuch0"),
        (&["slave", "-i", "lo"], "not an Ethernet"),
        (&["tc", "-i", "lo"], "two interfaces"),
        (&["slave", "-i", "lo", "--auth", "inline-bls"], "--keys"),
        (&["slave", "-i", "lo", "--keys", "/nowhere"], "--auth"),
        (&["slave", "-i", "lo", "--profile", "nosuch"], "61850-9-3"),
        (&["slave", "-i", "lo", "--policy", "lax"], "mixed=DURATION"),
        (&["lab", "--attack", "nosuch@1"], "correction"),
        (&["lab", "--hops", "17"], "16 hops"),
        (&["lab", "--hops", "1", "--tap", "2"], "no wire behind"),
        (&["attack", "nosuch"], "correction"),
        (&["attack", "flood", "--out", "/nowhere"], "ptp lab --tap"),
        (&["lab", "--ptp4l", "tc9"], "no node `tc9`"),
    ] {
        let ended = timeloom(&[&["ptp"], arguments].concat());
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.err);
        assert!(ended.err.contains(word), "{arguments:?}: {}", ended.err);
    }
}

#[test]
fn a_laboratory_with_an_attack() {
    let scratch = Scratch::new("ptp-lab");
    let out = scratch.path("out").display().to_string();
    let arguments = ["ptp", "lab", "--hops", "2", "--attack", "strip@1"];
    let length = ["--for", "120 s", "--syncs", "12"];
    let ended = timeloom(&[&arguments[..], &length, &["--out", &out, "--json"]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let told = &ended.objects()[0];
    assert!(
        told["accepted"].as_u64() > Some(3) && told["rejected"].as_u64() > Some(3),
        "{told}"
    );
    assert!(
        told["violations"]
            .to_string()
            .contains("unsigned between tc1 and tc2"),
        "{told}"
    );
    for file in ["evidence.jsonl", "slave.pcapng"] {
        assert!(
            std::fs::metadata(scratch.path("out").join(file))
                .unwrap()
                .len()
                > 1000,
            "{file}"
        );
    }
}

/// A hop that lies does not alter messages in transit. Each Sync that it forwards carries a false
/// statement about the hop itself.
#[test]
fn a_hop_that_lies_is_counted_by_the_syncs_with_its_lie() {
    let scratch = Scratch::new("ptp-lie");
    let out = scratch.path("out").display().to_string();
    let arguments = ["ptp", "lab", "--hops", "1", "--attack", "lie@1"];
    let length = ["--for", "120 s", "--syncs", "12", "--out", &out];
    let ended = timeloom(&[&arguments[..], &length].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let count = ended.out.lines().find_map(|line| {
        let rest = line.strip_prefix("attack lie by place 1: in each of ")?;
        rest.strip_suffix(" Syncs")?.parse::<u64>().ok()
    });
    assert!(count >= Some(12), "{}", ended.out);
}

/// Without an attack, the error of the slave's clock must be about that of a laboratory without a
/// tap (1 us). A cable whose frames a program forwards adds 20 us at least. Other load
/// on the machine may begin between the two laboratories, so a pair of them has three attempts.
#[test]
fn a_tap_without_an_attack_disturbs_no_clock_and_reports_no_violation() {
    let scratch = Scratch::new("ptp-peace");
    let out = scratch.path("out").display().to_string();
    let median_error_ns = |auth: &str, tap: &[&str]| {
        let arguments = ["ptp", "lab", "--hops", "2", "--auth", auth, "--out", &out];
        let length = ["--for", "120 s", "--syncs", "30", "--json"];
        let ended = timeloom(&[&arguments[..], &length, tap].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        let told = &ended.objects()[0];
        assert!(told["accepted"].as_u64() >= Some(30), "{auth}: {told}");
        for none in ["attacked", "rejected", "unsigned"] {
            assert_eq!(told[none], 0, "{auth}: {none} in {told}");
        }
        assert_eq!(told["violations"], serde_json::json!({}), "{auth}: {told}");
        told["offset"]["median_ns"]
            .as_f64()
            .expect("measured")
            .abs()
    };
    for auth in ["inline-ed25519", "secondary"] {
        let mut pairs = Vec::new();
        let is_undisturbed = (0..3).any(|_| {
            let usual_ns = median_error_ns("inline-ed25519", &[]);
            let tapped_ns = median_error_ns(auth, &["--tap", "1"]);
            pairs.push((usual_ns, tapped_ns));
            tapped_ns < 5.0 * usual_ns + 10_000.0
        });
        assert!(
            is_undisturbed,
            "{auth}: median errors in ns without and with a tap: {pairs:?}"
        );
    }
}

/// The laboratory works normally, is attacked while it runs, and works normally again.
#[test]
fn a_laboratory_is_attacked_while_it_runs() {
    let scratch = Scratch::new("ptp-tap");
    let out = scratch.path("out").display().to_string();
    let mut lab = Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .args(["ptp", "lab", "--hops", "2", "--auth", "inline-ed25519"])
        .args(["--tap", "1", "--for", "1000 s", "--out", &out, "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("timeloom can be started");
    let attack = |name: &str| {
        let arguments = [
            "ptp", "attack", name, "--for", "500 ms", "--out", &out, "--json",
        ];
        // Waits until the laboratory is ready.
        wait_for("a laboratory that can be attacked", || {
            let ended = timeloom(&arguments);
            (ended.code == Some(0)).then(|| ended.objects()[0].clone())
        })
    };
    // Before the clocks are synchronised, there is no Follow_Up that can be attacked.
    eventually("a Follow_Up", || attack("strip")["attacked"] != 0);
    wait_for("a clock that notices it", || {
        let told = attack("correction");
        let noticed = told["violations"].to_string();
        let is_attacked = told["attacked"].as_u64() > Some(0);
        (is_attacked && noticed.contains("between tc1 and tc2")).then_some(())
    });
    let lie = timeloom(&["ptp", "attack", "lie", "--out", &out]);
    assert!(
        lie.code == Some(2) && lie.err.contains("one of a hop"),
        "{}",
        lie.err
    );

    Command::new("kill")
        .arg(lab.id().to_string())
        .status()
        .unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut lab.stdout.take().unwrap(), &mut said).unwrap();
    assert!(lab.wait().unwrap().success(), "{said}");
    let told: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert!(told["attacked"].as_u64() >= Some(2), "both attacks: {told}");
    assert!(!scratch.path("out").join("attack.sock").exists());
}

#[test]
fn a_program_ends_cleanly_on_sigterm() {
    let scratch = Scratch::new("ptp-term");
    let log = scratch.path("log.jsonl");
    // The namespace has one end of a cable, whose opposite end is idle.
    let script = format!(
        "ip link add eth0 type veth peer name eth1 && ip link set eth0 up && ip link set eth1 up && \
         exec {} ptp gm -i eth0 --log {} --quiet",
        env!("CARGO_BIN_EXE_timeloom"),
        log.display()
    );
    let mut child = Command::new("unshare")
        .args(["-n", "sh", "-c", &script])
        .stderr(Stdio::piped())
        .spawn()
        .expect("run this test as root, with util-linux and iproute2");
    let leads = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("\"master\""));
    eventually("a grandmaster", leads);
    Command::new("kill")
        .arg(child.id().to_string())
        .status()
        .unwrap();
    let status = child.wait().unwrap();
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    assert!(status.success(), "{status} {text}");
    let last = text.lines().last().unwrap();
    assert!(
        last.contains("\"summary\"") && text.contains("\"master\""),
        "{text}"
    );
}
