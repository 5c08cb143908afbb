//! Tests that a timer ends with its process, and never signals a later process with the same
//! identifier.

use std::process::{Child, Command};

use timeloom_test_support::need_root;
use timeloom_test_support::{Traces, WholeProcess};

use crate::support::{World, alone_among_processes, c_program};

/// Milliseconds until the orphaned timers would be due.
const WAIT_MS: u32 = 400;

#[test]
fn a_later_process_of_a_number_gets_no_signal_of_an_earlier_ones_timer() {
    need_root();
    // In the test's PID namespace, identifiers are assigned from the start, without interference by
    // other processes.
    let name = "orphan_timers::a_later_process_of_a_number_gets_no_signal_of_an_earlier_ones_timer";
    if alone_among_processes(name) {
        return;
    }
    // The first session of a process creates objects that its later sessions reuse.
    drop(World::new("first", 1.0));
    let process = WholeProcess::now();
    for kind in ["signal", "thread", "interval"] {
        let world = World::new(kind, 1.0);
        let traces = Traces::of(world.session.name());
        let argv = |kind: &str, wait_ms: u32| {
            let program = c_program("orphan_timer").into_os_string();
            [program, kind.into(), wait_ms.to_string().into()]
        };
        let orphaned = world.start(argv(kind, WAIT_MS));
        let pid = orphaned.guest().pid();
        let (said, status) = orphaned.finish();
        assert_eq!((said, status), (vec!["armed".to_owned()], 0));
        let mut victim = process_with_number(pid);
        // The timers of one supervisor expire in order. So when the signal of this timer has come,
        // the signal of the orphaned timer would have been sent.
        let witness = world.start(argv("witness", WAIT_MS + 100));
        assert_eq!(witness.finish().1, 0);
        let ended = victim.try_wait().expect("our own child");
        assert_eq!(
            ended, None,
            "{kind}: process {pid} has nothing to do with it"
        );
        victim.kill().expect("our own child");
        victim.wait().expect("our own child");
        drop(world);
        traces.assert_nothing_left();
        process.assert_nothing_left();
    }
}

/// Starts a process outside all sessions that gets the identifier `pid`, which another process had
/// before.
fn process_with_number(pid: i32) -> Child {
    loop {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string())
            .expect("a namespace of our own");
        let mut child = Command::new("sleep")
            .arg("1000")
            .spawn()
            .expect("a process");
        if child.id() as i32 == pid {
            return child;
        }
        child.kill().expect("our own child");
        child.wait().expect("our own child");
    }
}
