//! Timers that call a function at instants of a timeline.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;

use timeloom_clock::TimelineTime;
use timeloom_time::{Duration, Instant};

use crate::error::WaitError;
use crate::timeline::Timeline;
use crate::wait::{Schedule, WaitResult};

/// Running timer; cancelled when it is dropped.
#[derive(Debug)]
pub struct Timer {
    cancel: Arc<Cancel>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Cancel {
    done: Mutex<bool>,
    changed: Condvar,
}

impl Timer {
    /// Calls `fire` at `first` and, if there is a period, at every whole period after that. The
    /// calls come from a thread of the timer, one after the other. If the timeline loses its
    /// interval, `fire` is called with the reason, and the timer ends.
    ///
    /// # Errors
    /// Fails if no thread can be created.
    pub fn start(
        timeline: Arc<Timeline>,
        first: Instant<TimelineTime>,
        period: Option<Duration>,
        mut fire: impl FnMut(Result<WaitResult, WaitError>) + Send + 'static,
    ) -> std::io::Result<Self> {
        let cancel = Arc::new(Cancel::default());
        let watched = Arc::clone(&cancel);
        let run = move || {
            let mut schedule = period.map(|period| Schedule::new(period, first));
            let mut next = Some(first);
            while let Some(target) = next {
                let woken = watched.wait(&timeline, target);
                let Some(woken) = woken else { return };
                let Ok(good) = woken else { return fire(woken) };
                fire(woken);
                next = schedule.as_mut().and_then(|schedule| {
                    schedule.last = Some(target);
                    let now = good.stamp.interval().map(|interval| interval.estimate());
                    schedule.next_after(now.unwrap_or(target))
                });
            }
        };
        let thread = std::thread::Builder::new()
            .name("timeline-timer".to_owned())
            .spawn(run)?;
        Ok(Self {
            cancel,
            thread: Some(thread),
        })
    }

    /// Cancels the timer. Waits until a call under way has returned, except when called from within
    /// that callback. Dropping the value does the same.
    pub fn cancel(self) {}
}

impl Cancel {
    /// Waits for the instant `target`; returns `None` if the timer was cancelled.
    fn wait(
        &self,
        timeline: &Timeline,
        target: Instant<TimelineTime>,
    ) -> Option<Result<WaitResult, WaitError>> {
        let done = || *self.done.lock();
        if done() {
            return None;
        }
        let woken = timeline.wait_until_unless(target, |length| {
            let mut done = self.done.lock();
            self.changed
                .wait_while_for(&mut done, |done| !*done, length);
            *done
        });
        if done() { None } else { woken }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let cancel = &self.cancel;
        *cancel.done.lock() = true;
        cancel.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}
