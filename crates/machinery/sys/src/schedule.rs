//! How the kernel schedules the calling thread.

use core::num::NonZeroU64;
use std::io;

use rustix::thread::{current_timer_slack, set_current_timer_slack};

use crate::option::done;

/// Which other threads the calling one goes before (sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// As any program does.
    Ordinary,
    /// Before all ordinary ones, and before lower priorities (1 to 99): `SCHED_FIFO`.
    First(u8),
    /// Behind all others: `SCHED_IDLE`.
    Last,
}

/// The calling thread's policy; `None` when it has one that is not among these.
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

/// Gives the calling thread a policy.
///
/// # Errors
/// Going before others needs CAP_SYS_NICE, or a limit that allows it.
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

/// The calling thread goes before ordinary ones for as long as this lives.
#[derive(Debug)]
pub struct First(());

impl First {
    /// `None` where that is not allowed, and where the thread has a policy of
    /// somebody's choice already: who chose it knows why.
    pub fn go() -> Option<Self> {
        if policy() != Some(Policy::Ordinary) {
            return None;
        }
        set_policy(Policy::First(1)).ok().map(|()| Self(()))
    }
}

impl Drop for First {
    fn drop(&mut self) {
        // Going back is always allowed.
        let _ = set_policy(Policy::Ordinary);
    }
}

/// The calling thread's sleeps end when they should, for as long as this lives: the
/// kernel may otherwise end them 50 µs late, to save wake-ups.
#[derive(Debug)]
pub struct Exact(Option<NonZeroU64>);

impl Exact {
    /// From now on.
    pub fn go() -> Self {
        let before = current_timer_slack().ok().and_then(NonZeroU64::new);
        sleep_exactly();
        Self(before)
    }
}

impl Drop for Exact {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            // It takes any number.
            let _ = set_current_timer_slack(Some(before));
        }
    }
}

/// As [`Exact`], until the thread ends.
pub fn sleep_exactly() {
    // It takes any number.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_was_it_is_again() {
        std::thread::spawn(|| {
            assert_eq!(policy(), Some(Policy::Ordinary));
            let before = current_timer_slack().expect("a number");
            {
                let _exact = Exact::go();
                assert_eq!(current_timer_slack(), Ok(1));
                let first = First::go();
                let expected = first
                    .as_ref()
                    .map_or(Policy::Ordinary, |_| Policy::First(1));
                assert_eq!(policy(), Some(expected));
                assert!(first.is_none() || First::go().is_none(), "chosen already");
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
