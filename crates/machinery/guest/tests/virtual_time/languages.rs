//! Tests of programs in languages whose tools not every machine has. `scripts/exclusions` lists the
//! tests of this file whose tools are missing.

use std::time::Duration;

#[cfg(target_arch = "x86_64")]
use crate::support::Differential;
use crate::support::World;
use crate::support::languages::{Programs, go, java, node};
use crate::waits::language_waits;

/// Runs at the speed of the machine, slower and faster.
fn waits_exclude_a_pause(theme: &str, programs: fn() -> Programs) {
    for dilation in [1.0, 5.0, 0.5] {
        language_waits(theme, dilation, programs());
    }
}

#[test]
fn waits_of_go_exclude_a_pause() {
    waits_exclude_a_pause("go", go);
}

#[test]
fn waits_of_java_exclude_a_pause() {
    waits_exclude_a_pause("java", java);
}

#[test]
fn waits_of_node_exclude_a_pause() {
    waits_exclude_a_pause("node", node);
}

/// Go and Java rely on a SIGSEGV of their own.
#[cfg(target_arch = "x86_64")]
fn does_not_notice_an_emulated_counter(programs: Programs) {
    let runs = Differential {
        programs,
        ..Differential::of([], 500)
    };
    crate::tsc::as_natively("tsc-languages", &runs);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn go_does_not_notice_an_emulated_counter() {
    does_not_notice_an_emulated_counter(go());
}

#[cfg(target_arch = "x86_64")]
#[test]
fn java_does_not_notice_an_emulated_counter() {
    does_not_notice_an_emulated_counter(java());
}

#[cfg(target_arch = "x86_64")]
#[test]
fn node_does_not_notice_an_emulated_counter() {
    does_not_notice_an_emulated_counter(node());
}

#[test]
fn node_agrees_with_the_files_that_tell_time() {
    let world = World::with_clock("files-node", crate::time_files::dated());
    crate::time_files::need_files(&world);
    world.pause_for(Duration::from_millis(300));
    timeloom_test_support::need("node", "nodejs");
    let script = "const fs = require('fs'); const up = () => parseFloat(fs.readFileSync('/proc/uptime'));\
        const a = up(), b = require('os').uptime(), c = up();\
        console.log(a - 0.01 <= b && b <= c + 0.01, new Date().toISOString().slice(0, 10))";
    let (lines, _) = world.start(["node", "-e", script]).finish();
    assert_eq!(lines, ["true 2019-06-03"]);
}
