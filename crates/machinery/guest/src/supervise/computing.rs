//! Detection of threads that compute or poll without end, in sessions in which computing takes no
//! time.
//!
//! In such a session, two kinds of thread would never sleep: one that spins on the clock, and one
//! that polls (by a `select` that returns at once, or a `sched_yield`) until data comes from the
//! network. A thread that spins looks like any computation, and is recognised only by its duration.
//! A thread that polls spends its time in the kernel and leaves no *trace*: no page faults, no
//! reads, no writes.
//!
//! The clock advances for both. This time counts as processor time of a thread only if the thread
//! can be waiting for nothing else than processor time: until a certain amount of it is used.

use std::collections::BTreeMap;
use std::fs;

use timeloom_time::{Instant, Virtual};

use crate::linux::processes;

/// The kernel's statistics of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Processor time in nanoseconds.
    spent_ns: u64,
    /// Part of the processor time that was spent in the kernel, in the kernel's coarse ticks.
    system_ticks: u64,
    /// Number of page faults, reads and writes; `None` if the kernel does not count them.
    traces: Option<u64>,
}

/// Thread that was seen computing, with its statistics at certain instants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Computing {
    /// Statistics when the thread was first seen.
    first: Counted,
    /// Statistics at the last trace of the thread. The clock's advances for it do not change this.
    trace: Counted,
    /// Statistics at the start of the processor time that counts towards [`COMPUTING_NS`].
    since: Counted,
    /// Statistics at the last trace of the thread, adjusted whenever the clock has advanced for it.
    quiet: Counted,
}

/// Reason why the clock advances for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spins {
    /// The thread has computed for a long time.
    Computes,
    /// The thread has only called the kernel.
    Polls,
}

impl Counted {
    /// Returns the statistics of a thread; `None` if the thread has ended.
    pub(crate) fn of(thread: i32) -> Option<Self> {
        let file = |name| fs::read_to_string(format!("/proc/{thread}/task/{thread}/{name}"));
        let schedstat = file("schedstat").ok()?;
        let stat = file("stat").ok()?;
        let stat = processes::behind_name(&stat)?;
        let field = |number: usize| -> Option<u64> {
            // Fields are numbered from one; the third is the first after the name.
            stat.split_ascii_whitespace().nth(number - 3)?.parse().ok()
        };
        let calls = file("io").ok().and_then(|text| {
            let count = |name| {
                let line = text.lines().find_map(|line| line.strip_prefix(name));
                line.and_then(|count| count.trim().parse::<u64>().ok())
            };
            Some(count("syscr:")? + count("syscw:")?)
        });
        let faults = field(MINOR_FAULTS)? + field(MAJOR_FAULTS)?;
        Some(Self {
            spent_ns: schedstat.split_ascii_whitespace().next()?.parse().ok()?,
            system_ticks: field(SYSTEM_TIME)?,
            traces: calls.map(|calls| calls + faults),
        })
    }
}

impl Computing {
    /// Creates the record of a thread that is seen computing for the first time.
    pub(crate) fn new(now: Counted) -> Self {
        Self {
            first: now,
            trace: now,
            since: now,
            quiet: now,
        }
    }

    /// Updates the record of a thread that still computes. Returns the reason if the clock must
    /// advance for it, otherwise `None`. Called often.
    pub(crate) fn look(&mut self, now: Counted) -> Option<Spins> {
        if now.traces.is_none() || now.traces != self.quiet.traces {
            self.quiet = now;
            self.trace = now;
        }
        let quiet_ns = now.spent_ns.saturating_sub(self.quiet.spent_ns);
        let in_kernel_ns = now.system_ticks.saturating_sub(self.quiet.system_ticks) * NS_PER_TICK;
        if now.spent_ns.saturating_sub(self.since.spent_ns) >= COMPUTING_NS {
            Some(Spins::Computes)
        } else if quiet_ns >= POLLING_NS && in_kernel_ns >= quiet_ns / 2 {
            Some(Spins::Polls)
        } else {
            None
        }
    }

    /// Returns true if the time by which the clock advances for the thread counts as its processor
    /// time: the thread has computed for a long time, by itself or without a trace. A thread that
    /// polls for data from others leaves traces.
    pub(crate) fn uses_processor(&self, now: Counted) -> bool {
        let spent_ns = now.spent_ns.saturating_sub(self.first.spent_ns);
        let in_kernel_ns = now.system_ticks.saturating_sub(self.first.system_ticks) * NS_PER_TICK;
        let untraced_ns = now.spent_ns.saturating_sub(self.trace.spent_ns);
        untraced_ns >= COMPUTING_NS || (spent_ns >= COMPUTING_NS && in_kernel_ns < spent_ns / 2)
    }

    /// Records that the clock has advanced for the thread for this reason. For a polling thread,
    /// the clock continues to advance until the thread leaves a trace.
    pub(crate) fn passed(&mut self, now: Counted, why: Spins) {
        match why {
            Spins::Computes => self.since.spent_ns = now.spent_ns - COMPUTING_NS,
            Spins::Polls => {
                self.quiet.spent_ns = now.spent_ns - POLLING_NS;
                self.quiet.system_ticks = now.system_ticks.saturating_sub(POLLING_NS / NS_PER_TICK);
            }
        }
    }
}

/// Rest of all threads except those that spin, at one instant of the clock. Since this rest began,
/// the effects of the instant have been visible to the spinning threads. They get enough processor
/// time to see the effects before the next instant comes, even on a busy machine; otherwise their
/// observations would depend on chance.
#[derive(Debug)]
pub(crate) struct Rest {
    at: Instant<Virtual>,
    /// Sleeping threads, each with the scheduler's statistics.
    asleep: Vec<(i32, String)>,
    /// Processor time in nanoseconds of the spinning threads, when each was first seen in this
    /// rest.
    spent_ns: BTreeMap<i32, u64>,
}

impl Rest {
    /// Creates the record of a rest at this instant. `asleep` holds the sleeping threads, each with
    /// the scheduler's statistics.
    pub(crate) fn new(at: Instant<Virtual>, asleep: &[(i32, String)]) -> Self {
        Self {
            at,
            asleep: asleep.to_vec(),
            spent_ns: BTreeMap::new(),
        }
    }

    /// Returns true if the instant is the same and none of the sleeping threads has run since.
    pub(crate) fn lasts(&self, at: Instant<Virtual>, asleep: &[(i32, String)]) -> bool {
        self.at == at && self.asleep == asleep
    }

    /// Returns true if this spinning thread has used at least `least_ns` of processor time since it
    /// was first seen in this rest.
    pub(crate) fn has_spent(&mut self, thread: i32, now: Counted, least_ns: u64) -> bool {
        let before = *self.spent_ns.entry(thread).or_insert(now.spent_ns);
        now.spent_ns.saturating_sub(before) >= least_ns
    }
}

/// Processor time at one instant of the clock after which a thread is considered to spin on the
/// clock.
pub(crate) const COMPUTING_NS: u64 = 5_000_000_000;

/// Processor time without a trace after which a thread is considered to poll. It is less than the
/// 200 ms after which the kernel's TCP retransmits data that it considers lost.
pub(crate) const POLLING_NS: u64 = 100_000_000;

/// Nanoseconds per tick in /proc (USER_HZ), which is 100 per second on all supported machines.
const NS_PER_TICK: u64 = 10_000_000;

/// Numbers of fields of /proc/PID/stat, as in proc(5).
const MINOR_FAULTS: usize = 10;
const MAJOR_FAULTS: usize = 12;
const SYSTEM_TIME: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(spent_ms: u64, system_ms: u64, traces: u64) -> Counted {
        Counted {
            spent_ns: spent_ms * 1_000_000,
            system_ticks: system_ms / 10,
            traces: Some(traces),
        }
    }

    #[test]
    fn a_thread_that_only_calls_the_kernel_keeps_polling() {
        let mut seen = Computing::new(counted(1_000, 200, 7));
        assert_eq!(seen.look(counted(1_099, 290, 7)), None);
        let now = counted(1_100, 290, 7);
        assert_eq!(seen.look(now), Some(Spins::Polls));
        seen.passed(now, Spins::Polls);
        let now = counted(1_101, 290, 7);
        assert_eq!(seen.look(now), Some(Spins::Polls));
        seen.passed(now, Spins::Polls);
        // The thread has read data: the clock advances only after it has polled for that long
        // again.
        assert_eq!(seen.look(counted(1_102, 300, 8)), None);
        assert_eq!(seen.look(counted(1_200, 400, 8)), None);
        assert_eq!(seen.look(counted(1_202, 400, 8)), Some(Spins::Polls));
    }

    #[test]
    fn a_thread_that_computes_or_leaves_traces_is_given_long() {
        for (system_ms, traces) in [(0, 0), (1, 1)] {
            let mut seen = Computing::new(counted(0, 0, 0));
            for ms in (10..5_000).step_by(10) {
                assert_eq!(seen.look(counted(ms, ms * system_ms, ms * traces)), None);
            }
            let now = counted(5_000, 5_000 * system_ms, 5_000 * traces);
            assert_eq!(seen.look(now), Some(Spins::Computes));
            seen.passed(now, Spins::Computes);
            assert_eq!(seen.look(now), Some(Spins::Computes));
        }
    }

    #[test]
    fn polling_for_data_uses_no_processor_time_and_polling_for_that_time_does() {
        // The thread calls the kernel, and reads data that comes every 100 ms, for any length of
        // time.
        let mut seen = Computing::new(counted(0, 0, 0));
        for ms in (10..60_000).step_by(10) {
            let now = counted(ms, ms, ms / 100);
            if let Some(why) = seen.look(now) {
                seen.passed(now, why);
            }
            assert!(!seen.uses_processor(now), "after {ms} ms");
        }
        // The thread reads only its processor time from the kernel; and it computes, with page
        // faults.
        for (in_kernel, faults) in [(1, 0), (0, 1)] {
            let mut seen = Computing::new(counted(0, 0, 0));
            for ms in (10..=5_000).step_by(10) {
                let now = counted(ms, ms * in_kernel, ms * faults);
                if let Some(why) = seen.look(now) {
                    seen.passed(now, why);
                }
                assert_eq!(seen.uses_processor(now), ms == 5_000, "after {ms} ms");
            }
        }
    }

    #[test]
    fn a_spinning_thread_is_given_time_at_each_instant_once_all_others_rest() {
        let asleep = |times: &str| [(7, times.to_owned())];
        let at = Instant::from_ns(5);
        let mut rest = Rest::new(at, &asleep("once"));
        // Processor time that was used before does not count.
        assert!(!rest.has_spent(8, counted(1_000, 0, 0), 1_000_000));
        assert!(!rest.has_spent(9, counted(1_001, 0, 0), 1_000_000));
        assert!(rest.has_spent(8, counted(1_001, 0, 0), 1_000_000));
        assert!(!rest.has_spent(9, counted(1_001, 0, 0), 1_000_000));
        assert!(rest.lasts(at, &asleep("once")));
        assert!(!rest.lasts(at, &asleep("twice")), "another thread ran");
        assert!(!rest.lasts(Instant::from_ns(6), &asleep("once")));
    }

    #[test]
    fn without_counts_no_thread_polls() {
        let untold = |spent_ms| Counted {
            traces: None,
            ..counted(spent_ms, spent_ms, 0)
        };
        let mut seen = Computing::new(untold(0));
        assert_eq!(seen.look(untold(4_000)), None);
        assert_eq!(seen.look(untold(5_000)), Some(Spins::Computes));
    }

    #[test]
    fn the_kernel_counts_this_thread() {
        let this = rustix::thread::gettid().as_raw_nonzero().get();
        let before = Counted::of(this).expect("it runs");
        fs::read_to_string("/proc/self/stat").expect("it can be read");
        let after = Counted::of(this).expect("it runs");
        assert!(after.spent_ns >= before.spent_ns);
        if let (Some(before), Some(after)) = (before.traces, after.traces) {
            assert!(after > before, "a read leaves a trace");
        }
    }
}
