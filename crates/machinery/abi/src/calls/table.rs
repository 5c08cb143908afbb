//! Table of every call that carries time, in the order in which the filter compares call numbers.
//!
//! A row has, in this order: the call; its number on x86-64 and on 64-bit ARM; the condition for
//! its treatment; the part of the image or of the supervisor that handles it; and the description
//! in `docs/coverage.md`. [`Call`] documents each column.

use crate::calls::{Call, CallCondition, Extra, Handler, Numbers, SupervisorService, Treatment};

use CallCondition::{
    AdvisedRange, Always, DeviceTime, EitherGiven, FixedRange, FutexWait, Given, IntervalTimer,
    KeptAction, MayCancel, MovedRange, NewTime, NewTimeOrAny, NotOfProcessor, NotZero,
    NotZeroOrGiven, Null, OneOf, OwnPosixTimer, Positive, PosixTimer, Range, SeccompOrTsc,
    SocketTime,
};
use Extra::{Reads, Signals, Stamps, Timeouts};
use Handler as Image;
use SupervisorService as Super;

/// Every call that at least one filter of Timeloom treats.
#[rustfmt::skip] // One call a line.
pub const CALLS: &[Call] = &[
    // Return from a signal frame whose mask the program has made or changed. Every signal handler
    // ends with this call, so it comes first.
    trap("rt_sigreturn", at(15, 139), Always, Image::RtSigreturn, OWN_SIGNALS),

    // Clock reads by a `syscall` instruction instead of the vDSO.
    trap("clock_gettime", at(228, 113), Always, Image::ClockGettime, VIRTUAL),
    trap("gettimeofday", at(96, 169), Always, Image::Gettimeofday, VIRTUAL),

    // Calls that could remove the clock page or the image. They are frequent, so they come early.
    trap("mmap", at(9, 222), FixedRange, Image::Mmap, KEPT_RANGE),
    trap("munmap", at(11, 215), Range(0, 1), Image::OnRange, KEPT_RANGE),
    trap("mprotect", at(10, 226), Range(0, 1), Image::OnRange, KEPT_RANGE),
    trap("madvise", at(28, 233), AdvisedRange(&HIDING), Image::OnRange, KEPT_RANGE),
    trap("mremap", at(25, 216), MovedRange, Image::Mremap, KEPT_RANGE),
    trap("pkey_mprotect", at(329, 288), Range(0, 1), Image::OnRange, KEPT_RANGE),
    trap("remap_file_pages", at(216, 234), Range(0, 1), Image::RemapFilePages, KEPT_RANGE),

    // Waits with a timeout, or with a signal mask, in which SIGSYS must not be blocked.
    trap("nanosleep", at(35, 101), Always, Image::Nanosleep, VIRTUAL),
    trap("clock_nanosleep", at(230, 115), Always, Image::ClockNanosleep, VIRTUAL),
    trap("ppoll", at(271, 73), EitherGiven(2, 3), Image::Ppoll, VIRTUAL),
    trap("pselect6", at(270, 72), EitherGiven(4, 5), Image::Pselect6, VIRTUAL),
    // These calls and `epoll_wait` trap even without a timeout: the kernel returns EINTR from them
    // if the process is frozen meanwhile.
    trap("epoll_pwait", at(281, 22), NotZeroOrGiven(3, 4), Image::EpollPwait, VIRTUAL),
    trap("epoll_pwait2", at(441, 441), Always, Image::EpollPwait2, VIRTUAL),
    trap("futex", at(202, 98), FutexWait, Image::Futex, VIRTUAL),
    trap("futex_waitv", at(449, 449), Given(3), Image::FutexWaitv, VIRTUAL),
    trap("futex_wait", at(455, 455), Given(4), Image::FutexWait, VIRTUAL),
    trap("rt_sigtimedwait", at(128, 137), Always, Image::RtSigtimedwait, VIRTUAL),
    trap("semtimedop", at(220, 192), Always, Image::Semtimedop, VIRTUAL),
    trap("semop", at(65, 193), Always, Image::Semop, VIRTUAL),
    trap("mq_timedsend", at(242, 182), Given(4), Image::MessageQueue, VIRTUAL),
    trap("mq_timedreceive", at(243, 183), Given(4), Image::MessageQueue, VIRTUAL),

    // Sockets and timers: these calls carry time only in processes that have requested it.
    pass("read", at(0, 63), Image::Read).on_demand(&[Reads, Timeouts]),
    pass("readv", at(19, 65), Image::Readv).on_demand(&[Reads, Timeouts]),
    pass("recvfrom", at(45, 207), Image::Recvfrom).on_demand(&[Timeouts]),
    pass("recvmsg", at(47, 212), Image::Recvmsg).on_demand(&[Stamps, Timeouts]),
    trap("recvmmsg", at(299, 243), Given(4), Image::Recvmmsg, VIRTUAL)
        .on_demand(&[Stamps, Timeouts]),
    pass("accept", at(43, 202), Image::Accept).on_demand(&[Timeouts]),
    pass("accept4", at(288, 242), Image::Accept).on_demand(&[Timeouts]),
    pass("connect", at(42, 203), Image::Connect).on_demand(&[Timeouts]),
    pass("write", at(1, 64), Image::Write).on_demand(&[Timeouts]),
    pass("writev", at(20, 66), Image::Writev).on_demand(&[Timeouts]),
    pass("sendto", at(44, 206), Image::Sendto).on_demand(&[Timeouts]),
    pass("sendmsg", at(46, 211), Image::Sendmsg).on_demand(&[Timeouts]),
    pass("sendmmsg", at(307, 269), Image::Sendmmsg).on_demand(&[Timeouts]),

    // In a freeze, `io_getevents` returns EINTR, and `io_pgetevents` restarts its wait.
    trap("io_getevents", at(208, 4), NotZero(1), Image::IoGetevents, VIRTUAL),
    trap("io_pgetevents", at(333, 292), Always, Image::IoPgetevents, VIRTUAL),

    // Opens of the clock of a network card, on hosts that have one.
    pass("openat", at(257, 56), Image::Open).with_card(Always),
    pass("openat2", at(437, 437), Image::Open).with_card(Always),
    ask("ioctl", at(16, 29), DeviceTime, Super::Device, DEVICE_STAMPS).or(Image::Ioctl),
    trap("sysinfo", at(99, 179), Always, Image::Sysinfo, VIRTUAL),
    trap("times", at(100, 153), Always, Image::Times, DIVIDED),
    trap("getrusage", at(98, 165), Always, Image::Getrusage, DIVIDED),
    trap("wait4", at(61, 260), Given(3), Image::Wait4, DIVIDED),
    trap("waitid", at(247, 95), Given(4), Image::Waitid, DIVIDED),
    // Calls that set times of files to "now".
    trap("utimensat", at(280, 88), Always, Image::Utimensat, VIRTUAL_NOW),
    // Calls that return dates of files, in sessions that show virtual dates.
    pass("fstat", at(5, 80), Image::Stat).file_times(Always),
    pass("newfstatat", at(262, 79), Image::Newfstatat).file_times(Always),
    pass("statx", at(332, 291), Image::Statx).file_times(Always),
    ask("setsockopt", at(54, 208), SocketTime, Super::SocketOption, MORE_TRAPS)
        .or(Image::Setsockopt),
    // Times of the last operations on shared memory, semaphores, message queues.
    trap("shmctl", at(31, 195), OneOf(1, &[2, 13, 15]), Image::IpcStatus, IPC_TIMES),
    trap("semctl", at(66, 191), OneOf(2, &[2, 18, 20]), Image::IpcStatus, IPC_TIMES),
    trap("msgctl", at(71, 187), OneOf(1, &[2, 11, 13]), Image::IpcStatus, IPC_TIMES),

    // Calls that could take SIGSYS from the image, or that show the program its own settings of
    // SIGSYS. If the time-stamp counter is emulated, the image also receives the program's SIGSEGV
    // first, which affects masks and actions.
    trap("rt_sigprocmask", at(14, 135), Given(1), Image::RtSigprocmask, OWN_SIGNALS)
        .emulating(Always).on_demand(&[Signals]),
    trap("rt_sigaction", at(13, 134), KeptAction, Image::RtSigaction, OWN_SIGNALS)
        .emulating(Always).on_demand(&[Signals]),
    trap("rt_sigsuspend", at(130, 133), Always, Image::RtSigsuspend, OWN_SIGNALS),
    trap("rt_sigpending", at(127, 136), Always, Image::RtSigpending, OWN_SIGNALS),
    // A tracer's calls that read or set the signal mask of a tracee.
    trap("ptrace", at(101, 117), OneOf(0, &PTRACE_MASKS), Image::Ptrace, OWN_SIGNALS),
    // Requests by which a debugger resumes a stopped program, and PTRACE_TRACEME of a program.
    ask("ptrace", at(101, 117), OneOf(0, &TRACE_REQUESTS), Super::Trace, UNDER_DEBUGGER),
    trap("prctl", at(157, 167), OneOf(0, &SECCOMP_OPTIONS), Image::Prctl, OWN_FILTER)
        .emulating(SeccompOrTsc),
    trap("seccomp", at(317, 277), OneOf(0, &SECCOMP_MODES), Image::Seccomp, OWN_FILTER),
    // A program without its vDSO could map another vDSO of the kernel, which shows the machine's
    // time.
    trap("arch_prctl", x86_64(158), OneOf(0, &ARCH_MAP_VDSO), Image::ArchPrctl, NO_OTHER_VDSO),
    refuse("clone3", at(435, 435), FALL_BACK), // It may reset all handlers.

    // Calls that the supervisor follows.
    ask("execve", at(59, 221), Always, Super::Exec, FOLLOWED),
    ask("execveat", at(322, 281), Always, Super::Exec, FOLLOWED),
    ask("timerfd_create", at(283, 85), Always, Super::TimerfdCreate, BY_SUPERVISOR),
    ask("timerfd_settime", at(286, 86), MayCancel, Super::TimerfdSettime, MAY_CANCEL)
        .or(Image::TimerfdSettime),
    ask("timerfd_gettime", at(287, 87), Always, Super::TimerfdGettime, BY_SUPERVISOR),
    ask("timer_create", at(222, 107), NotOfProcessor, Super::TimerCreate, BY_SUPERVISOR),
    ask("timer_settime", at(223, 110), PosixTimer, Super::TimerSettime, OR_PROCESSOR)
        .or(Image::TimerSettime),
    ask("timer_gettime", at(224, 108), PosixTimer, Super::TimerGettime, OR_PROCESSOR)
        .or(Image::TimerGettime),
    ask("timer_getoverrun", at(225, 109), OwnPosixTimer, Super::TimerGetoverrun, BY_SUPERVISOR),
    ask("timer_delete", at(226, 111), OwnPosixTimer, Super::TimerDelete, BY_SUPERVISOR),
    ask("setitimer", at(38, 103), IntervalTimer, Super::Setitimer, OR_INTERVAL)
        .or(Image::Setitimer),
    ask("getitimer", at(36, 102), IntervalTimer, Super::Getitimer, OR_INTERVAL)
        .or(Image::Getitimer),

    // Calls that would change the machine's clock.
    ask("clock_settime", at(227, 112), Always, Super::ClockSettime, STEERS_BUT_DEVICES),
    ask("settimeofday", at(164, 170), Always, Super::Settimeofday, STEERS),
    ask("adjtimex", at(159, 171), Always, Super::Adjtimex, STEERS),
    ask("clock_adjtime", at(305, 266), Always, Super::ClockAdjtime, STEERS_BUT_DEVICES),

    // `io_uring`, whose waits cannot be trapped: refused and reported.
    ask("io_uring_setup", at(425, 425), Always, Super::IoUring, LEAK),
    // Calls that start operations in real time which continue without further calls. They are
    // executed and reported.
    ask("perf_event_open", at(298, 241), Always, Super::RealTime, NAMED),
    ask("bpf", at(321, 280), OneOf(0, &[BPF_PROG_LOAD]), Super::RealTime, NAMED),
    ask("keyctl", at(250, 219), OneOf(0, &[KEYCTL_SET_TIMEOUT]), Super::RealTime, NAMED),
    ask("acct", at(163, 89), Given(0), Super::RealTime, NAMED),
    ask("syslog", at(103, 116), OneOf(0, &[2, 3, 4]), Super::RealTime, NAMED),
    ask("sched_setattr", at(314, 274), Always, Super::Schedule, NAMED),
    ask("setrlimit", at(160, 164), OneOf(0, &CPU_LIMITS), Super::CpuLimit, NAMED),
    ask("prlimit64", at(302, 261), OneOf(1, &CPU_LIMITS), Super::CpuLimitOf, NAMED),
    // Calls that give a process clock offsets which the clock page does not have. (`clone3` is
    // refused, and `clone` cannot create a time namespace.)
    ask("unshare", at(272, 97), NewTime(0), Super::TimeNamespace, OFFSETS),
    ask("setns", at(308, 268), NewTimeOrAny(1), Super::TimeNamespace, OFFSETS),
    // Call by which the image asks the supervisor.
    ask("cpu_time", OF_IMAGE, Always, Super::Image, OWN_QUESTION),

    // Older calls, which newer ones supersede.
    trap("time", x86_64(201), Always, Image::Time, VIRTUAL),
    trap("poll", x86_64(7), Positive(2), Image::Poll, VIRTUAL),
    trap("select", x86_64(23), Given(4), Image::Select, VIRTUAL),
    trap("epoll_wait", x86_64(232), NotZero(3), Image::EpollWait, VIRTUAL),
    trap("utime", x86_64(132), Null(1), Image::Utime, VIRTUAL_NOW).file_times(Always),
    trap("utimes", x86_64(235), Null(1), Image::Utimes, VIRTUAL_NOW).file_times(Always),
    trap("futimesat", x86_64(261), Null(2), Image::Futimesat, VIRTUAL_NOW).file_times(Always),
    pass("open", x86_64(2), Image::Open).with_card(Always),
    pass("stat", x86_64(4), Image::Stat).file_times(Always),
    pass("lstat", x86_64(6), Image::Stat).file_times(Always),
    ask("alarm", x86_64(37), Always, Super::Alarm, BY_SUPERVISOR),
    // On x86-64 the kernel itself checks that a signal fits onto the stack.
    ask("sigaltstack", aarch64(132), Given(0), Super::SignalStack, SMALL_STACK),
];

const VIRTUAL: &str = "virtual time, in the process";
const OWN_SIGNALS: &str = "the program's own SIGSYS is kept apart from the image's, in the process";
const OWN_FILTER: &str = "the program's filter is installed so that it decides on the program's \
    calls and not on the image's, in the process";
const KEPT_RANGE: &str = "executed, except on the clock page and the image, which stay unchanged";
const VIRTUAL_NOW: &str = "\"now\" is virtual time; explicit times are kept";
const DIVIDED: &str = "processor time is divided by the dilation, in the process; \
    it is zero with `compute = \"none\"`";
const DEVICE_STAMPS: &str = "stamps of the system's clocks are converted to the host's clock, \
    those of the hardware clock to true virtual time plus the device's offset, \
    those of packets as for `recvmsg`; commands for a network card of the model are answered by \
    the supervisor; the commands listed below act in real time, and are reported";
const IPC_TIMES: &str = "times are converted to the virtual CLOCK_REALTIME, in the process";
const NAMED: &str = "**acts in real time**, and is reported";
const MORE_TRAPS: &str = "the option is set; \
    from then on the calls below trap in this process and its children; \
    the options listed below act in real time, and are reported";
const FALL_BACK: &str = "refused with ENOSYS; callers then use `clone`";
const NO_OTHER_VDSO: &str = "`ARCH_MAP_VDSO_64` and its relatives are refused with EEXIST, as if \
    there were a vDSO; another vDSO of the kernel would show the machine's time";
const FOLLOWED: &str = "the supervisor prepares the new program";
const UNDER_DEBUGGER: &str = "executed; if the program was executed under a debugger, the supervisor \
    prepares it before it is resumed for the first time";
const BY_SUPERVISOR: &str = "virtual time, by the supervisor";
const MAY_CANCEL: &str = "virtual time, by the supervisor; after `TFD_TIMER_CANCEL_ON_SET` \
    the calls below trap in this process and its children";
const OR_PROCESSOR: &str = "virtual time, by the supervisor; \
    timers on processor time are divided by the dilation, in the process";
const OR_INTERVAL: &str = "virtual time, by the supervisor; \
    `ITIMER_VIRTUAL` and `ITIMER_PROF` are divided by the dilation, in the process";
const STEERS: &str =
    "acts on the clock of the guest's host, as the kernel would, by the supervisor";
const STEERS_BUT_DEVICES: &str = "acts on the clock of the guest's host, \
    as the kernel would, by the supervisor; refused for hardware clocks of the machine with \
    EOPNOTSUPP, and acts on that of a network card of the model";
const LEAK: &str = "refused with ENOSYS, and reported; most programs then use other calls; \
    **with `--allow-leaks` it acts in real time**";
const OFFSETS: &str = "refused with EINVAL, as by a kernel without time namespaces, and \
    reported; **with `--allow-leaks` executed, but its offsets are ignored**";
const OWN_QUESTION: &str =
    "not for programs: the image queries a clock of processor time after a change of rate";
const SMALL_STACK: &str =
    "refused with ENOMEM if two signal frames do not fit onto the stack, and reported";
/// Empty description of calls that trap on request: `coverage.rs` of `house` describes the
/// requests.
const ON_DEMAND: &str = "";

/// MADV_DONTFORK and MADV_GUARD_INSTALL. Other kinds of advice are harmless to a shared mapping.
const HIDING: [u32; 2] = [10, 102];
/// Requests of `ptrace` that concern signal masks: PTRACE_GETSIGMASK and PTRACE_SETSIGMASK.
const PTRACE_MASKS: [u32; 2] = [0x420a, 0x420b];
/// Codes of `arch_prctl` that map a vDSO: ARCH_MAP_VDSO_X32, _32 and _64.
const ARCH_MAP_VDSO: [u32; 3] = [0x2001, 0x2002, 0x2003];
/// Requests of `ptrace` that the supervisor handles: PTRACE_TRACEME, _CONT, _SINGLESTEP, _DETACH,
/// _SYSCALL, _SYSEMU, _SYSEMU_SINGLESTEP and _SINGLEBLOCK.
const TRACE_REQUESTS: [u32; 8] = [0, 7, 9, 17, 24, 31, 32, 33];
const BPF_PROG_LOAD: u32 = 5;
/// Operations of `seccomp` that confine: SECCOMP_SET_MODE_STRICT and _FILTER.
const SECCOMP_MODES: [u32; 2] = [0, 1];
/// Options of `prctl` that concern seccomp: PR_GET_SECCOMP and PR_SET_SECCOMP.
pub(crate) const SECCOMP_OPTIONS: [u32; 2] = [21, 22];
const KEYCTL_SET_TIMEOUT: u32 = 15;
/// Limits of processor time: RLIMIT_CPU and RLIMIT_RTTIME.
const CPU_LIMITS: [u32; 2] = [0, 15];

/// Newest call that was examined for this table (`file_setattr` of Linux 6.17). Newer calls may
/// return time; they are refused with ENOSYS, as a kernel without them does.
pub const NEWEST: u32 = 469;

/// Builds the numbers of a call that both architectures have.
const fn at(x86_64: u32, aarch64: u32) -> Numbers {
    Numbers {
        x86_64: Some(x86_64),
        aarch64: Some(aarch64),
    }
}

const fn x86_64(number: u32) -> Numbers {
    Numbers {
        x86_64: Some(number),
        aarch64: None,
    }
}

const fn aarch64(number: u32) -> Numbers {
    Numbers {
        x86_64: None,
        aarch64: Some(number),
    }
}

const OF_IMAGE: Numbers = at(
    crate::calls::IMAGE_CALL as u32,
    crate::calls::IMAGE_CALL as u32,
);

const fn trap(
    name: &'static str,
    numbers: Numbers,
    when: CallCondition,
    handler: Handler,
    outcome: &'static str,
) -> Call {
    Call {
        handler: Some(handler),
        ..plain(name, numbers, Some(Treatment::Trap), when, outcome)
    }
}

const fn pass(name: &'static str, numbers: Numbers, handler: Handler) -> Call {
    Call {
        handler: Some(handler),
        ..plain(name, numbers, None, Always, ON_DEMAND)
    }
}

const fn ask(
    name: &'static str,
    numbers: Numbers,
    when: CallCondition,
    service: SupervisorService,
    outcome: &'static str,
) -> Call {
    plain(name, numbers, Some(Treatment::Ask(service)), when, outcome)
}

const fn refuse(name: &'static str, numbers: Numbers, outcome: &'static str) -> Call {
    plain(name, numbers, Some(Treatment::Refuse), Always, outcome)
}

const fn plain(
    name: &'static str,
    numbers: Numbers,
    treatment: Option<Treatment>,
    when: CallCondition,
    outcome: &'static str,
) -> Call {
    Call {
        name,
        numbers,
        treatment,
        when,
        handler: None,
        emulating_tsc: None,
        file_times: None,
        with_card: None,
        on_demand: &[],
        outcome,
    }
}

impl Call {
    /// Sets the image's handler for those calls of the row that do not go to the supervisor.
    const fn or(self, handler: Handler) -> Self {
        Self {
            handler: Some(handler),
            ..self
        }
    }

    const fn emulating(self, when: CallCondition) -> Self {
        Self {
            emulating_tsc: Some(when),
            ..self
        }
    }

    const fn file_times(self, when: CallCondition) -> Self {
        Self {
            file_times: Some(when),
            ..self
        }
    }

    const fn with_card(self, when: CallCondition) -> Self {
        Self {
            with_card: Some(when),
            ..self
        }
    }

    const fn on_demand(self, on_demand: &'static [Extra]) -> Self {
        Self { on_demand, ..self }
    }
}
