//! The state of a run by the socket of a page: of a run that has ended, of one that grows, and for
//! a page that does not read.

use std::io::Write as _;

use timeloom_results::{LabelRow, Outcome};
use timeloom_time::Instant;

use crate::support::{Lab, event, manifest, sample};

#[test]
fn a_run_that_has_ended_is_shown_whole() {
    let lab = Lab::new();
    lab.finished("demo/calm");
    let mut page = lab.page("demo/calm");
    let (mut run, mut clock, mut signal, mut program) = (None, None, None, None);
    while run.is_none() || clock.is_none() || signal.is_none() || program.is_none() {
        let (message, _) = page.next();
        let take = |name: &str| message.get(name).cloned();
        let (new_run, new_clock) = (take("run"), take("clock"));
        run = new_run.or(run);
        clock = new_clock.or(clock);
        signal = take("signals").map(|all| all[0].clone()).or(signal);
        program = take("programs")
            .map(|all| all[0].clone())
            .filter(|one| !one.is_null())
            .or(program);
    }
    let (run, clock) = (run.expect("told"), clock.expect("told"));
    assert_eq!((&run["state"], &run["seed"]), (&"done".into(), &7.into()));
    assert_eq!(run["untrusted"], serde_json::json!([]));
    assert_eq!(clock["virtual_s"], 2.0);
    let signal = signal.expect("told");
    assert_eq!(signal["name"], serde_json::json!(["tank.level", "m"]));
    assert_eq!(
        (&signal["t"], &signal["low"]),
        (&serde_json::json!([1.0]), &serde_json::json!([2.5]))
    );
    assert_eq!(program.expect("told")["state"], "running");
}

#[test]
fn a_page_follows_a_run_to_its_end() {
    let lab = Lab::new();
    let (run, recorder) = lab.run("tank");
    let mut page = lab.page("tank");
    let state = page.find(|message| message["run"]["state"].as_str().map(str::to_owned));
    assert_eq!(state, "unfinished", "no session writes it");
    // Rows that are in their files are shown.
    recorder
        .event(&event(5, "control", "by the live view: paused"))
        .expect("room");
    let text = page.find(|message| {
        message["events"]["added"][0]["text"]
            .as_str()
            .map(str::to_owned)
    });
    assert_eq!(text, "by the live view: paused");
    recorder
        .label(&LabelRow {
            start: Instant::from_ns(1_000_000_000),
            end: Instant::FAR_FUTURE,
            technique: "T0830".into(),
            target: "plc".into(),
            attack: "mitm".into(),
        })
        .expect("room");
    let attack = page.find(|message| message["attacks"].get(0).cloned());
    assert_eq!(
        (&attack["name"], &attack["end_s"]),
        (&"mitm".into(), &serde_json::Value::Null)
    );
    let (mut log, _) = run.log("plc").expect("it can be made");
    writeln!(log, "[    0.000005] hello").expect("room");
    page.find(|message| {
        message["logs"]
            .as_array()
            .filter(|all| !all.is_empty())
            .cloned()
    });
    page.say(r#"{"logs":["plc"]}"#);
    let tail = page.find(|message| message["tails"]["plc"][0].as_str().map(str::to_owned));
    assert_eq!(tail, "[    0.000005] hello");
    recorder
        .signal(&sample("level", 7_000_000_000, 3.5))
        .expect("room");
    recorder.finish().expect("room");
    let mut manifest = manifest("tank");
    manifest.outcome = Outcome::Done;
    run.write_manifest(&manifest).expect("room");
    let last = page.find(|message| message["signals"][0]["summary"]["last"].as_f64());
    assert_eq!(
        last, 3.5,
        "the last row is read although its journal is gone"
    );
}

/// Rows of many seconds while a page does not read: it then gets the last state, in far fewer
/// messages and bytes than there were changes.
#[test]
fn a_slow_page_gets_the_latest_state_and_nothing_is_queued() {
    let lab = Lab::new();
    let (_run, recorder) = lab.run("tank");
    let mut slow = lab.page("tank");
    let mut fast = lab.page("tank");
    let (rounds, samples) = (20, 2000);
    let text = "x".repeat(900);
    let mut sent = 0;
    for round in 0..rounds {
        for number in 0..samples {
            let ns = (round * samples + number) * 1_000_000;
            for signal in ["a", "b", "c"] {
                recorder
                    .signal(&sample(signal, ns, number as f64))
                    .expect("room");
            }
            recorder.event(&event(ns, "write", &text)).expect("room");
        }
        recorder.flush().expect("room");
        // One page reads each change; the other none.
        let seen = (round + 1) * samples;
        while fast_seen(&mut fast, &mut sent) < seen {}
    }
    let mut received = 0;
    loop {
        let (message, length) = slow.next();
        received += length;
        if message["events"]["seen"] == rounds * samples {
            break;
        }
    }
    // The kernel buffers some messages; after them comes one difference to the present.
    assert!(received < sent, "{received} of {sent} bytes");
    assert!(
        sent > 15_000_000,
        "more than the kernel's buffers hold: {sent}"
    );
}

/// Returns the number of events that the page knows of after its next message that has any.
fn fast_seen(page: &mut crate::support::Page, sent: &mut usize) -> i64 {
    loop {
        let (message, length) = page.next();
        *sent += length;
        if let Some(seen) = message["events"]["seen"].as_i64() {
            return seen;
        }
    }
}
