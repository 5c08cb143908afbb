//! The clock of one task.

use super::Age;

/// A task's RVEC. Its base is not a cycle count but the *age of the core* it was
/// dispatched on. So when that core changes frequency only the core's own record
/// is updated; the paper keeps two levels of records just to avoid an update
/// that cascades over all tasks (section 3.1, Figure 6).
///
/// The time is time of execution: it stands while the task waits for a core.
/// Because each stay on a core is measured by that core alone, the cores' ages
/// need not agree, and migration cannot step the clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskClock {
    /// The core's age when the task was dispatched; `None` off the core.
    base: Option<Age>,
    age_time: Age,
}

impl TaskClock {
    /// A task that has not run yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The task begins to run on a core that now has this age.
    pub fn handle_dispatch(&mut self, core: Age) {
        self.handle_preempt(core);
        self.base = Some(core);
    }

    /// The task stops running on its core, which now has this age.
    pub fn handle_preempt(&mut self, core: Age) {
        self.age_time = self.read(core);
        self.base = None;
    }

    /// The task's time; `core` is the present age of the core it runs on, and
    /// without effect while it runs on none.
    pub fn read(&self, core: Age) -> Age {
        match self.base {
            Some(base) => self.age_time + (core - base),
            None => self.age_time,
        }
    }
}
