//! Conversion of a released program's timers to timers of the kernel.
//!
//! The remaining virtual time of a timer becomes its remaining real time. An absolute setting on
//! CLOCK_REALTIME or CLOCK_TAI stays unchanged: for the program, the clock has been set, which such
//! a timer must expect.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd};

use super::eventfd::eventfd_id;
use super::notice::Notice;
use super::timer::{Action, Timer};
use super::{Key, Timers};
use crate::clock::HostDeadline;
use crate::error::{GuestError, check};

/// Setting for a timer of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelSetting {
    pub(crate) absolute: bool,
    /// First expiration in nanoseconds, absolute or relative; zero means disarmed.
    pub(crate) value_ns: i64,
    pub(crate) interval_ns: i64,
}

/// POSIX timer or interval timer of a released program.
#[derive(Clone, Debug)]
pub(crate) enum Leaving {
    Posix {
        id: i32,
        clock: libc::clockid_t,
        /// Signal of the timer; `None` for SIGEV_NONE.
        notice: Option<Notice>,
        setting: KernelSetting,
    },
    Interval(KernelSetting),
}

/// Descriptor of a timerfd in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldDescriptor {
    /// Key of the timerfd in the table.
    pub(crate) key: Key,
    pub(crate) number: i32,
    pub(crate) close_on_exec: bool,
}

impl Timers {
    /// Returns true if a process has POSIX timers that the session keeps.
    pub(crate) fn has_posix(&self, pid: i32) -> bool {
        let Some(of) = self.known_owner(pid) else {
            return false;
        };
        let table = self.lock();
        let mut keys = table.timers.keys();
        keys.any(|key| matches!(key, Key::Posix { owner, .. } if *owner == of.id))
    }

    /// Removes and returns the POSIX and interval timers of a process.
    pub(crate) fn take_of_process(&self, pid: i32) -> Vec<Leaving> {
        let mut leaving = Vec::new();
        let Some(of) = self.known_owner(pid) else {
            return leaving;
        };
        let mut table = self.lock();
        table.timers.retain(|key, timer| {
            let one = match *key {
                Key::Posix { owner, id } if owner == of.id => Leaving::Posix {
                    id,
                    clock: timer.clock,
                    notice: match &timer.action {
                        Action::Send(notice) => Some(notice.clone()),
                        _ => None,
                    },
                    setting: timer.kernel_setting(),
                },
                Key::Interval { owner } if owner == of.id => {
                    Leaving::Interval(timer.kernel_setting())
                }
                _ => return true,
            };
            leaving.push(one);
            false
        });
        drop(table);
        self.look_again();
        leaving
    }

    /// Returns the session's timerfds among the descriptors of a process.
    pub(crate) fn held_by(&self, pid: i32) -> Vec<HeldDescriptor> {
        let entries = fs::read_dir(format!("/proc/{pid}/fd"));
        let numbers = entries.into_iter().flatten().flatten().filter_map(|entry| {
            let is_event = fs::read_link(entry.path())
                .is_ok_and(|to| to.as_os_str() == "anon_inode:[eventfd]");
            is_event
                .then(|| entry.file_name().to_str()?.parse().ok())
                .flatten()
        });
        let held = |number: i32| {
            let key = Key::Descriptor(eventfd_id(&pid.to_string(), number)?);
            let close_on_exec = information(&pid.to_string(), number, "flags:", 8)?
                & i64::from(libc::O_CLOEXEC)
                != 0;
            self.exists(key).then_some(HeldDescriptor {
                key,
                number,
                close_on_exec,
            })
        };
        numbers.filter_map(held).collect()
    }

    /// Returns a timerfd of the kernel that replaces the session's timerfd `key`, with the same
    /// number of unread expirations.
    pub(crate) fn to_kernel(&self, key: Key) -> Result<File, GuestError> {
        let table = self.lock();
        let gone =
            || GuestError::Usage("a timer was deleted while it was returned to the kernel".into());
        let timer = table.timers.get(&key).ok_or_else(gone)?;
        let Action::Count(file) = &timer.action else {
            return Err(gone());
        };
        // SAFETY: the calls use only a descriptor that is ours.
        let made = unsafe {
            let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL) & libc::O_NONBLOCK;
            libc::timerfd_create(timer.clock, libc::TFD_CLOEXEC | flags)
        };
        check(made.into(), "creating a timer of the kernel")?;
        // SAFETY: the descriptor was just created, and has no other owner.
        let made = unsafe { File::from_raw_fd(made) };
        // The kernel cannot report a step of the clock retroactively, so an expiration replaces the
        // report.
        let unread = match timer.is_cancelled() {
            true => 1,
            false => information("self", file.as_raw_fd(), "eventfd-count:", 16).unwrap_or(0),
        };
        let setting = timer
            .kernel_setting()
            .with_unread(unread, || now_ns(timer.clock));
        let mut flags = 0;
        if setting.absolute {
            flags |= libc::TFD_TIMER_ABSTIME;
        }
        if timer.cancels_on_set() {
            flags |= libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET;
        }
        let value = setting.to_itimerspec();
        // SAFETY: the call reads `value`.
        let set = unsafe {
            libc::timerfd_settime(
                made.as_raw_fd(),
                flags,
                &raw const value,
                std::ptr::null_mut(),
            )
        };
        check(set.into(), "setting a timer of the kernel")?;
        Ok(made)
    }
}

impl Timer {
    fn kernel_setting(&self) -> KernelSetting {
        let (absolute, value_ns) = match self.due {
            None => (false, 0),
            // The value is at least one, since zero would disarm the timer.
            Some(due @ HostDeadline::PageTime(_)) => (false, due.left(&self.host).as_ns().max(1)),
            Some(HostDeadline::Realtime(due)) => (true, due.at.as_ns().max(1)),
            Some(HostDeadline::Tai(due)) => (true, due.at.as_ns().max(1)),
        };
        KernelSetting {
            absolute,
            value_ns,
            interval_ns: self.interval_ns,
        }
    }
}

impl KernelSetting {
    /// Returns a setting after which the kernel's timer has `unread` expirations. `now_ns` returns
    /// the present reading of the timer's clock.
    fn with_unread(self, unread: i64, now_ns: impl FnOnce() -> i64) -> Self {
        if unread == 0 {
            return self;
        }
        let next_ns = match (self.value_ns, self.absolute) {
            // The timer has no interval and has expired, so it must expire at once, and once only.
            (0, _) => now_ns(),
            (at, true) => at,
            (after, false) => now_ns().saturating_add(after),
        };
        let past_ns = self.interval_ns.saturating_mul(unread);
        Self {
            absolute: true,
            value_ns: next_ns.saturating_sub(past_ns).max(1),
            interval_ns: self.interval_ns,
        }
    }

    /// Converts the setting to the kernel's structure.
    pub(crate) fn to_itimerspec(self) -> libc::itimerspec {
        let spec = |ns: i64| libc::timespec {
            tv_sec: ns / NS_PER_S,
            tv_nsec: ns % NS_PER_S,
        };
        libc::itimerspec {
            it_interval: spec(self.interval_ns),
            it_value: spec(self.value_ns),
        }
    }
}

fn now_ns(clock: libc::clockid_t) -> i64 {
    // SAFETY: plain data; the kernel writes it.
    let now = unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(clock, &raw mut now);
        now
    };
    now.tv_sec * NS_PER_S + now.tv_nsec
}

/// Returns the number in the field `field` of /proc/PID/fdinfo/FD; `None` if there is no such
/// field.
fn information(process: &str, fd: i32, field: &str, radix: u32) -> Option<i64> {
    let text = fs::read_to_string(format!("/proc/{process}/fdinfo/{fd}")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(field))?;
    i64::from_str_radix(value.trim(), radix).ok()
}

const NS_PER_S: i64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel counts expirations from the first on, so the first must be computed from the
    /// number of unread expirations and the instant of the next.
    #[test]
    fn unread_expirations_are_counted_by_the_kernel_too() {
        let now_ns = 1_000;
        let periodic = KernelSetting {
            absolute: false,
            value_ns: 30,
            interval_ns: 100,
        };
        assert_eq!(periodic.with_unread(0, || now_ns), periodic);
        for unread in 1..9 {
            let set = periodic.with_unread(unread, || now_ns);
            assert!(set.absolute && set.interval_ns == 100);
            let expired = 1 + (now_ns - set.value_ns) / set.interval_ns;
            assert_eq!(expired, unread);
            let next_ns = set.value_ns + expired * set.interval_ns;
            assert_eq!(next_ns, 1_030, "the phase stays");
        }
        let once = KernelSetting {
            value_ns: 0,
            interval_ns: 0,
            ..periodic
        };
        let set = once.with_unread(1, || now_ns);
        assert!(set.absolute && set.value_ns <= now_ns && set.value_ns > 0);
    }
}
