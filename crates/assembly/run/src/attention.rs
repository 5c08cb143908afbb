//! What a run has still to see, or to do, before time may skip.
//!
//! A program's output, its getting ready and its end are events of the session, as a
//! packet is. They happen at the instant at which the program brought them about, so
//! time stands at that instant until the run has read the output, noticed that the
//! program is ready, and done what follows from either: a program started, the run
//! ended. (The ends of programs are the session's to watch.)

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::outputs::Output;
use crate::readiness::Condition;

/// May be cloned into every thread.
#[derive(Clone, Default)]
pub(crate) struct Attention(Arc<Shared>);

#[derive(Default)]
struct Shared {
    at_work: AtomicUsize,
    outputs: Mutex<Vec<Weak<Output>>>,
    conditions: Mutex<Vec<Weak<Condition>>>,
}

/// The run is at work for as long as this lives.
pub(crate) struct Work(Arc<Shared>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.at_work.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Attention {
    /// The run is about to do something at this instant.
    pub(crate) fn work(&self) -> Work {
        self.0.at_work.fetch_add(1, Ordering::SeqCst);
        Work(Arc::clone(&self.0))
    }

    /// Watches what a program prints, for as long as somebody keeps `output`.
    pub(crate) fn watch_output(&self, output: &Arc<Output>) {
        lock(&self.0.outputs).push(Arc::downgrade(output));
    }

    /// Watches for a program to become ready, for as long as somebody keeps `condition`.
    pub(crate) fn watch_condition(&self, condition: &Arc<Condition>) {
        lock(&self.0.conditions).push(Arc::downgrade(condition));
    }

    /// Whether the run has seen all there is to see, and done what follows from it.
    pub(crate) fn is_free(&self) -> bool {
        self.0.at_work.load(Ordering::SeqCst) == 0
            && none_of(&self.0.outputs, Output::has_unread)
            && none_of(&self.0.conditions, Condition::holds)
    }
}

/// Whether this is true of none of those that are still kept.
fn none_of<T>(list: &Mutex<Vec<Weak<T>>>, is_so: impl Fn(&T) -> bool) -> bool {
    let mut list = lock(list);
    list.retain(|one| one.strong_count() > 0);
    !list.iter().filter_map(Weak::upgrade).any(|one| is_so(&one))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
