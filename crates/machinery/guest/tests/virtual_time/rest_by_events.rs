//! Rest by events of the scheduler: it can be had here, and time skips over what it should.

use timeloom_guest::Session;

use crate::support;

/// As root on a kernel with BTF the programs of BPF load and attach. Were they refused, all
/// tests of skipping would pass by looking at /proc, and none would try them.
#[test]
fn the_scheduler_reports_what_runs_where_the_kernel_can() {
    if !rustix::process::geteuid().is_root() || !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        return;
    }
    let session = Session::new(support::options("events")).expect("a session");
    session.try_events().expect("programs of BPF are loaded and attached");
    session.try_events().expect("and again, since the first have ended");
}
