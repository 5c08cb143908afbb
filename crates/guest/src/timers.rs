//! timerfds in virtual time.
//!
//! A guest that asks for a timerfd gets an eventfd: to `read`, `poll` and
//! `epoll` the two are alike (eight bytes, the number of expirations). The
//! supervisor keeps the deadline, on the virtual clock, and adds to the eventfd
//! when it passes. So a pause needs no re-arming, and an expiry can never be
//! early: it is decided by reading the virtual clock.
//!
//! An eventfd is found again by its `eventfd-id` in /proc/PID/fdinfo, whatever
//! number it was duplicated to and whichever process it was passed to.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use timeloom_time::{Duration, Instant, Virtual};

use crate::clock::Clock;
use crate::error::{GuestError, check};

/// An `itimerspec`, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) interval_ns: i64,
    pub(crate) value_ns: i64,
}

struct Timer {
    file: File,
    /// CLOCK_* minus virtual time, for absolute settings.
    offset_ns: i64,
    due: Option<Instant<Virtual>>,
    interval: Duration,
}

/// All timers of a session.
pub(crate) struct Timers {
    clock: Arc<Clock>,
    table: Mutex<Table>,
    changed: Condvar,
}

#[derive(Default)]
struct Table {
    by_id: BTreeMap<u64, Timer>,
    closed: bool,
    /// Raised with every change, so that the waiting thread looks again.
    version: u64,
}

impl Timers {
    pub(crate) fn new(clock: Arc<Clock>) -> Self {
        Self { clock, table: Mutex::default(), changed: Condvar::new() }
    }

    /// A new timer; the descriptor is for the guest.
    pub(crate) fn create(&self, offset_ns: i64, nonblocking: bool) -> Result<File, GuestError> {
        let flags = libc::EFD_CLOEXEC | if nonblocking { libc::EFD_NONBLOCK } else { 0 };
        // SAFETY: a plain call without pointers.
        let fd = check(unsafe { libc::eventfd(0, flags) }.into(), "creating a timer")? as i32;
        // SAFETY: just created and owned by nobody else.
        let file = unsafe { File::from_raw_fd(fd) };
        let id = eventfd_id("self", fd).ok_or_else(|| {
            GuestError::Unsupported("this kernel does not tell an eventfd's identity".into())
        })?;
        let for_guest = file.try_clone().map_err(GuestError::system("duplicating a timer"))?;
        let mut table = self.lock();
        forget_orphans(&mut table);
        table.by_id.insert(id, Timer { file, offset_ns, due: None, interval: Duration::ZERO });
        Ok(for_guest)
    }

    /// Whether this descriptor of that process is a timer of ours.
    pub(crate) fn find(&self, pid: i32, fd: i32) -> Option<u64> {
        let id = eventfd_id(&pid.to_string(), fd)?;
        self.lock().by_id.contains_key(&id).then_some(id)
    }

    /// What is left until the next expiry, and the interval.
    pub(crate) fn get(&self, id: u64) -> Setting {
        let now = self.clock.now();
        match self.lock().by_id.get(&id) {
            Some(Timer { due: Some(due), interval, .. }) => Setting {
                interval_ns: interval.as_ns(),
                // Zero would mean "disarmed".
                value_ns: (*due - now).as_ns().max(1),
            },
            Some(Timer { interval, .. }) => Setting { interval_ns: interval.as_ns(), value_ns: 0 },
            None => Setting::default(),
        }
    }

    /// Arms or disarms; forgets expirations that were not read.
    pub(crate) fn set(&self, id: u64, setting: Setting, absolute: bool) {
        let now = self.clock.now();
        let mut table = self.lock();
        let Some(timer) = table.by_id.get_mut(&id) else { return };
        drain(&timer.file);
        timer.interval = Duration::from_ns(setting.interval_ns);
        timer.due = match setting.value_ns {
            0 => None,
            at if absolute => Some(Instant::from_ns(at.saturating_sub(timer.offset_ns))),
            after => Some(now + Duration::from_ns(after)),
        };
        table.version += 1;
        drop(table);
        self.changed.notify_all();
        self.clock.wake();
    }

    /// Ends [`Self::serve`].
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
        self.clock.wake();
    }

    /// Lets timers expire until [`Self::close`]. To be run in a thread.
    pub(crate) fn serve(&self) {
        loop {
            let mut table = self.lock();
            let next = loop {
                if table.closed {
                    return;
                }
                match table.by_id.values().filter_map(|timer| timer.due).min() {
                    Some(due) => break due,
                    None => table = self.changed.wait(table).unwrap_or_else(|e| e.into_inner()),
                }
            };
            let version = table.version;
            drop(table);
            let reached = self.clock.wait_until(next, || {
                let table = self.lock();
                table.closed || table.version != version
            });
            if reached {
                self.expire();
            }
        }
    }

    fn expire(&self) {
        let now = self.clock.now();
        for timer in self.lock().by_id.values_mut() {
            let Some(due) = timer.due.filter(|due| *due <= now) else { continue };
            let mut expirations = 1u64;
            timer.due = None;
            if timer.interval > Duration::ZERO {
                let missed = (now - due).as_ns() / timer.interval.as_ns();
                expirations += missed as u64;
                let passed = timer.interval.as_ns().saturating_mul(missed + 1);
                timer.due = Some(due + Duration::from_ns(passed));
            }
            // Full (nobody reads): the count saturates, as a timerfd's does.
            let _ = (&timer.file).write(&expirations.to_ne_bytes());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Reads the counter away, without waiting, whatever the guest's flags are.
fn drain(mut file: &File) {
    let mut ready = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd, ours.
    if unsafe { libc::poll(&raw mut ready, 1, 0) } == 1 {
        let _ = file.read(&mut [0u8; 8]);
    }
}

/// Drops timers that no process holds any more, when there are many.
///
/// The kernel does not tell how many hold a file, so all descriptors of all
/// processes are looked at; often enough that memory stays bounded, seldom
/// enough not to matter.
fn forget_orphans(table: &mut Table) {
    if table.by_id.len() < 64 || !table.by_id.len().is_power_of_two() {
        return;
    }
    let own = std::process::id() as i32;
    let mut held = Vec::new();
    for pid in crate::processes::all().into_iter().filter(|&pid| pid != own) {
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        for entry in entries.flatten() {
            let is_event = fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == "anon_inode:[eventfd]");
            let fd = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let (true, Some(fd)) = (is_event, fd) {
                held.extend(eventfd_id(&pid.to_string(), fd));
            }
        }
    }
    table.by_id.retain(|id, _| held.contains(id));
}

fn eventfd_id(process: &str, fd: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/fdinfo/{fd}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("eventfd-id:")?.trim().parse().ok())
}
