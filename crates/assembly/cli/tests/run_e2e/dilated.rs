//! Hosts whose time is dilated, and timeouts of their kernels, which are in real time.

use crate::support::{Lab, log_lines};

/// An answer is in flight for 40 ms of virtual time, which are 3.6 s of wall time. A kernel usually
/// gives up the search for a neighbour before that.
#[test]
fn a_neighbour_that_is_far_away_in_real_time_is_found() {
    let lab = Lab::with_text(
        r#"
schema = "timeloom/1"
name = "neighbours"
[time]
duration = "60 s"
dilation = 90
[network]
[system]
switches = ["core"]
links = [
    { between = ["near", "core"], delay = "10 ms" },
    { between = ["core", "far"], delay = "10 ms" },
]
[system.hosts.near]
address = "10.0.0.1/24"
programs = [{ name = "ask", run = ["ping", "-c", "1", "-W", "30", "10.0.0.2"], essential = false }]
[system.hosts.far]
address = "10.0.0.2/24"
"#,
    );
    let mut run = lab.start(&[]);
    run.wait_for_line("ask", "packets transmitted");
    run.signal(libc::SIGINT);
    let ended = run.wait();
    lab.assert_nothing_left();
    let said: Vec<String> = log_lines(&lab.run_path(), "ask")
        .into_iter()
        .map(|(_, line)| line)
        .collect();
    let said = said.join("\n");
    assert!(said.contains(" 1 received"), "{said} {}", ended.output());
}
