//! Tests of timer signals that the supervisor sends late. A program that finds by its clock that a
//! timer has expired must not notice the delay.

use std::fs;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
use std::time::Duration;

use crate::support::command_line::eventually;
use crate::support::{Differential, PATIENCE, World, alone, c_program, c_program_static, pipe};

const WAIT_MS: u32 = 200;

#[test]
fn a_timers_signal_is_there_when_its_instant_has_passed() {
    // The test runs alone, so that the thread that serves the timers can be found among those of
    // this process.
    if alone("late_timers::a_timers_signal_is_there_when_its_instant_has_passed") {
        return;
    }
    let world = World::new("late-timers", 1.0);
    let programs = [c_program("late_timers"), c_program_static("late_timers")];
    let runs = Differential {
        // This test itself delays the signals.
        fault: PATIENCE,
        ..Differential::of(programs, WAIT_MS)
    };
    let stopped = Stopped::new("timers");
    runs.run(&world, |world| {
        // By then, all programs that do not wait for the signal have checked for it.
        world.run_for(Duration::from_millis(u64::from(5 * WAIT_MS)));
        stopped.release();
    });
}

/// Thread of this process that is blocked in a signal handler.
struct Stopped {
    _reader: std::os::fd::OwnedFd,
    writer: std::cell::Cell<Option<std::os::fd::OwnedFd>>,
}

static GATE: AtomicI32 = AtomicI32::new(-1);
static STANDS: AtomicBool = AtomicBool::new(false);

/// Signal handler that blocks until the writing end of the pipe is closed.
extern "C" fn stand(_: libc::c_int) {
    STANDS.store(true, SeqCst);
    let mut byte = 0u8;
    // SAFETY: the call writes one byte into `byte`; handlers may make it.
    while unsafe { libc::read(GATE.load(SeqCst), (&raw mut byte).cast(), 1) } < 0 {}
}

impl Stopped {
    fn new(name: &str) -> Self {
        let thread = thread_of_this_process(name);
        let (reader, writer) = pipe();
        GATE.store(reader.as_raw_fd(), SeqCst);
        // SAFETY: an action without flags; its handler is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = stand as extern "C" fn(libc::c_int) as usize;
            assert_eq!(
                libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()),
                0
            );
        }
        // No timer is armed: the thread sleeps, and holds no lock.
        eventually("the thread to sleep", || {
            fs::read_to_string(format!("/proc/self/task/{thread}/syscall"))
                .is_ok_and(|call| call.starts_with(&format!("{} ", libc::SYS_futex)))
        });
        // SAFETY: the thread is ours, and lives as long as the session.
        let sent =
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR2) };
        assert_eq!(sent, 0);
        eventually("the thread to stand", || STANDS.load(SeqCst));
        Self {
            _reader: reader,
            writer: std::cell::Cell::new(Some(writer)),
        }
    }

    fn release(&self) {
        drop(self.writer.take());
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.release();
    }
}

fn thread_of_this_process(name: &str) -> i32 {
    let tasks = fs::read_dir("/proc/self/task").expect("our own threads");
    let mut found = tasks.flatten().filter(|task| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    });
    let task = found.next().expect("a thread of that name");
    assert!(found.next().is_none(), "only one");
    let number = task.file_name();
    number
        .to_str()
        .and_then(|it| it.parse().ok())
        .expect("its number")
}
