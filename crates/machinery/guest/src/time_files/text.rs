//! Contents of the files: the machine's text, with the times of a host's clock inserted.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use timeloom_sys::clock::{ClockId, read_ns};

use crate::clock::Host;

/// The machine's own files. They are kept open, since a request of a guest must not make this
/// process open files.
pub(super) struct Machine {
    uptime: File,
    stat: File,
}

impl Machine {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self {
            uptime: of_machine("/proc/uptime")?,
            stat: of_machine("/proc/stat")?,
        })
    }

    /// Returns the time since the machine booted, and the total idle time of its processors.
    pub(super) fn idle(&self) -> io::Result<Idle> {
        let text = read(&self.uptime)?;
        let idle = text.split_ascii_whitespace().nth(1);
        let idle_ns = idle.and_then(hundredths).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "/proc/uptime is not readable")
        })?;
        Ok(Idle {
            // The uptime is read from the clock, since the text has only hundredths of a second.
            uptime_ns: read_ns(ClockId::Boottime),
            idle_ns,
        })
    }

    pub(super) fn stat(&self) -> io::Result<String> {
        read(&self.stat)
    }
}

/// Opens a file of the machine's /proc.
fn of_machine(path: &str) -> io::Result<File> {
    File::open(path).map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}

fn read(file: &File) -> io::Result<String> {
    let mut text = Vec::new();
    loop {
        let old = text.len();
        text.resize(old + 16 * 1024, 0);
        let got = file.read_at(&mut text[old..], old as u64)?;
        text.truncate(old + got);
        if got == 0 {
            return String::from_utf8(text)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
        }
    }
}

/// Parses a number such as `12.34` seconds, to nanoseconds.
fn hundredths(text: &str) -> Option<i64> {
    let (whole, part) = text.split_once('.')?;
    let (whole, part): (i64, i64) = (whole.parse().ok()?, part.parse().ok()?);
    whole
        .checked_mul(1_000_000_000)?
        .checked_add(part * 10_000_000)
}

/// Uptime of a machine or host, with the total idle time of its processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Idle {
    pub(super) uptime_ns: i64,
    pub(super) idle_ns: i64,
}

/// Idle time of a host. Programs divide the growth of idle time by that of uptime. So from one
/// reading to the next, the host's share of idle time in its own uptime is that of the machine in
/// the machine's. It is computed per reading, since the host's rate may change at any time.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleShare {
    machine: Idle,
    shown: Idle,
}

impl IdleShare {
    /// Creates the value of a host whose uptime and idle time were those of the machine, `at`.
    pub(super) fn new(at: Idle) -> Self {
        Self {
            machine: at,
            shown: at,
        }
    }

    /// Returns the host's idle time, in nanoseconds, when its uptime is `uptime_ns`. `machine` is
    /// the present state of the machine.
    pub(super) fn at(&mut self, machine: Idle, uptime_ns: i64) -> i64 {
        let passed_ns = machine.uptime_ns - self.machine.uptime_ns;
        if passed_ns > 0 {
            // Both times never decrease, except by the kernel's rounding.
            let shown_ns = (uptime_ns - self.shown.uptime_ns).max(0);
            let idle_ns = (machine.idle_ns - self.machine.idle_ns).max(0);
            let share = i128::from(idle_ns) * i128::from(shown_ns) / i128::from(passed_ns);
            self.shown.idle_ns += i64::try_from(share).unwrap_or(0);
            self.shown.uptime_ns = uptime_ns;
            self.machine = machine;
        }
        self.shown.idle_ns
    }
}

/// Returns the text of `/proc/uptime`.
pub(super) fn uptime(shown: Idle) -> String {
    let seconds = |ns: i64| {
        let hundredths = ns.max(0) / 10_000_000;
        format!("{}.{:02}", hundredths / 100, hundredths % 100)
    };
    format!("{} {}\n", seconds(shown.uptime_ns), seconds(shown.idle_ns))
}

/// Returns the text of `/proc/stat`: the machine's text with another boot time, in seconds since
/// 1970. Its ticks stay unchanged: programs use ratios of them, which a factor would not change.
pub(super) fn stat(machine: &str, boot_s: i64) -> String {
    let mut text = String::with_capacity(machine.len() + 8);
    for line in machine.split_inclusive('\n') {
        if line.starts_with("btime ") {
            text.push_str(&format!("btime {boot_s}\n"));
        } else {
            text.push_str(line);
        }
    }
    text
}

/// Returns the boot time of `host` by its own clock, in seconds since 1970: its CLOCK_REALTIME when
/// its CLOCK_BOOTTIME was zero. Truncated to whole seconds, as in the kernel.
pub(super) fn boot_s(host: &Host) -> i64 {
    let ahead_ns = host.offset_ns(libc::CLOCK_REALTIME) - host.offset_ns(libc::CLOCK_BOOTTIME);
    ahead_ns.div_euclid(1_000_000_000)
}

/// Returns the CLOCK_BOOTTIME of `host` in nanoseconds.
pub(super) fn uptime_ns(host: &Host) -> i64 {
    // The difference of these two clocks never changes.
    host.now().as_ns() + host.offset_ns(libc::CLOCK_BOOTTIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn idle(uptime_s: i64, idle_s: i64) -> Idle {
        Idle {
            uptime_ns: uptime_s * S,
            idle_ns: idle_s * S,
        }
    }

    #[test]
    fn uptime_is_written_as_the_kernel_does() {
        let shown = Idle {
            uptime_ns: 1234 * S + 569_999_999,
            idle_ns: 2 * S + 50_000_000,
        };
        assert_eq!(uptime(shown), "1234.56 2.05\n");
        assert_eq!(hundredths("1234.56"), Some(1234 * S + 560_000_000));
        assert_eq!(hundredths("1234"), None);
        assert_eq!(hundredths("x.y"), None);
    }

    #[test]
    fn only_the_boot_time_is_replaced() {
        let machine =
            "cpu  1 2 3\ncpu0 1 2 3\nintr 5 0 btime\nctxt 7\nbtime 1700000000\nprocesses 9\n";
        let expected =
            "cpu  1 2 3\ncpu0 1 2 3\nintr 5 0 btime\nctxt 7\nbtime -86400\nprocesses 9\n";
        assert_eq!(stat(machine, -86_400), expected);
        assert_eq!(
            stat("cpu 1 2\n", 5),
            "cpu 1 2\n",
            "a kernel that tells none"
        );
    }

    /// The machine has two processors: during ten seconds one is idle all the time and one half the
    /// time.
    #[test]
    fn the_idle_share_is_the_machines_at_any_rate() {
        let mut host = IdleShare::new(idle(100, 40));
        assert_eq!(host.at(idle(110, 55), 110 * S), 55 * S, "as the machine");
        assert_eq!(
            host.at(idle(120, 70), 111 * S),
            55 * S + 3 * S / 2,
            "ten times slower"
        );
        assert_eq!(
            host.at(idle(130, 85), 111 * S),
            55 * S + 3 * S / 2,
            "paused"
        );
        assert_eq!(
            host.at(idle(131, 87), 211 * S),
            255 * S + 3 * S / 2,
            "skipped"
        );
        assert_eq!(
            host.at(idle(131, 87), 212 * S),
            255 * S + 3 * S / 2,
            "at once again"
        );
        assert_eq!(
            host.at(idle(132, 88), 212 * S),
            256 * S + 3 * S / 2,
            "and made up for"
        );
        assert_eq!(
            host.at(idle(133, 87), 213 * S),
            256 * S + 3 * S / 2,
            "never back"
        );
    }

    #[test]
    fn the_machines_own_files_are_understood() {
        let machine = Machine::open().expect("/proc");
        let now = machine.idle().expect("/proc/uptime");
        assert!(now.uptime_ns > 0 && now.idle_ns > 0, "{now:?}");
        let text = machine.stat().expect("/proc/stat");
        assert!(text.starts_with("cpu ") && text.ends_with('\n'));
        assert!(stat(&text, 12_345).contains("\nbtime 12345\n"), "{text}");
        assert_eq!(
            machine.stat().expect("twice").lines().count(),
            text.lines().count()
        );
    }
}
