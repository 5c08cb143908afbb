//! Programs that are ready, on all nodes of a run.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

/// Names of the programs that are ready. Programs with an `after` condition wait for them.
#[derive(Default)]
pub(crate) struct ReadyBoard {
    ready: Mutex<Vec<String>>,
    changed: Condvar,
    /// Callback that notifies other machines of programs that are ready on this machine.
    tell: OnceLock<Tell>,
}

/// Callback with the name of a program that is ready.
type Tell = Box<dyn Fn(&str) + Send + Sync>;

impl ReadyBoard {
    /// Records that a program of this machine is ready, and notifies the other machines.
    pub(crate) fn announce(&self, name: &str) {
        self.hear(name);
        if let Some(tell) = self.tell.get() {
            tell(name);
        }
    }

    /// Records that a program is ready, on this machine or on another.
    pub(crate) fn hear(&self, name: &str) {
        self.lock().push(name.to_owned());
        self.changed.notify_all();
    }

    /// Sets the callback that notifies other machines of programs that become ready here from now
    /// on.
    pub(crate) fn tell(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        // Set only once, because a run has one connection to the other machines.
        let _ = self.tell.set(Box::new(tell));
    }

    /// Waits until all of `names` are ready. Returns false if the run ended before.
    pub(crate) fn wait_for(&self, names: &[String], over: &AtomicBool) -> bool {
        let mut ready = self.lock();
        while !names.iter().all(|name| ready.contains(name)) {
            if over.load(Ordering::SeqCst) {
                return false;
            }
            self.changed.wait_for(&mut ready, LOOK_EVERY);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.ready.lock()
    }
}

/// Interval at which a waiting program looks for the end of the run.
const LOOK_EVERY: StdDuration = StdDuration::from_millis(10);
