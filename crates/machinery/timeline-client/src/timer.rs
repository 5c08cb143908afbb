//! Timers with a callback.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use timeloom_clock::Timeline as Scale;
use timeloom_time::{Duration, Instant};

use crate::error::WaitError;
use crate::timeline::Timeline;
use crate::wait::{Schedule, Woken};

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
    /// Calls `fire` at `first` and, with a period, at every whole period after that; in a thread of
    /// its own, one call after the other. If the timeline is lost, `fire` gets the reason, and the
    /// timer has ended.
    ///
    /// # Errors
    /// Fails if no thread can be created.
    pub fn start(
        timeline: Arc<Timeline>,
        first: Instant<Scale>,
        period: Option<Duration>,
        mut fire: impl FnMut(Result<Woken, WaitError>) + Send + 'static,
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

    /// Cancels the timer and waits until a call under way has ended; from within its own callback
    /// without waiting. Dropping does the same.
    pub fn cancel(self) {}
}

impl Cancel {
    /// Waits for `target`; returns `None` if cancelled.
    fn wait(
        &self,
        timeline: &Timeline,
        target: Instant<Scale>,
    ) -> Option<Result<Woken, WaitError>> {
        let done = || *self.done.lock().unwrap_or_else(PoisonError::into_inner);
        if done() {
            return None;
        }
        let woken = timeline.wait_until_unless(target, |length| {
            let guard = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self
                .changed
                .wait_timeout_while(guard, length, |done| !*done);
            *waited.unwrap_or_else(PoisonError::into_inner).0
        });
        if done() { None } else { woken }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let cancel = &self.cancel;
        *cancel.done.lock().unwrap_or_else(PoisonError::into_inner) = true;
        cancel.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}
