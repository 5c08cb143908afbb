//! Rows for files with time information, and for times of files.

use super::{Interface, is_virtual, named, real};

pub(super) const ROWS: &[Interface] = &[
    is_virtual(
        "`/proc/uptime`, `btime` in `/proc/stat`",
        "uptime, boot time",
        "with root and FUSE; else the machine's, and said so ([limitations.md](limitations.md#files-that-tell-time))",
    ),
    real(
        "`/proc/PID/stat` (start time), times of `/proc/PID` itself",
        "when a process was started, since boot",
        [
            "there is no file to lie over before the process is there, and no offset of the kernel's follows a rate ([why](decisions/26-ages-of-files-and-processes-stay-the-machines.md))",
            "`ps -o etime`, `pgrep -o`, psutil's `create_time()` under dilation",
            "compare start times of two processes, whose order is right",
        ],
    ),
    real(
        "`stat`, `statx`: times that the kernel sets",
        "when a file was read, written, changed, made",
        [
            "a trap makes `stat` five times as slow, so they are virtual only with `--file-times virtual` ([why](decisions/26-ages-of-files-and-processes-stay-the-machines.md))",
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
        "written by the programs themselves, from the virtual clock (a journald outside adds its own)",
    ),
    real(
        "ticks in `/proc/stat`, `/proc/PID/stat`, `schedstat`, `/proc/PID/sched`, cgroup `cpu.stat`, taskstats",
        "processor time in real ticks",
        [
            "they are counted by the kernel; shares of them are right",
            "`top` under dilation: ticks per virtual second are wrong by the dilation",
            "`getrusage`, `times`, CPU-time clocks, which are divided",
        ],
    ),
    real(
        "`/proc/loadavg`, `sysinfo().loads`, `/proc/pressure/*`, cgroup `*.pressure`",
        "averages over real windows; triggers with a window in µs",
        [
            "they are averages of the machine's, over all that runs on it",
            "daemons that shed load by them react by real time",
            "tell them not to",
        ],
    ),
    real(
        "`/proc/timer_list`, `/proc/sched_debug`, `/proc/driver/rtc`, `/proc/keys`",
        "the kernel's clocks as text",
        [
            "read for inspection of the kernel, mostly as root",
            "programs that take the date from `/proc/driver/rtc`",
            "`date`",
        ],
    ),
    real(
        "`/proc/PID/timers`, `/proc/PID/fdinfo` of timers, `/proc/PID/timens_offsets`",
        "a process's timers as text",
        [
            "the kernel lists its own: those of guests are the supervisor's, and missing",
            "CRIU, which would not restore them",
            "ask the timers (`timer_gettime`, `timerfd_gettime`)",
        ],
    ),
    real(
        "`/proc/sysvipc/*`",
        "when something was last done",
        [
            "text of the kernel's",
            "`ipcs -t` on systems whose libc lacks `SHM_STAT_ANY`",
            "`shmctl`, `semctl`, `msgctl`, which are virtual",
        ],
    ),
    real(
        "`/proc/diskstats`, `/sys/block/*/stat`, cpuidle, cpufreq, `wakeup*`, thermal",
        "ms and µs of the machine's work",
        [
            "they tell of the machine",
            "`iostat` shows utilisation wrong by the dilation",
            "measure outside the session",
        ],
    ),
    real(
        "`/proc/sys/**`, `/sys/**` that take times (`tcp_fin_timeout`, `lease-break-time`, `dirty_expire_centisecs`, cgroup `cpu.max`)",
        "timeouts and periods of the kernel",
        [
            "they are the machine's settings, of all that runs on it",
            "quotas and timeouts apply to real time",
            "scale them by the dilation",
        ],
    )
    .by(&["fcntl", "mount", "fsconfig", "quotactl", "quotactl_fd"]),
    real(
        "`/sys/class/rtc/*`, `/sys/class/pps/*`, `/sys/class/ptp/*`",
        "date and events of hardware clocks",
        [
            "files of drivers'",
            "programs that take the date from there at their start",
            "`clock_gettime`; `/dev/ptpN`, which is virtual",
        ],
    ),
    named(
        "`syslog(2)`",
        "stamps of kernel messages since boot",
        "`dmesg -T` adds them to a virtual boot time",
        "`dmesg` outside the session",
    ),
    real(
        "`/dev/kmsg`, tracefs, debugfs",
        "stamps of the kernel's own clock",
        [
            "records of the kernel's, read as bytes",
            "comparisons of a trace with the program's own log",
            "align them by the events of the run",
        ],
    ),
];
