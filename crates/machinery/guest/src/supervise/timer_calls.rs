//! Calls of guests that create, set and read timers.

use std::os::fd::AsFd;

use self::posix::{PosixCall, Sigevent};
use self::words::{Itimerspec, Itimerval, NS_PER_S};
use crate::linux::remote::Alleged;
use crate::supervise::asker::Asker;
use crate::supervise::notify::Answer;
use crate::supervise::supervisor::Supervisor;
use crate::timers::{Cancelled, Key, SetFlags, Setting};

pub(crate) mod posix;
mod words;

/// Call that creates, sets or reads a timer, with its arguments.
pub(crate) enum TimerCall {
    /// `timerfd_create(clock, flags)`.
    DescriptorCreate { clock: i32, flags: i32 },
    /// `timerfd_settime(descriptor, …)`.
    DescriptorSet { descriptor: i32, set: SetTimer },
    /// `timerfd_gettime(descriptor, current)`.
    DescriptorGet {
        descriptor: i32,
        current: Alleged<Itimerspec>,
    },
    /// `timer_create(clock, event, id)`.
    Create {
        clock: i32,
        event: Alleged<Sigevent>,
        id: Alleged<i32>,
    },
    /// Call for the POSIX timer with this identifier.
    Posix { id: i32, call: PosixCall },
    /// `setitimer(ITIMER_REAL, new, old)`.
    SetInterval {
        new: Alleged<Itimerval>,
        old: Alleged<Itimerval>,
    },
    /// `getitimer(ITIMER_REAL, current)`.
    GetInterval { current: Alleged<Itimerval> },
    /// `alarm(seconds)`.
    Alarm { seconds: u32 },
}

/// Arguments that `timer_settime` and `timerfd_settime` have in common.
#[derive(Clone, Copy)]
pub(crate) struct SetTimer {
    pub(crate) flags: i32,
    pub(crate) new: Alleged<Itimerspec>,
    pub(crate) old: Alleged<Itimerspec>,
}

/// Return value of a call of a guest, or an error number.
type Outcome = Result<i64, i32>;

/// Returns the answer to a call; `None` for a timer that the session does not keep (created outside
/// it).
pub(crate) fn answer(
    supervisor: &Supervisor,
    asker: &Asker<'_>,
    call: TimerCall,
) -> Option<Answer> {
    let timers = &supervisor.timers;
    let of_descriptor = |descriptor| timers.find_descriptor(asker.thread(), descriptor);
    let outcome = match call {
        TimerCall::DescriptorCreate { clock, flags } => {
            return Some(create_descriptor(supervisor, asker, clock, flags));
        }
        TimerCall::DescriptorSet { descriptor, set } => {
            let key = of_descriptor(descriptor)?;
            settime(supervisor, asker, Ok(key), set, &TIMERFD)
        }
        TimerCall::DescriptorGet {
            descriptor,
            current,
        } => {
            let now = timers.get(of_descriptor(descriptor)?);
            asker.write(current, &now.into()).map(|()| 0)
        }
        // The kernel has no timers on this clock.
        TimerCall::Create { clock, .. } if !is_known_clock(clock) && clock != libc::CLOCK_TAI => {
            return Some(Answer::Continue);
        }
        TimerCall::Create { clock, event, id } => {
            posix::create(supervisor, asker, clock, event, id)
        }
        TimerCall::Posix { id, call } => posix::answer(supervisor, asker, id, call)?,
        TimerCall::SetInterval { new, old } => set_interval(supervisor, asker, new, old),
        TimerCall::GetInterval { current } => interval_of(supervisor, asker)
            .and_then(|now| asker.write(current, &now.into()))
            .map(|()| 0),
        TimerCall::Alarm { seconds } => alarm(supervisor, asker, seconds),
    };
    Some(outcome.into())
}

fn create_descriptor(supervisor: &Supervisor, asker: &Asker<'_>, clock: i32, flags: i32) -> Answer {
    if !is_known_clock(clock) || flags & !(libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) != 0 {
        return Answer::Error(libc::EINVAL);
    }
    if let Err(number) = may_use_alarms(asker, clock) {
        return Answer::Error(number);
    }
    let nonblocking = flags & libc::TFD_NONBLOCK != 0;
    let file = supervisor
        .timers
        .create_descriptor(asker.host(), clock, nonblocking);
    match file {
        Ok(file) => asker.give(file.as_fd(), flags & libc::TFD_CLOEXEC != 0),
        Err(_) => Answer::Error(libc::EMFILE),
    }
}

/// Answers [`timeloom_abi::calls::ImageCall::SetTimer`]. The answer is ENOSYS if the session does not
/// keep the timer; the image then lets the kernel execute the call.
pub(crate) fn set_for_image(
    supervisor: &Supervisor,
    asker: &Asker<'_>,
    descriptor: i32,
    set: SetTimer,
    is_told: bool,
) -> Answer {
    let kind = if is_told { &TOLD } else { &TIMERFD };
    let key = supervisor
        .timers
        .find_descriptor(asker.thread(), descriptor);
    key.ok_or(libc::ENOSYS)
        .and_then(|key| settime(supervisor, asker, Ok(key), set, kind))
        .into()
}

/// Answers [`timeloom_abi::calls::ImageCall::IsTimer`]. The answer is ENOSYS if the session does not
/// keep the timer.
pub(crate) fn is_timer(supervisor: &Supervisor, asker: &Asker<'_>, descriptor: i32) -> Answer {
    let timers = &supervisor.timers;
    match timers.find_descriptor(asker.thread(), descriptor) {
        Some(key) => {
            timers.was_told(key);
            Answer::Value(0)
        }
        None => Answer::Error(libc::ENOSYS),
    }
}

/// Flags of `timer_settime` or `timerfd_settime`.
struct Kind {
    known_flags: i32,
    absolute: i32,
    cancels: i32,
    reads_are_ours: bool,
}

const POSIX: Kind = Kind {
    // For this call the kernel checks one flag, and ignores all others.
    known_flags: -1,
    absolute: libc::TIMER_ABSTIME,
    cancels: 0,
    reads_are_ours: false,
};
const TIMERFD: Kind = Kind {
    known_flags: libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET,
    absolute: libc::TFD_TIMER_ABSTIME,
    cancels: libc::TFD_TIMER_CANCEL_ON_SET,
    reads_are_ours: false,
};
const TOLD: Kind = Kind {
    reads_are_ours: true,
    ..TIMERFD
};

/// Executes `timer_settime` and `timerfd_settime`. As in the kernel, the timer is looked up last.
fn settime(
    supervisor: &Supervisor,
    asker: &Asker<'_>,
    key: Result<Key, i32>,
    SetTimer { flags, new, old }: SetTimer,
    kind: &Kind,
) -> Outcome {
    let wanted = asker.read(new)?;
    if flags & !kind.known_flags != 0 {
        return Err(libc::EINVAL);
    }
    let wanted = wanted.setting()?;
    let key = key?;
    let before = supervisor.timers.get(key);
    let flags = SetFlags {
        absolute: flags & kind.absolute != 0,
        cancel_on_set: flags & kind.cancels != 0,
        reads_are_ours: kind.reads_are_ours,
    };
    // As in the kernel, the timer is set even if the call then returns an error.
    match supervisor.timers.set(key, wanted, flags) {
        Err(Cancelled) => Err(libc::ECANCELED),
        Ok(()) if old.is_null() => Ok(0),
        Ok(()) => asker.write(old, &before.into()).map(|()| 0),
    }
}

fn set_interval(
    supervisor: &Supervisor,
    asker: &Asker<'_>,
    new: Alleged<Itimerval>,
    old: Alleged<Itimerval>,
) -> Outcome {
    // A null pointer disarms the timer, a peculiarity that the kernel preserves.
    let wanted = if new.is_null() {
        Setting::default()
    } else {
        asker.read(new)?.setting()?
    };
    let before = exchange_interval(supervisor, asker, wanted)?;
    // As in the kernel, the timer is set even if the call then returns an error.
    if !old.is_null() {
        asker.write(old, &before.into())?;
    }
    Ok(0)
}

/// Executes `alarm(seconds)`. Returns the remaining seconds of the previous alarm, rounded to the
/// nearest number, but never to zero while it is armed.
fn alarm(supervisor: &Supervisor, asker: &Asker<'_>, seconds: u32) -> Outcome {
    let setting = Setting {
        interval_ns: 0,
        value_ns: i64::from(seconds) * NS_PER_S,
    };
    let left_ns = exchange_interval(supervisor, asker, setting)?.value_ns;
    let left_s = (left_ns + NS_PER_S / 2) / NS_PER_S;
    Ok(if left_ns > 0 { left_s.max(1) } else { 0 })
}

/// Returns the setting of the asker's interval timer.
fn interval_of(supervisor: &Supervisor, asker: &Asker<'_>) -> Result<Setting, i32> {
    let timers = &supervisor.timers;
    timers.catch_up();
    let owner = asker.known_owner(timers)?;
    Ok(owner.map_or_else(Setting::default, |owner| timers.get(owner.interval())))
}

/// Sets the asker's interval timer. Returns the previous setting.
fn exchange_interval(
    supervisor: &Supervisor,
    asker: &Asker<'_>,
    wanted: Setting,
) -> Result<Setting, i32> {
    let before = interval_of(supervisor, asker)?;
    // A call that only disarms a disarmed timer needs no timer.
    if before != Setting::default() || wanted != Setting::default() {
        let owner = asker.owner(&supervisor.timers)?;
        supervisor.timers.set_interval(asker.host(), &owner, wanted);
    }
    Ok(before)
}

/// Returns true for clocks that are maps of virtual time and on which programs may create timers.
fn is_known_clock(clock: i32) -> bool {
    matches!(
        clock,
        libc::CLOCK_REALTIME
            | libc::CLOCK_MONOTONIC
            | libc::CLOCK_BOOTTIME
            | libc::CLOCK_REALTIME_ALARM
            | libc::CLOCK_BOOTTIME_ALARM
    )
}

fn is_alarm(clock: i32) -> bool {
    matches!(
        clock,
        libc::CLOCK_REALTIME_ALARM | libc::CLOCK_BOOTTIME_ALARM
    )
}

/// Checks whether the asker may have timers on a clock that wakes the machine. The kernel requires
/// CAP_WAKE_ALARM for its own, which only the machine's own users have.
fn may_use_alarms(asker: &Asker<'_>, clock: i32) -> Result<(), i32> {
    const CAP_WAKE_ALARM: u64 = 1 << 35;
    let may = !is_alarm(clock) || asker.has_capability(CAP_WAKE_ALARM)?;
    may.then_some(()).ok_or(libc::EPERM)
}
