//! Rows for processes, kernel objects of processes, processors, and tracing.

use super::{Interface, is_virtual, named, real, refused};

pub(super) const ROWS: &[Interface] = &[
    is_virtual(
        "the vsyscall page of x86-64 (`time`, `gettimeofday`, `getcpu`)",
        "date",
        "the kernel asks the filter, which traps as for the calls",
    ),
    is_virtual(
        "the auxiliary vector on the stack (`AT_SYSINFO_EHDR`)",
        "where the vDSO lies",
        "it names a vDSO that leads to the image; `AT_CLKTCK` is a constant",
    ),
    is_virtual(
        "the kernel's vDSO, as `PR_GET_AUXV`, `/proc/self/auxv` or `/proc/self/maps` tell of it",
        "clocks",
        "its functions jump to the image",
    ),
    is_virtual(
        "`[vvar]`, the data of the kernel's vDSO",
        "the kernel's clocks",
        "unmapped; unreadable in programs brought in by `register`",
    ),
    real(
        "`rdtsc`, `rdtscp`",
        "the time-stamp counter",
        [
            "instructions without a call; making them fault costs each read a signal",
            "programs that time themselves by the counter (some databases, game engines, benchmarks)",
            "`--tsc emulate`",
        ],
    ),
    real(
        "`umwait`, `tpause` (deadlines by the counter), `mwaitx` (AMD), `rdpru` (AMD), `rdpmc`",
        "deadlines and counts of the processor",
        [
            "instructions without a call; the waits end after microseconds in any case",
            "spin loops wait as long as natively; with `--tsc emulate` `umwait`, `tpause` and `rdpru` fault as on a processor where the system forbids them",
            "build without them (`-mno-waitpkg`)",
        ],
    ),
    real(
        "CNTVCT_EL0, CNTPCT_EL0, `wfet`, `wfit` of 64-bit ARM",
        "the architected counter",
        [
            "only kernels from Linux 6.12 on can make its reads fault",
            "as `rdtsc`",
            "x86-64 with `--tsc emulate`",
        ],
    ),
    real(
        "`cpuid` (leaves 15h, 16h), `/proc/cpuinfo` (MHz)",
        "frequencies",
        [
            "facts of the machine; the emulated counter has its frequency",
            "programs that measure time in cycles under dilation",
            "`--tsc emulate`",
        ],
    ),
    named(
        "`perf_event_open`",
        "counts, stamps of samples, `time_*` in its mapped page",
        "profiles and self-measurements are in real time",
        "profile outside the session",
    ),
    named(
        "`bpf(BPF_PROG_LOAD)`",
        "`bpf_ktime_get_ns` and relatives, `bpf_timer`",
        "programs in the kernel see its clocks",
        "take times in user space",
    ),
    real(
        "programs of BPF that were loaded before, ftrace, uprobes, audit, connector",
        "the kernel's clocks",
        [
            "they observe from outside",
            "comparisons of their records with the program's",
            "align them by the events of the run",
        ],
    ),
    named(
        "`RLIMIT_CPU`, `RLIMIT_RTTIME`",
        "processor time in s and µs",
        "SIGXCPU comes after that much real processor time, of which CPU clocks show the dilation's part",
        "multiply the limit by the dilation",
    ),
    named(
        "`SCHED_DEADLINE`",
        "runtime, deadline, period in ns",
        "budgets are per real period: under dilation a task gets more or less than it asked for",
        "multiply all three by the dilation",
    ),
    refused(
        "time namespaces (`CLONE_NEWTIME`) with offsets",
        "another CLOCK_MONOTONIC and CLOCK_BOOTTIME",
        "the image reads the session's page, which knows no offsets: EINVAL, as by a kernel that has none, and named",
        "hosts of the session, whose clocks can be set; `--allow-leaks`: clocks and absolute sleeps ignore the offset",
    )
    .by(&["clone"]),
    real(
        "`SCHED_RR` (`sched_rr_get_interval`), `nice`, time slices",
        "how long a turn lasts",
        [
            "the machine's scheduler works in real time",
            "no harm: programs do not wait by it",
            "none needed",
        ],
    )
    .by(&["sched_rr_get_interval"]),
    real(
        "`PR_SET_TIMERSLACK`",
        "how late a wait may end, in ns",
        [
            "it bounds the kernel's part of each wait, which is in real time",
            "waits end late by up to the slack divided by the dilation",
            "a smaller slack",
        ],
    ),
    real(
        "`clock_getres`",
        "what a clock resolves",
        [
            "it is the machine's answer, and true of its counter",
            "no affected program found so far",
            "none needed",
        ],
    )
    .by(&["clock_getres"]),
    named(
        "`keyctl(KEYCTL_SET_TIMEOUT)`",
        "seconds until a key expires",
        "keys (Kerberos tickets in the keyring) expire by real time",
        "a longer timeout",
    ),
    named(
        "`acct`",
        "start, elapsed and processor time of each process",
        "records are the machine's",
        "the run's own events",
    ),
    real(
        "`SIGCHLD`'s `si_utime`, `si_stime`, also by `signalfd`",
        "processor time of an ended child, in ticks",
        [
            "they are in the signal's frame, which is the kernel's",
            "programs that read them there instead of by `wait4`",
            "`wait4`, `getrusage`, which are divided",
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
        "its waits cannot be trapped: ENOSYS, on which programs fall back, and named",
        "`--allow-leaks`: in real time, and named. A ring that comes from outside by SCM_RIGHTS is not seen",
    )
    .by(&["io_uring_enter", "io_uring_register"]),
    refused(
        "calls newer than Linux 6.17",
        "unknown",
        "not examined yet: ENOSYS, as by a kernel that lacks them",
        "a newer Timeloom",
    ),
];
