//! States of all threads of a session, for a user who asks what time waits for.
//!
//! Nothing is stopped for this. So the states are those of slightly different instants, and a
//! caller that needs certainty inspects the session twice.

use timeloom_time::{Instant, Virtual};

use crate::error::GuestError;
use crate::linux::call_names::name_of_call;
use crate::linux::processes;
use crate::supervise::supervisor::Supervisor;
use crate::supervise::thread_state::ThreadState;

/// Thread of a guest, and its state when it was inspected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InspectedThread {
    /// Number of the thread's host.
    pub(crate) host: usize,
    pub(crate) pid: i32,
    pub(crate) thread: i32,
    pub(crate) activity: Activity,
    /// Name of the system call in which the thread is; `None` if it is in none, or not known to be
    /// in one.
    pub(crate) call: Option<String>,
}

/// Activity of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// The thread runs, or waits for a processor.
    Running,
    /// The thread sleeps, and no signal wakes it (state D of ps).
    Uninterruptible,
    /// A signal has stopped the thread.
    Stopped,
    /// A debugger has stopped the thread.
    Traced,
    /// The thread waits until this virtual instant.
    Until(Instant<Virtual>),
    /// The thread waits in virtual time, without a limit.
    Unlimited,
    /// The thread sleeps in a system call.
    InCall,
}

/// States of all threads of a session, except those of hosts that are held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inspection {
    pub(crate) threads: Vec<InspectedThread>,
}

impl Activity {
    /// Returns true if time does not skip over the thread.
    pub(crate) fn is_awake(self) -> bool {
        match self {
            Self::Running | Self::Uninterruptible | Self::Stopped | Self::Traced => true,
            Self::Until(_) | Self::Unlimited | Self::InCall => false,
        }
    }
}

/// Inspects all threads of hosts that are not held. Reads several files in `/proc` for each.
///
/// # Errors
/// Fails if the processes cannot be listed.
pub(crate) fn inspect(supervisor: &Supervisor) -> Result<Inspection, GuestError> {
    let stands = supervisor.clock.is_paused();
    let mut threads = Vec::new();
    for (host, pid) in supervisor.freezer.list_with_hosts()? {
        if supervisor.clock.is_held(host) {
            continue;
        }
        for thread in processes::threads(pid) {
            let Some((activity, call)) = activity(supervisor, pid, thread, stands) else {
                continue;
            };
            threads.push(InspectedThread {
                host,
                pid,
                thread,
                activity,
                call: call.map(name_of_call),
            });
        }
    }
    Ok(Inspection { threads })
}

/// Returns the activity of a thread and the number of its system call; `None` if it has ended.
fn activity(
    supervisor: &Supervisor,
    pid: i32,
    thread: i32,
    stands: bool,
) -> Option<(Activity, Option<i64>)> {
    let letter = processes::thread_state(thread).ok()??;
    let seen = || match stands {
        // The states of stopped threads show the means by which they were stopped.
        true => ThreadState::of_stopped(pid, thread),
        false => ThreadState::of(pid, thread),
    };
    match letter {
        'Z' | 'X' => return None,
        _ if stands => {}
        'D' => return Some((Activity::Uninterruptible, seen().and_then(|seen| seen.call))),
        'T' => return Some((Activity::Stopped, None)),
        't' => return Some((Activity::Traced, None)),
        'S' | 'I' => {}
        _ => return Some((Activity::Running, None)),
    }
    let Some(seen) = seen() else {
        return Some((Activity::Running, None));
    };
    if seen.is_waiting(supervisor.wait_range()) {
        let deadline = seen.deadline(thread);
        return Some(match deadline {
            // Its wait ends.
            None => (Activity::Running, None),
            Some(deadline) => {
                let at = deadline.and_then(|deadline| supervisor.clock.first_of([deadline]));
                (at.map_or(Activity::Unlimited, Activity::Until), None)
            }
        });
    }
    match seen.call {
        Some(call) => Some((Activity::InCall, Some(call))),
        None => Some((Activity::Running, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_skips_over_threads_that_wait_and_over_no_others() {
        for activity in [
            Activity::Running,
            Activity::Uninterruptible,
            Activity::Stopped,
            Activity::Traced,
        ] {
            assert!(activity.is_awake(), "{activity:?}");
        }
        for activity in [
            Activity::Until(Instant::ZERO),
            Activity::Unlimited,
            Activity::InCall,
        ] {
            assert!(!activity.is_awake(), "{activity:?}");
        }
    }
}
