//! Tests that processor time is divided by the dilation, like all other time, and that it does not
//! jump when the dilation changes.

use std::time::Duration;

use crate::support::{Differential, World, c_program, c_program_static};

#[test]
fn processor_time_is_dilated_and_excludes_a_pause() {
    for dilation in [1.0, 4.0, 0.5] {
        let world = World::new("cpu-time", dilation);
        let programs = [c_program("cpu_time"), c_program_static("cpu_time")];
        Differential::of(programs, 400).run(&world, |world| {
            world.run_for(Duration::from_millis(50));
            world.pause_for(Duration::from_millis(500));
        });
    }
}

#[test]
fn timers_and_sleeps_of_processor_time_are_dilated() {
    for dilation in [1.0, 4.0, 0.5] {
        let world = World::new("cpu-timers", dilation);
        let programs = [c_program("cpu_timers"), c_program_static("cpu_timers")];
        Differential::of(programs, 400).run(&world, |world| {
            world.run_for(Duration::from_millis(20));
            world.pause_for(Duration::from_millis(500));
        });
    }
}

/// Sleeping threads are interrupted, and sleep for the rest at the new rate.
#[test]
fn sleeps_of_processor_time_follow_changes_of_the_rate() {
    let world = World::new("cpu-sleeps", 1.0);
    let mut runs = Differential::of([c_program("cpu_timers")], 1_600);
    runs.cases = vec!["slept", "slept_until", "slept_by_number"];
    runs.run(&world, |world| {
        for turn in 0..40 {
            let factor = [5.0, 0.5, 1.0, 8.0][turn % 4];
            world.session.dilate(factor).expect("a possible factor");
            std::thread::sleep(Duration::from_millis(3));
        }
        world.session.dilate(1.0).expect("a possible factor");
    });
}

#[test]
fn processor_time_never_steps_back_while_the_rate_changes() {
    let world = World::new("cpu-time-rate", 1.0);
    let mut runs = Differential::of([c_program("cpu_time")], 800);
    // The cases with timers are left out: an armed timer keeps its length in real time.
    runs.cases = vec![
        "process",
        "thread",
        "raw_process",
        "by_number",
        "by_thread_number",
        "c_clock",
        "usage_self",
        "usage_thread",
        "by_times",
        "agree",
        "of_child",
        "of_child_by_waitid",
    ];
    runs.run(&world, |world| {
        for turn in 0..60 {
            let factor = [5.0, 0.5, 1.0, 20.0][turn % 4];
            world.session.dilate(factor).expect("a possible factor");
            std::thread::sleep(Duration::from_millis(3));
        }
        world.session.dilate(1.0).expect("a possible factor");
    });
}

/// A program that computes all the time has used as much processor time as time has passed, at
/// every rate.
#[test]
fn a_busy_program_uses_the_time_that_passes() {
    let world = World::new("cpu-share", 8.0);
    let script = "import time\n\
        w, c, p = time.monotonic(), time.process_time(), time.thread_time()\n\
        while time.monotonic() - w < 0.08: pass\n\
        w, c = time.monotonic() - w, time.process_time() - c\n\
        print('share=%d' % (c <= w * 1.01))\n\
        print('real=%d' % (c > w * 2))";
    let (lines, status) = world.start(["python3", "-c", script]).finish();
    assert_eq!(
        (lines, status),
        (vec!["share=1".to_owned(), "real=0".to_owned()], 0)
    );
}

/// A program reports its processor time to others. The reported values must not depend on the speed
/// of the machine.
#[test]
fn no_processor_time_is_used_if_computing_takes_no_time() {
    let clock = timeloom_guest::ClockOptions {
        compute: timeloom_guest::Compute::None,
        ..Default::default()
    };
    let world = World::with_clock("no-cpu-time", clock);
    world.session.skip_while_waiting(|| true);
    let script = "import ctypes, os, resource, time\n\
        for _ in range(3000): sum(range(1000))\n\
        child = os.fork()\n\
        if child == 0:\n\
        \tfor _ in range(3000): sum(range(1000))\n\
        \tos._exit(0)\n\
        ended = os.wait4(child, 0)[2]\n\
        own, children, thread = map(resource.getrusage, (resource.RUSAGE_SELF,\n\
        \tresource.RUSAGE_CHILDREN, resource.RUSAGE_THREAD))\n\
        trapped = (ctypes.c_int64 * 2)(7, 7)\n\
        ctypes.CDLL(None).syscall(228 if os.uname().machine == 'x86_64' else 113, 2, trapped)\n\
        used = [time.process_time(), time.thread_time(), *trapped, *os.times()[:4]]\n\
        used += [t for u in (ended, own, children, thread) for t in (u.ru_utime, u.ru_stime)]\n\
        used += [time.clock_gettime(~os.getpid() << 3 | 2)]\n\
        before = time.monotonic(); time.sleep(0.25)\n\
        print(len(used), sum(used), time.monotonic() - before >= 0.25)";
    let (lines, status) = world.start(["python3", "-c", script]).finish();
    assert_eq!((lines, status), (vec!["17 0.0 True".to_owned()], 0));
}

/// Covers dates set by the kernel itself, and programs that read x86-64's vsyscall page.
#[test]
fn dates_of_the_kernel_are_those_that_the_clock_shows() {
    for dilation in [1.0, 0.25, 4.0] {
        let clock = timeloom_guest::ClockOptions {
            start: Some(timeloom_time::Instant::from_ns(1_559_520_000_000_000_000)), // 2019-06-03
            dilation,
            ..Default::default()
        };
        let world = World::with_clock("dates", clock);
        Differential::of([c_program("dates"), c_program_static("dates")], 0).run(&world, |_| ());
    }
}

/// Files touched in a session that is set to 2019 get dates in 2019.
#[test]
fn files_set_to_now_get_the_time_that_the_clock_shows() {
    let clock = timeloom_guest::ClockOptions {
        start: Some(timeloom_time::Instant::from_ns(1_559_520_000_000_000_000)), // 2019-06-03
        ..Default::default()
    };
    let world = World::with_clock("files", clock);
    Differential::of([c_program("files"), c_program_static("files")], 0).run(&world, |_| ());
}
