//! When something happens next in a session that stands, by what its threads wait for.

use timeloom_time::{Instant, Virtual};

use crate::linux::processes;
use crate::supervise::supervisor::Supervisor;
use crate::supervise::thread_state::ThreadState;

/// The first instant at which something may happen in a session whose processes
/// all stand, unless somebody outside sends it something: now, when a thread was
/// stopped while it computed or a program is being started; never (`None`), when all
/// wait for others.
///
/// A thread that was stopped just behind a call in which it might have waited
/// for others looks as if it did.
pub(crate) fn next_deadline(supervisor: &Supervisor) -> Option<Instant<Virtual>> {
    let now = supervisor.clock.now();
    if supervisor.is_starting_one() {
        return Some(now);
    }
    let wait = supervisor.wait_range();
    let mut deadlines = Vec::new();
    for pid in supervisor.processes_not_held() {
        for thread in processes::threads(pid) {
            if matches!(processes::state(thread), Some('Z' | 'X') | None) {
                continue;
            }
            let Some(thread_state) = ThreadState::of_stopped(pid, thread) else {
                return Some(now);
            };
            if thread_state.is_waiting(wait) {
                deadlines.extend(thread_state.deadline(thread).flatten());
            } else if thread_state.call.is_none_or(|call| !waits_for_others(call)) {
                return Some(now);
            }
        }
    }
    let theirs = supervisor.clock.first_of(deadlines);
    let own = supervisor.clock.next_deadline();
    theirs.into_iter().chain(own).min().map(|at| at.max(now))
}

/// Calls in which a thread may sleep for as long as others please. In any other
/// one it was stopped on its way.
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
