//! Runs whose time is granted from outside: `mode = "stepped"`.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use timeloom_results::Outcome;

use crate::support::{Lab, Running, Scenario, log_lines, patiently, timeloom};

const STEPPED: &str = "time.mode=stepped";
const MS: i64 = 1_000_000;

/// Grants time like a user, by `timeloom REQUEST INSTANT`. Each call acts as a separate granter.
fn grant(lab: &Lab, request: &str, how_far: &str) -> Result<Value, String> {
    let output = timeloom(&[request, how_far, "--name", lab.name(), "--json"]);
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

/// Sends the first grant once there is a session. A grant that is sent while the run starts must
/// wait.
fn first_grant(lab: &Lab, at: &str) -> Value {
    let mut status = Err(String::new());
    patiently(Duration::from_secs(120), || {
        status = grant(lab, "run-until", at);
        status.is_ok()
    });
    status.unwrap_or_else(|error| panic!("it is never granted: {error}"))
}

/// Starts a simulator in Python, which grants steps of 100 ms and computes for 30 ms in each. It
/// prints the granted instants.
fn simulator(lab: &Lab, script: &str) -> Child {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../python");
    Command::new("python3")
        .args(["-c", script, lab.name()])
        .env("PYTHONPATH", python)
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 can be started")
}

const SIMULATOR: &str = "
import sys, time
from timeloom.control import Granter
with Granter(sys.argv[1], wait_s=60) as testbed:
    assert testbed.standing.now_ns == 0
    while not testbed.standing.ended:
        time.sleep(0.03)
        testbed.grant_ns(testbed.standing.now_ns + 100_000_000)
        print(testbed.standing.now_ns, flush=True)
";

fn ticking() -> Scenario {
    Scenario::lasting("1050 ms")
        .program('a', "ticks", &["python3", "ticks.py", "0.02"], "")
        .program(
            'b',
            "client",
            &["python3", "poll.py", "10.0.0.10", "0.02"],
            "",
        )
        .plant("{ slow_ms = 5 }")
}

/// The plant and the simulator take wall time, which no program may notice. All instants must be
/// those that were granted.
#[test]
fn a_run_goes_as_far_as_it_is_granted() {
    let lab = Lab::new(&ticking());
    let run = lab.start(&[STEPPED]);
    let granter = simulator(&lab, SIMULATOR);
    let said = granter.wait_with_output().expect("it ends");
    assert!(said.status.success());
    let run = run.wait().succeeded();
    let granted: Vec<i64> = String::from_utf8_lossy(&said.stdout)
        .lines()
        .map(|line| line.parse().expect("an instant"))
        .collect();
    let mut expected: Vec<i64> = (1..=10).map(|step| step * 100 * MS).collect();
    // The last grant was beyond the end of the run, and was answered at the end.
    expected.push(1050 * MS);
    assert_eq!(granted, expected);

    let manifest = run.manifest();
    assert_eq!(manifest.virtual_duration.as_ns(), 1050 * MS);
    assert_eq!(manifest.time_mode, "stepped");
    let grants = manifest.grants.expect("it was granted time");
    assert_eq!(grants.count, 11);
    assert!(grants.waited.as_ns() >= 11 * 30 * MS, "{grants:?}");
    let report = std::fs::read_to_string(lab.run_path().join("report.html")).expect("a report");
    assert!(report.contains("stepped: 11 grants, which took "));

    let rows = run.directory().clock().expect("the clock's rows");
    let stood: Vec<i64> = rows
        .iter()
        .filter(|row| &*row.requester == "granter" && row.action.as_str() == "resume")
        .map(|row| row.t_virtual.as_ns())
        .collect();
    // The simulator holds the run from the start on. After the last grant, its hold is released
    // only at the very end of the run, which the record may not contain any more.
    let stands: Vec<i64> = (0..11).map(|step| step * 100 * MS).collect();
    assert_eq!(stood[..stands.len().min(stood.len())], stands);
    assert!(
        matches!(stood[stands.len()..], [] | [1_050_000_000]),
        "{stood:?}"
    );
    for (_, line) in log_lines(&lab.run_path(), "client") {
        let Some(numbers) = line.strip_prefix("sample ") else {
            continue;
        };
        let numbers: Vec<i64> = numbers.split(' ').map(|n| n.parse().expect("ns")).collect();
        let [before, after, plant, _] = numbers[..] else {
            panic!("{line}");
        };
        assert!((before..=after).contains(&plant), "{line}");
    }
    // The program's own clock must have been stopped while the simulator computed. No tick may be
    // early or after the granted instant, and no line may be stamped before it was printed.
    let log = log_lines(&lab.run_path(), "ticks");
    let ticks: Vec<(i64, i64, i64)> = log
        .iter()
        .filter_map(|(stamp_us, line)| {
            let (count, at) = line.strip_prefix("tick ")?.split_once(' ')?;
            Some((*stamp_us, count.parse().ok()?, at.parse().ok()?))
        })
        .collect();
    assert!(ticks.len() >= 10, "{log:?}");
    for (expected, (stamp_us, count, at)) in (1..).zip(&ticks) {
        assert_eq!(*count, expected, "{log:?}");
        assert!((count * 20 * MS..=1050 * MS).contains(at), "{log:?}");
        assert!((at / 1000..=1_050_000).contains(stamp_us), "{log:?}");
    }
}

/// Grants the first 300 ms of virtual time.
fn held(lab: &Lab) {
    let status = first_grant(lab, "300 ms");
    assert_eq!(status["virtual_ns"], 300 * MS, "{status}");
    assert_eq!(status["paused"], true, "{status}");
}

#[test]
fn invalid_grants_are_refused() {
    let lab = Lab::new(&Scenario::lasting("2 s").program(
        'a',
        "ticks",
        &["python3", "ticks.py", "0.02"],
        "",
    ));
    let run = lab.start(&[STEPPED]);
    held(&lab);
    for (request, how_far, reason) in [
        ("run-until", "300 ms", "in the past"),
        ("run-until", "1 ms", "in the past"),
        ("skip", "on", "cannot skip"),
    ] {
        let refused = grant(&lab, request, how_far).expect_err("it is refused");
        assert!(refused.contains(reason), "{request} {how_far}: {refused}");
    }
    let refused = run.control("resume").expect_err("it is refused");
    assert!(refused.contains("by grants only"), "{refused}");
    let status = grant(&lab, "step", "1 ms").expect("it goes on");
    assert_eq!(status["virtual_ns"], 301 * MS, "{status}");
    // The user can hold the run in addition, and a grant must wait for both holds.
    run.control("pause").expect("it can be paused");
    run.control("resume").expect("it was paused by hand");
    let status = run.control("query").expect("it answers");
    assert_eq!(status["virtual_ns"], 301 * MS, "{status}");
    // A grant that is beyond the end of the run must end with the run.
    let status = grant(&lab, "run-until", "1 h").expect("it goes on");
    assert_eq!(status["virtual_ns"], 2_000 * MS, "{status}");
    assert_eq!(status["standing"]["ended"], true, "{status}");
    run.wait().succeeded();
}

#[test]
fn a_run_whose_granter_dies_names_it() {
    let lab = Lab::new(&ticking());
    let run = lab.start(&[STEPPED, "time.stepped.patience=\"2 s\""]);
    let mut granter = simulator(
        &lab,
        "
import sys, os, time
from timeloom.control import Granter
testbed = Granter(sys.argv[1], wait_s=60)
testbed.grant(0.25)
os.kill(os.getpid(), 9)
",
    );
    let pid = granter.id().to_string();
    assert!(!granter.wait().expect("it ends").success());
    let run = run.wait();
    assert!(
        run.stderr.contains("time stands at 250 ms"),
        "{}",
        run.output()
    );
    let run = run.blames(&["granter", "has disconnected", &pid, "250 ms"]);
    assert_eq!(run.manifest().virtual_duration.as_ns(), 250 * MS);
    lab.assert_nothing_left();
}

#[test]
fn a_run_without_a_granter_names_the_missing_granter() {
    let lab = Lab::new(&ticking());
    let run = lab.run(&[STEPPED, "time.stepped.patience=\"500 ms\""]);
    run.blames(&["granter", "no granter has connected"]);
    lab.assert_nothing_left();
}

fn ends_by(signal: i32, ended: impl FnOnce(Running<'_>)) {
    let lab = Lab::new(
        &Scenario::lasting("600 s")
            .program('a', "ticks", &["python3", "ticks.py", "0.02"], "")
            .plant("{}"),
    );
    let run = lab.start(&[STEPPED]);
    held(&lab);
    run.signal(signal);
    ended(run);
    lab.assert_nothing_left();
}

#[test]
fn ctrl_c_ends_a_run_that_stands_for_its_granter() {
    ends_by(libc::SIGINT, |run| {
        let run = run.wait();
        assert_eq!(run.code, 1, "{}", run.output());
        let manifest = run.manifest();
        assert_eq!(manifest.outcome, Outcome::Interrupted);
        assert_eq!(manifest.virtual_duration.as_ns(), 300 * MS);
    });
}

#[test]
fn a_run_that_is_killed_while_it_stands_for_its_granter_leaves_nothing() {
    ends_by(libc::SIGKILL, |run| {
        assert_eq!(run.wait().code, 128 + libc::SIGKILL);
    });
}

/// Within a grant, time must skip while everything waits.
#[test]
fn a_run_that_skips_within_its_grants() {
    let lab = Lab::new(&Scenario::lasting("300 s").program(
        'a',
        "ticks",
        &["python3", "ticks.py", "10"],
        "",
    ));
    let run = lab.start(&[STEPPED, "time.stepped.skip=true"]);
    let granter = simulator(&lab, &SIMULATOR.replace("100_000_000", "15_000_000_000"));
    let said = granter.wait_with_output().expect("it ends");
    assert!(said.status.success());
    let run = run.wait().succeeded();
    let manifest = run.manifest();
    assert_eq!(manifest.virtual_duration.as_s_f64(), 300.0);
    assert_eq!(manifest.grants.expect("it was granted time").count, 20);
    assert!(
        manifest.wall_duration.as_s_f64() < 150.0,
        "nothing was skipped"
    );
    let ticks = log_lines(&lab.run_path(), "ticks");
    let ticks = ticks.iter().filter(|(_, line)| line.starts_with("tick "));
    assert!(ticks.count() >= 28);
}
