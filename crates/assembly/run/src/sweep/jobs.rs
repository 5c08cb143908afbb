//! Concurrent runs of a sweep, each on processors of its own.
//!
//! Each run is a process, `timeloom run`, so runs share no session, signal handler or name. A
//! worker thread is bound to its share of the processors before it starts a run. Its runs, with all
//! their programs, inherit this binding, so no thread waits for a processor that another run uses.
//! Caches, memory and the kernel's own threads are still shared.

use parking_lot::Mutex;
use std::fs::File;
use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use timeloom_scenario::Mode;

/// Returns the numbers of the processors that this process may use.
pub fn processors() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    let found: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect();
    if found.is_empty() { vec![0] } else { found }
}

/// Returns the default number of concurrent runs: one for every two processors if time skips, and
/// one for every four if virtual time keeps pace with wall time.
pub fn default_jobs(mode: Mode, processors: usize) -> usize {
    let each = if mode == Mode::Skip { 2 } else { 4 };
    (processors / each).max(1)
}

/// Divides the processors into one disjoint share of the same size for each job.
fn shares(processors: &[usize], jobs: usize) -> Vec<&[usize]> {
    let size = (processors.len() / jobs.max(1)).max(1);
    processors.chunks_exact(size).take(jobs).collect()
}

/// Calls `run` for each of `items`, on one thread for each job. Each thread is bound to its own
/// share of the processors. Starts no further calls once `interrupted` is set. There are never more
/// jobs than processors.
pub(super) fn side_by_side<T: Sync>(
    items: &[T],
    jobs: usize,
    interrupted: &AtomicBool,
    run: impl Fn(&T) + Sync,
) {
    let queue = Mutex::new(items.iter());
    let processors = processors();
    std::thread::scope(|scope| {
        for share in shares(&processors, jobs) {
            let (queue, run) = (&queue, &run);
            scope.spawn(move || {
                let mut own = CpuSet::new();
                share.iter().for_each(|&cpu| own.set(cpu));
                // If the kernel refuses, the runs share all processors.
                let _ = sched_setaffinity(None, &own);
                let next = || match interrupted.load(Ordering::Relaxed) {
                    true => None,
                    false => queue.lock().next(),
                };
                while let Some(item) = next() {
                    run(item);
                }
            });
        }
    });
}

/// Runs a command until it ends, and writes its output to `console`. When `interrupted` is set,
/// sends SIGINT to the command and continues to wait for its end.
pub(super) fn to_its_end(
    command: &mut Command,
    console: File,
    interrupted: &AtomicBool,
) -> io::Result<()> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(console.try_clone()?)
        .stderr(console)
        .spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let mut asked = false;
    while child.try_wait()?.is_none() {
        if interrupted.load(Ordering::Relaxed) && !asked {
            asked = true;
            if let Some(pid) = pid {
                // The process may have just ended, but it is not reaped yet, so its id cannot have
                // been reused.
                let _ = kill_process(pid, Signal::INT);
            }
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Interval at which the end of a run is polled; a run takes seconds.
const LOOK: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_jobs_share_a_processor() {
        let eight: Vec<usize> = (0..8).collect();
        assert_eq!(shares(&eight, 3), [[0, 1], [2, 3], [4, 5]]);
        assert_eq!(shares(&eight, 1), [[0, 1, 2, 3, 4, 5, 6, 7]]);
        assert_eq!(shares(&[3, 5], 7), [[3], [5]]);
        assert_eq!(default_jobs(Mode::Skip, 8), 4);
        assert_eq!(default_jobs(Mode::Real, 8), 2);
        assert_eq!(default_jobs(Mode::Virtual, 2), 1);
    }

    #[test]
    fn a_job_runs_on_its_processors_and_each_item_once() {
        let items: Vec<usize> = (0..20).collect();
        let seen = Mutex::new(Vec::new());
        let never = AtomicBool::new(false);
        side_by_side(&items, 2, &never, |item| {
            let own = sched_getaffinity(None).unwrap().count();
            seen.lock().push((*item, own));
        });
        let mut seen = seen.into_inner();
        seen.sort_unstable();
        let all = processors().len();
        let most = if all > 1 { all / 2 } else { 1 };
        assert!(
            seen.iter().all(|(_, own)| *own as usize <= most),
            "{seen:?} of {all}"
        );
        assert_eq!(
            seen.iter().map(|(item, _)| *item).collect::<Vec<_>>(),
            items
        );
    }

    #[test]
    fn nothing_begins_once_it_is_interrupted() {
        let stop = AtomicBool::new(false);
        let seen = Mutex::new(0);
        side_by_side(&[1, 2, 3], 1, &stop, |_| {
            *seen.lock() += 1;
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(*seen.lock(), 1);
    }
}
