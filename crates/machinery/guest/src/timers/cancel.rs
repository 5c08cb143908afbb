//! `TFD_TIMER_CANCEL_ON_SET`, by which a timerfd reports to its reader that CLOCK_REALTIME was set.
//!
//! The behaviour is that of the kernel (`fs/timerfd.c`: `might_cancel`, `moffs`), including its
//! peculiarities. A clock that was set and set back before the next check counts as set. A clock
//! that is set back to its value at the timer's last check does not count as set. If there was no
//! read, the next setting of the timer fails too, but takes effect nevertheless.
//!
//! A `read` of an eventfd cannot fail with ECANCELED. So the supervisor writes [`CLOCK_WAS_SET`]
//! into it. In a process that has such timers the image handles reads; when it reads that number,
//! it asks the supervisor.

use std::io::Write;

use timeloom_abi::CLOCK_WAS_SET;

use super::eventfd::drain;
use super::timer::{Action, Timer};
use super::{Key, SetFlags, Timers};
use crate::clock::Host;
use crate::linux::descriptor::is_readable;

/// Error ECANCELED: the clock was set since the timer was last read or set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cancelled;

/// State of a timer for the report that its clock was set.
pub(super) struct Cancel {
    /// True if the timer is to report this (`might_cancel` in the kernel).
    is_wanted: bool,
    /// True if reads of the process trap, so that [`CLOCK_WAS_SET`] informs the reader. Otherwise
    /// an expiration does.
    reads_are_ours: bool,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC at the timer's last check, in nanoseconds (`moffs` in
    /// the kernel). `None` if the clock was set since.
    ahead_ns: Option<i64>,
    /// True if the timer has expired since the clock was set, or has an earlier expiration that was
    /// not read.
    has_expired: bool,
}

impl Timers {
    /// Handles a possible step of a host's CLOCK_REALTIME or CLOCK_TAI.
    pub(crate) fn clock_was_set(&self, host: &Host) {
        let mut table = self.lock();
        for timer in table.timers.values_mut() {
            if timer.host.index() == host.index() {
                timer.clock_was_set();
            }
        }
        table.tell_of_signals();
        drop(table);
        self.look_again();
    }

    /// Records that a program has read [`CLOCK_WAS_SET`] from this timerfd.
    pub(crate) fn was_told(&self, key: Key) {
        if let Some(timer) = self.lock().timers.get_mut(&key) {
            timer.cancel.ahead_ns = Some(ahead_ns(&timer.host));
            // A periodic timer continues when its expiration is read. That will never happen for
            // this one, so it continues here.
            if std::mem::take(&mut timer.cancel.has_expired) && timer.interval_ns > 0 {
                timer.due = None;
            }
        }
        self.look_again();
    }
}

impl Timer {
    /// Updates this state when the timer is set.
    pub(super) fn prepare_cancel(&mut self, flags: SetFlags) -> Result<(), Cancelled> {
        let is_wanted = flags.cancel_on_set && flags.absolute && self.is_on_realtime();
        self.cancel.is_wanted = is_wanted;
        self.cancel.reads_are_ours = flags.reads_are_ours;
        self.cancel.has_expired = false;
        if !is_wanted || self.due.is_none() || self.cancel.ahead_ns.is_some() {
            return Ok(());
        }
        self.cancel.ahead_ns = Some(ahead_ns(&self.host));
        Err(Cancelled)
    }

    fn clock_was_set(&mut self) {
        let Action::Count(file) = &self.action else {
            return;
        };
        let ahead_ns = ahead_ns(&self.host);
        if !self.cancel.is_wanted || self.cancel.ahead_ns.is_none_or(|last| last == ahead_ns) {
            return;
        }
        if !self.cancel.reads_are_ours {
            self.cancel.ahead_ns = Some(ahead_ns);
            let _ = { file }.write(&1u64.to_ne_bytes());
            return;
        }
        self.cancel.ahead_ns = None;
        self.cancel.has_expired = is_readable(file);
        drain(file);
        let _ = { file }.write(&CLOCK_WAS_SET.to_ne_bytes());
    }

    /// Returns true if a step of the clock is still to be reported.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_wanted && self.cancel.ahead_ns.is_none()
    }

    /// Returns true if the timer was set to report steps of its clock.
    pub(super) fn cancels_on_set(&self) -> bool {
        self.cancel.is_wanted
    }
}

impl Cancel {
    pub(super) fn new(host: &Host) -> Self {
        Self {
            is_wanted: false,
            reads_are_ours: false,
            ahead_ns: Some(ahead_ns(host)),
            has_expired: false,
        }
    }

    /// Records an expiration. Returns true if it will not be read, since a read first reports that
    /// the clock was set.
    pub(super) fn notes_expiry(&mut self) -> bool {
        let is_cancelled = self.is_wanted && self.ahead_ns.is_none();
        self.has_expired |= is_cancelled;
        is_cancelled
    }
}

fn ahead_ns(host: &Host) -> i64 {
    host.offset_ns(libc::CLOCK_REALTIME)
}
