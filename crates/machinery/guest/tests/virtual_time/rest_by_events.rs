//! Tests of the detection of rest by scheduler events. The machine must permit the BPF programs.

use std::path::Path;

use timeloom_guest::{ClockOptions, Session, SessionOptions};
use timeloom_test_support::need_root;

use crate::support::unique;

/// The BPF programs load and attach as root on a kernel with BTF. If they were refused, the session
/// would read /proc instead: all tests of skipping would pass, and none would exercise the BPF
/// programs.
#[test]
fn the_scheduler_reports_events_on_a_kernel_with_btf() {
    need_root();
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return;
    }
    let session = Session::new(SessionOptions {
        name: unique("events"),
        clock: ClockOptions::default(),
        warn: Box::new(|text| panic!("{text}")),
    });
    let session = session.expect("a session");
    session.try_events().expect("loaded and attached");
    session.try_events().expect("again, the first having ended");
}
