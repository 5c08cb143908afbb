//! Processor time across changes of the rate.
//!
//! The image divides a guest's processor time by the dilation. When the dilation changes, the time
//! used before must keep its value; otherwise the CPU clock would jump, even backwards. So at each
//! change, while all processes are stopped, the used time and the clock's reading of every process
//! and thread are recorded here. From then on the image asks the supervisor for processor time.

use parking_lot::Mutex;
use std::collections::BTreeMap;

use crate::linux::processes;

/// Records of the session's processes and threads. Empty until the dilation first changes.
#[derive(Default)]
pub(crate) struct CpuTime {
    bases: Mutex<BTreeMap<Subject, Base>>,
}

/// Process or thread whose processor time is recorded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Process(i32),
    Thread(i32),
}

/// Used processor time and the shown value of the CPU clock, both at the last change of the
/// dilation.
struct Base {
    /// Start time of the process or thread, which distinguishes it from a later one with the same
    /// identifier.
    began: String,
    real_ns: i64,
    shown_ns: i64,
}

impl CpuTime {
    /// Removes the records of processes and threads that have ended.
    pub(crate) fn forget_ended(&self) {
        let mut bases = self.bases.lock();
        bases.retain(|subject, base| began(*subject).as_ref() == Some(&base.began));
    }

    /// Records the CPU clocks of these processes, which must be stopped. `dilation` is the dilation
    /// that is about to end.
    pub(crate) fn rebase(&self, pids: &[i32], dilation: f64) {
        let mut bases = self.bases.lock();
        for &pid in pids {
            let threads = processes::threads(pid).into_iter().map(Subject::Thread);
            for subject in threads.chain([Subject::Process(pid)]) {
                let (Some(real_ns), Some(began)) = (used_ns(pid, subject), began(subject)) else {
                    continue; // the process has just ended
                };
                let shown_ns = shown(bases.get(&subject), &began, real_ns, dilation);
                bases.insert(
                    subject,
                    Base {
                        began,
                        real_ns,
                        shown_ns,
                    },
                );
            }
        }
    }

    /// Returns the value to show of CPU clock `clock` of `thread`, in nanoseconds, when the
    /// kernel's value is `real_ns`.
    pub(crate) fn shown_ns(&self, thread: i32, clock: i32, real_ns: i64, dilation: f64) -> i64 {
        let subject = match clock {
            libc::CLOCK_PROCESS_CPUTIME_ID => Subject::Process(processes::process_of(thread)),
            libc::CLOCK_THREAD_CPUTIME_ID => Subject::Thread(thread),
            // The identifier holds the inverted number of a process or thread above three bits.
            id => match (!(id >> 3), id & PER_THREAD != 0) {
                (0, true) => Subject::Thread(thread),
                (0, false) => Subject::Process(processes::process_of(thread)),
                (other, true) => Subject::Thread(other),
                (other, false) => Subject::Process(other),
            },
        };
        let bases = self.bases.lock();
        let base = bases.get(&subject);
        let began = base.and_then(|_| began(subject)).unwrap_or_default();
        shown(base, &began, real_ns, dilation)
    }
}

/// Returns the shown value. A process or thread without a record, or with the record of an earlier
/// one, has begun after the last change.
fn shown(base: Option<&Base>, began: &str, real_ns: i64, dilation: f64) -> i64 {
    let (real0_ns, shown0_ns) = base
        .filter(|base| base.began == began)
        .map_or((0, 0), |base| (base.real_ns, base.shown_ns));
    let since_ns = (real_ns - real0_ns).max(0);
    shown0_ns + (since_ns as f64 / dilation) as i64
}

/// Returns the processor time, in nanoseconds, that a stopped process or thread has used.
fn used_ns(pid: i32, subject: Subject) -> Option<i64> {
    match subject {
        Subject::Process(pid) => {
            let mut now = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let clock = (!pid << 3) | SCHEDULER;
            // SAFETY: writes `now`.
            let done = unsafe { libc::clock_gettime(clock, &raw mut now) } == 0;
            done.then_some(now.tv_sec * 1_000_000_000 + now.tv_nsec)
        }
        // This process cannot read the clock of another process's thread, but this file has the
        // same value.
        Subject::Thread(thread) => {
            std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat"))
                .ok()?
                .split(' ')
                .next()?
                .parse()
                .ok()
        }
    }
}

fn began(subject: Subject) -> Option<String> {
    let (Subject::Process(id) | Subject::Thread(id)) = subject;
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The start time is the 22nd field. The second field, in parentheses, may contain any
    // character.
    let after_name = stat.get(stat.rfind(')')? + 2..)?;
    after_name.split(' ').nth(19).map(str::to_owned)
}

/// Bits of a clock's identifier.
const PER_THREAD: i32 = 4;
const SCHEDULER: i32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_goes_on_where_it_stood_at_the_new_rate() {
        let own = std::process::id() as i32;
        let clocks = CpuTime::default();
        let process = libc::CLOCK_PROCESS_CPUTIME_ID;
        // Without a record, the present rate applies from the beginning.
        assert_eq!(clocks.shown_ns(own, process, 1_000, 10.0), 100);
        clocks.rebase(&[own], 10.0);
        let (real, stood) = {
            let bases = clocks.bases.lock();
            let base = &bases[&Subject::Process(own)];
            (base.real_ns, base.shown_ns)
        };
        assert!(real > 0 && stood == (real as f64 / 10.0) as i64);
        assert_eq!(clocks.shown_ns(own, process, real, 0.5), stood);
        assert_eq!(
            clocks.shown_ns(own, process, real + 500, 0.5),
            stood + 1_000
        );
        // The identifier contains a number, as another process would use it.
        let by_number = (!own << 3) | SCHEDULER;
        assert_eq!(clocks.shown_ns(1, by_number, real, 0.5), stood);
        // A kernel's value from before the change must not lead to a lower shown value.
        assert_eq!(clocks.shown_ns(own, process, 0, 0.5), stood);
    }

    #[test]
    fn a_later_process_with_the_same_number_is_another() {
        let base = Base {
            began: "7".into(),
            real_ns: 5_000,
            shown_ns: 500,
        };
        assert_eq!(shown(Some(&base), "7", 6_000, 1.0), 1_500);
        assert_eq!(shown(Some(&base), "8", 600, 2.0), 300);
    }
}
