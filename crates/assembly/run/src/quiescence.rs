//! Pending work of a run that must be done before time may skip.
//!
//! A program's output, readiness and exit are events of the session, like packets. They happen at
//! the virtual instant at which the program caused them. Time therefore stays at that instant until
//! the run has read the output, has noticed that the program is ready, and has acted on it, for
//! example by starting the next program or by ending the run. (The session itself watches for the
//! exits of programs.)

use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use timeloom_guest::ComponentText;
use timeloom_sys::readable::{Pending, Readable};

use crate::error::RunError;
use crate::outputs::Output;
use crate::readiness::Condition;

/// Shared handle; may be cloned into every thread.
#[derive(Clone)]
pub(crate) struct Quiescence(Arc<Shared>);

struct Shared {
    at_work: AtomicUsize,
    outputs: Mutex<Readable<Output>>,
    conditions: Mutex<Vec<Weak<Condition>>>,
}

/// Guard that marks the run as busy for as long as the guard lives.
pub(crate) struct Work(Arc<Shared>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.at_work.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Quiescence {
    /// Creates the handle for a run.
    ///
    /// # Errors
    /// Fails if no descriptor is left.
    pub(crate) fn new() -> Result<Self, RunError> {
        let outputs = Readable::new()
            .map_err(|error| RunError::Start(format!("watching outputs: {error}")))?;
        Ok(Self(Arc::new(Shared {
            at_work: AtomicUsize::new(0),
            outputs: Mutex::new(outputs),
            conditions: Mutex::default(),
        })))
    }

    /// Marks the run as busy, and time as bound to the current instant, until the guard is dropped.
    pub(crate) fn work(&self) -> Work {
        self.0.at_work.fetch_add(1, Ordering::SeqCst);
        Work(Arc::clone(&self.0))
    }

    /// Keeps time from skipping over unread output of a program, for as long as `output` is alive,
    /// and while some of it is being written to the log.
    ///
    /// # Errors
    /// Fails if the kernel has no memory for this.
    pub(crate) fn watch_output(&self, output: &Arc<Output>) -> Result<(), RunError> {
        output.keep_busy_while_reading(self);
        let name = output.name();
        lock(&self.0.outputs)
            .add(output)
            .map_err(|error| RunError::Start(format!("watching the output of `{name}`: {error}")))
    }

    /// Keeps time from skipping while a program is becoming ready, for as long as `condition` is
    /// alive.
    pub(crate) fn watch_condition(&self, condition: &Arc<Condition>) {
        lock(&self.0.conditions).push(Arc::downgrade(condition));
    }

    /// Returns the reasons for which time must not skip.
    pub(crate) fn awaited(&self) -> Vec<ComponentText> {
        let part = |component: String, state: &str| ComponentText {
            component,
            state: state.to_owned(),
            since_ns: None,
        };
        let mut parts = Vec::new();
        if self.0.at_work.load(Ordering::SeqCst) > 0 {
            let state = "acts on an event at this instant, such as the start of a program";
            parts.push(part("the run".to_owned(), state));
        }
        let outputs = lock(&self.0.outputs).alive().into_iter();
        let unread = outputs.filter(|output| output.has_unread());
        parts.extend(unread.map(|output| {
            let component = format!("output of `{}`", output.name());
            part(component, "has not been read to its end yet")
        }));
        if !none_of(&self.0.conditions, Condition::holds) {
            let state = "has become ready, and the run has not acted on that yet";
            parts.push(part("a program".to_owned(), state));
        }
        parts
    }

    /// Returns true if the run has noticed all events and has completed the actions that follow
    /// from them.
    pub(crate) fn is_free(&self) -> bool {
        let unread = |output: &Output| match output.has_unread() {
            true => Pending::Yes,
            false => Pending::No,
        };
        // The number comes last: a thread that acts on an event has increased it before the event
        // disappears here.
        !lock(&self.0.outputs).is_pending(unread)
            && none_of(&self.0.conditions, Condition::holds)
            && self.0.at_work.load(Ordering::SeqCst) == 0
    }
}

/// Returns true if `is_so` holds for none of the entries that are still alive. Removes dead
/// entries.
fn none_of<T>(list: &Mutex<Vec<Weak<T>>>, is_so: impl Fn(&T) -> bool) -> bool {
    let mut list = lock(list);
    list.retain(|one| one.strong_count() > 0);
    !list.iter().filter_map(Weak::upgrade).any(|one| is_so(&one))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
