//! Waiting until the page shows an instant.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use timeloom_page::Shown;
use timeloom_time::{Duration, Instant};

use crate::abi::Timespec;
use crate::arch::Context;
use crate::clock::{offset_ns, page, read};
use crate::sys::{errno, nr, syscall};

/// Until when a wait lasts.
#[derive(Clone, Copy)]
pub(crate) enum Deadline {
    /// For ever (the call is here only for its signal mask).
    Never,
    /// When the page shows this.
    At(Instant<Shown>),
    /// An instant of a clock that can be set, by the clock's number: what the page
    /// shows then is found anew for each turn.
    OnClock { clock: u32, ns: i64 },
}

impl Deadline {
    /// `ns` nanoseconds from now, as the page counts them.
    pub(crate) fn after_ns(ns: i64) -> Self {
        Self::At(read(|_| ()).0 + Duration::from_ns(ns))
    }

    /// When `clock` shows `ns`. `None` for clocks that are not an offset away from
    /// what the page shows.
    pub(crate) fn on_clock(clock: u32, ns: i64) -> Option<Self> {
        let offset = read(|copy| offset_ns(clock, copy)).1?;
        Some(match clock {
            REALTIME | REALTIME_ALARM | TAI => Self::OnClock { clock, ns },
            _ => Self::At(Instant::from_ns(ns.saturating_sub(offset))),
        })
    }

    /// Nanoseconds left, as the page counts them; `None` for ever.
    pub(crate) fn left_ns(self) -> Option<i64> {
        self.at().map(|at| (at - read(|_| ()).0).as_ns())
    }

    /// What the page shows then, as things stand now.
    fn at(self) -> Option<Instant<Shown>> {
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

/// One turn of a wait: how long to wait in the kernel, and under which map
/// that length was computed.
pub(crate) struct Turn {
    /// Kernel timeout; `None` for ever. Zero: look, do not wait.
    pub(crate) wall: Option<Timespec>,
    /// Wall nanoseconds of the same.
    pub(crate) wall_ns: i64,
    /// The deadline, for the supervisor's eyes.
    deadline: Instant<Shown>,
    epoch: u32,
}

impl Turn {
    /// Makes the blocking system call of this turn, unless the clock was
    /// changed since the turn was computed.
    ///
    /// Returns the kernel's result or [`KICKED`], which is also what becomes of an
    /// EINTR during which no handler ran: the process was stopped, and went on.
    ///
    /// # Safety
    /// As [`syscall`].
    pub(crate) unsafe fn block(&self, number: usize, args: [usize; 6]) -> isize {
        let call = [number, args[0], args[1], args[2], args[3], args[4], args[5]];
        // SAFETY: the caller vouches for the call.
        unsafe {
            timeloom_wait(
                &raw const call,
                &raw const page().epoch,
                self.epoch,
                self.deadline.as_ns(),
            )
        }
    }
}

/// Calls `turn` until the deadline has passed or it returns something
/// else than `timed_out`, the result that means "the kernel's timeout ran out".
///
/// A turn's timeout assumes that the clock runs on as it does now. If it was
/// paused or slowed meanwhile, the deadline is still ahead and another turn
/// follows; if it was made faster, or was set, the supervisor kicks.
///
/// Natively a timer's signal is sent at its instant, and a wait that lasts beyond it is
/// interrupted, or finds it pending at the end. Here the supervisor sends it, and may be
/// late. So a wait does not end before the signals are sent that were due when its deadline
/// was found to have passed: it goes on in short turns, which a signal interrupts.
pub(crate) fn until(
    deadline: Deadline,
    timed_out: isize,
    mut turn: impl FnMut(&Turn) -> isize,
) -> isize {
    let mut passed = Instant::FAR_FUTURE;
    let mut short = SHORT;
    loop {
        let epoch = page().epoch.load(Acquire);
        let (now, wall_per_shown) = read(|copy| copy.wall_per_shown_32_32.load(Relaxed));
        let (wall, wall_ns, deadline) = match deadline.at() {
            None => (None, i64::MAX, Instant::FAR_FUTURE),
            Some(at) => {
                let whole_ns = to_wall_ns(at - now, wall_per_shown);
                let mut wall_ns = one_turn_ns(whole_ns);
                if wall_ns == 0 {
                    passed = passed.min(now);
                    if is_signal_due(passed) {
                        wall_ns = to_wall_ns(lengthen(&mut short), wall_per_shown);
                    }
                }
                (Some(Timespec::from_ns(wall_ns)), wall_ns, at)
            }
        };
        let result = turn(&Turn {
            wall,
            wall_ns,
            deadline,
            epoch,
        });
        if result == KICKED || (result == timed_out && wall_ns > 0 && wall.is_some()) {
            continue;
        }
        return result;
    }
}

/// Calls `turn` until it returns something else than [`KICKED`]: for waits that
/// end otherwise than by virtual time, but depend on the clock's rate.
pub(crate) fn at_each_rate(mut turn: impl FnMut(&Turn) -> isize) -> isize {
    loop {
        let result = turn(&Turn {
            wall: None,
            wall_ns: i64::MAX,
            deadline: Instant::FAR_FUTURE,
            epoch: page().epoch.load(Acquire),
        });
        if result != KICKED {
            return result;
        }
    }
}

/// Waits until the signals of timers are sent that are due by now: for who asks after
/// signals without waiting.
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
        let turn = Turn {
            wall: Some(wall),
            wall_ns,
            deadline: now,
            epoch: page().epoch.load(Acquire),
        };
        // A `futex` that nobody wakes, since a program that has locked itself in by a filter
        // of its own still may.
        // SAFETY: the kernel only reads both, which are ours.
        unsafe { turn.block(nr::FUTEX, [word, FUTEX_WAIT_PRIVATE, 0, timeout, 0, 0]) };
    }
}

/// Whether a timer's signal was due by `now` and is not sent yet.
fn is_signal_due(now: Instant<Shown>) -> bool {
    page().next_signal() <= now
}

/// Returns the length of a turn that waits for a signal to be sent, as the page counts it. The
/// next turn is twice as long: where many threads wait, turns of one length would keep the
/// supervisor from the processor that it needs to send the signal.
fn lengthen(short: &mut Duration) -> Duration {
    let turn = *short;
    *short = (turn + turn).min(LONGEST_SHORT);
    turn
}

/// The first such turn, and the longest.
const SHORT: Duration = Duration::from_us(50);
const LONGEST_SHORT: Duration = Duration::from_ms(20);
const FUTEX_WAIT_PRIVATE: usize = 128;

/// How much of a wait is done in one turn: all of it, unless a daemon may change
/// the clock's rate meanwhile, for which nobody is kicked. Then most of it, so
/// that a few turns later what is left is too short for that to matter.
fn one_turn_ns(whole_ns: i64) -> i64 {
    if whole_ns > 10_000_000 && page().steered.load(Relaxed) != 0 {
        whole_ns - whole_ns / 8
    } else {
        whole_ns
    }
}

/// Rounded up: a wait must not end before its deadline.
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

/// What [`Turn::block`] returns when the wait is to begin anew: outside the range
/// of results that the kernel gives for the calls used here.
pub(crate) const KICKED: isize = -0x1000_0000;

// In assembly (`arch`), the one place where guests block. It clears a place below the
// stack that the kernel writes to when it makes a handler run: so an EINTR for which
// none ran can be told. (We are on the alternate stack if there is one, so handlers
// are too.) Between `begin` and `end`
// lies a decision and the call; a kick that arrives there must not be lost. The
// kick's handler therefore moves a thread that it finds before the call, or whose
// call it interrupted, to `kicked`.
//
// While a thread blocks, its deadline lies at the top of its stack: the
// supervisor, which learns the stack pointer from /proc, reads it there to know
// to which instant time may skip. So no table of waiters is needed, that a
// killed thread could leave wrong.
unsafe extern "C" {
    fn timeloom_wait(
        call: *const [usize; 7],
        epoch: *const AtomicU32,
        expected: u32,
        deadline_ns: i64,
    ) -> isize;
    static timeloom_wait_begin: u8;
    static timeloom_wait_end: u8;
    static timeloom_wait_kicked: u8;
}

/// What a kick does to the context it interrupted.
///
/// A signal of the program that arrives together with the kick keeps its EINTR:
/// when one is pending that the context lets through, the result stays. Such a
/// signal is still pending here, because the handler's mask holds it back: did
/// its handler run first, nothing would tell that it was the wait's own end. (A
/// signal that only the wait's mask lets through waits for the next turn.)
pub(crate) fn handle_kick(context: &mut Context) {
    let begin = &raw const timeloom_wait_begin as usize;
    let end = &raw const timeloom_wait_end as usize;
    let at = context.instruction();
    let before_call = (begin..end).contains(&at);
    let interrupted = at == end && context.result() == errno::EINTR;
    if before_call || (interrupted && !signal_pending(context.mask)) {
        context.set_instruction(&raw const timeloom_wait_kicked as usize);
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
