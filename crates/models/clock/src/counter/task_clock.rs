//! Clock of one task.

use super::Age;

/// A task's RVEC. Its base is not a cycle count but the *age of the core* at the dispatch. So when
/// that core changes frequency only the core's own record is updated; the paper keeps two levels of
/// records just to avoid an update that cascades over all tasks (section 3.1, Figure 6).
///
/// The time is execution time: it is stopped while the task waits for a core. Because each stay on
/// a core is measured by that core alone, the cores' ages need not agree, and migration cannot step
/// the clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskClock {
    /// The core's age when the task was dispatched; `None` off the core.
    base: Option<Age>,
    age_time: Age,
}

impl TaskClock {
    /// Returns the clock of a task that has not run yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts the task on a core that now has this age.
    pub fn handle_dispatch(&mut self, core: Age) {
        self.handle_preempt(core);
        self.base = Some(core);
    }

    /// Stops the task on its core, which now has this age.
    pub fn handle_preempt(&mut self, core: Age) {
        self.age_time = self.read(core);
        self.base = None;
    }

    /// Returns the task's time; `core` is the current age of the core it runs on, and is ignored
    /// while it runs on none.
    pub fn read(&self, core: Age) -> Age {
        match self.base {
            Some(base) => self.age_time + (core - base),
            None => self.age_time,
        }
    }
}
