//! Timers in virtual time: timerfds, POSIX timers, interval timers.
//!
//! The supervisor keeps every deadline, on the clock of the timer's host, and
//! acts when it passes. So a pause needs no re-arming, and an expiry can never be early: it
//! is decided by reading the virtual clock.
//!
//! A guest that asks for a **timerfd** gets an eventfd: to `read`, `poll` and
//! `epoll` the two are alike (eight bytes, the number of expirations). It is
//! found again by its `eventfd-id` in /proc/PID/fdinfo, whatever number it was
//! duplicated to and whichever process it was passed to.
//!
//! A **POSIX timer** or **interval timer** sends its signal with the contents
//! that the kernel would have given it. While the signal of an earlier
//! expiration is still pending, expirations are counted as overruns. Such a timer is its
//! process's: it is never found by a number alone, and goes when the process ends
//! (`owners.rs`).
//!
//! The kernel sends such a signal at its instant. We do as soon as we wake. So each host's
//! page says when the next one is due: where a guest finds that instant passed, its waits
//! do not end, and it is not told what is pending, before the signal is sent (the image's
//! `wait.rs`). Who asks us about such a timer lets all expire first that are due.

mod cancel;
mod eventfd;
mod held;
mod leaving;
mod notice;
mod owners;
mod timer;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

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

/// An `itimerspec`, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) interval_ns: i64,
    pub(crate) value_ns: i64,
}

/// Which timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// A timerfd, by the identity of its eventfd.
    Descriptor(u64),
    /// A POSIX timer of a process.
    Posix { owner: OwnerId, id: i32 },
    /// `setitimer(ITIMER_REAL)` and `alarm` of a process.
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

/// How a timer is to be set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SetFlags {
    pub(crate) absolute: bool,
    pub(crate) cancel_on_set: bool,
    /// Its reader is one that can be told of it.
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
    /// Raised with every change, so that the waiting thread looks again.
    version: u64,
    next_posix: i32,
    /// The hosts whose pages say that a signal is due.
    told: Vec<Arc<Host>>,
}

impl Timers {
    /// # Errors
    /// When this process may open no more files.
    pub(crate) fn new(clock: Arc<Clock>) -> Result<Self, GuestError> {
        Ok(Self {
            clock,
            owners: Owners::new()?,
            table: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// The process that has this number now, to make timers for.
    ///
    /// # Errors
    /// When there is none, or when this process may open no more files.
    pub(crate) fn owner(&self, pid: i32) -> io::Result<Arc<Owner>> {
        self.owners.claim(pid)
    }

    /// The process that has this number now, if it may have timers.
    pub(crate) fn known_owner(&self, pid: i32) -> Option<Arc<Owner>> {
        self.owners.find(pid)
    }

    /// A new timerfd; the descriptor is for the guest.
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
            GuestError::Unsupported("this kernel does not tell an eventfd's identity".into())
        })?;
        let for_guest = file
            .try_clone()
            .map_err(GuestError::system("duplicating a timer"))?;
        let mut table = self.lock();
        table.timers.insert(
            Key::Descriptor(id),
            Timer::new(Action::Count(file), host, clock),
        );
        // Often enough that memory stays bounded, seldom enough not to matter.
        let are_many = table.timers.len() >= 64 && table.timers.len().is_power_of_two();
        drop(table);
        if are_many {
            self.forget_unheld();
        }
        Ok(for_guest)
    }

    /// A new POSIX timer. `notice` gets the timer's identifier and gives the
    /// signal to send, or none (SIGEV_NONE).
    pub(crate) fn create_posix(
        &self,
        owner: &Owner,
        host: &Arc<Host>,
        clock: libc::clockid_t,
        notice: impl FnOnce(i32) -> Option<Notice>,
    ) -> i32 {
        let mut table = self.lock();
        // Far from the kernel's own, which serve CPU-time clocks.
        let id = FIRST_POSIX + table.next_posix;
        table.next_posix = (table.next_posix + 1) & 0x3fff_ffff;
        let action = notice(id).map_or(Action::Nothing, Action::Send);
        let key = owner.posix(id);
        // Of one that has ended, all is forgotten before or after this.
        if !owner.process.has_ended() {
            let timer = Timer::new(action, host, clock);
            table.timers.insert(key, timer);
        }
        id
    }

    /// Removes a timer. Returns whether there was one.
    pub(crate) fn delete(&self, key: Key) -> bool {
        self.lock().timers.remove(&key).is_some()
    }

    /// What an exec does: POSIX timers are gone, an interval timer stays.
    pub(crate) fn forget_posix(&self, pid: i32) {
        let Some(of) = self.known_owner(pid) else {
            return;
        };
        self.lock()
            .timers
            .retain(|key, _| !matches!(key, Key::Posix { owner, .. } if *owner == of.id));
    }

    /// Whether this descriptor of that process is a timer of ours.
    pub(crate) fn find_descriptor(&self, pid: i32, fd: i32) -> Option<Key> {
        let key = Key::Descriptor(eventfd_id(&pid.to_string(), fd)?);
        self.exists(key).then_some(key)
    }

    pub(crate) fn exists(&self, key: Key) -> bool {
        self.lock().timers.contains_key(&key)
    }

    /// Expirations that the last signal stood for, beyond the first.
    pub(crate) fn overrun(&self, key: Key) -> i32 {
        let mut table = self.lock();
        let overrun = table.timers.get_mut(&key).map_or(0, Timer::overrun);
        table.tell_of_signals();
        overrun
    }

    /// Lets all expire that are due, however late the thread is that does so.
    pub(crate) fn catch_up(&self) {
        self.lock().expire();
    }

    /// What is left until the next expiry, and the interval.
    pub(crate) fn get(&self, key: Key) -> Setting {
        match self.lock().timers.get(&key) {
            Some(timer) => Setting {
                interval_ns: timer.interval_ns,
                // Zero would mean "disarmed".
                value_ns: timer
                    .due
                    .map_or(0, |due| due.left(&timer.host).as_ns().max(1)),
            },
            None => Setting::default(),
        }
    }

    /// Arms or disarms; forgets expirations that were not read. All the same it may
    /// have to tell that the clock was set.
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
            // Relative settings of CLOCK_REALTIME do not follow its steps.
            after => Some(timer.shown(timer.host.now() + Duration::from_ns(after))),
        };
        let result = timer.prepare_cancel(flags);
        // Before it is known to be set, so that no wait ends without its signal.
        table.tell_of_signals();
        drop(table);
        self.look_again();
        result
    }

    /// A host's clock goes otherwise than before.
    pub(crate) fn look_again(&self) {
        self.lock().version += 1;
        self.changed.notify_all();
        self.clock.wake();
    }

    /// The interval timer of a process, made on first use.
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
        // No interval timer is told that the clock was set.
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

    /// Lets timers expire until [`Self::close`]. To be run in a thread.
    pub(crate) fn serve(&self) {
        loop {
            let mut table = self.lock();
            if table.closed {
                return;
            }
            // What is told is what is waited for: so no guest waits for a signal in vain.
            table.tell_of_signals();
            let version = table.version;
            let timers = table.timers.values();
            let dues: Vec<HostDeadline> = timers.filter_map(|timer| timer.due).collect();
            drop(table);
            // Not with the table locked: who waits for the clock looks at it.
            let Some(next) = self.clock.first_of(dues) else {
                let mut table = self.lock();
                while !table.closed && table.version == version {
                    table = self.changed.wait(table).unwrap_or_else(|e| e.into_inner());
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

    /// Forgets the timers of processes that end, until [`Self::close`]. To be run in a
    /// thread.
    ///
    /// # Errors
    /// When this process may open no more files.
    pub(crate) fn serve_ends(&self) -> io::Result<()> {
        self.owners.serve(|ended| {
            let mut table = self.lock();
            table.timers.retain(|key, _| key.owner() != Some(ended));
        })
    }

    /// How many timers and processes are known.
    #[cfg(test)]
    fn sizes(&self) -> (usize, usize) {
        (self.lock().timers.len(), self.owners.count())
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Table {
    /// Lets all expire that are due. Signals first: who reads of a timerfd's expiration
    /// finds those sent that were due by then.
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

    /// Says on the pages of the hosts when the next signal is due.
    fn tell_of_signals(&mut self) {
        let never = |host: Arc<Host>| (host.index(), (host, Instant::FAR_FUTURE));
        let mut next: BTreeMap<_, _> = self.told.drain(..).map(never).collect();
        // Of nothing, where nobody will send it.
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

/// The identifiers of our POSIX timers begin here.
pub(crate) const FIRST_POSIX: i32 = 0x4000_0000;

#[cfg(test)]
mod tests;
