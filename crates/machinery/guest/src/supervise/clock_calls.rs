//! Calls of guests that set or steer a clock. They act on the virtual clock of the guest's host,
//! and never on the machine's.
//!
//! The kernel never executes such a call: a root process in a guest could change its arguments
//! after the supervisor has checked them.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{major, minor};
use timeloom_clock::card::CardError;
use timeloom_clock::kernel::Errno;
use timeloom_time::Instant;

use crate::card;

use crate::linux::remote::Alleged;
use crate::supervise::asker::Asker;
use crate::supervise::notify::Answer;
use crate::supervise::supervisor::Supervisor;
use timex::RawTimex;

pub(crate) mod timex;

/// Call that sets or steers a clock, with its arguments.
pub(crate) enum ClockCall {
    /// `clock_settime(clock, time)`: seconds and nanoseconds.
    ClockSettime {
        clock: libc::clockid_t,
        time: Alleged<[i64; 2]>,
    },
    /// `settimeofday(time, zone)`: seconds and microseconds.
    Settimeofday {
        time: Alleged<[i64; 2]>,
        zone: Alleged,
    },
    /// `adjtimex(timex)`.
    Adjtimex { timex: Alleged<RawTimex> },
    /// `clock_adjtime(clock, timex)`.
    ClockAdjtime {
        clock: libc::clockid_t,
        timex: Alleged<RawTimex>,
    },
}

/// Executes the call. Returns the answer, and true if the call has set the clock, so that waiting
/// threads must be notified. Errors are checked in the kernel's order.
pub(crate) fn answer(
    supervisor: &Supervisor,
    asker: &Asker<'_>,
    call: ClockCall,
) -> (Answer, bool) {
    let result = match call {
        ClockCall::ClockSettime { clock, time } => clock_settime(supervisor, asker, clock, time),
        ClockCall::Settimeofday { time, zone } => settimeofday(supervisor, asker, time, zone),
        ClockCall::Adjtimex { timex } => adjtimex(supervisor, asker, timex),
        ClockCall::ClockAdjtime { clock, timex } => clock_adjtime(supervisor, asker, clock, timex),
    };
    match result {
        Ok((value, stepped)) => (Answer::Value(value), stepped),
        Err(errno) => (Answer::Error(errno), false),
    }
}

/// Return value, and true if the clock was set; or an error number.
type Outcome = Result<(i64, bool), i32>;

fn clock_settime(
    supervisor: &Supervisor,
    asker: &Asker<'_>,
    clock: libc::clockid_t,
    time: Alleged<[i64; 2]>,
) -> Outcome {
    match kind_of(clock) {
        Kind::Realtime => {}
        // The clock counts processor time or is a device of the machine; guests may set neither.
        Kind::OfProcess => return Err(libc::EPERM),
        Kind::Device if let Some(device) = card::device(asker, clock) => {
            return set_card(supervisor, asker, &device, time);
        }
        Kind::Device if is_hardware_clock(asker.thread(), clock) => return Err(libc::EOPNOTSUPP),
        Kind::Device => return Err(libc::EINVAL),
        Kind::OtherClock | Kind::None => return Err(libc::EINVAL),
    }
    let [s, ns] = asker.read(time)?;
    set(supervisor, asker, s, ns)
}

fn settimeofday(
    supervisor: &Supervisor,
    asker: &Asker<'_>,
    time: Alleged<[i64; 2]>,
    zone: Alleged,
) -> Outcome {
    if !zone.is_null() {
        // The kernel has one time zone for all programs; it belongs to the machine.
        return Err(libc::EPERM);
    }
    if time.is_null() {
        return Ok((0, false));
    }
    let [s, us] = asker.read(time)?;
    if !(0..=1_000_000).contains(&us) {
        return Err(libc::EINVAL);
    }
    set(supervisor, asker, s, us * 1000)
}

fn set(supervisor: &Supervisor, asker: &Asker<'_>, s: i64, ns: i64) -> Outcome {
    let privileged = may_set_time(asker)?;
    supervisor
        .clock
        .set_host(asker.host(), s, ns, privileged)
        .map(|()| (0, true))
        .map_err(number_of)
}

fn clock_adjtime(
    supervisor: &Supervisor,
    asker: &Asker<'_>,
    clock: libc::clockid_t,
    timex: Alleged<RawTimex>,
) -> Outcome {
    let given = asker.read(timex)?;
    match kind_of(clock) {
        Kind::Realtime => adjtimex(supervisor, asker, timex),
        Kind::Device if let Some(device) = card::device(asker, clock) => {
            adjust_card(supervisor, asker, &device, (timex, given))
        }
        Kind::Device if !is_hardware_clock(asker.thread(), clock) => Err(libc::EINVAL),
        Kind::Device if given.modes == 0 => look_at_device(asker, timex, given),
        Kind::OtherClock | Kind::OfProcess | Kind::Device => Err(libc::EOPNOTSUPP),
        Kind::None => Err(libc::EINVAL),
    }
}

fn adjtimex(supervisor: &Supervisor, asker: &Asker<'_>, address: Alleged<RawTimex>) -> Outcome {
    let given = asker.read(address)?;
    let mut timex = given.request();
    let privileged = may_set_time(asker)?;
    let adjusted = supervisor
        .clock
        .adjust_host(asker.host(), &mut timex, privileged)
        .map_err(number_of)?;
    // As in the kernel, the clock was changed even if this fails. The thread that serves the hosts
    // detects that the clock was set.
    asker.write(address, &given.answered(&timex))?;
    Ok((adjusted.state.into(), adjusted.stepped))
}

/// Sets the clock of the host's network card.
fn set_card(
    supervisor: &Supervisor,
    asker: &Asker<'_>,
    device: &OwnedFd,
    time: Alleged<[i64; 2]>,
) -> Outcome {
    let [s, ns] = asker.read(time)?;
    if !card::is_writable(device) {
        return Err(libc::EACCES);
    }
    let shown_ns = s
        .checked_mul(NS_PER_S)
        .and_then(|s_ns| s_ns.checked_add(ns));
    let shown_ns = shown_ns.filter(|_| s >= 0 && (0..NS_PER_S).contains(&ns));
    let shown = Instant::from_ns(shown_ns.ok_or(libc::EINVAL)?);
    let set = supervisor.clock.set_card(asker.host(), shown);
    set.map(|()| (0, false)).ok_or(libc::EINVAL)
}

/// Steers the clock of the host's network card.
fn adjust_card(
    supervisor: &Supervisor,
    asker: &Asker<'_>,
    device: &OwnedFd,
    (address, given): (Alleged<RawTimex>, RawTimex),
) -> Outcome {
    if given.modes != 0 && !card::is_writable(device) {
        return Err(libc::EACCES);
    }
    let mut timex = given.request();
    let adjusted = supervisor.clock.adjust_card(asker.host(), &mut timex);
    adjusted.ok_or(libc::EINVAL)?.map_err(|error| match error {
        CardError::Invalid => libc::EINVAL,
        CardError::TooMuch => libc::ERANGE,
        CardError::NotSupported => libc::EOPNOTSUPP,
    })?;
    let mut answer = given;
    answer.freq = timex.freq;
    asker.write(address, &answer).map(|()| (0, false))
}

/// Answers a call that steers a hardware clock of the machine, which guests cannot change. (Daemons make such a
/// call to detect a hardware clock.)
fn look_at_device(asker: &Asker<'_>, address: Alleged<RawTimex>, mut timex: RawTimex) -> Outcome {
    timex.freq = 0;
    asker.write(address, &timex).map(|()| (0, false))
}

/// Returns true if the clock identifier contains a descriptor of a hardware clock.
fn is_hardware_clock(thread: i32, clock: libc::clockid_t) -> bool {
    let descriptor = !(clock >> 3);
    let device =
        fs::metadata(format!("/proc/{thread}/fd/{descriptor}")).map_or(0, |file| file.rdev());
    let [major, minor] = [major(device), minor(device)];
    fs::read_link(format!("/sys/dev/char/{major}:{minor}/subsystem"))
        .is_ok_and(|class| class.ends_with("ptp"))
}

/// Kind of a clock identifier.
enum Kind {
    Realtime,
    /// A clock of the kernel that cannot be set.
    OtherClock,
    /// Clock that counts the processor time of a process or thread.
    OfProcess,
    /// Hardware clock, given by a descriptor in the identifier.
    Device,
    None,
}

fn kind_of(clock: libc::clockid_t) -> Kind {
    match clock {
        libc::CLOCK_REALTIME => Kind::Realtime,
        1..=9 | libc::CLOCK_TAI => Kind::OtherClock,
        ..0 if clock & CLOCKFD == CLOCKFD => Kind::Device,
        ..0 => Kind::OfProcess,
        _ => Kind::None,
    }
}

const NS_PER_S: i64 = 1_000_000_000;

/// CLOCKFD: lowest bits of a negative identifier whose other bits contain a descriptor.
const CLOCKFD: libc::clockid_t = 3;

fn number_of(error: Errno) -> i32 {
    match error {
        Errno::Invalid => libc::EINVAL,
        Errno::NotPermitted => libc::EPERM,
    }
}

/// Returns true if the asker has CAP_SYS_TIME in the session's user namespace, to which the clock
/// belongs.
fn may_set_time(asker: &Asker<'_>) -> Result<bool, i32> {
    const CAP_SYS_TIME: u64 = 1 << 25;
    asker.has_capability(CAP_SYS_TIME)
}
