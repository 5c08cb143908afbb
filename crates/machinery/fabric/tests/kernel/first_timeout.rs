//! Tests of the first timeout of connections, which is a setting of cgroups.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::world::{build, host, line};
use timeloom_fabric::Namespace;
use timeloom_sys::first_timeout::FirstTimeout;

/// Cgroup with a child cgroup. Both are removed at the end of the test.
struct Groups {
    whole: PathBuf,
    part: PathBuf,
}

impl Groups {
    fn new() -> Self {
        let mount = timeloom_sys::cgroup::mount().expect("there are cgroups of version 2");
        let whole = mount.join(format!("first-timeout-{}", std::process::id()));
        let part = whole.join("part");
        fs::create_dir_all(&part).expect("root can make a cgroup");
        Self { whole, part }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.part);
        let _ = fs::remove_dir(&self.whole);
    }
}

/// Python program that enters the group, connects to an address without a host, and prints the
/// first timeout of the kernel: `tcpi_rto`, in microseconds.
const CONNECT: &str = "
import os, socket, struct, sys
open(sys.argv[1] + '/cgroup.procs', 'w').write(str(os.getpid()))
one = socket.socket()
one.setblocking(False)
one.connect_ex(('10.0.0.77', 80))
print(struct.unpack_from('I', one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 8)[0])
";

fn first_timeout(station: &Namespace, group: &Path) -> Duration {
    let mut program = Command::new("python3");
    program.args(["-c", CONNECT]).arg(group);
    station.confine(&mut program).expect("it can be entered");
    let output = program.output().expect("Python is installed");
    let said = String::from_utf8_lossy(&output.stdout);
    let us = said.trim().parse();
    Duration::from_micros(us.unwrap_or_else(|_| panic!("{output:?}")))
}

#[test]
fn the_first_timeout_is_that_of_the_nearest_cgroup() {
    let fabric = build(&line(1, None));
    let groups = Groups::new();
    let waits = || {
        let of = |group| first_timeout(host(&fabric, "h1"), group).as_secs();
        [of(&groups.whole), of(&groups.part)]
    };
    let attach = |group, s| {
        let attached = FirstTimeout::attach(group, Duration::from_secs(s));
        attached.expect("this kernel has BPF at cgroups")
    };
    assert_eq!(waits(), [1, 1], "the kernel's own");
    let whole = attach(&groups.whole, 7);
    assert_eq!(waits(), [7, 7]);
    let part = attach(&groups.part, 3);
    assert_eq!(waits(), [7, 3]);
    let changed = whole.change(Duration::from_secs(9));
    changed.expect("it takes another");
    assert_eq!(waits(), [9, 3]);
    drop(part);
    assert_eq!(waits(), [9, 9]);
    let changed = whole.change(Duration::MAX);
    changed.expect("it takes another");
    assert_eq!(waits(), [120, 120], "no kernel waits for longer");
    drop(whole);
    assert_eq!(waits(), [1, 1]);
}

#[test]
fn a_directory_that_is_no_cgroup_is_refused() {
    let refused = FirstTimeout::attach(Path::new("/proc"), Duration::from_secs(3));
    assert!(refused.is_err(), "{refused:?}");
}
