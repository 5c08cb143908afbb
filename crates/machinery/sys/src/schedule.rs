//! Scheduling of the calling thread.

use core::num::NonZeroU64;
use std::io;

use rustix::thread::{current_timer_slack, set_current_timer_slack};

use crate::option::done;

/// Scheduling policy relative to other threads (sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The default policy.
    Ordinary,
    /// Runs before all ordinary threads, and before threads of lower priority (1 to 99):
    /// `SCHED_FIFO`.
    First(u8),
    /// Runs only if no other thread is ready: `SCHED_IDLE`.
    Last,
}

/// Returns the calling thread's policy, or `None` if [`Policy`] cannot represent it.
pub fn policy() -> Option<Policy> {
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call takes a number; 0 is the calling thread.
    let policy = unsafe { libc::sched_getscheduler(0) };
    // SAFETY: the kernel writes to the parameters, which live until it returns.
    done(unsafe { libc::sched_getparam(0, &raw mut parameters) }).ok()?;
    match policy {
        libc::SCHED_OTHER => Some(Policy::Ordinary),
        libc::SCHED_IDLE => Some(Policy::Last),
        libc::SCHED_FIFO => u8::try_from(parameters.sched_priority)
            .ok()
            .map(Policy::First),
        _ => None,
    }
}

/// Sets the calling thread's policy.
///
/// # Errors
/// Fails for [`Policy::First`] without CAP_SYS_NICE or a resource limit that allows it.
pub fn set_policy(policy: Policy) -> io::Result<()> {
    let (policy, priority) = match policy {
        Policy::Ordinary => (libc::SCHED_OTHER, 0),
        Policy::First(priority) => (libc::SCHED_FIFO, priority.into()),
        Policy::Last => (libc::SCHED_IDLE, 0),
    };
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: the kernel reads the parameters, which live until it returns.
    done(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) })
}

/// Guard that runs the calling thread before ordinary threads until it is dropped.
#[derive(Debug)]
pub struct PriorityGuard(());

impl PriorityGuard {
    /// Raises the calling thread's priority. Returns `None` if this is not allowed, or if the
    /// thread's policy is not the default, since it was then set on purpose.
    pub fn go() -> Option<Self> {
        if policy() != Some(Policy::Ordinary) {
            return None;
        }
        set_policy(Policy::First(1)).ok().map(|()| Self(()))
    }
}

impl Drop for PriorityGuard {
    fn drop(&mut self) {
        // Restoring the default policy is always allowed.
        let _ = set_policy(Policy::Ordinary);
    }
}

/// Guard that makes the calling thread's sleeps end on time. By default the kernel may end them 50
/// µs late, to save wake-ups (timer slack).
#[derive(Debug)]
pub struct TimerSlackGuard(Option<NonZeroU64>);

impl TimerSlackGuard {
    /// Sets the calling thread's timer slack to 1 ns until the guard is dropped.
    pub fn go() -> Self {
        let before = current_timer_slack().ok().and_then(NonZeroU64::new);
        sleep_exactly();
        Self(before)
    }
}

impl Drop for TimerSlackGuard {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            // This cannot fail: the kernel accepts any number.
            let _ = set_current_timer_slack(Some(before));
        }
    }
}

/// Sets the calling thread's timer slack to 1 ns, as [`TimerSlackGuard`] does, until the thread
/// ends.
pub fn sleep_exactly() {
    // This cannot fail: the kernel accepts any number.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_regains_its_scheduling_policy() {
        std::thread::spawn(|| {
            assert_eq!(policy(), Some(Policy::Ordinary));
            let before = current_timer_slack().expect("a number");
            {
                let _exact = TimerSlackGuard::go();
                assert_eq!(current_timer_slack(), Ok(1));
                let first = PriorityGuard::go();
                let expected = first
                    .as_ref()
                    .map_or(Policy::Ordinary, |_| Policy::First(1));
                assert_eq!(policy(), Some(expected));
                assert!(
                    first.is_none() || PriorityGuard::go().is_none(),
                    "chosen already"
                );
            }
            assert_eq!(policy(), Some(Policy::Ordinary));
            assert_eq!(current_timer_slack(), Ok(before));
            set_policy(Policy::Last).expect("lowering oneself is always allowed");
            assert_eq!(policy(), Some(Policy::Last));
        })
        .join()
        .expect("no panic");
    }
}
