//! State of one timer, and its expirations.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use timeloom_abi::PageTime;
use timeloom_time::{Duration, Instant};

use crate::clock::{Host, HostDeadline, HostInstant};
use crate::linux::processes::SignalState;

use super::cancel::Cancel;
use super::notice::Notice;

/// Effect of a timer's expiration.
#[derive(Debug)]
pub(super) enum Action {
    Count(File),
    Send(Notice),
    Nothing,
}

/// Timer that runs by the clock of its host.
pub(super) struct Timer {
    pub(super) action: Action,
    pub(super) host: Arc<Host>,
    /// Clock of absolute settings, CLOCK_*.
    pub(super) clock: libc::clockid_t,
    /// Deadline; `None` if disarmed. An absolute setting on CLOCK_REALTIME follows steps of that
    /// clock.
    pub(super) due: Option<HostDeadline>,
    pub(super) interval_ns: i64,
    /// Result of `timer_getoverrun`: the number of expirations, beyond the first, that the last
    /// delivered signal represented.
    overrun: i64,
    /// Last signal that was sent; `None` once it is known to have been delivered.
    sent: Option<Sent>,
    /// State for the report that CLOCK_REALTIME was set.
    pub(super) cancel: Cancel,
}

/// Signal that was sent and may still be pending.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Number of expirations, beyond the first, that the signal represents.
    overrun: i64,
    /// True if the signal was seen pending. Until it is delivered, it represents further
    /// expirations too.
    was_pending: bool,
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
            sent: None,
            cancel: Cancel::new(host),
        }
    }

    pub(super) fn is_on_realtime(&self) -> bool {
        matches!(
            self.clock,
            libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_ALARM
        )
    }

    pub(super) fn sends_signals(&self) -> bool {
        matches!(self.action, Action::Send(_))
    }

    /// Returns the deadline at which the timer's clock shows `ns` nanoseconds.
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

    /// Returns the deadline at which the page of the timer's host shows `at`.
    pub(super) fn shown(&self, at: Instant<PageTime>) -> HostDeadline {
        let host = self.host.index();
        HostInstant { host, at }.into()
    }

    /// Discards the expirations and signals of the timer until now.
    pub(super) fn begin_anew(&mut self) {
        self.overrun = 0;
        self.sent = None;
    }

    /// Returns the state of the timer's last signal if the timer is due; otherwise `None`.
    pub(super) fn look(&self) -> Option<SignalState> {
        let is_due = self
            .due
            .is_some_and(|due| due.left(&self.host) <= Duration::ZERO);
        is_due.then(|| match &self.action {
            Action::Send(notice) => notice.state(),
            _ => SignalState::default(),
        })
    }

    /// Expires the timer, which must be due. `last` is the result of [`Self::look`]. That is called
    /// for all timers before any of them expires, since two may send the same signal.
    pub(super) fn expire(&mut self, last: SignalState) {
        let expirations = self.take_expirations();
        if expirations == 0 {
            return;
        }
        match &self.action {
            Action::Nothing => {}
            Action::Count(_) if self.cancel.notes_expiry() => {}
            Action::Count(file) => {
                // The write fails if the counter is full because the guest does not read. It then
                // saturates, as a timerfd's does.
                let _ = { file }.write(&(expirations as u64).to_ne_bytes());
            }
            Action::Send(notice) => {
                if let Some(sent) = &mut self.sent
                    && last.is_pending
                {
                    sent.overrun = sent.overrun.saturating_add(expirations);
                    sent.was_pending = true;
                    return;
                }
                let missed = match self.sent.take() {
                    // The signal was delivered between two of these expirations, at an unknown
                    // point.
                    Some(sent) if sent.was_pending => {
                        self.overrun = sent.overrun.saturating_add(expirations - 1);
                        0
                    }
                    Some(sent) => {
                        self.overrun = sent.overrun;
                        expirations - 1
                    }
                    None => expirations - 1,
                };
                // The kernel discards an ignored signal, unless a thread waits for it
                // (`sigwaitinfo`, as the C library does for SIGEV_THREAD). `status` does not show
                // such a wait, so the signal is sent in any case.
                notice.send(as_kernel_counts(missed));
                self.sent = (!last.is_ignored).then_some(Sent {
                    overrun: missed,
                    was_pending: false,
                });
            }
        }
    }

    /// Returns the result of `timer_getoverrun`. If the timer's signal was delivered since the last
    /// check, the result includes the expirations until the delivery.
    pub(super) fn overrun(&mut self) -> i32 {
        // Expirations belong to an outstanding signal as long as that is pending. Counting them now
        // is exact; once the signal is delivered, the instant of the delivery is unknown.
        if let Some(last) = self.look()
            && (self.sent.is_none() || last.is_pending)
        {
            self.expire(last);
        }
        if let (Some(sent), Action::Send(notice)) = (self.sent, &self.action)
            && !notice.state().is_pending
        {
            self.sent = None;
            let until_taken = if sent.was_pending {
                self.take_expirations()
            } else {
                0
            };
            self.overrun = sent.overrun.saturating_add(until_taken);
        }
        as_kernel_counts(self.overrun)
    }

    /// Returns the number of expirations since the last call, by the timer's clock. The deadline is
    /// in the future afterwards.
    fn take_expirations(&mut self) -> i64 {
        let Some(due) = self.due else { return 0 };
        let late_ns = (-due.left(&self.host)).as_ns();
        if late_ns < 0 {
            return 0;
        }
        self.due = None;
        if self.interval_ns <= 0 {
            return 1;
        }
        let expirations = late_ns / self.interval_ns + 1;
        let passed = self.interval_ns.saturating_mul(expirations);
        self.due = Some(due.later(Duration::from_ns(passed)));
        expirations
    }
}

/// Limits a count of overruns to DELAYTIMER_MAX, the kernel's maximum.
fn as_kernel_counts(overrun: i64) -> i32 {
    i32::try_from(overrun).unwrap_or(i32::MAX)
}
