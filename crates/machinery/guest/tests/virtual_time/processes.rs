//! Tests that processes started by a program run by the same clock, and are started as natively:
//! exec, vfork, posix_spawn, scripts, threads, and execs that fail.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use crate::support::{Differential, Scratch, World, c_program, c_program_static};

#[test]
fn process_trees_are_as_natively_and_share_the_clock() {
    let world = World::new("processes", 1.0);
    let programs = [c_program("processes"), c_program_static("processes")];
    Differential::of(programs, 400).run(&world, |world| {
        world.run_for(Duration::from_millis(200));
        world.pause_for(world.long());
    });
    assert_eq!(
        world
            .warnings
            .lock()
            .expect("no panic while held")
            .as_slice(),
        [""; 0]
    );
}

/// Pauses the session repeatedly in the middle of execs.
#[test]
fn process_trees_survive_pauses_at_any_instant() {
    let world = World::new("processes-hammered", 1.0);
    let programs = [c_program("processes"), c_program_static("processes")];
    Differential::of(programs, 400).run(&world, |world| {
        for turn in 0..150 {
            world.pause_for(Duration::from_micros(200 * (turn % 10)));
            world.run_for(Duration::from_micros(300 * (turn % 7)));
        }
    });
}

/// A program executes itself repeatedly, and is killed at an arbitrary instant. Its parent, a
/// program of the session or its supervisor, must be notified.
#[test]
fn a_program_killed_during_an_exec_is_reported_as_killed() {
    const KILLED: i32 = 128 + libc::SIGKILL;
    let world = World::new("killed-in-exec", 1.0);
    let scratch = Scratch::new("killed-in-exec");
    let (again, parent) = (scratch.path("again.sh"), scratch.path("parent.sh"));
    fs::write(&again, "exec sh \"$0\"\n").expect("a directory of ours");
    for turn in 0..60 {
        let program = world.start(["sh".into(), again.clone().into_os_string()]);
        sleep(Duration::from_micros(turn * 300));
        program.guest().signal(libc::SIGKILL);
        let (printed, status) = program.finish();
        assert_eq!(status, KILLED, "turn {turn}: {printed:?}");
    }

    let script = "exec 2>/dev/null; for turn in $(seq 60); do
        sh \"$1\" & child=$!
        for waiting in $(seq $turn); do :; done
        kill -KILL $child; wait $child; echo $?
    done";
    fs::write(&parent, script).expect("a directory of ours");
    let program = world.start(["sh".as_ref(), parent.as_os_str(), again.as_os_str()]);
    let (printed, status) = program.finish();
    assert_eq!(status, 0, "{printed:?}");
    let statuses: Vec<&str> = printed.iter().map(String::as_str).collect();
    assert_eq!(statuses, ["137"; 60]);
}
