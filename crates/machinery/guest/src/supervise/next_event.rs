//! Next event of a stopped session, determined from the waits of its threads.

use timeloom_time::{Instant, Virtual};

use crate::linux::processes;
use crate::supervise::supervisor::Supervisor;
use crate::supervise::thread_state::ThreadState;

/// Returns the first virtual time at which an event may happen without input from outside, in a
/// session whose processes are all stopped, or in one with which it shares the order of events.
/// This is the present time if a thread was stopped while it computed, if a program is being
/// started, or if the processes cannot be listed. It is `None` if all threads wait for others.
///
/// A thread that was stopped just after a call in which it might have waited for others counts as
/// waiting.
pub(crate) fn next_deadline(supervisor: &Supervisor) -> Option<Instant<Virtual>> {
    let now = supervisor.clock.now();
    if supervisor.is_starting_one() {
        return Some(now);
    }
    let Ok(pids) = supervisor.processes_not_held() else {
        return Some(now);
    };
    let wait = supervisor.wait_range();
    let mut deadlines = Vec::new();
    for pid in pids {
        for thread in processes::threads(pid) {
            if matches!(processes::state(thread), Some('Z' | 'X') | None) {
                continue;
            }
            let Some(thread_state) = ThreadState::of_stopped(pid, thread) else {
                return Some(now);
            };
            if thread_state.is_waiting(wait) {
                let Some(deadline) = thread_state.deadline(thread) else {
                    return Some(now);
                };
                deadlines.extend(deadline);
            } else if thread_state.call.is_none_or(|call| !waits_for_others(call)) {
                return Some(now);
            }
        }
    }
    let theirs = supervisor.clock.first_of(deadlines);
    let own = supervisor.clock.next_deadline();
    let order = supervisor.shared_order.get();
    let others = order.and_then(|order| order.next_of_others());
    let next = theirs.into_iter().chain(own).chain(others).min();
    next.map(|at| at.max(now))
}

/// Returns true if a thread may sleep in this call until others wake it. A thread in any other call
/// was stopped while it ran.
fn waits_for_others(call: i64) -> bool {
    const CALLS: &[libc::c_long] = &[
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_recvmmsg,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_connect,
        libc::SYS_futex,
        libc::SYS_wait4,
        libc::SYS_waitid,
        libc::SYS_rt_sigsuspend,
        libc::SYS_flock,
        libc::SYS_fcntl,
        libc::SYS_openat,
        libc::SYS_splice,
        libc::SYS_semop,
        libc::SYS_msgsnd,
        libc::SYS_msgrcv,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_pause,
    ];
    CALLS.contains(&call)
}
