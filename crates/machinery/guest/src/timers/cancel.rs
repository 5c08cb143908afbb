//! `TFD_TIMER_CANCEL_ON_SET`: a timerfd tells its reader that CLOCK_REALTIME was set.
//!
//! As the kernel does it (`fs/timerfd.c`: `might_cancel`, `moffs`), oddities
//! included: a clock that was set and set back before anybody looked was set; one
//! that is set back to where it was when the timer last looked was not; the next
//! setting of the timer fails too if nobody has read, and is in force all the same.
//!
//! A `read` of an eventfd cannot fail with ECANCELED. So [`CLOCK_WAS_SET`] is put
//! into it, and the image, to which reads come in a process that has such timers,
//! asks when it meets that number.

use std::io::Write;

use timeloom_page::CLOCK_WAS_SET;

use super::eventfd::drain;
use super::timer::{Action, Timer};
use super::{Key, SetFlags, Timers};
use crate::clock::Host;
use crate::linux::descriptor::is_readable;

/// The clock was set since the timer was last read or set: ECANCELED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cancelled;

/// What a timer knows of its clock being set.
pub(super) struct Cancel {
    /// `might_cancel`: it is to tell.
    is_wanted: bool,
    /// Its reader can be told by [`CLOCK_WAS_SET`]; else by an expiration.
    reads_are_ours: bool,
    /// `moffs`: CLOCK_REALTIME less CLOCK_MONOTONIC when it last looked; `None`
    /// when the clock was set since.
    ahead_ns: Option<i64>,
    /// It has expired since, or before and nobody has read that.
    has_expired: bool,
}

impl Timers {
    /// CLOCK_REALTIME of a host was set, or TAI, or nothing much.
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

    /// [`CLOCK_WAS_SET`] was read from this descriptor.
    pub(crate) fn was_told(&self, key: Key) {
        if let Some(timer) = self.lock().timers.get_mut(&key) {
            timer.cancel.ahead_ns = Some(ahead_ns(&timer.host));
            // A periodic timer goes on when its expiration is read, which now
            // nobody ever will.
            if std::mem::take(&mut timer.cancel.has_expired) && timer.interval_ns > 0 {
                timer.due = None;
            }
        }
        self.look_again();
    }
}

impl Timer {
    /// The timer was just set.
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

    /// Whether somebody is still to be told that the clock was set.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_wanted && self.cancel.ahead_ns.is_none()
    }

    /// Whether it tells when the clock is set.
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

    /// The timer expires. Returns whether nobody will read that, since who reads
    /// is told first that the clock was set.
    pub(super) fn notes_expiry(&mut self) -> bool {
        let is_cancelled = self.is_wanted && self.ahead_ns.is_none();
        self.has_expired |= is_cancelled;
        is_cancelled
    }
}

fn ahead_ns(host: &Host) -> i64 {
    host.offset_ns(libc::CLOCK_REALTIME)
}
