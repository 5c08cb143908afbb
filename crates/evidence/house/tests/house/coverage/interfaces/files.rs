//! Rows for files with time information, and for times of files.

use super::{Interface, is_virtual, named, real};

pub(super) const ROWS: &[Interface] = &[
    is_virtual(
        "`/proc/uptime`, `btime` in `/proc/stat`",
        "uptime, boot time",
        "with root and FUSE; otherwise the machine's, and reported ([limitations.md](limitations.md#files-with-times))",
    ),
    real(
        "`/proc/PID/stat` (start time), times of `/proc/PID` itself",
        "start time of a process, since boot",
        [
            "the file cannot be covered by a mount before the process exists, and an offset of the kernel does not follow a change of rate ([why](decisions/26-ages-of-files-and-processes-stay-the-machines.md))",
            "`ps -o etime`, `pgrep -o`, psutil's `create_time()` under dilation",
            "compare the start times of two processes, whose order is right",
        ],
    ),
    real(
        "`stat`, `statx`: times that the kernel sets",
        "last access, change and creation of a file",
        [
            "a trap makes `stat` take five times as long, so these times are virtual only with `--file-times virtual` ([why](decisions/26-ages-of-files-and-processes-stay-the-machines.md))",
            "with `--start`, programs that compare a file's age with the clock (`find -mmin`, caches, `make` beside files set to \"now\")",
            "`--file-times virtual`; or set times by hand (`touch`), which are virtual",
        ],
    )
    .by(&[
        "stat", "lstat", "fstat", "newfstatat", "statx", "creat", "open", "openat", "openat2",
        "pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2", "rename", "renameat",
        "renameat2", "link", "linkat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "mknod",
        "mknodat", "symlink", "symlinkat", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown",
        "fchown", "lchown", "fchownat", "truncate", "ftruncate", "fallocate", "setxattr",
        "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr",
        "removexattrat", "file_setattr", "memfd_create", "copy_file_range",
    ]),
    is_virtual(
        "utmp, wtmp, lastlog, logs by `syslog(3)`",
        "dates that programs write",
        "programs write them from the virtual clock (a journald outside the session adds its own)",
    ),
    real(
        "ticks in `/proc/stat`, `/proc/PID/stat`, `schedstat`, `/proc/PID/sched`, cgroup `cpu.stat`, taskstats",
        "processor time in real ticks",
        [
            "the kernel counts them; shares computed from them are right",
            "`top` under dilation: ticks per virtual second are wrong by the factor of the dilation",
            "`getrusage`, `times`, processor-time clocks, which are divided by the dilation",
        ],
    ),
    real(
        "`/proc/loadavg`, `sysinfo().loads`, `/proc/pressure/*`, cgroup `*.pressure`",
        "averages over real windows; triggers with a window in µs",
        [
            "they are averages over all programs of the machine",
            "daemons that limit their load by them, which react in real time",
            "switch that function of the daemon off",
        ],
    ),
    real(
        "`/proc/timer_list`, `/proc/sched_debug`, `/proc/driver/rtc`, `/proc/keys`",
        "the kernel's clocks as text",
        [
            "they are for inspection of the kernel, mostly by root",
            "programs that take the date from `/proc/driver/rtc`",
            "`date`",
        ],
    ),
    real(
        "`/proc/PID/timers`, `/proc/PID/fdinfo` of timers, `/proc/PID/timens_offsets`",
        "a process's timers as text",
        [
            "the kernel lists its own timers; those of guests are implemented by the supervisor, and missing",
            "CRIU, which would not restore them",
            "query the timers (`timer_gettime`, `timerfd_gettime`)",
        ],
    ),
    real(
        "`/proc/sysvipc/*`",
        "time of the last operation",
        [
            "the kernel writes the text",
            "`ipcs -t` on systems whose libc lacks `SHM_STAT_ANY`",
            "`shmctl`, `semctl`, `msgctl`, which are virtual",
        ],
    ),
    real(
        "`/proc/diskstats`, `/sys/block/*/stat`, cpuidle, cpufreq, `wakeup*`, thermal",
        "durations of the machine's work, in ms and µs",
        [
            "they describe the machine",
            "`iostat`, whose utilisation is wrong by the factor of the dilation",
            "measure outside the session",
        ],
    ),
    real(
        "`/proc/sys/**`, `/sys/**` that take times (`tcp_fin_timeout`, `lease-break-time`, `dirty_expire_centisecs`, cgroup `cpu.max`)",
        "timeouts and periods of the kernel",
        [
            "they are settings of the machine, for all its programs",
            "quotas and timeouts, which apply to real time",
            "scale them by the dilation",
        ],
    )
    .by(&["fcntl", "mount", "fsconfig", "quotactl", "quotactl_fd"]),
    real(
        "`/sys/class/rtc/*`, `/sys/class/pps/*`, `/sys/class/ptp/*`",
        "date and events of hardware clocks",
        [
            "drivers write them",
            "programs that take the date from there at their start",
            "`clock_gettime`; `/dev/ptpN`, which is virtual",
        ],
    ),
    named(
        "`syslog(2)`",
        "time stamps of kernel messages, since boot",
        "`dmesg -T` adds them to a virtual boot time, so its dates are wrong",
        "`dmesg` outside the session",
    ),
    real(
        "`/dev/kmsg`, tracefs, debugfs",
        "stamps of the kernel's own clock",
        [
            "they are records of the kernel, read as bytes",
            "comparisons of a trace with the program's own log",
            "align them by the events of the run",
        ],
    ),
];
