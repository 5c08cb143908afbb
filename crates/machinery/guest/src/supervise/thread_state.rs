//! State of a thread that does not run, with the deadline of its wait.
//!
//! A thread that waits in virtual time sleeps in the image's single waiting instruction, and has
//! its deadline at the top of its stack. A thread asleep in any other call waits for another
//! thread: for data, a lock, a child.

use std::fs;
use std::ops::RangeInclusive;

use timeloom_abi::{ENDS_AT_ONCE, HOST_OFFSET, NO_DEADLINE, PAGE_ADDRESS, PageTime};
use timeloom_time::Instant;

use crate::clock::HostInstant;
use crate::linux::remote::Alleged;

/// State of a thread that does not run, read from /proc/PID/task/TID/syscall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadState {
    /// Number of the system call in which the thread is; `None` if it is in none.
    pub(crate) call: Option<i64>,
    /// Address of the thread's next instruction.
    pub(crate) at: u64,
    /// Stack pointer of the thread.
    stack: u64,
}

impl ThreadState {
    /// Returns the state of a thread; `None` if the thread runs or has ended.
    pub(crate) fn of(pid: i32, thread: i32) -> Option<Self> {
        Self::parse(&syscall_line(pid, thread)?)
    }

    /// Returns the state of a stopped thread; `None` if the thread has ended. Retries, since a
    /// signal from outside wakes a stopped thread for a moment, after which it is stopped again.
    pub(crate) fn of_stopped(pid: i32, thread: i32) -> Option<Self> {
        let mut text = syscall_line(pid, thread)?;
        for _ in 0..100 {
            if !text.starts_with("running") {
                break;
            }
            std::thread::yield_now();
            text = syscall_line(pid, thread)?;
        }
        Self::parse(&text)
    }

    /// Parses `CALL ARGUMENTS… STACK INSTRUCTION`, or `-1 STACK INSTRUCTION` outside of calls.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let (&first, [.., stack, at]) = (fields.first()?, fields.get(1..)?) else {
            return None;
        };
        let call: i64 = first.parse().ok()?;
        Some(Self {
            call: (call >= 0).then_some(call),
            at: hexadecimal(at)?,
            stack: hexadecimal(stack)?,
        })
    }

    /// Returns true if the thread is in the waiting call, or about to make it. If the thread's next
    /// instruction is the one after the call (`wait.end()`) but the thread is not in the call, its
    /// wait has ended.
    pub(crate) fn is_waiting(&self, wait: &RangeInclusive<u64>) -> bool {
        wait.contains(&self.at) && (self.call.is_some() || self.at != *wait.end())
    }

    /// Returns the deadline of a thread in the waiting instruction: `Some(None)` if the wait has no
    /// deadline, `None` if the thread has ended or its wait ends at once.
    pub(crate) fn deadline(&self, thread: i32) -> Option<Option<HostInstant<PageTime>>> {
        let ns = Alleged::<i64>::at(self.stack).read(thread)?;
        let host = Alleged::<u32>::at(PAGE_ADDRESS + HOST_OFFSET as u64).read(thread)?;
        let at = Instant::from_ns(ns);
        let host = host as usize;
        (ns != ENDS_AT_ONCE).then(|| (ns != NO_DEADLINE).then_some(HostInstant { host, at }))
    }
}

fn syscall_line(pid: i32, thread: i32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall")).ok()
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_from_the_kernels_line() {
        let state = |text| ThreadState::parse(text);
        assert_eq!(
            state("271 0x7f 0x1 0x0 0x0 0x8 0x0 0x7ffd10 0x70000ab2\n"),
            Some(ThreadState {
                call: Some(271),
                at: 0x7000_0ab2,
                stack: 0x7f_fd10
            })
        );
        assert_eq!(
            state("-1 0x7ffd10 0x401000\n"),
            Some(ThreadState {
                call: None,
                at: 0x40_1000,
                stack: 0x7f_fd10
            })
        );
        for other in ["running\n", "", "271\n", "271 0x1\n", "x 0x1 0x2\n"] {
            assert_eq!(state(other), None, "{other:?}");
        }
    }

    #[test]
    fn behind_the_waiting_call_a_thread_waits_only_while_it_is_in_it() {
        let wait = 100..=102;
        let at = |call, at| ThreadState { call, at, stack: 0 };
        assert!(at(Some(271), 102).is_waiting(&wait));
        assert!(at(None, 100).is_waiting(&wait));
        assert!(!at(None, 102).is_waiting(&wait));
        assert!(!at(Some(0), 103).is_waiting(&wait));
    }
}
