//! Which system calls trap, which ask the supervisor, and which pass.
//!
//! The filter is narrow: a call that carries no time and cannot break the trap
//! is allowed by its number alone, and the kernel then remembers that in a
//! bitmap and does not even run the filter (`seccomp_cache_prepare`). That is
//! why the number is looked at before anything else.

use libc::sock_filter;
use timeloom_page::{CPU_TIME_CALL, IMAGE_ADDRESS, IMAGE_LIMIT};

use crate::bpf::{
    ADDRESS_HIGH, ADDRESS_LOW, ARCHITECTURE, Label, NUMBER, Step, argument_high, argument_low,
    assemble,
};

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
}

/// The whole filter as data: number (x86-64), name, treatment, condition.
pub(crate) const CALLS: &[(i64, &str, Treatment, When)] = {
    use Treatment::{Ask, Refuse, Trap};
    use When::{
        Always, EitherGiven, FutexWait, Given, IntervalTimer, NotZero, NotZeroOrGiven, Null,
        Positive, SocketTime,
    };
    &[
        // Clocks, by `syscall` instruction instead of the vDSO.
        (libc::SYS_clock_gettime, "clock_gettime", Trap, Always),
        (libc::SYS_gettimeofday, "gettimeofday", Trap, Always),
        (libc::SYS_time, "time", Trap, Always),
        // Waits with a timeout, or with a signal mask that must not hold SIGSYS.
        (libc::SYS_nanosleep, "nanosleep", Trap, Always),
        (libc::SYS_clock_nanosleep, "clock_nanosleep", Trap, Always),
        (libc::SYS_poll, "poll", Trap, Positive(2)),
        (libc::SYS_ppoll, "ppoll", Trap, EitherGiven(2, 3)),
        (libc::SYS_select, "select", Trap, Given(4)),
        (libc::SYS_pselect6, "pselect6", Trap, EitherGiven(4, 5)),
        // These without a timeout too: frozen in them, a program would be told
        // EINTR by the kernel.
        (libc::SYS_epoll_wait, "epoll_wait", Trap, NotZero(3)),
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
        (libc::SYS_sysinfo, "sysinfo", Trap, Always),
        (libc::SYS_times, "times", Trap, Always),
        (libc::SYS_getrusage, "getrusage", Trap, Always),
        (libc::SYS_wait4, "wait4", Trap, Given(3)),
        (libc::SYS_waitid, "waitid", Trap, Given(4)),
        // Times of files set to "now".
        (libc::SYS_utimensat, "utimensat", Trap, Always),
        (libc::SYS_utime, "utime", Trap, Null(1)),
        (libc::SYS_utimes, "utimes", Trap, Null(1)),
        (libc::SYS_futimesat, "futimesat", Trap, Null(2)),
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
        (libc::SYS_timerfd_settime, "timerfd_settime", Ask, Always),
        (libc::SYS_timerfd_gettime, "timerfd_gettime", Ask, Always),
        (libc::SYS_timer_create, "timer_create", Ask, Always),
        (libc::SYS_timer_settime, "timer_settime", Ask, Always),
        (libc::SYS_timer_gettime, "timer_gettime", Ask, Always),
        (libc::SYS_timer_getoverrun, "timer_getoverrun", Ask, Always),
        (libc::SYS_timer_delete, "timer_delete", Ask, Always),
        (libc::SYS_setitimer, "setitimer", Ask, IntervalTimer),
        (libc::SYS_getitimer, "getitimer", Ask, IntervalTimer),
        (libc::SYS_alarm, "alarm", Ask, Always),
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

/// The name of a call in [`CALLS`].
pub(crate) fn name_of(number: i64) -> &'static str {
    CALLS
        .iter()
        .find(|entry| entry.0 == number)
        .map_or("?", |entry| entry.1)
}

/// The program for `seccomp(SECCOMP_SET_MODE_FILTER)`.
pub(crate) fn program() -> Vec<sock_filter> {
    let mut steps = vec![
        Step::Load(ARCHITECTURE),
        Step::IfEqual(AUDIT_ARCH_X86_64, NATIVE),
        Step::Return(REFUSE),
        Step::Mark(NATIVE),
        Step::Load(NUMBER),
        // The x32 calls, through which a program could reach everything.
        Step::IfAtLeast(X32_BIT, REFUSED),
    ];
    for (index, (number, ..)) in CALLS.iter().enumerate() {
        steps.push(Step::IfEqual(*number as u32, FIRST_CALL + index as Label));
    }
    steps.push(Step::Return(libc::SECCOMP_RET_ALLOW));
    for (index, (_, _, treatment, when)) in CALLS.iter().enumerate() {
        steps.push(Step::Mark(FIRST_CALL + index as Label));
        condition(&mut steps, *when, label_of(*treatment));
        steps.push(Step::Return(libc::SECCOMP_RET_ALLOW));
    }
    steps.extend([
        Step::Mark(TRAPPED),
        Step::Load(ADDRESS_HIGH),
        Step::IfEqual((IMAGE_ADDRESS >> 32) as u32, PERHAPS_INSIDE),
        Step::Return(libc::SECCOMP_RET_TRAP),
        Step::Mark(PERHAPS_INSIDE),
        Step::Load(ADDRESS_LOW),
        Step::IfAtLeast(IMAGE_LIMIT as u32, OUTSIDE),
        Step::Return(libc::SECCOMP_RET_ALLOW),
        Step::Mark(OUTSIDE),
        Step::Return(libc::SECCOMP_RET_TRAP),
        Step::Mark(ASKED),
        Step::Return(libc::SECCOMP_RET_USER_NOTIF),
        Step::Mark(REFUSED),
        Step::Return(REFUSE),
    ]);
    assemble(&steps)
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

/// WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2.
const FUTEX_WAITS: [u32; 5] = [0, 6, 9, 11, 13];
/// SO_RCVTIMEO, SO_SNDTIMEO and SO_TIMESTAMP, _NS, _ING, old and new.
const SOCKET_TIME_OPTIONS: [u32; 10] = [20, 21, 29, 35, 37, 63, 64, 65, 66, 67];
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
const X32_BIT: u32 = 0x4000_0000;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

const NATIVE: Label = 1;
const TRAPPED: Label = 2;
const PERHAPS_INSIDE: Label = 3;
const OUTSIDE: Label = 4;
const ASKED: Label = 5;
const REFUSED: Label = 6;
const FIRST_CALL: Label = 1_000;
const LOCAL: Label = 100_000;

#[cfg(test)]
mod tests;
