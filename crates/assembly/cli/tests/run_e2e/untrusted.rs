//! A machine that is too slow for a simulated network: it must be obvious that the results are
//! untrusted.

use std::time::Duration;

use crate::support::Lab;

/// Scenario in which two simulated hosts exchange a thousand datagrams per second for three
/// seconds.
const BUSY: &str = r#"
schema = "timeloom/1"
name = "busy"
time = { duration = "3 s" }
[network]
[[network.generate]]
name = "net"
shape = "star"
size = 2
[[network.traffic]]
from = "net-h0"
to = "net-h1"
kind = "udp"
rate = "8 Mbit/s"
[system.hosts.a]
address = "10.77.0.2/24"
[system]
links = [{ between = ["a", "net-switch"] }]
[[check]]
name = "holds-all-the-same"
assert = "max(a.clock.offset) < 1"
[system.hosts.a.clock]
"#;

/// The supervisor is stopped for half a second, but virtual time is not. Hundreds of the network's
/// events are then late, and a passed check must not look valid.
#[test]
fn a_run_that_is_not_to_be_trusted_says_so_first_and_has_an_exit_code_of_its_own() {
    let lab = Lab::with_text(BUSY);
    let mut run = lab.start(&[]);
    run.wait_until(0.5);
    run.signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_millis(500));
    run.signal(libc::SIGCONT);
    let run = run.wait();
    assert_eq!(run.code, 4, "{}", run.output());
    assert!(run.stdout.starts_with("UNTRUSTED: "), "{}", run.output());
    assert_eq!(run.stdout.matches("UNTRUSTED").count(), 1, "one line");
    let manifest = run.manifest();
    assert_eq!(manifest.untrusted.len(), 1, "{manifest:?}");
    let remedy = manifest.untrusted[0].split_once(" To do: ");
    assert!(remedy.is_some_and(|(_, what)| what.contains("time.dilation")));
    let report = std::fs::read_to_string(run.path().join("report.html"));
    let report = report.expect("there is a report");
    let banner = report
        .find("class=\"banner untrusted\"")
        .expect("it is said");
    assert!(banner < report.find("<table").expect("the runs are a table"));
    assert!(!report.contains("✓ done"), "it does not look well");
    lab.assert_nothing_left();
}
