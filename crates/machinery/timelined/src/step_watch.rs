//! Detection of steps of the system clock.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::LocalClock;
use crate::local_clock::Pair;
use crate::source::realtime_line::check_even;

/// Calls `set` whenever the system clock is stepped. Returns when `ended` is true or was dropped.
///
/// The kernel reports a step at once by cancelling a timer on CLOCK_REALTIME. A step while no timer
/// is armed is detected by comparing CLOCK_REALTIME with the core clock once a second.
pub(crate) fn watch(clock: &LocalClock, ended: &Weak<AtomicBool>, mut set: impl FnMut()) {
    let mut last = clock.realtime();
    while ended.upgrade().is_some_and(|ended| !ended.load(Relaxed)) {
        let cancelled = wait_a_second(&last);
        let now = clock.realtime();
        if cancelled || check_even(&last, &now).is_err() {
            set();
        }
        last = now;
    }
}

/// Waits until CLOCK_REALTIME has advanced by a second; returns true if the clock was set
/// meanwhile.
fn wait_a_second(now: &Pair) -> bool {
    let second = core::time::Duration::from_secs(1);
    let armed = || -> rustix::io::Result<bool> {
        let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC)?;
        let at_ns = now.other_ns.saturating_add(1_000_000_000);
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let when = Itimerspec {
            it_interval: none,
            it_value: Timespec {
                tv_sec: at_ns / 1_000_000_000,
                tv_nsec: at_ns % 1_000_000_000,
            },
        };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(&timer, flags, &when)?;
        loop {
            match rustix::io::read(&timer, &mut [0; 8]) {
                Err(Errno::INTR) => {}
                Err(Errno::CANCELED) => return Ok(true),
                other => return other.map(|_| false),
            }
        }
    };
    armed().unwrap_or_else(|_| {
        std::thread::sleep(second);
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use timeloom_time::{Duration, Instant};

    #[test]
    fn an_even_clock_is_no_alarm_and_a_past_timer_does_not_hang() {
        let clock = LocalClock::of_this_machine();
        let ended = Arc::new(AtomicBool::new(false));
        let weak = Arc::downgrade(&ended);
        let watcher = std::thread::spawn(move || {
            let mut alarms = 0;
            watch(&clock, &weak, || alarms += 1);
            alarms
        });
        std::thread::sleep(core::time::Duration::from_millis(1200));
        ended.store(true, Relaxed);
        assert_eq!(watcher.join().unwrap(), 0);
        // This pair is as after a step forward that happened before the timer was armed.
        let past = Pair {
            before: Instant::ZERO,
            other_ns: 0,
            after: Instant::ZERO + Duration::from_ns(1),
        };
        assert!(!wait_a_second(&past));
    }
}
