//! Which system calls trap, which ask the supervisor, and which pass.
//!
//! The filter is narrow: a call that carries no time and cannot break the trap
//! is allowed by its number alone, and the kernel then remembers that in a
//! bitmap and does not even run the filter (`seccomp_cache_prepare`). That is
//! why the number is looked at before anything else.

use libc::sock_filter;
use timeloom_page::{CPU_TIME_CALL, IMAGE_ADDRESS, IMAGE_LIMIT};

use crate::arch::{AUDIT_ARCH, OWN_CALLS};
use crate::linux::bpf::{
    ADDRESS_HIGH, ADDRESS_LOW, ARCHITECTURE, Label, NUMBER, Step, argument_high, argument_low,
    assemble,
};
use crate::phc;
use crate::timers::FIRST_POSIX;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// Handled in the process, by the image.
    Trap,
    /// Handled by the supervisor: executes, timerfds, and every call that
    /// carries time and is not handled yet.
    Ask,
    /// Answered with ENOSYS, on which every known caller falls back.
    Refuse,
}

/// When a call gets its treatment; otherwise it passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(dead_code, reason = "some are for old calls only")
)]
pub(crate) enum When {
    /// Always.
    Always,
    /// When this pointer argument is given.
    Given(u32),
    /// When either pointer argument is given.
    EitherGiven(u32, u32),
    /// When this `int` argument is above zero (a timeout in ms).
    Positive(u32),
    /// When this `int` argument is not zero (a timeout in ms; negative: none).
    NotZero(u32),
    /// When `int` `.0` is not zero or pointer `.1` is given.
    NotZeroOrGiven(u32, u32),
    /// When this pointer argument is null.
    Null(u32),
    /// A futex operation that waits, with a timeout.
    FutexWait,
    /// A socket option that is about time.
    SocketTime,
    /// An interval timer: of real time as the treatment says, of processor time
    /// in the image.
    IntervalTimer,
    /// A timer: one that is to tell when its clock is set, in the image first.
    MayCancel,
    /// A timer's clock that does not count processor time. (Timers on one that
    /// does are the kernel's.)
    NotOfProcessor,
    /// A timer that is the session's.
    OwnPosixTimer,
    /// The same; a timer that is the kernel's, in the image.
    PosixTimer,
    /// An `ioctl` that compares a hardware clock with the system's.
    HardwareClock,
    /// `prctl` that asks or says whether the time-stamp counter may be read.
    TscControl,
}

/// What happens to a call: number, name, treatment, condition.
pub(crate) type Call = (i64, &'static str, Treatment, When);

/// The whole filter as data.
pub(crate) const CALLS: &[Call] = {
    const JOINED: [Call; EVERYWHERE.len() + OWN_CALLS.len()] = {
        let mut joined = [EVERYWHERE[0]; EVERYWHERE.len() + OWN_CALLS.len()];
        let (mut index, mut old) = (0, 0);
        while index < EVERYWHERE.len() {
            joined[index] = EVERYWHERE[index];
            index += 1;
        }
        while old < OWN_CALLS.len() {
            joined[index + old] = OWN_CALLS[old];
            old += 1;
        }
        joined
    };
    &JOINED
};

/// The calls that are treated on all architectures.
const EVERYWHERE: &[Call] = {
    use Treatment::{Ask, Refuse, Trap};
    use When::{
        Always, EitherGiven, FutexWait, Given, HardwareClock, IntervalTimer, MayCancel,
        NotOfProcessor, NotZero, NotZeroOrGiven, OwnPosixTimer, PosixTimer, SocketTime,
    };
    &[
        // Clocks, by `syscall` instruction instead of the vDSO.
        (libc::SYS_clock_gettime, "clock_gettime", Trap, Always),
        (libc::SYS_gettimeofday, "gettimeofday", Trap, Always),
        // Waits with a timeout, or with a signal mask that must not hold SIGSYS.
        (libc::SYS_nanosleep, "nanosleep", Trap, Always),
        (libc::SYS_clock_nanosleep, "clock_nanosleep", Trap, Always),
        (libc::SYS_ppoll, "ppoll", Trap, EitherGiven(2, 3)),
        (libc::SYS_pselect6, "pselect6", Trap, EitherGiven(4, 5)),
        // These, and `epoll_wait`, without a timeout too: frozen in them, a program
        // would be told EINTR by the kernel.
        (
            libc::SYS_epoll_pwait,
            "epoll_pwait",
            Trap,
            NotZeroOrGiven(3, 4),
        ),
        (libc::SYS_epoll_pwait2, "epoll_pwait2", Trap, Always),
        (libc::SYS_futex, "futex", Trap, FutexWait),
        (libc::SYS_futex_waitv, "futex_waitv", Trap, Given(3)),
        (libc::SYS_rt_sigtimedwait, "rt_sigtimedwait", Trap, Always),
        (libc::SYS_semtimedop, "semtimedop", Trap, Always),
        (libc::SYS_semop, "semop", Trap, Always),
        (libc::SYS_mq_timedsend, "mq_timedsend", Trap, Given(4)),
        (libc::SYS_mq_timedreceive, "mq_timedreceive", Trap, Given(4)),
        (libc::SYS_recvmmsg, "recvmmsg", Trap, Given(4)),
        // The former returns EINTR when frozen, the latter waits anew.
        (libc::SYS_io_getevents, "io_getevents", Trap, NotZero(1)),
        (SYS_IO_PGETEVENTS, "io_pgetevents", Trap, Always),
        (libc::SYS_ioctl, "ioctl", Trap, HardwareClock),
        (libc::SYS_sysinfo, "sysinfo", Trap, Always),
        (libc::SYS_times, "times", Trap, Always),
        (libc::SYS_getrusage, "getrusage", Trap, Always),
        (libc::SYS_wait4, "wait4", Trap, Given(3)),
        (libc::SYS_waitid, "waitid", Trap, Given(4)),
        // Times of files set to "now".
        (libc::SYS_utimensat, "utimensat", Trap, Always),
        (libc::SYS_setsockopt, "setsockopt", Trap, SocketTime),
        // What could take SIGSYS away from us.
        (libc::SYS_rt_sigprocmask, "rt_sigprocmask", Trap, Given(1)),
        (libc::SYS_rt_sigaction, "rt_sigaction", Trap, Given(1)),
        (libc::SYS_rt_sigsuspend, "rt_sigsuspend", Trap, Always),
        (libc::SYS_clone3, "clone3", Refuse, Always), // may reset all handlers
        // Followed by the supervisor.
        (libc::SYS_execve, "execve", Ask, Always),
        (libc::SYS_execveat, "execveat", Ask, Always),
        (libc::SYS_timerfd_create, "timerfd_create", Ask, Always),
        (libc::SYS_timerfd_settime, "timerfd_settime", Ask, MayCancel),
        (libc::SYS_timerfd_gettime, "timerfd_gettime", Ask, Always),
        (libc::SYS_timer_create, "timer_create", Ask, NotOfProcessor),
        (libc::SYS_timer_settime, "timer_settime", Ask, PosixTimer),
        (libc::SYS_timer_gettime, "timer_gettime", Ask, PosixTimer),
        (
            libc::SYS_timer_getoverrun,
            "timer_getoverrun",
            Ask,
            OwnPosixTimer,
        ),
        (libc::SYS_timer_delete, "timer_delete", Ask, OwnPosixTimer),
        (libc::SYS_setitimer, "setitimer", Ask, IntervalTimer),
        (libc::SYS_getitimer, "getitimer", Ask, IntervalTimer),
        // Would change the machine's clock.
        (libc::SYS_clock_settime, "clock_settime", Ask, Always),
        (libc::SYS_settimeofday, "settimeofday", Ask, Always),
        (libc::SYS_adjtimex, "adjtimex", Ask, Always),
        (libc::SYS_clock_adjtime, "clock_adjtime", Ask, Always),
        // Its waits cannot be trapped: refused and reported.
        (libc::SYS_io_uring_setup, "io_uring_setup", Ask, Always),
        // The image's own question.
        (CPU_TIME_CALL as i64, "cpu_time", Ask, Always),
    ]
};

/// What comes in addition, or instead, where the time-stamp counter is emulated:
/// the image stands between a program and its SIGSEGV, which shows in masks and
/// actions.
pub(crate) const EMULATING_TSC: &[Call] = {
    use Treatment::Trap;
    use When::{Always, TscControl};
    &[
        (libc::SYS_rt_sigprocmask, "rt_sigprocmask", Trap, Always),
        (libc::SYS_rt_sigaction, "rt_sigaction", Trap, Always),
        (libc::SYS_rt_sigpending, "rt_sigpending", Trap, Always),
        (libc::SYS_prctl, "prctl", Trap, TscControl),
    ]
};

/// The name of a call in [`CALLS`].
pub(crate) fn name_of(number: i64) -> &'static str {
    CALLS
        .iter()
        .chain(EMULATING_TSC)
        .find(|entry| entry.0 == number)
        .map_or("?", |entry| entry.1)
}

/// Whose filter it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guest {
    /// Started in the session, where it stays to its end.
    Launched,
    /// The same, where the time-stamp counter is emulated.
    EmulatingTsc,
    /// Brought in, perhaps to be let go again: what it then asks the kernel for
    /// comes from inside the image, where nobody else asks for it.
    Registered,
}

/// The calls that stay with a supervisor after a program was let go: what an exec
/// starts needs the image, and of `sigaltstack` a handler can do nothing, since its
/// end brings back the stack that was.
fn is_never_native(number: i64) -> bool {
    matches!(
        number,
        libc::SYS_execve | libc::SYS_execveat | libc::SYS_sigaltstack
    ) || number == CPU_TIME_CALL as i64
}

/// The program for `seccomp(SECCOMP_SET_MODE_FILTER)`.
pub(crate) fn program(guest: Guest) -> Vec<sock_filter> {
    let instead = match guest {
        Guest::EmulatingTsc => EMULATING_TSC,
        Guest::Launched | Guest::Registered => &[],
    };
    let calls = || {
        let replaced = |number| instead.iter().any(|(other, ..)| *other == number);
        let usual = CALLS.iter().filter(move |(number, ..)| !replaced(*number));
        usual.chain(instead)
    };
    let mut steps = vec![
        Step::Load(ARCHITECTURE),
        Step::IfEqual(AUDIT_ARCH, NATIVE),
        Step::Return(REFUSE),
        Step::Mark(NATIVE),
        Step::Load(NUMBER),
        // The x32 calls of x86-64, through which a program could reach everything.
        // (Elsewhere there are no calls up there.)
        Step::IfAtLeast(X32_BIT, REFUSED),
    ];
    for (index, (number, ..)) in calls().enumerate() {
        steps.push(Step::IfEqual(*number as u32, FIRST_CALL + index as Label));
    }
    steps.push(Step::Return(libc::SECCOMP_RET_ALLOW));
    for (index, (number, _, treatment, when)) in calls().enumerate() {
        steps.push(Step::Mark(FIRST_CALL + index as Label));
        let label = match treatment {
            Treatment::Ask if guest == Guest::Registered && !is_never_native(*number) => {
                ASKED_OUTSIDE
            }
            treatment => label_of(*treatment),
        };
        condition(&mut steps, *when, label);
        steps.push(Step::Return(libc::SECCOMP_RET_ALLOW));
    }
    unless_inside(&mut steps, TRAPPED, libc::SECCOMP_RET_TRAP);
    unless_inside(&mut steps, ASKED_OUTSIDE, libc::SECCOMP_RET_USER_NOTIF);
    steps.extend([
        Step::Mark(ASKED),
        Step::Return(libc::SECCOMP_RET_USER_NOTIF),
        Step::Mark(REFUSED),
        Step::Return(REFUSE),
    ]);
    assemble(&steps)
}

/// What a registered program gets in addition when it is let go. What it would ask
/// the supervisor for traps instead, for a trap goes before a question; and from
/// inside the image it passes. So it needs nobody, but for an exec.
pub(crate) fn release_program() -> Vec<sock_filter> {
    let mut steps = vec![
        Step::Load(ARCHITECTURE),
        Step::IfEqual(AUDIT_ARCH, NATIVE),
        Step::Return(libc::SECCOMP_RET_ALLOW), // the first filter refuses
        Step::Mark(NATIVE),
        Step::Load(NUMBER),
    ];
    for (number, _, treatment, _) in CALLS {
        if *treatment == Treatment::Ask && !is_never_native(*number) {
            steps.push(Step::IfEqual(*number as u32, TRAPPED));
        }
    }
    steps.push(Step::Return(libc::SECCOMP_RET_ALLOW));
    unless_inside(&mut steps, TRAPPED, libc::SECCOMP_RET_TRAP);
    assemble(&steps)
}

/// From `label` on: `action`, but calls from inside the image pass.
fn unless_inside(steps: &mut Vec<Step>, label: Label, action: u32) {
    let [inside, outside] = [label + INSIDE, label + OUTSIDE];
    steps.extend([
        Step::Mark(label),
        Step::Load(ADDRESS_HIGH),
        Step::IfEqual((IMAGE_ADDRESS >> 32) as u32, inside),
        Step::Return(action),
        Step::Mark(inside),
        Step::Load(ADDRESS_LOW),
        Step::IfAtLeast(IMAGE_LIMIT as u32, outside),
        Step::Return(libc::SECCOMP_RET_ALLOW),
        Step::Mark(outside),
        Step::Return(action),
    ]);
}

const _: () = assert!(
    IMAGE_ADDRESS & 0xffff_ffff == 0,
    "the range test compares halves"
);

/// Appends jumps to `label` for calls that meet the condition.
fn condition(steps: &mut Vec<Step>, when: When, label: Label) {
    let given = |steps: &mut Vec<Step>, index: u32| {
        steps.push(Step::Load(argument_low(index)));
        steps.push(Step::IfAtLeast(1, label));
        steps.push(Step::Load(argument_high(index)));
        steps.push(Step::IfAtLeast(1, label));
    };
    // A negative `int` has its top bit set; what lies between is positive.
    let skip = LOCAL + steps.len() as Label;
    let positive = |steps: &mut Vec<Step>, index: u32| {
        steps.push(Step::Load(argument_low(index)));
        steps.push(Step::IfAtLeast(0x8000_0000, skip));
        steps.push(Step::IfAtLeast(1, label));
        steps.push(Step::Mark(skip));
    };
    match when {
        When::Always => steps.push(Step::Goto(label)),
        When::Given(index) => given(steps, index),
        When::EitherGiven(one, other) => {
            given(steps, one);
            given(steps, other);
        }
        When::Positive(index) => positive(steps, index),
        When::NotZero(index) => {
            steps.push(Step::Load(argument_low(index)));
            steps.push(Step::IfAtLeast(1, label));
        }
        When::NotZeroOrGiven(timeout, pointer) => {
            steps.push(Step::Load(argument_low(timeout)));
            steps.push(Step::IfAtLeast(1, label));
            given(steps, pointer);
        }
        When::Null(index) => {
            steps.push(Step::Load(argument_low(index)));
            steps.push(Step::IfAtLeast(1, skip));
            steps.push(Step::Load(argument_high(index)));
            steps.push(Step::IfEqual(0, label));
            steps.push(Step::Mark(skip));
        }
        When::FutexWait => {
            steps.push(Step::Load(argument_low(1)));
            let waits = skip + 1;
            for command in FUTEX_WAITS {
                for flags in [0, 128, 256, 384] {
                    steps.push(Step::IfEqual(command | flags, waits));
                }
            }
            steps.push(Step::Goto(skip));
            steps.push(Step::Mark(waits));
            given(steps, 3);
            steps.push(Step::Mark(skip));
        }
        When::IntervalTimer => {
            steps.push(Step::Load(argument_low(0)));
            steps.push(Step::IfEqual(libc::ITIMER_REAL as u32, label));
            steps.push(Step::Goto(TRAPPED));
        }
        When::MayCancel => {
            steps.push(Step::Load(argument_low(1)));
            steps.push(Step::IfEqual(CANCEL_ON_SET, TRAPPED));
            steps.push(Step::Goto(label));
        }
        When::NotOfProcessor => {
            steps.push(Step::Load(argument_low(0)));
            for clock in [
                libc::CLOCK_PROCESS_CPUTIME_ID,
                libc::CLOCK_THREAD_CPUTIME_ID,
            ] {
                steps.push(Step::IfEqual(clock as u32, skip));
            }
            // Negative ones are those of processes, threads and clock devices.
            // The kernel refuses timers on the last.
            steps.push(Step::IfAtLeast(0x8000_0000, skip));
            steps.push(Step::Goto(label));
            steps.push(Step::Mark(skip));
        }
        When::OwnPosixTimer | When::PosixTimer => {
            steps.push(Step::Load(argument_low(0)));
            steps.push(Step::IfAtLeast(0x8000_0000, skip));
            steps.push(Step::IfAtLeast(FIRST_POSIX as u32, label));
            steps.push(Step::Mark(skip));
            if when == When::PosixTimer {
                steps.push(Step::Goto(TRAPPED));
            }
        }
        When::HardwareClock => {
            steps.push(Step::Load(argument_low(1)));
            for command in phc::COMMANDS {
                steps.push(Step::IfEqual(command, label));
            }
        }
        When::TscControl => {
            steps.push(Step::Load(argument_low(0)));
            for option in [PR_GET_TSC, PR_SET_TSC] {
                steps.push(Step::IfEqual(option, label));
            }
        }
        When::SocketTime => {
            let socket_level = skip + 1;
            steps.push(Step::Load(argument_low(1)));
            steps.push(Step::IfEqual(libc::SOL_SOCKET as u32, socket_level));
            steps.push(Step::Goto(skip));
            steps.push(Step::Mark(socket_level));
            steps.push(Step::Load(argument_low(2)));
            for option in SOCKET_TIME_OPTIONS {
                steps.push(Step::IfEqual(option, label));
            }
            steps.push(Step::Mark(skip));
        }
    }
}

fn label_of(treatment: Treatment) -> Label {
    match treatment {
        Treatment::Trap => TRAPPED,
        Treatment::Ask => ASKED,
        Treatment::Refuse => REFUSED,
    }
}

/// Not in `libc` for all architectures.
const SYS_IO_PGETEVENTS: i64 = if cfg!(target_arch = "x86_64") {
    333
} else {
    292
};
/// WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2.
const FUTEX_WAITS: [u32; 5] = [0, 6, 9, 11, 13];
/// The flag means something to absolute timers only, and others are refused.
const CANCEL_ON_SET: u32 = (libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET) as u32;
/// SO_RCVTIMEO, SO_SNDTIMEO and SO_TIMESTAMP, _NS, _ING, old and new.
const SOCKET_TIME_OPTIONS: [u32; 10] = [20, 21, 29, 35, 37, 63, 64, 65, 66, 67];
const PR_GET_TSC: u32 = libc::PR_GET_TSC as u32;
const PR_SET_TSC: u32 = libc::PR_SET_TSC as u32;
const X32_BIT: u32 = 0x4000_0000;
pub(crate) const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

const NATIVE: Label = 1;
const TRAPPED: Label = 2;
const ASKED: Label = 3;
const REFUSED: Label = 4;
const ASKED_OUTSIDE: Label = 5;
/// Added to a label by [`unless_inside`].
const INSIDE: Label = 100;
const OUTSIDE: Label = 200;
const FIRST_CALL: Label = 1_000;
const LOCAL: Label = 100_000;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod oracle;
#[cfg(test)]
mod tests;
