//! Timers in virtual time: timerfds, POSIX timers, interval timers.
//!
//! The supervisor keeps every deadline, on the clock of the timer's host, and acts when it passes.
//! So a pause does not require re-arming, and an expiration is never early, since it is decided by
//! reading the virtual clock.
//!
//! A guest that requests a **timerfd** gets an eventfd. For `read`, `poll` and `epoll` both behave
//! alike (a read returns eight bytes, the number of expirations). An eventfd is identified by its
//! `eventfd-id` in /proc/PID/fdinfo, whatever its descriptor number and whichever process has it.
//!
//! A **POSIX timer** or **interval timer** sends its signal with the information that the kernel
//! would have given it. While the signal of an earlier expiration is still pending, expirations are
//! counted as overruns. Such a timer belongs to its process: it is never looked up by a number
//! alone, and is removed when the process ends (`owners.rs`).
//!
//! The kernel sends such a signal at the timer's instant; the supervisor sends it only when it
//! wakes. So each host's page shows the next instant at which a signal is due. If a guest finds
//! that this instant has passed, its waits do not end, and queries for pending signals are not
//! answered, before the signal is sent (the image's `wait.rs`). Before a call for such a timer is
//! answered, all due timers expire.

mod cancel;
mod eventfd;
mod held;
mod leaving;
mod notice;
mod owners;
mod timer;

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use timeloom_time::{Duration, Instant};

use crate::clock::{Clock, Host, HostDeadline};
use crate::error::GuestError;
pub(crate) use cancel::Cancelled;
use eventfd::{drain, eventfd_id};
pub(crate) use leaving::{HeldDescriptor, Leaving};
pub(crate) use notice::{Notice, Thread};
use owners::Owners;
pub(crate) use owners::{Owner, OwnerId};
use timer::{Action, Timer};

/// Setting of a timer: an `itimerspec`, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) interval_ns: i64,
    pub(crate) value_ns: i64,
}

/// Identity of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// Timerfd, identified by its eventfd.
    Descriptor(u64),
    /// POSIX timer of a process.
    Posix { owner: OwnerId, id: i32 },
    /// Interval timer of a process, set by `setitimer(ITIMER_REAL)` and `alarm`.
    Interval { owner: OwnerId },
}

impl Key {
    fn owner(self) -> Option<OwnerId> {
        match self {
            Self::Descriptor(_) => None,
            Self::Posix { owner, .. } | Self::Interval { owner } => Some(owner),
        }
    }
}

/// Flags for setting a timer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SetFlags {
    pub(crate) absolute: bool,
    pub(crate) cancel_on_set: bool,
    /// True if reads trap in the calling process, so that the image can report a set clock.
    pub(crate) reads_are_ours: bool,
}

/// All timers of a session.
pub(crate) struct Timers {
    clock: Arc<Clock>,
    owners: Owners,
    table: Mutex<Table>,
    changed: Condvar,
}

#[derive(Default)]
struct Table {
    timers: BTreeMap<Key, Timer>,
    closed: bool,
    /// Number of changes. When it changes, the waiting thread checks the timers again.
    version: u64,
    next_posix: i32,
    /// Hosts whose pages show an instant of a due signal.
    told: Vec<Arc<Host>>,
}

impl Timers {
    /// Creates an empty table of timers.
    ///
    /// # Errors
    /// Fails if this process may open no more files.
    pub(crate) fn new(clock: Arc<Clock>) -> Result<Self, GuestError> {
        Ok(Self {
            clock,
            owners: Owners::new()?,
            table: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Returns the process that has this identifier now, as owner of new timers.
    ///
    /// # Errors
    /// Fails if there is no such process, or if this process may open no more files.
    pub(crate) fn owner(&self, pid: i32) -> io::Result<Arc<Owner>> {
        self.owners.claim(pid)
    }

    /// Returns the process that has this identifier now, if it was recorded as an owner of timers.
    pub(crate) fn known_owner(&self, pid: i32) -> Option<Arc<Owner>> {
        self.owners.find(pid)
    }

    /// Creates a timerfd. Returns the file whose descriptor the guest gets.
    pub(crate) fn create_descriptor(
        &self,
        host: &Arc<Host>,
        clock: libc::clockid_t,
        nonblocking: bool,
    ) -> Result<File, GuestError> {
        let mut flags = EventfdFlags::CLOEXEC;
        flags.set(EventfdFlags::NONBLOCK, nonblocking);
        let made = eventfd(0, flags).map_err(GuestError::system("creating a timer"))?;
        let file = File::from(made);
        let id = eventfd_id("self", file.as_raw_fd()).ok_or_else(|| {
            GuestError::Unsupported("this kernel does not state the identity of an eventfd".into())
        })?;
        let for_guest = file
            .try_clone()
            .map_err(GuestError::system("duplicating a timer"))?;
        let mut table = self.lock();
        table.timers.insert(
            Key::Descriptor(id),
            Timer::new(Action::Count(file), host, clock),
        );
        // The check is frequent enough to bound memory, and rare enough to cost little.
        let are_many = table.timers.len() >= 64 && table.timers.len().is_power_of_two();
        drop(table);
        if are_many {
            self.forget_unheld();
        }
        Ok(for_guest)
    }

    /// Creates a POSIX timer. `notice` gets the timer's identifier and returns the signal to send,
    /// or `None` (SIGEV_NONE). Returns the identifier.
    pub(crate) fn create_posix(
        &self,
        owner: &Owner,
        host: &Arc<Host>,
        clock: libc::clockid_t,
        notice: impl FnOnce(i32) -> Option<Notice>,
    ) -> i32 {
        let mut table = self.lock();
        // The identifiers are far from the kernel's own, which belong to timers on CPU clocks.
        let id = FIRST_POSIX + table.next_posix;
        table.next_posix = (table.next_posix + 1) & 0x3fff_ffff;
        let action = notice(id).map_or(Action::Nothing, Action::Send);
        let key = owner.posix(id);
        // The records of an ended process are removed either before or after this, so none remains.
        if !owner.process.has_ended() {
            let timer = Timer::new(action, host, clock);
            table.timers.insert(key, timer);
        }
        id
    }

    /// Removes a timer. Returns true if it existed.
    pub(crate) fn delete(&self, key: Key) -> bool {
        self.lock().timers.remove(&key).is_some()
    }

    /// Applies the effect of an exec: the process's POSIX timers are removed, its interval timer
    /// stays.
    pub(crate) fn forget_posix(&self, pid: i32) {
        let Some(of) = self.known_owner(pid) else {
            return;
        };
        self.lock()
            .timers
            .retain(|key, _| !matches!(key, Key::Posix { owner, .. } if *owner == of.id));
    }

    /// Returns the key of the timerfd with this descriptor in a process; `None` if the session does
    /// not keep it.
    pub(crate) fn find_descriptor(&self, pid: i32, fd: i32) -> Option<Key> {
        let key = Key::Descriptor(eventfd_id(&pid.to_string(), fd)?);
        self.exists(key).then_some(key)
    }

    pub(crate) fn exists(&self, key: Key) -> bool {
        self.lock().timers.contains_key(&key)
    }

    /// Returns the number of expirations, beyond the first, that the last signal represented.
    pub(crate) fn overrun(&self, key: Key) -> i32 {
        let mut table = self.lock();
        let overrun = table.timers.get_mut(&key).map_or(0, Timer::overrun);
        table.tell_of_signals();
        overrun
    }

    /// Expires all timers that are due now, even if the serving thread is late.
    pub(crate) fn catch_up(&self) {
        self.lock().expire();
    }

    /// Returns the time until the next expiration, and the interval.
    pub(crate) fn get(&self, key: Key) -> Setting {
        match self.lock().timers.get(&key) {
            Some(timer) => Setting {
                interval_ns: timer.interval_ns,
                // The value is at least one, since zero would mean "disarmed".
                value_ns: timer
                    .due
                    .map_or(0, |due| due.left(&timer.host).as_ns().max(1)),
            },
            None => Setting::default(),
        }
    }

    /// Arms or disarms a timer, and discards expirations that were not read. If it returns
    /// [`Cancelled`], the clock was set, but the timer has been set nevertheless.
    pub(crate) fn set(&self, key: Key, setting: Setting, flags: SetFlags) -> Result<(), Cancelled> {
        let mut table = self.lock();
        let Some(timer) = table.timers.get_mut(&key) else {
            return Ok(());
        };
        if let Action::Count(file) = &timer.action {
            drain(file);
        }
        timer.begin_anew();
        timer.interval_ns = setting.interval_ns;
        timer.due = match setting.value_ns {
            0 => None,
            at if flags.absolute => Some(timer.absolute(at)),
            // Relative settings on CLOCK_REALTIME do not follow steps of the clock.
            after => Some(timer.shown(timer.host.now() + Duration::from_ns(after))),
        };
        let result = timer.prepare_cancel(flags);
        // The pages are updated before the setting returns, so that no wait ends without its
        // signal.
        table.tell_of_signals();
        drop(table);
        self.look_again();
        result
    }

    /// Makes the serving thread check the timers again, after a change of a host's clock.
    pub(crate) fn look_again(&self) {
        self.lock().version += 1;
        self.changed.notify_all();
        self.clock.wake();
    }

    /// Sets the interval timer of a process, which is created on first use.
    pub(crate) fn set_interval(&self, host: &Arc<Host>, owner: &Arc<Owner>, setting: Setting) {
        let key = owner.interval();
        let notice = Notice {
            owner: Arc::clone(owner),
            thread: None,
            signal: libc::SIGALRM,
            value: 0,
            timer: 0,
        };
        let mut table = self.lock();
        if owner.process.has_ended() {
            return;
        }
        table
            .timers
            .entry(key)
            .or_insert_with(|| Timer::new(Action::Send(notice), host, libc::CLOCK_MONOTONIC));
        drop(table);
        // An interval timer does not report that its clock was set.
        let _ = self.set(key, setting, SetFlags::default());
    }

    /// Ends [`Self::serve`] and [`Self::serve_ends`].
    pub(crate) fn close(&self) {
        self.owners.close();
        let mut table = self.lock();
        table.closed = true;
        table.tell_of_signals();
        drop(table);
        self.changed.notify_all();
        self.clock.wake();
    }

    /// Expires timers until [`Self::close`]. To be run in its own thread.
    pub(crate) fn serve(&self) {
        loop {
            let mut table = self.lock();
            if table.closed {
                return;
            }
            // The published instants are exactly those that this thread waits for, so no guest
            // waits for a signal in vain.
            table.tell_of_signals();
            let version = table.version;
            let timers = table.timers.values();
            let dues: Vec<HostDeadline> = timers.filter_map(|timer| timer.due).collect();
            drop(table);
            // The table is not locked here: threads that wait for the clock access it.
            let Some(next) = self.clock.first_of(dues) else {
                let mut table = self.lock();
                while !table.closed && table.version == version {
                    self.changed.wait(&mut table);
                }
                continue;
            };
            let reached = self.clock.wait_until(next, || {
                let table = self.lock();
                table.closed || table.version != version
            });
            if reached {
                self.lock().expire();
            }
        }
    }

    /// Removes the timers of processes that end, until [`Self::close`]. To be run in its own
    /// thread.
    ///
    /// # Errors
    /// Fails if this process may open no more files.
    pub(crate) fn serve_ends(&self) -> io::Result<()> {
        self.owners.serve(|ended| {
            let mut table = self.lock();
            table.timers.retain(|key, _| key.owner() != Some(ended));
        })
    }

    /// Returns the number of timers and the number of known processes.
    #[cfg(test)]
    fn sizes(&self) -> (usize, usize) {
        (self.lock().timers.len(), self.owners.count())
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }
}

impl Table {
    /// Expires all timers that are due. Timers with signals come first: when a program reads the
    /// expiration of a timerfd, the signals that were due by then have been sent.
    fn expire(&mut self) {
        let last: Vec<_> = self.timers.values().map(Timer::look).collect();
        for signals in [true, false] {
            for (timer, last) in self.timers.values_mut().zip(&last) {
                if let Some(last) = last
                    && timer.sends_signals() == signals
                {
                    timer.expire(*last);
                }
            }
        }
        self.tell_of_signals();
    }

    /// Publishes the instant at which the next signal is due on the page of each host.
    fn tell_of_signals(&mut self) {
        let never = |host: Arc<Host>| (host.index(), (host, Instant::FAR_FUTURE));
        let mut next: BTreeMap<_, _> = self.told.drain(..).map(never).collect();
        // After the close there is no such instant, since no signal will be sent.
        let all = self.timers.values().filter(|_| !self.closed);
        for timer in all.filter(|timer| timer.sends_signals()) {
            let Some(due) = timer.due else { continue };
            let (_, at) = next
                .entry(timer.host.index())
                .or_insert_with(|| (Arc::clone(&timer.host), Instant::FAR_FUTURE));
            *at = due.shown(&timer.host).min(*at);
        }
        for (host, at) in next.into_values() {
            host.page().page().set_next_signal(at);
            if at != Instant::FAR_FUTURE {
                self.told.push(host);
            }
        }
    }
}

/// First identifier of the POSIX timers that the session keeps.
pub(crate) const FIRST_POSIX: i32 = 0x4000_0000;

#[cfg(test)]
mod tests;
