//! Simulated network in two engine processes, one of which leaves on request during the run, and
//! joins again.

use std::collections::BTreeSet;

use crate::engine_processes::{PROCESSES, process_of, processes_of};
use crate::engines::{Beside, asks, two_engines};
use crate::support::{Lab, Running, log_lines};

/// Scenario with 2 s between the routers, so that packets are in flight for a long time. Each host
/// sends increasing numbers to the other. Simulated datagrams cross the link as well.
fn tells() -> String {
    let traffic = r#"
    { from = "bg-r0", to = "bg-l0", kind = "poisson", rate = "100 kbit/s", name = "datagrams" },
    { from = "bg-r0", to = "bg-r1", kind = "poisson", rate = "100 kbit/s", name = "inner" },
"#;
    let beside = Beside { size: 2, traffic };
    let apart = r#"rate = "100 Mbit/s", delay = "2 s""#;
    two_engines("leaves", "600 s", apart, Some(beside), TELLS)
}

const TELLS: &str = r#"
[[system.hosts.far.programs]]
name = "far"
run = ["python3", "-u", "-S", "tells.py", "10.1.0.2"]
[[system.hosts.near.programs]]
name = "near"
run = ["python3", "-u", "-S", "tells.py", "10.2.0.2"]
"#;

/// Program that sends a number to the other host every 5 ms, and prints the numbers sent and
/// received.
const PROGRAM: &str = r#"
import os, socket, sys, threading, time
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.bind(("", 7000))
def hear():
    while True:
        os.write(1, b"heard %s\n" % line.recv(100))
threading.Thread(target=hear, daemon=True).start()
number = 0
while True:
    line.sendto(b"%d" % number, (sys.argv[1], 7000))
    os.write(1, b"told %d\n" % number)
    number += 1
    time.sleep(0.005)
"#;

/// Returns the numbers that a program printed after `word`, with their instants.
fn numbers(lab: &Lab, program: &str, word: &str) -> Vec<(i64, u64)> {
    let lines = log_lines(&lab.run_path(), program).into_iter();
    let number = |(at, line): (i64, String)| {
        let number = line.strip_prefix(word)?.trim().parse().ok()?;
        Some((at, number))
    };
    lines.filter_map(number).collect()
}

/// Waits until each host has received a number that the other sent after `since`.
fn wait_for_words(lab: &Lab, run: &mut Running<'_>, since: [u64; 2]) {
    for (program, since) in ["near", "far"].into_iter().zip(since) {
        run.wait_for_line(program, "heard");
        run.wait_for("nothing comes any more", |_| {
            let heard = numbers(lab, program, "heard");
            heard.iter().any(|(_, number)| *number > since)
        });
    }
}

/// Returns the last number that each host has sent.
fn told(lab: &Lab) -> [u64; 2] {
    ["far", "near"].map(|program| {
        let told = numbers(lab, program, "told");
        told.last().map_or(0, |(_, number)| *number)
    })
}

#[test]
fn an_engine_leaves_in_order_and_joins_again() {
    let lab = Lab::with_text(&tells());
    std::fs::write(lab.path().join("tells.py"), PROGRAM).expect("a file");
    let encrypts = "network.engines.encrypt=true";
    let mut run = lab.start(&[PROCESSES, encrypts]);
    wait_for_words(&lab, &mut run, [0, 0]);
    let first = process_of(&run, "east");

    run.control("pause").expect("it is paused");
    let told_before = told(&lab);
    // After that step, all packets that were sent are on the cable or beyond.
    let status = run.control("step 100ms").expect("it steps");
    let left_ns = status["virtual_ns"].as_i64().expect("an instant");
    run.control("leave east").expect("it leaves");
    assert!(processes_of(&run, "east").is_empty());
    let refusal = run.control("leave east").expect_err("it is not here");
    assert!(
        refusal.contains("engine east cannot leave: it has left"),
        "{refusal}"
    );
    run.control("resume").expect("it goes on");

    // Packets that left the part before must be delivered, although the part is away.
    let [by_far, _] = told_before;
    run.wait_for("what was on the cable does not come", |_| {
        let heard = numbers(&lab, "near", "heard");
        heard.iter().any(|(_, number)| *number >= by_far)
    });
    // The kernel queues a thousand frames for an interface without a reader, and drops further
    // ones.
    let since = told(&lab)[0];
    run.wait_for("far does not go on", |_| told(&lab)[0] > since + 2_000);
    run.control("join east").expect("it joins");
    let second = process_of(&run, "east");
    assert_ne!(first, second);
    let refusal = run.control("join east").expect_err("it is here");
    assert!(
        refusal.contains("engine east cannot join: it is here"),
        "{refusal}"
    );
    let since = told(&lab);
    wait_for_words(&lab, &mut run, since);
    run.signal(libc::SIGTERM);
    let ended = run.wait();
    lab.assert_nothing_left();

    let heard = numbers(&lab, "near", "heard");
    let heard: BTreeSet<u64> = heard.into_iter().map(|(_, number)| number).collect();
    let missing: Vec<u64> = (0..=by_far)
        .filter(|number| !heard.contains(number))
        .collect();
    assert!(missing.is_empty(), "{missing:?} of {by_far} never came");

    let directory = ended.directory();
    let events = directory.events().expect("readable");
    let all = |kind: &str| -> Vec<&str> {
        let events = events.iter().filter(|event| &*event.kind == kind);
        events.map(|event| &*event.text).collect()
    };
    let output = ended.output();
    assert_eq!(all("died"), [""; 0], "{output}");
    let left = events.iter().find(|event| &*event.kind == "left");
    let left = left.unwrap_or_else(|| panic!("nothing says that it left: {output}"));
    assert!(left.text.contains("engine east"), "{}", left.text);
    assert_eq!(left.t_virtual.as_ns(), left_ns, "{}", left.text);
    let joined = all("joined");
    assert_eq!(joined.len(), 1, "{output}");
    assert!(joined[0].contains("engine east"), "{joined:?}");
    assert!(joined[0].contains("the kernel dropped"), "{joined:?}");
    // Each process must report its activity.
    let summaries = all("summary");
    let of_east = summaries
        .iter()
        .filter(|text| text.starts_with("engine east: "));
    assert_eq!(of_east.count(), 2, "{summaries:?}");
    let cuts = all("cut");
    assert_eq!(cuts.len(), 3, "{cuts:?}");
    assert!(cuts.iter().all(|cut| cut.contains(" 0 lost")), "{cuts:?}");
    // The machine may be too busy for the network, but no packet may be lost.
    for doubt in all("untrusted") {
        let is_of_speed = doubt.contains("too slow") && !doubt.contains("kernel dropped");
        assert!(is_of_speed || doubt.contains("came too late"), "{doubt}");
    }
    // The counters of both processes of the part must be added.
    let sent_and_arrived = of_flow(&all("traffic"), "bg-r0 to bg-r1");
    assert!(sent_and_arrived.1 > 0, "{sent_and_arrived:?}");
}

/// Returns the numbers of packets of a flow that were sent, and that arrived.
fn of_flow(traffic: &[&str], name: &str) -> (u64, u64) {
    let told = traffic.iter().find_map(|text| text.strip_prefix(name));
    let told = told.unwrap_or_else(|| panic!("{name}: {traffic:?}"));
    let words: Vec<&str> = told.split_whitespace().collect();
    let before = |what: &str, back: usize| -> u64 {
        let at = words.iter().position(|word| *word == what);
        words[at.expect("it is said") - back]
            .parse()
            .expect("a number")
    };
    (before("packets", 1), before("arrived", 1))
}

#[test]
fn an_engine_that_is_away_at_the_end_is_no_loss() {
    let lab = Lab::with_text(&tells());
    std::fs::write(lab.path().join("tells.py"), PROGRAM).expect("a file");
    let mut run = lab.start(&[PROCESSES]);
    wait_for_words(&lab, &mut run, [0, 0]);
    run.control("leave east").expect("it leaves");
    let since = run.virtual_s().expect("it runs");
    run.wait_until(since + 1.0);
    run.signal(libc::SIGTERM);
    let ended = run.wait();
    lab.assert_nothing_left();
    let events = ended.directory().events().expect("readable");
    let has = |text: &str| events.iter().any(|event| event.text.contains(text));
    assert!(has("its part is away from"), "{}", ended.output());
    assert!(!has("has died"), "{}", ended.output());
    // The engine has reported the packets that it sent. All must have arrived except those in its
    // own part.
    let traffic = events.iter().filter(|event| &*event.kind == "traffic");
    let traffic: Vec<&str> = traffic.map(|event| &*event.text).collect();
    for name in ["bg-r0 to bg-l0", "bg-r0 to bg-r1"] {
        let (sent, arrived) = of_flow(&traffic, name);
        assert!(
            arrived > 0 && (arrived..arrived + 4).contains(&sent),
            "{traffic:?}"
        );
    }
}

#[test]
fn an_engine_that_cannot_leave_or_join_is_refused_with_the_reason() {
    let lab = Lab::with_text(&asks());
    let mut run = lab.start(&[PROCESSES]);
    run.wait_for_line("ask", "far answers");
    let refusal = run.control("leave south").expect_err("there is none");
    assert!(refusal.contains("there is no engine south"), "{refusal}");
    let refusal = run.control("join west").expect_err("it is here");
    assert!(refusal.contains("it is here"), "{refusal}");
    // Both engines may leave, and may join in any order.
    for request in ["leave east", "leave west", "join east", "join west"] {
        run.control(request)
            .unwrap_or_else(|why| panic!("{request}: {why}"));
    }
    let answers = |text: &str| {
        let lines = log_lines(&lab.run_path(), "ask").into_iter();
        lines.filter(|(_, line)| line == text).count()
    };
    let before = answers("far answers");
    run.wait_for("far does not answer any more", |_| {
        answers("far answers") > before
    });
    run.signal(libc::SIGTERM);
    run.wait();
    lab.assert_nothing_left();

    let lab = Lab::with_text(&asks());
    let mut run = lab.start(&[]);
    run.wait_for_line("ask", "far answers");
    let refusal = run.control("leave east").expect_err("it is a thread");
    assert!(refusal.contains("processes = true"), "{refusal}");
    run.signal(libc::SIGTERM);
    run.wait();
}
