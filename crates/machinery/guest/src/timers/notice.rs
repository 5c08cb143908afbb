//! Signal of a timer, in the form in which the kernel would send it.

use std::io;
use std::sync::Arc;

use super::owners::Owner;
use crate::enter::inject::SIGSYS_STAND_IN;
use crate::linux::pidfd::Pidfd;
use crate::linux::processes::{self, SignalState};

/// Signal that a timer sends at its expirations.
#[derive(Clone, Debug)]
pub(crate) struct Notice {
    pub(crate) owner: Arc<Owner>,
    /// Thread to which the signal is sent; `None` for any thread of the process.
    pub(crate) thread: Option<Arc<Thread>>,
    pub(crate) signal: i32,
    /// Value for the handler: `si_value`.
    pub(crate) value: u64,
    /// Identifier of the timer: `si_timerid`.
    pub(crate) timer: i32,
}

/// Thread to which a timer sends its signals.
#[derive(Debug)]
pub(crate) struct Thread {
    /// Identifier of the thread in our PID namespace, valid while the thread lives.
    pub(crate) number: i32,
    /// Descriptor of the thread; `None` before Linux 6.9.
    held: Option<Pidfd>,
}

impl Thread {
    /// Opens the thread that has this identifier now.
    ///
    /// # Errors
    /// Fails if there is no such thread, or if this process may open no more files.
    pub(crate) fn hold(number: i32) -> io::Result<Self> {
        let held = match Pidfd::of_thread(number) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => None,
            other => Some(other?),
        };
        Ok(Self { number, held })
    }
}

impl Notice {
    /// Returns the state, in the kernel, of the signal that was sent last.
    pub(super) fn state(&self) -> SignalState {
        let thread = self.thread.as_ref().map_or(self.owner.pid, |it| it.number);
        // A guest's kernel holds SIGSYS under another signal (`intercepted.rs` of the image).
        let signal = match self.signal {
            libc::SIGSYS => SIGSYS_STAND_IN,
            other => other,
        };
        processes::signal_state(thread, signal)
    }

    /// Queues the signal as the kernel's timer would. Does nothing if the receiving process has
    /// ended.
    pub(super) fn send(&self, overrun: i32) {
        let info = TimerInfo {
            signal: self.signal,
            errno: 0,
            code: SI_TIMER,
            padding: 0,
            timer: self.timer,
            overrun,
            value: self.value,
            rest: [0; 12],
        };
        // SAFETY: the structure is plain data of the same size, and has the layout of a
        // `siginfo_t`.
        let info: libc::siginfo_t = unsafe { std::mem::transmute(info) };
        // This fails if the receiver has ended, or if the signal queue of its user is full. The
        // kernel's timer sends no signal then either.
        let _ = match self.thread.as_deref() {
            None => self.owner.process.signal(self.signal, &info),
            Some(Thread {
                held: Some(thread), ..
            }) => thread.signal(self.signal, &info),
            Some(Thread { number, held: None }) => {
                self.signal_by_number(*number, &info);
                Ok(())
            }
        };
    }

    /// Sends the signal before Linux 6.9: to the thread with this identifier in the owner's
    /// process, if the owner has not ended yet.
    fn signal_by_number(&self, thread: i32, info: &libc::siginfo_t) {
        if self.owner.process.has_ended() {
            return;
        }
        let info = std::ptr::from_ref(info);
        // SAFETY: the kernel reads a whole `siginfo_t`.
        unsafe {
            libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                self.owner.pid,
                thread,
                self.signal,
                info,
            )
        };
    }
}

/// `siginfo_t` of an expired POSIX timer.
#[repr(C, align(8))]
struct TimerInfo {
    signal: i32,
    errno: i32,
    code: i32,
    padding: i32,
    timer: i32,
    overrun: i32,
    value: u64,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<TimerInfo>() == size_of::<libc::siginfo_t>());

const SI_TIMER: i32 = -2;
