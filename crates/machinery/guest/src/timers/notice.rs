//! The signal of a timer, as the kernel would send it.

/// The signal of a timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notice {
    pub(crate) pid: i32,
    /// One thread of it, or any.
    pub(crate) thread: Option<i32>,
    pub(crate) signal: i32,
    /// `si_value`.
    pub(crate) value: u64,
    /// `si_timerid`.
    pub(crate) timer: i32,
}

impl Notice {
    /// Queues the signal as the kernel's timer would. False when there is
    /// nobody to get it.
    pub(super) fn send(&self, overrun: i32) -> bool {
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
        // SAFETY: a process of our own session; the structure is a `siginfo_t`.
        let result = unsafe {
            match self.thread {
                Some(thread) => libc::syscall(
                    libc::SYS_rt_tgsigqueueinfo,
                    self.pid,
                    thread,
                    self.signal,
                    &raw const info,
                ),
                None => libc::syscall(
                    libc::SYS_rt_sigqueueinfo,
                    self.pid,
                    self.signal,
                    &raw const info,
                ),
            }
        };
        result == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
    }
}

/// `siginfo_t` of an expired timer.
#[repr(C)]
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
