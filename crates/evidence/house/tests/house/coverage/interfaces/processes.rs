//! Rows for processes, kernel objects of processes, processors, and tracing.

use super::{Interface, is_virtual, named, real, refused};

pub(super) const ROWS: &[Interface] = &[
    is_virtual(
        "the vsyscall page of x86-64 (`time`, `gettimeofday`, `getcpu`)",
        "date",
        "the kernel applies the filter, so that these trap like the calls",
    ),
    is_virtual(
        "the auxiliary vector on the stack (`AT_SYSINFO_EHDR`)",
        "address of the vDSO",
        "the vector has the address of a vDSO that leads to the image; `AT_CLKTCK` is a constant",
    ),
    is_virtual(
        "the kernel's vDSO, if found by `PR_GET_AUXV`, `/proc/self/auxv` or `/proc/self/maps`",
        "clocks",
        "its functions jump to the image",
    ),
    is_virtual(
        "`[vvar]`, the data of the kernel's vDSO",
        "the kernel's clocks",
        "unmapped; made unreadable in programs attached with `register`",
    ),
    real(
        "`rdtsc`, `rdtscp`",
        "the time-stamp counter",
        [
            "they are instructions, not calls; if they fault, each read costs a signal",
            "programs that time themselves by the counter (some databases, game engines, benchmarks)",
            "`--tsc emulate`",
        ],
    ),
    real(
        "`umwait`, `tpause` (deadlines by the counter), `mwaitx` (AMD), `rdpru` (AMD), `rdpmc`",
        "deadlines and counts of the processor",
        [
            "they are instructions, not calls; the waits end after microseconds in any case",
            "spin loops, which wait as long as natively. With `--tsc emulate`, `umwait`, `tpause` and `rdpru` fault, as on a system that forbids them",
            "build without them (`-mno-waitpkg`)",
        ],
    ),
    real(
        "CNTVCT_EL0, CNTPCT_EL0, `wfet`, `wfit` of 64-bit ARM",
        "the architected counter",
        [
            "only kernels from Linux 6.12 on can make its reads fault",
            "as for `rdtsc`",
            "x86-64 with `--tsc emulate`",
        ],
    ),
    real(
        "`cpuid` (leaves 15h, 16h), `/proc/cpuinfo` (MHz)",
        "frequencies",
        [
            "they are properties of the machine; the emulated counter has the same frequency",
            "programs that measure time in cycles under dilation",
            "`--tsc emulate`",
        ],
    ),
    named(
        "`perf_event_open`",
        "counts, time stamps of samples, `time_*` in its mapped page",
        "profiles and self-measurements are in real time",
        "profile outside the session",
    ),
    named(
        "`bpf(BPF_PROG_LOAD)`",
        "`bpf_ktime_get_ns` and relatives, `bpf_timer`",
        "programs in the kernel read the kernel's clocks",
        "take times in user space",
    ),
    real(
        "programs of BPF that were loaded before, ftrace, uprobes, audit, connector",
        "the kernel's clocks",
        [
            "they observe a program from outside",
            "comparisons of their records with the program's own",
            "align them by the events of the run",
        ],
    ),
    named(
        "`RLIMIT_CPU`, `RLIMIT_RTTIME`",
        "processor time in s and µs",
        "SIGXCPU comes after that span of real processor time; the program's processor-time clocks show this span divided by the dilation",
        "multiply the limit by the dilation",
    ),
    named(
        "`SCHED_DEADLINE`",
        "runtime, deadline, period in ns",
        "budgets are per real period, so under dilation a task gets more or less than requested",
        "multiply all three by the dilation",
    ),
    refused(
        "time namespaces (`CLONE_NEWTIME`) with offsets",
        "another CLOCK_MONOTONIC and CLOCK_BOOTTIME",
        "the image reads the session's page, which has no such offsets; refused with EINVAL, as by a kernel without time namespaces, and reported",
        "hosts of the session, whose clocks can be set; `--allow-leaks`: clocks and absolute sleeps ignore the offset",
    )
    .by(&["clone"]),
    real(
        "`SCHED_RR` (`sched_rr_get_interval`), `nice`, time slices",
        "duration of a time slice",
        [
            "the machine's scheduler works in real time",
            "no programs, since none waits by it",
            "none needed",
        ],
    )
    .by(&["sched_rr_get_interval"]),
    real(
        "`PR_SET_TIMERSLACK`",
        "maximum lateness of a wait, in ns",
        [
            "it applies to the kernel's part of each wait, which is in real time",
            "waits, which end late by up to the slack divided by the dilation",
            "a smaller slack",
        ],
    ),
    real(
        "`clock_getres`",
        "resolution of a clock",
        [
            "it is the machine's value, which is right for its counter",
            "no programs found so far",
            "none needed",
        ],
    )
    .by(&["clock_getres"]),
    named(
        "`keyctl(KEYCTL_SET_TIMEOUT)`",
        "seconds until a key expires",
        "keys (such as Kerberos tickets in the keyring) expire by real time",
        "a longer timeout",
    ),
    named(
        "`acct`",
        "start, elapsed and processor time of each process",
        "its records are in the machine's time",
        "the run's own events",
    ),
    real(
        "`SIGCHLD`'s `si_utime`, `si_stime`, also by `signalfd`",
        "processor time of an ended child, in ticks",
        [
            "the kernel writes them into the signal's frame",
            "programs that read them there instead of by `wait4`",
            "`wait4`, `getrusage`, which are divided by the dilation",
        ],
    ),
    real(
        "core dumps: `%t` in `core_pattern`, times of the file",
        "date of the crash",
        [
            "the kernel writes the file",
            "crash collectors that sort by date",
            "the run's record of the exit, which is in virtual time",
        ],
    ),
    refused(
        "`io_uring`",
        "timeouts, waits",
        "its waits cannot be trapped; refused with ENOSYS, and reported; most programs then use other calls",
        "`--allow-leaks`: it acts in real time, and is reported. A ring received from outside by SCM_RIGHTS is not reported",
    )
    .by(&["io_uring_enter", "io_uring_register"]),
    refused(
        "calls newer than Linux 6.17",
        "unknown",
        "not reviewed yet; refused with ENOSYS, as by a kernel that lacks them",
        "a newer Timeloom",
    ),
];
