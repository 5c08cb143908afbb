//! One timer: when it is due, and what it does then.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use timeloom_page::Shown;
use timeloom_time::{Duration, Instant};

use crate::clock::{Host, HostDeadline, HostInstant};
use crate::linux::processes;

use super::cancel::Cancel;
use super::notice::Notice;

/// What an expiration does.
#[derive(Debug)]
pub(super) enum Action {
    Count(File),
    Send(Notice),
    Nothing,
}

/// A timer, on the clock of its host.
pub(super) struct Timer {
    pub(super) action: Action,
    pub(super) host: Arc<Host>,
    /// CLOCK_*, for absolute settings.
    pub(super) clock: libc::clockid_t,
    /// An absolute setting of CLOCK_REALTIME follows its steps.
    pub(super) due: Option<HostDeadline>,
    pub(super) interval_ns: i64,
    /// Expirations since the last signal, beyond the one it was sent for.
    pub(super) overrun: i32,
    /// Whether its reader is told when CLOCK_REALTIME is set.
    pub(super) cancel: Cancel,
}

impl Timer {
    pub(super) fn new(action: Action, host: &Arc<Host>, clock: libc::clockid_t) -> Self {
        Self {
            action,
            host: Arc::clone(host),
            clock,
            due: None,
            interval_ns: 0,
            overrun: 0,
            cancel: Cancel::new(host),
        }
    }

    pub(super) fn is_on_realtime(&self) -> bool {
        matches!(
            self.clock,
            libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_ALARM
        )
    }

    /// When its clock shows `ns`.
    pub(super) fn absolute(&self, ns: i64) -> HostDeadline {
        let host = self.host.index();
        if self.is_on_realtime() {
            let at = Instant::from_ns(ns);
            return HostDeadline::Realtime(HostInstant { host, at });
        }
        match self.clock {
            libc::CLOCK_TAI => {
                let at = Instant::from_ns(ns);
                HostDeadline::Tai(HostInstant { host, at })
            }
            other => {
                let shown_ns = ns.saturating_sub(self.host.offset_ns(other));
                self.shown(Instant::from_ns(shown_ns))
            }
        }
    }

    /// When its host's page shows this.
    pub(super) fn shown(&self, at: Instant<Shown>) -> HostDeadline {
        let host = self.host.index();
        HostInstant { host, at }.into()
    }

    /// Acts if it is due. Returns whether its owner still exists.
    pub(super) fn expire(&mut self) -> bool {
        let Some(due) = self.due else { return true };
        let late_ns = (-due.left(&self.host)).as_ns();
        if late_ns < 0 {
            return true;
        }
        let mut expirations = 1i64;
        self.due = None;
        if self.interval_ns > 0 {
            let missed = late_ns / self.interval_ns;
            expirations += missed;
            let passed = self.interval_ns.saturating_mul(missed + 1);
            self.due = Some(due.later(Duration::from_ns(passed)));
        }
        match &self.action {
            Action::Nothing => true,
            Action::Count(_) if self.cancel.notes_expiry() => true,
            Action::Count(file) => {
                // Full (nobody reads): the count saturates, as a timerfd's does.
                let _ = { file }.write(&(expirations as u64).to_ne_bytes());
                true
            }
            Action::Send(notice)
                if processes::is_pending(notice.thread.unwrap_or(notice.pid), notice.signal) =>
            {
                self.overrun = self
                    .overrun
                    .saturating_add(expirations.min(i32::MAX as i64) as i32);
                true
            }
            Action::Send(notice) => {
                self.overrun = (expirations - 1).min(i32::MAX as i64) as i32;
                notice.send(self.overrun)
            }
        }
    }
}
