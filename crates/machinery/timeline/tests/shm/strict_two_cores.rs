//! Tests of strictly increasing readings with the real counter, between threads on two cores and
//! between processes.

use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use timeloom_abi::ticks_ordered;
use timeloom_clock::Core;
use timeloom_clock::counter::SharedStrict;
use timeloom_time::Instant;
use timeloom_timeline::shm::HostStrict;

/// Reads a clock based on the processor's counter (TSC or CNTVCT_EL0), with 1024 ticks per
/// "nanosecond". It is so coarse that readings of two cores are often equal.
fn coarse() -> Instant<Core> {
    Instant::from_ns((ticks_ordered() >> 10) as i64)
}

fn pinned_to(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    // A machine with a single core still tests the rest.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

#[test]
fn threads_on_two_cores_never_see_a_reading_twice_or_an_earlier_one() {
    let (shared, finished) = (SharedStrict::new(), AtomicI64::new(i64::MIN));
    let run = |core: usize| {
        pinned_to(core);
        (0..100_000)
            .map(|_| {
                let before = finished.load(Acquire);
                let at = shared.next(coarse()).at.as_ns();
                assert!(at > before, "{at} was read after {before} had been");
                finished.fetch_max(at, AcqRel);
                at
            })
            .collect::<Vec<i64>>()
    };
    let mut all = std::thread::scope(|scope| {
        let threads = [0, 1].map(|core| scope.spawn(move || run(core)));
        threads.map(|thread| thread.join().unwrap()).concat()
    });
    all.sort_unstable();
    assert!(all.is_sorted_by(|a, b| a < b), "two readings alike");
}

/// Main function of the second reader's process. It is not a test.
#[test]
#[ignore = "run by the test below"]
fn read_in_another_process() {
    let Ok(fd) = std::env::var("TIMELOOM_TEST_FD") else {
        return;
    };
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(fd)
        .unwrap();
    let strict = HostStrict::open(file.into()).unwrap();
    pinned_to(1);
    for _ in 0..50_000 {
        println!("at {}", strict.next(coarse()).at.as_ns());
    }
}

#[test]
fn two_processes_share_one_order() {
    let strict = HostStrict::create().unwrap();
    let path = format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        strict.fd().as_raw_fd()
    );
    let other = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "strict_two_cores::read_in_another_process",
            "--ignored",
            "--nocapture",
        ])
        .env("TIMELOOM_TEST_FD", path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mine: Vec<i64> = (0..200_000)
        .map(|_| strict.next(coarse()).at.as_ns())
        .collect();
    let output = other.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let theirs: Vec<i64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("at ")?.parse().ok())
        .collect();
    assert_eq!(theirs.len(), 50_000);
    assert!(mine.is_sorted_by(|a, b| a < b) && theirs.is_sorted_by(|a, b| a < b));
    let mut all = [mine, theirs].concat();
    all.sort_unstable();
    assert!(all.is_sorted_by(|a, b| a < b), "two readings alike");
}
