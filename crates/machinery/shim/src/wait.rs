//! Waits until the page shows a given time.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use timeloom_abi::{ENDS_AT_ONCE, NO_DEADLINE, PageTime};
use timeloom_time::{Duration, Instant};

use crate::abi::Timespec;
use crate::arch::Context;
use crate::clock::{offset_ns, page, read};
use crate::sys::{errno, nr, syscall};

/// Instant at which a wait ends.
#[derive(Clone, Copy)]
pub(crate) enum Deadline {
    /// No deadline. (The call traps only for its signal mask.)
    Never,
    /// Instant of the time on the page.
    At(Instant<PageTime>),
    /// Instant of a settable clock, given by the clock's number, in nanoseconds since its zero. The
    /// corresponding instant of page time is computed anew for each slice.
    OnClock { clock: u32, ns: i64 },
}

impl Deadline {
    /// Returns the deadline `ns` nanoseconds of page time from now.
    pub(crate) fn after_ns(ns: i64) -> Self {
        Self::At(read(|_| ()).0 + Duration::from_ns(ns))
    }

    /// Returns the deadline at which `clock` shows `ns` nanoseconds. Returns `None` for clocks
    /// without a fixed offset from the page time.
    pub(crate) fn on_clock(clock: u32, ns: i64) -> Option<Self> {
        let offset = read(|copy| offset_ns(clock, copy)).1?;
        Some(match clock {
            REALTIME | REALTIME_ALARM | TAI => Self::OnClock { clock, ns },
            _ => Self::At(Instant::from_ns(ns.saturating_sub(offset))),
        })
    }

    /// Returns the remaining nanoseconds in page time; `None` without a deadline.
    pub(crate) fn left_ns(self) -> Option<i64> {
        self.at().map(|at| (at - read(|_| ()).0).as_ns())
    }

    /// Returns the deadline in page time, by the clocks' present offsets.
    fn at(self) -> Option<Instant<PageTime>> {
        match self {
            Self::Never => None,
            Self::At(at) => Some(at),
            Self::OnClock { clock, ns } => {
                let offset = read(|copy| offset_ns(clock, copy)).1.unwrap_or(0);
                Some(Instant::from_ns(ns.saturating_sub(offset)))
            }
        }
    }
}

const REALTIME: u32 = 0;
const REALTIME_ALARM: u32 = 8;
const TAI: u32 = 11;

/// A slice of a wait: the length of one wait in the kernel, and the epoch of the clock map from
/// which that length was computed.
pub(crate) struct WaitSlice {
    /// Timeout for the kernel. `None` means no timeout; zero polls without blocking.
    pub(crate) wall: Option<Timespec>,
    /// The same timeout in wall nanoseconds.
    pub(crate) wall_ns: i64,
    /// Deadline in nanoseconds of page time, which the supervisor reads from the thread's stack.
    deadline_ns: i64,
    epoch: u32,
}

impl WaitSlice {
    /// Makes the blocking system call of this slice, unless the clock was changed since the slice
    /// was computed.
    ///
    /// Returns the kernel's result or [`CUT_SHORT`]. It also returns [`CUT_SHORT`] for an EINTR
    /// during which no handler ran: the process was stopped and resumed.
    ///
    /// # Safety
    /// Same requirements as [`syscall`].
    pub(crate) unsafe fn block(&self, number: usize, args: [usize; 6]) -> isize {
        let call = [number, args[0], args[1], args[2], args[3], args[4], args[5]];
        // SAFETY: guaranteed by the caller.
        unsafe {
            timeloom_wait(
                &raw const call,
                &raw const page().epoch,
                self.epoch,
                self.deadline_ns,
            )
        }
    }
}

/// Calls `slice` until the deadline has passed, or until the result is not `timed_out`, which is
/// the result of an expired kernel timeout.
///
/// A slice's timeout assumes that the clock keeps its present rate. If the clock was paused or
/// slowed during the slice, the deadline has not passed and another slice follows. If the clock was
/// made faster, or was set, the supervisor interrupts the thread.
///
/// Natively the kernel sends a timer's signal at the timer's instant. The signal interrupts a wait
/// that lasts longer, or is pending at its end. In a session the supervisor sends the signal, and
/// may be late. A wait therefore does not end before all signals have been sent that were due when
/// its deadline was found to have passed. Until then it continues in short slices, which a signal
/// interrupts.
pub(crate) fn until(
    deadline: Deadline,
    timed_out: isize,
    mut slice: impl FnMut(&WaitSlice) -> isize,
) -> isize {
    let mut passed = Instant::FAR_FUTURE;
    let mut short = SHORT;
    loop {
        let epoch = page().epoch.load(Acquire);
        let (now, wall_per_shown) = read(|copy| copy.wall_per_shown_32_32.load(Relaxed));
        let (wall, wall_ns, deadline_ns) = match deadline.at() {
            None => (None, i64::MAX, NO_DEADLINE),
            Some(at) => {
                let whole_ns = to_wall_ns(at - now, wall_per_shown);
                let mut wall_ns = one_slice_ns(whole_ns);
                let mut deadline_ns = at.as_ns();
                if wall_ns == 0 {
                    passed = passed.min(now);
                    if is_signal_due(passed) {
                        wall_ns = to_wall_ns(lengthen(&mut short), wall_per_shown);
                    } else {
                        deadline_ns = ENDS_AT_ONCE;
                    }
                }
                (Some(Timespec::from_ns(wall_ns)), wall_ns, deadline_ns)
            }
        };
        let result = slice(&WaitSlice {
            wall,
            wall_ns,
            deadline_ns,
            epoch,
        });
        if result == CUT_SHORT || (result == timed_out && wall_ns > 0 && wall.is_some()) {
            continue;
        }
        return result;
    }
}

/// Calls `slice` until its result is not [`CUT_SHORT`]. For waits that do not end by virtual time,
/// but depend on the clock's rate.
pub(crate) fn at_each_rate(mut slice: impl FnMut(&WaitSlice) -> isize) -> isize {
    loop {
        let result = slice(&WaitSlice {
            wall: None,
            wall_ns: i64::MAX,
            deadline_ns: NO_DEADLINE,
            epoch: page().epoch.load(Acquire),
        });
        if result != CUT_SHORT {
            return result;
        }
    }
}

/// Waits until the timer signals that are due now have been sent. For calls that query signals
/// without waiting.
pub(crate) fn for_due_signals() {
    if page().next_signal() == Instant::FAR_FUTURE {
        return;
    }
    let (now, wall_per_shown) = read(|copy| copy.wall_per_shown_32_32.load(Relaxed));
    let word = 0u32;
    let mut short = SHORT;
    while is_signal_due(now) {
        let wall_ns = to_wall_ns(lengthen(&mut short), wall_per_shown);
        let wall = Timespec::from_ns(wall_ns);
        let (word, timeout) = (&raw const word as usize, &raw const wall as usize);
        let slice = WaitSlice {
            wall: Some(wall),
            wall_ns,
            deadline_ns: now.as_ns(),
            epoch: page().epoch.load(Acquire),
        };
        // The wait is a `futex` that no thread wakes, since filters of confined programs usually
        // allow this call. SAFETY: the kernel only reads the word and the timeout, both in the
        // image's memory.
        unsafe { slice.block(nr::FUTEX, [word, FUTEX_WAIT_PRIVATE, 0, timeout, 0, 0]) };
    }
}

/// Returns true if a timer's signal was due by `now` and has not been sent.
fn is_signal_due(now: Instant<PageTime>) -> bool {
    page().next_signal() <= now
}

/// Returns the length, in page time, of a slice that waits for a signal to be sent, and doubles it
/// for the next slice. With many waiting threads, slices of constant length would take the
/// processor from the supervisor, which needs it to send the signal.
fn lengthen(short: &mut Duration) -> Duration {
    let slice = *short;
    *short = (slice + slice).min(LONGEST_SHORT);
    slice
}

/// Length of the first slice that waits for a signal.
const SHORT: Duration = Duration::from_us(50);
/// Length of the longest slice that waits for a signal.
const LONGEST_SHORT: Duration = Duration::from_ms(20);
const FUTEX_WAIT_PRIVATE: usize = 128;

/// Returns the part of a wait for one slice, in nanoseconds. This is the whole wait, unless a
/// daemon may change the clock's rate during the slice, for which the supervisor does not interrupt
/// the thread. Then it is most of the wait, so that after a few slices the rest is too short for
/// the change to matter.
fn one_slice_ns(whole_ns: i64) -> i64 {
    if whole_ns > 10_000_000 && page().steered.load(Relaxed) != 0 {
        whole_ns - whole_ns / 8
    } else {
        whole_ns
    }
}

/// Converts a length of page time to wall nanoseconds. Rounds up, since a wait must not end before
/// its deadline.
fn to_wall_ns(left: Duration, wall_per_shown_32_32: u64) -> i64 {
    if left <= Duration::ZERO {
        return 0;
    }
    let product = left.as_ns() as u128 * u128::from(wall_per_shown_32_32) + u128::from(u32::MAX);
    let wall = product >> 32;
    if wall > i64::MAX as u128 {
        i64::MAX
    } else {
        wall as i64
    }
}

/// Result of [`WaitSlice::block`] if the wait must start anew. The kernel never returns this value
/// for the calls used here.
pub(crate) const CUT_SHORT: isize = -0x1000_0000;

// Implemented in assembly (`arch`): the only instruction at which guests block. The code clears a
// word below the stack that the kernel overwrites when it runs a handler. An EINTR without a
// handler is thereby detected. (The image runs on the alternate stack if there is one, as do
// handlers.) Between `begin` and `end` are a check and the call. An interrupt (SIGSYS from the
// supervisor) that arrives there must not be lost. If it interrupted the thread before the call, or
// interrupted the call, the interrupt's handler therefore moves the thread to `cut_short`.
//
// While a thread blocks, its deadline is at the top of its stack. The supervisor learns the stack
// pointer from /proc and reads the deadline, to determine the instant to which time may skip. So no
// table of waiters is needed, which a killed thread could leave inconsistent.
unsafe extern "C" {
    fn timeloom_wait(
        call: *const [usize; 7],
        epoch: *const AtomicU32,
        expected: u32,
        deadline_ns: i64,
    ) -> isize;
    static timeloom_wait_begin: u8;
    static timeloom_wait_end: u8;
    static timeloom_wait_cut_short: u8;
}

/// Ends the wait of the context that an interrupt (SIGSYS from the supervisor) interrupted.
///
/// If a signal of the program arrives together with the interrupt, its EINTR must stay: if a signal
/// is pending that the context admits, the result is not changed. Such a signal is still pending
/// here, because the handler's mask blocks it. If its handler had run first, it could not be
/// detected that the signal ended the wait. (A signal that only the wait's mask admits is handled
/// in the next slice.)
pub(crate) fn handle_interrupt(context: &mut Context) {
    let begin = &raw const timeloom_wait_begin as usize;
    let end = &raw const timeloom_wait_end as usize;
    let at = context.instruction();
    let before_call = (begin..end).contains(&at);
    let interrupted = at == end && context.result() == errno::EINTR;
    if before_call || (interrupted && !signal_pending(context.mask)) {
        context.set_instruction(&raw const timeloom_wait_cut_short as usize);
    }
}

fn signal_pending(mask: u64) -> bool {
    let mut pending = 0u64;
    // SAFETY: writes 8 bytes into `pending`.
    unsafe {
        syscall(
            nr::RT_SIGPENDING,
            [&raw mut pending as usize, 8, 0, 0, 0, 0],
        )
    };
    crate::signal::interrupts(pending & !mask)
}
