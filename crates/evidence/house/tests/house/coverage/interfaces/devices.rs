//! Rows for devices.

use super::{Interface, is_virtual, named, real, refused};

pub(super) const ROWS: &[Interface] = &[
    is_virtual(
        "`/dev/ptpN`: clock, `PTP_SYS_OFFSET*`",
        "a hardware clock besides the system's",
        "true virtual time plus the device's offset; setting and steering are refused with EOPNOTSUPP",
    ),
    is_virtual(
        "`/dev/ptp0` of a card of the model: clock, `PTP_CLOCK_GETCAPS`, `PTP_SYS_OFFSET*`",
        "clock of a network card at a simulated network",
        "counts the host's time by an oscillator of its own; set and steered as natively",
    ),
    real(
        "`/dev/ptpN`: `PTP_EXTTS_REQUEST`, `PTP_PEROUT_REQUEST`; reads of events",
        "time stamps of external signals, periods",
        [
            "the device is connected to the outside, which is in real time",
            "programs that measure pulses by them",
            "no such device was available; see [limitations.md](limitations.md#clocks)",
        ],
    ),
    named(
        "`/dev/rtc`: `RTC_RD_TIME`, alarms and interrupts",
        "date; alarms",
        "`hwclock --show` prints the machine's date, and alarms follow it",
        "`date`; timers of the program",
    ),
    refused(
        "`/dev/rtc`: `RTC_SET_TIME`",
        "date",
        "it would set the machine's clock; refused with EOPNOTSUPP, and reported",
        "set CLOCK_REALTIME, which acts on the host's clock",
    ),
    named(
        "`/dev/ppsN`: `PPS_FETCH`",
        "time stamps of pulses, and a timeout",
        "chronyd and ntpd with a PPS source get stamps of another clock",
        "simulated sources; `/dev/ptpN`",
    ),
    named(
        "`/dev/hpet`: interrupts",
        "periods in Hz",
        "interrupts come at the real rate (reads of its mapped registers are not reported)",
        "timerfd, POSIX timers",
    ),
    named(
        "`/dev/watchdog`: `WDIOC_SETTIMEOUT`, `_GETTIMELEFT`",
        "seconds until the machine is reset",
        "if a guest that feeds a real watchdog is paused or slowed, the watchdog resets the machine",
        "softdog in a virtual machine, or no watchdog",
    ),
    named(
        "sound: `SNDRV_PCM_IOCTL_HW_PARAMS`, `SNDRV_TIMER_IOCTL_START`",
        "a stream's rate, positions with time stamps",
        "samples are consumed in real time, which causes underruns and overruns",
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
        "gestures and double clicks are evaluated by two different clocks",
        "synthetic events",
    ),
    named(
        "`/dev/kvm`: `KVM_CREATE_VM`",
        "a guest machine's clocks (kvmclock, TSC, its own timers)",
        "a virtual machine that a guest starts runs in real time",
        "emulation without KVM, whose timers are virtual",
    ),
    named(
        "`/dev/ntsync`: `NTSYNC_IOC_WAIT_ANY`, `_WAIT_ALL`",
        "deadlines on CLOCK_MONOTONIC or CLOCK_REALTIME",
        "waits of Wine end by the machine's clocks, which is too early by the lag of virtual time",
        "without the kernel's module Wine waits in its own server, by `poll` and `futex`, which are virtual",
    ),
    named(
        "terminals: VTIME",
        "maximum duration of a read, in 1/10 s",
        "reads of a serial line time out in real time (termios without ICANON, VTIME above 0)",
        "`poll` or `select` with a timeout before the read, as pySerial does",
    ),
    real(
        "terminals: `TCSBRK`, `TIOCSSERIAL` (`closing_wait`)",
        "duration of a break, or of a wait at closing",
        [
            "they are properties of the line",
            "serial lines only; pseudo-terminals have neither",
            "none needed",
        ],
    ),
    real(
        "`/dev/vmclock*`, HPET and PTP registers, mapped",
        "a hypervisor's or device's time in memory",
        [
            "a mapped page is read without a call",
            "timeline daemons and chronyd that use it as a source inside a session",
            "run such daemons outside of the session, or use simulated sources",
        ],
    ),
    real(
        "GPIO and IIO events, CAN and USB adapters, LIRC, CEC",
        "time stamps of events, mostly CLOCK_MONOTONIC",
        [
            "they are records read from a device",
            "programs that subtract them from the program's clock",
            "a time stamp on arrival, by the program's clock",
        ],
    ),
    real(
        "DRM (`DRM_IOCTL_WAIT_VBLANK`, `SYNCOBJ_WAIT` with an absolute deadline), sync files",
        "frames, fences, deadlines on CLOCK_MONOTONIC",
        [
            "they are commands of drivers, each with its own layout",
            "graphical programs on real cards, whose deadlines are wrong by the lag of virtual time",
            "software rendering",
        ],
    ),
    real(
        "SCSI generic, NVMe pass-through, usbfs, I²C (timeouts in ms)",
        "maximum duration of a device's work",
        [
            "they bound the work of real hardware, which takes real time, so scaling them would be wrong",
            "no programs",
            "none needed",
        ],
    ),
    real(
        "loop, NBD, block tracing, device mapper, autofs, FUSE (attribute timeouts)",
        "time stamps of blktrace; seconds until a mount or attribute expires, or a server must answer",
        [
            "the kernel keeps them",
            "automounts, which expire by real time",
            "longer timeouts",
        ],
    ),
    real(
        "`/dev/mem`, `/dev/cpu/*/msr`",
        "counters and clocks of the hardware",
        [
            "they are root's raw access to the machine",
            "programs that read the TSC there",
            "`--tsc emulate` and `rdtsc`",
        ],
    ),
];
