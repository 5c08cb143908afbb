//! Rows for devices.

use super::{Interface, is_virtual, named, real, refused};

pub(super) const ROWS: &[Interface] = &[
    is_virtual(
        "`/dev/ptpN`: clock, `PTP_SYS_OFFSET*`",
        "a hardware clock beside the system's",
        "true virtual time plus what the device is ahead; set or steered: EOPNOTSUPP",
    ),
    real(
        "`/dev/ptpN`: `PTP_EXTTS_REQUEST`, `PTP_PEROUT_REQUEST`; reads of events",
        "stamps of external signals, periods",
        [
            "the device acts on the world outside, in real time",
            "programs that measure a pulse by them",
            "none was at hand; see [limitations.md](limitations.md#clocks)",
        ],
    ),
    named(
        "`/dev/rtc`: `RTC_RD_TIME`, alarms and interrupts",
        "date; alarms by it",
        "`hwclock --show` tells the machine's date; alarms come by it",
        "`date`; timers of the program",
    ),
    refused(
        "`/dev/rtc`: `RTC_SET_TIME`",
        "date",
        "it would set the machine's; EOPNOTSUPP, and named",
        "set CLOCK_REALTIME, which acts on the host's clock",
    ),
    named(
        "`/dev/ppsN`: `PPS_FETCH`",
        "stamps of pulses, and a timeout",
        "chronyd and ntpd with a PPS source see two clocks",
        "simulated sources; `/dev/ptpN`",
    ),
    named(
        "`/dev/hpet`: interrupts",
        "periods in Hz",
        "interrupts come at the real rate (its registers, mapped, are not seen at all)",
        "timerfd, POSIX timers",
    ),
    named(
        "`/dev/watchdog`: `WDIOC_SETTIMEOUT`, `_GETTIMELEFT`",
        "seconds until the machine is reset",
        "a paused or slowed guest that feeds a real watchdog lets the machine be reset",
        "softdog of a virtual machine, or none",
    ),
    named(
        "sound: `SNDRV_PCM_IOCTL_HW_PARAMS`, `SNDRV_TIMER_IOCTL_START`",
        "a stream's rate, positions with stamps",
        "samples are consumed in real time: under- and overruns",
        "a null or file sink",
    ),
    named(
        "video: `VIDIOC_STREAMON`",
        "frames with CLOCK_MONOTONIC stamps",
        "frames come at the real rate, with the machine's stamps",
        "a recording, played by the program",
    ),
    named(
        "input: `EVIOCSCLOCKID`",
        "stamps of events by a chosen clock",
        "gestures and double clicks are judged by two clocks",
        "synthetic events",
    ),
    named(
        "`/dev/kvm`: `KVM_CREATE_VM`",
        "a guest machine's clocks (kvmclock, TSC, its own timers)",
        "a virtual machine that a guest starts lives in real time",
        "emulation without KVM, whose timers are virtual",
    ),
    named(
        "`/dev/ntsync`: `NTSYNC_IOC_WAIT_ANY`, `_WAIT_ALL`",
        "deadlines on CLOCK_MONOTONIC or CLOCK_REALTIME",
        "waits of Wine end by the machine's clocks: too early by what virtual time has fallen behind",
        "without the kernel's module Wine waits in its own server, by `poll` and `futex`",
    ),
    named(
        "terminals: VTIME",
        "how long a read waits, in 1/10 s",
        "reads of a serial line end by real time (termios without ICANON, VTIME above 0)",
        "`poll` or `select` with a timeout before the read, as pySerial does",
    ),
    real(
        "terminals: `TCSBRK`, `TIOCSSERIAL` (`closing_wait`)",
        "how long a break lasts, or closing waits",
        [
            "a property of the line",
            "rarely matters: pseudo-terminals have neither",
            "none needed",
        ],
    ),
    real(
        "`/dev/vmclock*`, HPET and PTP registers, mapped",
        "a hypervisor's or device's time in memory",
        [
            "a mapped page is read without a call",
            "timeline daemons and chronyd that take it as a source inside a session",
            "run such daemons outside, or simulated sources",
        ],
    ),
    real(
        "GPIO and IIO events, CAN and USB adapters, LIRC, CEC",
        "stamps of events, mostly CLOCK_MONOTONIC",
        [
            "they are records read from a device",
            "programs that subtract them from the program's clock",
            "stamp on arrival, by the program's clock",
        ],
    ),
    real(
        "DRM (`DRM_IOCTL_WAIT_VBLANK`, `SYNCOBJ_WAIT` with an absolute deadline), sync files",
        "frames, fences, deadlines on CLOCK_MONOTONIC",
        [
            "commands of drivers, each with its own layout",
            "graphical programs on real cards: deadlines are wrong by what virtual time has fallen behind",
            "software rendering",
        ],
    ),
    real(
        "SCSI generic, NVMe pass-through, usbfs, I²C (timeouts in ms)",
        "how long a device may take",
        [
            "they bound the work of real hardware, which takes real time",
            "no harm: scaling them would be wrong",
            "none needed",
        ],
    ),
    real(
        "loop, NBD, block tracing, device mapper, autofs, FUSE (attribute timeouts)",
        "stamps of blktrace; seconds until a mount or attribute expires, or a server must answer",
        [
            "kept by the kernel",
            "automounts expire by real time",
            "longer timeouts",
        ],
    ),
    real(
        "`/dev/mem`, `/dev/cpu/*/msr`",
        "counters and clocks of the hardware",
        [
            "root's raw access to the machine",
            "programs that read the TSC there",
            "`--tsc emulate` and `rdtsc`",
        ],
    ),
];
