//! Check that this process's own threads sleep, and the kernel's threads for deferred network work.
//!
//! The check is made before each advance of a clock that skips: thousands of times a second while a
//! simulated network is busy. So the files are kept open, and one counter of the kernel covers all
//! threads: the number of times that they have gone to sleep.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::linux::processes;

/// Open files of /proc with the states of threads.
#[derive(Default)]
pub(crate) struct OwnThreads {
    states: BTreeMap<i32, File>,
    /// Files of the kernel's threads for deferred network work (ksoftirqd).
    softirq: Vec<File>,
}

impl OwnThreads {
    pub(crate) fn new() -> Self {
        let softirq = processes::all().into_iter();
        let softirq = softirq.filter(|&pid| processes::name(pid).starts_with("ksoftirqd/"));
        Self {
            states: BTreeMap::new(),
            softirq: softirq.filter_map(open).collect(),
        }
    }

    /// Returns true if the kernel's threads for deferred network work sleep.
    pub(crate) fn softirq_sleeps(&self) -> bool {
        self.softirq.iter().all(|file| state(file) == Some('S'))
    }

    /// Returns true if all threads of this process except the calling one were asleep during the
    /// call. The result may be false although they were asleep.
    pub(crate) fn slept(&mut self) -> bool {
        let this = rustix::thread::gettid().as_raw_nonzero().get();
        let before = times_gone_to_sleep();
        let threads = processes::threads(std::process::id() as i32);
        self.states.retain(|thread, _| threads.contains(thread));
        let all_sleep = threads.into_iter().all(|thread| {
            thread == this
                || self
                    .state(thread)
                    .is_none_or(|state| state == 'S' || state == 'Z')
        });
        // A thread that sleeps now, and has not gone to sleep meanwhile, has slept all the time.
        all_sleep && before.is_some() && times_gone_to_sleep() == before
    }

    /// Returns the scheduler state of a thread of this process; `None` if the thread has ended.
    fn state(&mut self, thread: i32) -> Option<char> {
        if let Some(state) = self.states.get(&thread).and_then(state) {
            return Some(state);
        }
        // The thread is new, or another thread has reused the identifier.
        let file = open(thread)?;
        let state = state(&file);
        self.states.insert(thread, file);
        state
    }
}

/// Returns the threads of this process that do not sleep, with their names: all but the calling
/// thread, and the one that skips time.
pub(crate) fn awake() -> Vec<(i32, String)> {
    let this = rustix::thread::gettid().as_raw_nonzero().get();
    let threads = processes::threads(std::process::id() as i32).into_iter();
    let threads = threads.filter(|&thread| {
        let state = processes::thread_state(thread);
        thread != this && !matches!(state, Ok(Some('S' | 'Z' | 'X') | None))
    });
    let named = threads.map(|thread| (thread, processes::name(thread)));
    named.filter(|(_, name)| name != SKIPPER).collect()
}

/// Name of the thread that skips time.
pub(crate) const SKIPPER: &str = "skip";

/// Returns the number of times that threads of this process have gone to sleep voluntarily; `None`
/// on failure.
fn times_gone_to_sleep() -> Option<i64> {
    // SAFETY: plain data.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: a whole `rusage` to be written.
    let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    (result == 0).then_some(usage.ru_nvcsw)
}

/// Opens the file of the thread, not that of its process, which contains sums over all threads.
fn open(thread: i32) -> Option<File> {
    File::open(format!("/proc/{thread}/task/{thread}/stat")).ok()
}

/// Reads the scheduler state; returns `None` if the thread has ended.
fn state(file: &File) -> Option<char> {
    let mut text = [0; 128];
    let length = file.read_at(&mut text, 0).ok()?;
    processes::behind_name(&String::from_utf8_lossy(&text[..length]))?
        .chars()
        .next()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_thread_at_work_is_seen() {
        let mut own = OwnThreads::new();
        let over = AtomicBool::new(false);
        let (begun, begins) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                begun.send(()).expect("the test waits");
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            begins.recv().expect("it says so");
            let slept = (0..100).any(|_| own.slept());
            over.store(true, Ordering::Relaxed);
            assert!(!slept, "one computes");
        });
    }

    #[test]
    fn going_to_sleep_is_counted() {
        let before = times_gone_to_sleep().expect("it is counted");
        let (done, wait) = mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || wait.recv());
        std::thread::sleep(std::time::Duration::from_millis(1));
        drop(done);
        assert!(sleeper.join().expect("it ends").is_err());
        assert!(times_gone_to_sleep() > Some(before));
    }

    #[test]
    fn a_thread_has_a_state_until_it_is_gone() {
        let this = || rustix::thread::gettid().as_raw_nonzero().get();
        let file = open(this()).expect("it runs");
        assert_eq!(state(&file), Some('R'));
        let ended = std::thread::spawn(move || open(this()));
        let file = ended.join().expect("it ends").expect("it ran");
        while state(&file).is_some() {
            std::thread::yield_now();
        }
    }
}
