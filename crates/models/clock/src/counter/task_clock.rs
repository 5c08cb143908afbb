//! Clock of one task, which counts execution time.

use super::Age;

/// RVEC clock of a task. Its base is not a cycle count but the *age of the core* when the task was
/// dispatched. A frequency change of the core therefore updates only the core's own record. (The
/// paper has two levels of records for the same reason: to avoid updates of all tasks; section 3.1,
/// Figure 6.)
///
/// The clock counts execution time: it is stopped while the task waits for a core. Each period on a
/// core is measured by that core alone, so the ages of different cores need not agree, and a
/// migration cannot step the clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskClock {
    /// Age of the core when the task was dispatched; `None` while the task is not running.
    base: Option<Age>,
    age_time: Age,
}

impl TaskClock {
    /// Returns the clock of a task that has not run yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts the task on a core whose age is now `core`.
    pub fn handle_dispatch(&mut self, core: Age) {
        self.handle_preempt(core);
        self.base = Some(core);
    }

    /// Stops the task on its core, whose age is now `core`.
    pub fn handle_preempt(&mut self, core: Age) {
        self.age_time = self.read(core);
        self.base = None;
    }

    /// Returns the task's execution time. `core` is the present age of the core on which the task
    /// runs; it is ignored while the task is not running.
    pub fn read(&self, core: Age) -> Age {
        match self.base {
            Some(base) => self.age_time + (core - base),
            None => self.age_time,
        }
    }
}
