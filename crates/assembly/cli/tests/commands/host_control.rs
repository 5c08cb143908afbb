//! Control of single hosts of a run by a user, and the record of that in the results.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use timeloom_results::RunDirectory;
use timeloom_test_support::eventually;

fn timeloom(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .args(arguments)
        .output()
        .expect("running timeloom")
}

/// Returns the session's answer to a request.
fn ask(name: &str, request: &[&str]) -> Value {
    let output = timeloom(&[request, &["--json", "--name", name]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{request:?}: {said}");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Checks that a request is refused with a message that contains `reason`.
fn refused(name: &str, request: &[&str], reason: &str) {
    let output = timeloom(&[request, &["--name", name]].concat());
    assert_eq!(output.status.code(), Some(1), "{request:?}: {output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(reason), "`{reason}` is not in: {said}");
}

fn host<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let mut hosts = answer["hosts"].as_array().into_iter().flatten();
    let named = hosts.find(|host| host["name"] == name);
    named.unwrap_or_else(|| panic!("no {name} in {answer}"))
}

fn ns(host: &Value, key: &str) -> i64 {
    host[key].as_i64().expect("a number")
}

#[test]
fn a_host_is_paused_stepped_and_let_go_while_the_run_goes_on() {
    let directory = std::env::temp_dir().join(format!("timeloom-hosts-{}", std::process::id()));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut run = Command::new(env!("CARGO_BIN_EXE_timeloom"))
        .args(["run", "examples/hello/hello.toml", "-o"])
        .arg(&directory)
        .args(["--set", "time.duration=60 s"])
        .current_dir(&root)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("running timeloom");
    let name = format!("run-{}", run.id());
    let log = |name: &str| {
        let path = directory.join(format!("logs/{name}.log"));
        fs::read_to_string(path).unwrap_or_default()
    };
    eventually("greetings", || log("greet").lines().count() >= 2);

    let answer = ask(&name, &["pause", "--host", "alice"]);
    assert_eq!(host(&answer, "alice")["paused"], true, "{answer}");
    assert_eq!(host(&answer, "bob")["paused"], false, "{answer}");
    assert_eq!(answer["paused"], false, "the run goes on: {answer}");
    let mut lived_ns = ns(host(&answer, "alice"), "virtual_ns");
    for span_ns in [250_000_001, 1_000, 33_000_007] {
        lived_ns += span_ns;
        let span = format!("{span_ns}ns");
        let answer = ask(&name, &["step", &span, "--host", "alice"]);
        let alice = host(&answer, "alice");
        assert_eq!(ns(alice, "virtual_ns"), lived_ns, "{answer}");
        assert_eq!(alice["paused"], true, "{answer}");
        assert!(answer["stopped_after_ns"].as_i64() >= Some(0), "{answer}");
    }
    let answer = ask(&name, &["run-until", "+1ms", "--host=alice"]);
    assert_eq!(
        ns(host(&answer, "alice"), "virtual_ns"),
        lived_ns + 1_000_000
    );

    refused(&name, &["step", "1ms", "--host", "bob"], "is running");
    refused(
        &name,
        &["pause", "--host", "carol"],
        "there are: alice, bob",
    );
    refused(&name, &["dilate", "0", "--host", "bob"], "not possible");
    refused(&name, &["run-until", "1ns", "--host", "bob"], "in the past");
    // The session's own answers must name the hosts whose time differs from its own.
    let answer = ask(&name, &["pause"]);
    let named = answer["hosts"].as_array().into_iter().flatten();
    let named: Vec<&Value> = named.map(|host| &host["name"]).collect();
    assert_eq!(named, ["alice"], "{answer}");
    refused(
        &name,
        &["step", "1ms", "--host", "alice"],
        "session is paused",
    );
    ask(&name, &["resume"]);
    assert_eq!(host(&ask(&name, &["query"]), "alice")["paused"], true);

    // The run must continue while one of its hosts is stopped: two seconds pass for the others.
    let greeted = log("greet");
    let answer = ask(&name, &["dilate", "0.5"]);
    let until_ns = ns(&answer, "virtual_ns") + 2_000_000_000;
    while ns(&ask(&name, &["query"]), "virtual_ns") < until_ns {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(log("greet"), greeted, "nothing comes from it");
    let said = timeloom(&["query", "--name", &name]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(
        said.contains("host alice: ") && said.contains("s behind, dilation 1, standing"),
        "{said}"
    );
    assert!(!said.contains("host bob"), "{said}");
    let answer = ask(&name, &["resume", "--host", "alice,bob"]);
    let behind_ns = ns(host(&answer, "alice"), "behind_ns");
    assert!(behind_ns >= 2_000_000_000, "{answer}");
    let answer = ask(&name, &["dilate", "2", "--host", "alice", "--host", "bob"]);
    assert_eq!(host(&answer, "bob")["dilation"], 2.0, "{answer}");
    ask(&name, &["dilate", "0.05"]);
    assert!(run.wait().expect("it ends").success());

    let results = RunDirectory::open(&directory).expect("a run directory");
    let events = results.events().expect("its events");
    let of_alice = events.iter().filter(|event| &*event.host == "alice");
    let kinds: Vec<&str> = of_alice.map(|event| &*event.kind).collect();
    for kind in ["paused", "resumed", "dilated"] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
    let series = results
        .series(&["alice.clock.behind"])
        .expect("its signals");
    let samples = &series.first().expect("it was behind").samples;
    assert!(
        samples.windows(2).all(|pair| pair[0].1 <= pair[1].1),
        "{samples:?}"
    );
    let (at, behind_s) = *samples.last().expect("it was behind");
    assert_eq!(at.as_ns(), 60_000_000_000, "as it was at the end");
    assert!(behind_s > behind_ns as f64 / 1e9, "{behind_s}");
    let report = fs::read_to_string(directory.join("report.html")).expect("its report");
    assert!(report.contains("Lag of hosts that were paused or dilated"));
    fs::remove_dir_all(&directory).expect("its results");
}
