//! The kernel stops using the counter that guests read.

use std::fs;
use std::path::Path;

use timeloom_results::Outcome;

use crate::support::{Lab, Scenario};

/// File from which a supervisor learns the kernel's clock source.
const PLACE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

const COUNTER: &str = if cfg!(target_arch = "x86_64") {
    "tsc\n"
} else {
    "arch_sys_counter\n"
};

/// The supervisor reads a file of the test instead, because the machine's file is shared.
#[test]
fn a_counter_that_the_kernel_leaves_makes_a_run_untrusted() {
    let ticks = ["python3", "ticks.py", "0.01"];
    let lab = Lab::new(&Scenario::lasting("600 s").program('a', "client", &ticks, ""));
    let source = lab.path().join("clocksource");
    fs::write(&source, COUNTER).expect("ours");
    let mut run = lab.start_seeing(&source, Path::new(PLACE));
    run.wait_until(0.2);
    fs::write(&source, "hpet\n").expect("ours");
    run.wait_for_warning("hpet");
    let at = run.control("query").expect("it answers");
    let at_s = at["virtual_ns"].as_f64().expect("a number") * 1e-9;
    run.wait_until(at_s + 0.2);
    run.signal(libc::SIGTERM);
    let run = run.wait();
    let manifest = run.manifest();
    assert_eq!(manifest.outcome, Outcome::Interrupted, "{}", run.output());
    assert_eq!(manifest.untrusted.len(), 1, "{:?}", manifest.untrusted);
    assert!(manifest.untrusted[0].contains("hpet"));
    assert_eq!(run.stderr.matches("hpet").count(), 1, "it is said once");
    lab.assert_nothing_left();
}
