//! Tests of the owners of timers, and of the counting of expirations.

use std::process::{Child, Command};

use timeloom_abi::PageTime;

use super::*;
use crate::clock::{ClockOptions, HostOptions};
use crate::linux::memory::PageMapping;
use crate::linux::processes;

struct Bench {
    timers: Arc<Timers>,
    host: Arc<Host>,
}

impl Bench {
    fn new() -> Self {
        let page = || PageMapping::new(c"test-of-timers").expect("a page");
        let clock = Clock::new(Arc::new(page()), &ClockOptions::default()).expect("a clock");
        let shown: PageMapping<PageTime> = PageMapping::new(c"test-of-timers").expect("a page");
        let host = clock.add_host("", shown, &HostOptions::default());
        let timers = Timers::new(Arc::new(clock)).expect("timers");
        Self {
            timers: Arc::new(timers),
            host,
        }
    }

    fn make(&self, owner: &Arc<Owner>, signal: i32) -> Key {
        let notice = |timer| {
            Some(Notice {
                owner: Arc::clone(owner),
                thread: None,
                signal,
                value: 0,
                timer,
            })
        };
        let clock = libc::CLOCK_MONOTONIC;
        let id = self.timers.create_posix(owner, &self.host, clock, notice);
        owner.posix(id)
    }
}

fn sleeper() -> Child {
    Command::new("sleep")
        .arg("1000")
        .spawn()
        .expect("a process")
}

fn end(mut child: Child) {
    child.kill().expect("our own child");
    child.wait().expect("our own child");
}

#[test]
fn timers_of_a_process_are_removed_with_it() {
    let bench = Bench::new();
    let timers = Arc::clone(&bench.timers);
    let serving = std::thread::spawn(move || timers.serve_ends());
    let (one, other) = (sleeper(), sleeper());
    let owner = |child: &Child| bench.timers.owner(child.id() as i32).expect("it lives");
    let keys = [&one, &other].map(|child| bench.make(&owner(child), libc::SIGKILL));
    let armed = Setting {
        interval_ns: 0,
        value_ns: 1_000_000_000_000,
    };
    bench.timers.set_interval(&bench.host, &owner(&one), armed);
    assert_eq!(bench.timers.sizes(), (3, 2));
    end(one);
    while bench.timers.sizes() != (1, 1) {
        std::thread::yield_now();
    }
    assert!(!bench.timers.exists(keys[0]) && bench.timers.exists(keys[1]));
    end(other);
    while bench.timers.sizes() != (0, 0) {
        std::thread::yield_now();
    }
    bench.timers.close();
    serving.join().expect("no panic").expect("an epoll set");
}

/// This must hold even before the end of the process is reported.
#[test]
fn an_ended_process_owns_no_timers() {
    let bench = Bench::new();
    let child = sleeper();
    let pid = child.id() as i32;
    let owner = bench.timers.owner(pid).expect("it lives");
    let key = bench.make(&owner, libc::SIGKILL);
    end(child);
    assert!(bench.timers.known_owner(pid).is_none());
    bench.timers.forget_posix(pid);
    assert!(bench.timers.exists(key), "which was another's by now");
    let late = bench.make(&owner, libc::SIGKILL);
    assert!(!bench.timers.exists(late), "it would never be removed");
    assert!(bench.timers.owner(pid).is_err());
}

/// A process may ask for the overruns before it takes the signal, while the thread that serves the
/// timers is late. The instant of the question is then a lower bound of the instant of delivery.
#[test]
fn overruns_of_a_pending_signal_are_counted_when_they_are_asked_for() {
    const INTERVAL: Duration = Duration::from_ms(1);
    let bench = Bench::new();
    let child = Command::new("env")
        .args(["--block-signal=USR1", "sleep", "1000"])
        .spawn()
        .expect("a process");
    let pid = child.id() as i32;
    while !std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|it| it == "sleep\n") {
        std::thread::yield_now();
    }
    let key = bench.make(&bench.timers.owner(pid).expect("it lives"), libc::SIGUSR1);
    let every = Setting {
        interval_ns: INTERVAL.as_ns(),
        value_ns: INTERVAL.as_ns(),
    };
    let begun = bench.host.now();
    assert!(bench.timers.set(key, every, SetFlags::default()).is_ok());
    let after = |passed: Duration| while bench.host.now() - begun < passed {};
    after(INTERVAL);
    bench.timers.catch_up();
    let sent = processes::signal_state(pid, libc::SIGUSR1);
    assert!(sent.is_pending, "sent at its first expiration");
    after(Duration::from_ms(20));
    assert_eq!(bench.timers.overrun(key), 0, "of the signal delivered last");
    let mut table = bench.timers.lock();
    let timer = table.timers.get_mut(&key).expect("the timer");
    // A notice with another signal, which is not pending, stands for the delivery.
    let Action::Send(notice) = &mut timer.action else {
        panic!("a timer that sends a signal")
    };
    notice.signal = libc::SIGUSR2;
    drop(table);
    assert!(bench.timers.overrun(key) >= 19);
    end(child);
}
