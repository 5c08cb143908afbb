//! Loops whose time is measured.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::stats::median;
use crate::ticks;

/// Returns the ticks per read of a clock through the C library. The library calls the vDSO that it
/// found at its start, or libfaketime's function if that is loaded.
pub(super) fn clock_read(id: libc::clockid_t, count: u32) -> f64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    per_call(count, || {
        // SAFETY: `now` is a valid location for the result.
        unsafe { libc::clock_gettime(id, black_box(&raw mut now)) };
    })
}

/// Returns the ticks per system call with this name; `None` for an unknown name.
pub(super) fn system_call(name: &str, count: u32) -> Option<f64> {
    let ticks = match name {
        // SAFETY: no pointers.
        "getppid" => per_call(count, || unsafe {
            libc::syscall(libc::SYS_getppid);
        }),
        // SAFETY: no pointers; the descriptor does not exist.
        "close" => per_call(count, || unsafe {
            libc::syscall(libc::SYS_close, -1);
        }),
        "stat" => {
            let path = c"/";
            let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
            // SAFETY: a zero-terminated path, and a location for the result.
            per_call(count, || unsafe {
                libc::stat(path.as_ptr(), status.as_mut_ptr());
            })
        }
        "stat_new" => {
            let path = std::env::temp_dir().join(format!("timeloom-stat-{}", std::process::id()));
            let file = std::fs::File::create(&path).ok()?;
            std::fs::remove_file(&path).ok()?;
            let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
            let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
            // SAFETY: a valid location for the result.
            per_call(count, || unsafe {
                libc::fstat(descriptor, status.as_mut_ptr());
            })
        }
        "pread" => {
            let file = std::fs::File::open("/dev/zero").ok()?;
            let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
            let mut byte = 0u8;
            // SAFETY: writes one byte into `byte`.
            per_call(count, || unsafe {
                libc::syscall(libc::SYS_pread64, descriptor, &raw mut byte, 1, 0);
            })
        }
        "clock_gettime" => {
            let mut now = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            // SAFETY: `now` is a valid location for the result.
            per_call(count, || unsafe {
                libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut now);
            })
        }
        "rt_sigprocmask" => {
            let none = 0u64;
            // SAFETY: blocks no signal; reads the 8 bytes of `none`.
            per_call(count, || unsafe {
                let set = &raw const none;
                libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, set, 0, 8);
            })
        }
        _ => return None,
    };
    Some(ticks)
}

/// Returns the ticks for opening a file, reading its beginning and closing it; `None` if that
/// fails.
pub(super) fn read_file(path: &str, count: u32) -> Option<f64> {
    use std::io::Read;
    let mut bytes = vec![0u8; 64 * 1024];
    let mut read = || std::fs::File::open(path)?.read(&mut bytes);
    read().ok()?;
    Some(per_call(count, || {
        let _ = black_box(read());
    }))
}

/// Returns the ticks of a sleep of `ns` nanoseconds, as the median of `count` sleeps.
pub(super) fn sleep(ns: i64, count: u32) -> f64 {
    let wanted = libc::timespec {
        tv_sec: ns / 1_000_000_000,
        tv_nsec: ns % 1_000_000_000,
    };
    let lasted: Vec<f64> = (0..count)
        .map(|_| {
            let begun = ticks::now();
            let rest = std::ptr::null_mut();
            // SAFETY: reads `wanted`.
            unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &raw const wanted, rest) };
            (ticks::now() - begun) as f64
        })
        .collect();
    median(&lasted)
}

/// Forks children that do nothing and end with their parent. Returns `None` if the machine cannot
/// run so many.
pub(super) fn brood(count: u32) -> Option<()> {
    for _ in 0..count {
        // SAFETY: this process has one thread; the child makes system calls only.
        match unsafe { libc::fork() } {
            0 => loop {
                // SAFETY: no pointers.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    libc::pause();
                }
            },
            -1 => return None,
            _ => {}
        }
    }
    Some(())
}

/// Returns the ticks from the fork of /bin/true until its end; `None` if that fails.
pub(super) fn spawn() -> Option<f64> {
    let arguments = [c"/bin/true".as_ptr(), std::ptr::null()];
    let environment = [std::ptr::null()];
    let begun = ticks::now();
    // SAFETY: the child only executes a program; this process has one thread.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::execve(arguments[0], arguments.as_ptr(), environment.as_ptr());
            libc::_exit(127);
        }
        let mut status = -1;
        libc::waitpid(child, &raw mut status, 0);
        status
    };
    let ended = ticks::now();
    (status == 0).then_some((ended - begun) as f64)
}

/// Returns the ticks per call, as the median over [`PARTS`] parts of `count` calls in all. A part
/// that the scheduler interrupted has no effect.
fn per_call(count: u32, mut call: impl FnMut()) -> f64 {
    let per_part = (count / PARTS).max(1);
    // Warms up, because another process has just run on this core.
    for _ in 0..per_part {
        call();
    }
    let parts: Vec<f64> = (0..PARTS)
        .map(|_| {
            let begun = ticks::now();
            for _ in 0..per_part {
                call();
            }
            (ticks::now() - begun) as f64 / f64::from(per_part)
        })
        .collect();
    median(&parts)
}

const PARTS: u32 = 21;

/// Starts `count` threads that sleep for years, and one that sleeps for a millisecond again and
/// again and counts this. Returns after all of them have started; `None` if a thread cannot be
/// started.
pub(super) fn doze(count: usize) -> Option<()> {
    const STACK_BYTES: usize = 64 * 1024;
    let start = |work: fn()| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        thread.spawn(work).ok()
    };
    for _ in 0..count {
        start(|| {
            loop {
                std::thread::sleep(Duration::from_secs(1_000_000_000));
            }
        })?;
    }
    start(|| {
        loop {
            std::thread::sleep(Duration::from_millis(1));
            EVENTS.fetch_add(1, Ordering::Relaxed);
        }
    })?;
    Some(())
}

/// Returns the number of times that the thread started by [`doze`] has slept.
pub(super) fn events() -> u64 {
    EVENTS.load(Ordering::Relaxed)
}

static EVENTS: AtomicU64 = AtomicU64::new(0);
