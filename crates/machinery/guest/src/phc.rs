//! PTP hardware clocks (PHC), as guests see them.
//!
//! A hardware clock counts in real time, and belongs to the machine. A guest sees it as a device of
//! the testbed: it shows true virtual time plus the device's lead over the machine's
//! CLOCK_REALTIME. So it stops and is dilated with the session, and does not follow the clock of
//! the guest's host, which a daemon may discipline by it. The accompanying timestamps of the
//! machine's clocks are converted to the clocks of the host.
//!
//! This is not a model of a clock: the device's own frequency error is that of the real device, in
//! real time.

use timeloom_sys::clock::{ClockId, read_ns};
use timeloom_time::Instant;

use crate::clock::{Clock, Host};
use crate::linux::remote::Alleged;
use crate::supervise::asker::Asker;

/// `ioctl`s whose results are converted to virtual time (`linux/ptp_clock.h`): PTP_SYS_OFFSET,
/// _EXTENDED and _PRECISE, each with its second version; and for the last two also the variants
/// that read a device's free-running cycles.
pub(crate) const COMMANDS: [u32; 8] = [
    0x4340_3d05,
    0x4340_3d0e,
    0xc4c0_3d09,
    0xc4c0_3d12,
    0xc4c0_3d16,
    0xc040_3d08,
    0xc040_3d11,
    0xc040_3d15,
];

/// Returns the virtual reading, in nanoseconds, of a hardware clock that showed `device_ns` when
/// the machine's CLOCK_MONOTONIC showed `wall_ns`.
pub(crate) fn shown_ns(clock: &Clock, host: &Host, device_ns: i64, wall_ns: i64) -> i64 {
    let scales = Session::now(clock, host);
    scales.device_ns(device_ns, wall_ns).max(0)
}

/// Converts the timestamps that an `ioctl` has returned to virtual time. Returns zero, or an error
/// number.
pub(crate) fn translate_stamps(
    clock: &Clock,
    asker: &Asker<'_>,
    command: u32,
    stamps: Alleged<u8>,
) -> Result<i64, i32> {
    let scales = Session::now(clock, asker.host());
    let layout = Layout::of(command).ok_or(libc::EINVAL)?;
    let mut bytes = vec![0; layout.bytes()];
    asker.read_all(stamps, &mut bytes)?;
    if !convert(command, &mut bytes, &scales) {
        return Err(libc::EINVAL);
    }
    asker.write_all(stamps, &bytes).map(|()| 0)
}

/// Executes an `ioctl` that compares the clock of the asker's network card with the host's clocks.
/// All readings of a sample are of one instant.
///
/// # Errors
/// Fails with EINVAL for more samples than the kernel admits, or for an unknown system clock; with
/// ENOTTY for another command; with EFAULT.
pub(crate) fn sample_card(
    clock: &Clock,
    asker: &Asker<'_>,
    command: u32,
    stamps: Alleged<u8>,
) -> Result<i64, i32> {
    let layout = Layout::of(command).ok_or(libc::ENOTTY)?;
    let mut bytes = vec![0; layout.bytes()];
    asker.read_all(stamps, &mut bytes)?;
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let samples = word(0) as usize;
    let id = match layout {
        Layout::Threes => word(4).cast_signed(),
        Layout::Alternating | Layout::Precise => libc::CLOCK_REALTIME,
    };
    let is_known = [
        libc::CLOCK_REALTIME,
        libc::CLOCK_MONOTONIC,
        libc::CLOCK_MONOTONIC_RAW,
    ]
    .contains(&id);
    if !is_known || samples > MOST_SAMPLES && !matches!(layout, Layout::Precise) {
        return Err(libc::EINVAL);
    }
    let sample = || clock.card_sample(asker.host(), id).ok_or(libc::ENOTTY);
    let mut into = Stamps(&mut bytes);
    match layout {
        Layout::Precise => {
            let sample = sample()?;
            into.set(0, sample.card_ns);
            into.set(1, sample.system_ns);
            into.set(2, sample.raw_ns);
        }
        Layout::Alternating => {
            for at in (0..samples).map(|index| HEAD + 2 * index) {
                let sample = sample()?;
                into.set(at, sample.system_ns);
                into.set(at + 1, sample.card_ns);
            }
            into.set(HEAD + 2 * samples, sample()?.system_ns);
        }
        Layout::Threes => {
            for at in (0..samples).map(|index| HEAD + 3 * index) {
                let sample = sample()?;
                into.set(at, sample.system_ns);
                into.set(at + 1, sample.card_ns);
                into.set(at + 2, sample.system_ns);
            }
        }
    }
    asker.write_all(stamps, &bytes).map(|()| 0)
}

/// Conversion of the machine's instants to the session's. All values are in nanoseconds; `wall_ns`
/// is the machine's CLOCK_MONOTONIC.
trait Scales {
    /// Returns the instant at which the machine's `clock` showed `shown_ns`; `None` for clocks that
    /// are not converted.
    fn wall_ns(&self, clock: i32, shown_ns: i64) -> Option<i64>;
    /// Returns the reading of the host's `clock` at the instant `wall_ns`.
    fn host_ns(&self, clock: i32, wall_ns: i64) -> i64;
    /// Returns the virtual reading of a device that showed `device_ns` at the instant `wall_ns`.
    fn device_ns(&self, device_ns: i64, wall_ns: i64) -> i64;
}

/// Conversion for a session and one of its hosts, as of now.
struct Session<'a> {
    clock: &'a Clock,
    host: &'a Host,
    /// The machine's CLOCK_REALTIME and CLOCK_MONOTONIC_RAW, each minus its CLOCK_MONOTONIC, in
    /// nanoseconds.
    realtime_ahead_ns: i64,
    raw_ahead_ns: i64,
}

impl<'a> Session<'a> {
    fn now(clock: &'a Clock, host: &'a Host) -> Self {
        let ahead_ns = |id| {
            // CLOCK_MONOTONIC is read before and after the other clock, so that an interruption in
            // between is detected.
            let read = || {
                let before_ns = read_ns(ClockId::Monotonic);
                let shown_ns = read_ns(id);
                let took_ns = read_ns(ClockId::Monotonic) - before_ns;
                (took_ns, shown_ns - before_ns - took_ns / 2)
            };
            let closest = (0..5).map(|_| read()).min_by_key(|(took_ns, _)| *took_ns);
            closest.map_or(0, |(_, ahead_ns)| ahead_ns)
        };
        Self {
            clock,
            host,
            realtime_ahead_ns: ahead_ns(ClockId::Realtime),
            raw_ahead_ns: ahead_ns(ClockId::MonotonicRaw),
        }
    }
}

impl Scales for Session<'_> {
    fn wall_ns(&self, clock: i32, shown_ns: i64) -> Option<i64> {
        match clock {
            libc::CLOCK_REALTIME => Some(shown_ns.saturating_sub(self.realtime_ahead_ns)),
            libc::CLOCK_MONOTONIC => Some(shown_ns),
            libc::CLOCK_MONOTONIC_RAW => Some(shown_ns.saturating_sub(self.raw_ahead_ns)),
            _ => None,
        }
    }

    fn host_ns(&self, clock: i32, wall_ns: i64) -> i64 {
        let wall = Instant::from_ns(wall_ns);
        if clock == libc::CLOCK_MONOTONIC_RAW {
            // The history of this clock is not kept. The instant was a moment ago, so any rate is
            // accurate enough.
            let since = self.clock.now() - self.clock.at(wall);
            return (self.host.raw() - since).as_ns();
        }
        let then = self.host.page().page().past.at(wall);
        // A stamp is never ahead of the clock's present reading.
        let then = then.min(self.host.now());
        then.as_ns().saturating_add(self.host.offset_ns(clock))
    }

    fn device_ns(&self, device_ns: i64, wall_ns: i64) -> i64 {
        let realtime_ns = wall_ns.saturating_add(self.realtime_ahead_ns);
        let truth = self
            .clock
            .civil()
            .at(self.clock.at(Instant::from_ns(wall_ns)));
        truth
            .as_ns()
            .saturating_add(device_ns.saturating_sub(realtime_ns))
    }
}

/// Layouts of a result. Each is an array of `struct ptp_clock_time`.
#[derive(Clone, Copy)]
enum Layout {
    /// Header with the number of samples; then system time and device time alternately, ending with
    /// a system time.
    Alternating,
    /// Header with the number of samples and the identifier of the system clock; then for each
    /// sample system time, device time, system time.
    Threes,
    /// Readings of the device, CLOCK_REALTIME and CLOCK_MONOTONIC_RAW at one instant.
    Precise,
}

impl Layout {
    fn of(command: u32) -> Option<Self> {
        let index = COMMANDS.iter().position(|&known| known == command)?;
        Some(match index {
            0..2 => Self::Alternating,
            2..5 => Self::Threes,
            _ => Self::Precise,
        })
    }

    fn bytes(self) -> usize {
        let stamps = match self {
            Self::Alternating => 2 * MOST_SAMPLES + 1,
            Self::Threes => 3 * MOST_SAMPLES,
            Self::Precise => 3,
        };
        (stamps + 1) * STAMP_BYTES
    }
}

/// Converts the timestamps of a result to virtual time. Returns false, and changes nothing, if
/// `bytes` is not the result of a known command.
fn convert(command: u32, bytes: &mut [u8], scales: &impl Scales) -> bool {
    let Some(layout) = Layout::of(command).filter(|layout| layout.bytes() == bytes.len()) else {
        return false;
    };
    let word = |at: usize| i32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    // The kernel has just used the count, but another thread may have changed it since. It is
    // limited.
    let samples = (word(0).max(0) as usize).min(MOST_SAMPLES);
    let (clock, step, extra) = match layout {
        Layout::Precise => {
            convert_precise(&mut Stamps(bytes), scales);
            return true;
        }
        Layout::Alternating => (libc::CLOCK_REALTIME, 2, 1),
        Layout::Threes => (word(4), 3, 0),
    };
    if scales.wall_ns(clock, 0).is_none() {
        return false;
    }
    let wall_ns = |shown_ns| scales.wall_ns(clock, shown_ns).unwrap_or(shown_ns);
    let mut stamps = Stamps(bytes);
    // Device times are converted first: their instants follow from the system times around them.
    for before in (0..samples).map(|sample| HEAD + sample * step) {
        let [from_ns, to_ns] = [before, before + 2].map(|index| wall_ns(stamps.get(index)));
        let middle_ns = from_ns.saturating_add(to_ns.saturating_sub(from_ns) / 2);
        let device_ns = stamps.get(before + 1);
        stamps.set(before + 1, scales.device_ns(device_ns, middle_ns));
    }
    for index in (0..samples * step + extra).filter(|index| index % step != 1) {
        let at_ns = wall_ns(stamps.get(HEAD + index));
        stamps.set(HEAD + index, scales.host_ns(clock, at_ns));
    }
    true
}

fn convert_precise(stamps: &mut Stamps<'_>, scales: &impl Scales) {
    let [device_ns, realtime_ns] = [0, 1].map(|index| stamps.get(index));
    let wall_ns = scales.wall_ns(libc::CLOCK_REALTIME, realtime_ns);
    let wall_ns = wall_ns.unwrap_or(realtime_ns);
    stamps.set(0, scales.device_ns(device_ns, wall_ns));
    stamps.set(1, scales.host_ns(libc::CLOCK_REALTIME, wall_ns));
    stamps.set(2, scales.host_ns(libc::CLOCK_MONOTONIC_RAW, wall_ns));
}

/// Array of `struct ptp_clock_time`. The header of a result has the size of one element.
struct Stamps<'a>(&'a mut [u8]);

impl Stamps<'_> {
    fn get(&self, index: usize) -> i64 {
        let bytes = &self.0[index * STAMP_BYTES..][..STAMP_BYTES];
        let s = i64::from_ne_bytes(bytes[..8].try_into().expect("eight bytes"));
        let ns = u32::from_ne_bytes(bytes[8..12].try_into().expect("four bytes"));
        s.saturating_mul(NS_PER_S).saturating_add(ns.into())
    }

    fn set(&mut self, index: usize, ns: i64) {
        let bytes = &mut self.0[index * STAMP_BYTES..][..STAMP_BYTES];
        bytes[..8].copy_from_slice(&ns.div_euclid(NS_PER_S).to_ne_bytes());
        bytes[8..12].copy_from_slice(&(ns.rem_euclid(NS_PER_S) as u32).to_ne_bytes());
    }
}

const NS_PER_S: i64 = 1_000_000_000;
const MOST_SAMPLES: usize = 25;
const STAMP_BYTES: usize = 16;
/// Index of the first timestamp, after the header.
const HEAD: usize = 1;

#[cfg(test)]
mod tests;
