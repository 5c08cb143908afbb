//! The calls that set and steer a clock, on behalf of guests: they act on the
//! clock of the guest's host, which is virtual, and never on the machine's.
//!
//! None is ever continued in the kernel: root in a guest could change its
//! arguments after our look at them.

use std::fs;
use std::os::unix::fs::MetadataExt;

use timeloom_clock::kernel::{Errno, Timex};

use crate::linux::processes;
use crate::linux::remote::{read_memory, write_memory};
use crate::supervise::notify::{Answer, Listener, Notification};
use crate::supervise::supervisor::Supervisor;

/// Whether [`answer`] knows the call.
pub(crate) fn is_one(call: i64) -> bool {
    matches!(
        call,
        libc::SYS_clock_settime
            | libc::SYS_settimeofday
            | libc::SYS_adjtimex
            | libc::SYS_clock_adjtime
    )
}

/// The answer, in the order in which the kernel finds errors; and whether the
/// clock was set by it, so that those who wait for it must be told.
pub(crate) fn answer(
    listener: &Listener,
    supervisor: &Supervisor,
    asker: &Notification,
) -> (Answer, bool) {
    let [first, second, ..] = asker.args;
    let result = match asker.call {
        libc::SYS_clock_settime => clock_settime(listener, supervisor, asker, first as i32, second),
        libc::SYS_settimeofday => settimeofday(listener, supervisor, asker, first, second),
        libc::SYS_clock_adjtime => clock_adjtime(listener, supervisor, asker, first as i32, second),
        _ => adjtimex(listener, supervisor, asker, first),
    };
    match result {
        Ok((value, stepped)) => (Answer::Value(value), stepped),
        Err(errno) => (Answer::Error(errno), false),
    }
}

/// A value and whether the clock was set, or an error number.
type Outcome = Result<(i64, bool), i32>;

fn clock_settime(
    listener: &Listener,
    supervisor: &Supervisor,
    asker: &Notification,
    clock: libc::clockid_t,
    time: u64,
) -> Outcome {
    match kind_of(clock) {
        Kind::Realtime => {}
        // The process that it stands for is the machine's, and so is the device.
        Kind::OfProcess => return Err(libc::EPERM),
        Kind::Device if is_hardware_clock(asker.thread, clock) => return Err(libc::EOPNOTSUPP),
        Kind::Device => return Err(libc::EINVAL),
        Kind::OtherClock | Kind::None => return Err(libc::EINVAL),
    }
    let [s, ns] = read_words(asker.thread, time).ok_or(libc::EFAULT)?;
    set(listener, supervisor, asker, s, ns)
}

fn settimeofday(
    listener: &Listener,
    supervisor: &Supervisor,
    asker: &Notification,
    time: u64,
    zone: u64,
) -> Outcome {
    if zone != 0 {
        // The kernel keeps one time zone for all; it is the machine's.
        return Err(libc::EPERM);
    }
    if time == 0 {
        return Ok((0, false));
    }
    let [s, us] = read_words(asker.thread, time).ok_or(libc::EFAULT)?;
    if !(0..=1_000_000).contains(&us) {
        return Err(libc::EINVAL);
    }
    set(listener, supervisor, asker, s, us * 1000)
}

fn set(
    listener: &Listener,
    supervisor: &Supervisor,
    asker: &Notification,
    s: i64,
    ns: i64,
) -> Outcome {
    let privileged = may_set_time(asker.thread);
    supervisor
        .clock
        .set_host(listener.host(), s, ns, privileged)
        .map(|()| (0, true))
        .map_err(number_of)
}

fn clock_adjtime(
    listener: &Listener,
    supervisor: &Supervisor,
    asker: &Notification,
    clock: libc::clockid_t,
    timex: u64,
) -> Outcome {
    let given = read_timex(asker.thread, timex)?;
    match kind_of(clock) {
        Kind::Realtime => adjtimex(listener, supervisor, asker, timex),
        Kind::Device if !is_hardware_clock(asker.thread, clock) => Err(libc::EINVAL),
        Kind::Device if given.modes == 0 => look_at_device(asker.thread, timex, given),
        Kind::OtherClock | Kind::OfProcess | Kind::Device => Err(libc::EOPNOTSUPP),
        Kind::None => Err(libc::EINVAL),
    }
}

fn adjtimex(
    listener: &Listener,
    supervisor: &Supervisor,
    asker: &Notification,
    address: u64,
) -> Outcome {
    let mut raw = read_timex(asker.thread, address)?;
    let mut timex = Timex {
        modes: raw.modes,
        offset: raw.offset,
        freq: raw.freq,
        maxerror: raw.maxerror,
        esterror: raw.esterror,
        status: raw.status,
        constant: raw.constant,
        precision: 0,
        tolerance: 0,
        time_s: raw.time.tv_sec,
        time_part: raw.time.tv_usec,
        tick: raw.tick,
        tai: 0,
    };
    let privileged = may_set_time(asker.thread);
    let adjusted = supervisor
        .clock
        .adjust_host(listener.host(), &mut timex, privileged)
        .map_err(number_of)?;
    raw.offset = timex.offset;
    raw.freq = timex.freq;
    raw.maxerror = timex.maxerror;
    raw.esterror = timex.esterror;
    raw.status = timex.status;
    raw.constant = timex.constant;
    raw.precision = timex.precision;
    raw.tolerance = timex.tolerance;
    raw.time.tv_sec = timex.time_s;
    raw.time.tv_usec = timex.time_part;
    raw.tick = timex.tick;
    raw.tai = timex.tai;
    // Without a pulse-per-second source the kernel shows zeroes.
    (raw.ppsfreq, raw.jitter, raw.shift, raw.stabil) = (0, 0, 0, 0);
    (raw.jitcnt, raw.calcnt, raw.errcnt, raw.stbcnt) = (0, 0, 0, 0);
    if write_timex(asker.thread, address, &raw) {
        Ok((adjusted.state.into(), adjusted.stepped))
    } else {
        // As in the kernel, the clock was changed all the same; the thread that
        // serves the hosts finds out if it was set.
        Err(libc::EFAULT)
    }
}

/// What steers a hardware clock: for guests nothing does. (Daemons ask to learn whether
/// it is one.)
fn look_at_device(thread: i32, address: u64, mut timex: libc::timex) -> Outcome {
    timex.freq = 0;
    match write_timex(thread, address, &timex) {
        true => Ok((0, false)),
        false => Err(libc::EFAULT),
    }
}

/// Whether the descriptor in the identifier is one of a hardware clock.
fn is_hardware_clock(thread: i32, clock: libc::clockid_t) -> bool {
    let descriptor = !(clock >> 3);
    let device =
        fs::metadata(format!("/proc/{thread}/fd/{descriptor}")).map_or(0, |file| file.rdev());
    let [major, minor] = [libc::major(device), libc::minor(device)];
    fs::read_link(format!("/sys/dev/char/{major}:{minor}/subsystem"))
        .is_ok_and(|class| class.ends_with("ptp"))
}

fn write_timex(thread: i32, address: u64, timex: &libc::timex) -> bool {
    // SAFETY: a plain structure as bytes; its padding was read from the guest.
    let bytes = unsafe {
        std::slice::from_raw_parts((&raw const *timex).cast::<u8>(), size_of::<libc::timex>())
    };
    write_memory(thread, address, bytes)
}

fn read_timex(thread: i32, address: u64) -> Result<libc::timex, i32> {
    // SAFETY: plain data, for which zeroes are values.
    let mut raw: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the same structure as bytes, all of which may be anything.
    let bytes = unsafe {
        std::slice::from_raw_parts_mut((&raw mut raw).cast::<u8>(), size_of::<libc::timex>())
    };
    if read_memory(thread, address, bytes) {
        Ok(raw)
    } else {
        Err(libc::EFAULT)
    }
}

fn read_words(thread: i32, address: u64) -> Option<[i64; 2]> {
    let mut bytes = [0u8; 16];
    if !read_memory(thread, address, &mut bytes) {
        return None;
    }
    let word = |at: usize| i64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    Some([word(0), word(8)])
}

/// What a clock identifier stands for.
enum Kind {
    Realtime,
    /// A clock of the kernel that cannot be set.
    OtherClock,
    /// What a process or thread uses of the processor.
    OfProcess,
    /// A hardware clock, by a descriptor of it.
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

/// In the lowest bits of an identifier below zero: the others are a descriptor.
const CLOCKFD: libc::clockid_t = 3;

fn number_of(error: Errno) -> i32 {
    match error {
        Errno::Invalid => libc::EINVAL,
        Errno::NotPermitted => libc::EPERM,
    }
}

/// Whether a thread has CAP_SYS_TIME, as it sees it: who is root in a user
/// namespace may set the clock of the host that the guest lives on.
fn may_set_time(thread: i32) -> bool {
    const CAP_SYS_TIME: u64 = 1 << 25;
    processes::effective_capabilities(thread) & CAP_SYS_TIME != 0
}
