//! Reach of the level.

use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::time::Duration;

use timeloom_accord::Why;
use timeloom_sys::wall_now;
use timeloom_time::{Instant, Virtual};

use crate::record::{Action, Recorder};
use crate::testbed::{Testbed, TestbedError};

/// Hold or release that makes an edge.
#[derive(Clone, Copy, Debug)]
pub struct Cause<'a> {
    /// Name of the requester.
    pub requester: &'a str,
    /// Purpose of the hold.
    pub reason: &'a str,
}

/// End of the wired-OR line on one machine.
///
/// The bus combines the holds of its own machine into one level and drives the wire with it; the
/// wire combines that with the levels of the other machines and commands this machine's testbed.
/// Only the wire knows when the *line* rises or falls, so the wire records `pause` and `resume`.
///
/// - [`Local`] has no other machines: driving it commands the testbed.
/// - [`crate::Alone`] sets its output pin, as in the paper's Figure 5, and commands the testbed
///   from the edges of its input pins, including those of its own output.
/// - [`crate::Udp`] agrees with its peers on an instant that no clock has passed, and returns when
///   all are paused there; [`crate::Wired`] has such a line beside that.
///
/// Calls alternate, `raise` first, and never overlap. They may come from any thread. A requester on
/// another machine reaches the testbed through its own bus and wire, never through this one.
pub trait Wire: Send + Sync {
    /// Drives the line high. Returns when everything on it is paused, with the common frozen
    /// instant; if another machine had pulled it already, that is the instant of the pause under
    /// way.
    ///
    /// # Errors
    /// Fails if that cannot be done; the line is then not driven by this machine.
    fn raise(&self, cause: Cause<'_>) -> Result<Instant<Virtual>, TestbedError>;

    /// Stops driving the line. The testbed continues when no machine drives it.
    ///
    /// # Errors
    /// Fails if the testbed could not be resumed; its state is then unknown.
    fn lower(&self, cause: Cause<'_>, frozen: Instant<Virtual>) -> Result<(), TestbedError>;
}

/// Reason why a run over a line that joins machines has stopped permanently.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halted {
    /// The machines could not agree any more, or agreed to stop.
    #[error("{words}")]
    Agreement {
        /// Reason found by one of them.
        why: Why,
        /// The reason as text, with the names of the hosts.
        words: String,
    },
    /// A line without a network, or its testbed, does not obey.
    #[error("{0}")]
    Line(String),
}

impl From<Halted> for TestbedError {
    fn from(halted: Halted) -> Self {
        Self::new(halted.to_string())
    }
}

/// End, on one machine, of a line that joins machines, with the beginning and the end of a run
/// over it.
pub trait MachineWire: Wire {
    /// Waits until time starts.
    ///
    /// # Errors
    /// Fails if the run has stopped before.
    fn wait_for_start(&self) -> Result<(), Halted> {
        self.wait_for_start_or(&|| false).map(drop)
    }

    /// Waits until time starts, or `give_up` returns true. `give_up` is called several times a
    /// second. Returns false if the wait was given up.
    ///
    /// # Errors
    /// Fails if the run has stopped before.
    fn wait_for_start_or(&self, give_up: &dyn Fn() -> bool) -> Result<bool, Halted>;

    /// Returns the reason if the run has stopped permanently.
    fn halted(&self) -> Option<Halted>;

    /// Ends participation.
    fn end(&self);
}

/// Waits until `over` returns true, or until `give_up` does. No notification announces the latter,
/// so it is polled.
pub(crate) fn wait_or<'a, S>(
    changed: &Condvar,
    mut state: MutexGuard<'a, S>,
    over: impl Fn(&S) -> bool,
    give_up: &dyn Fn() -> bool,
) -> MutexGuard<'a, S> {
    while !over(&state) && !give_up() {
        let waited = changed.wait_timeout(state, LOOK_EVERY);
        (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
    }
    state
}

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Wire of a single machine: its level is the line's.
pub struct Local {
    testbed: Arc<dyn Testbed>,
    recorder: Arc<Recorder>,
}

impl Local {
    /// Creates a wire that ends at `testbed`.
    pub fn new(testbed: Arc<dyn Testbed>, recorder: Arc<Recorder>) -> Self {
        Self { testbed, recorder }
    }
}

impl Wire for Local {
    fn raise(&self, cause: Cause<'_>) -> Result<Instant<Virtual>, TestbedError> {
        let began = wall_now();
        let frozen = self.testbed.pause()?;
        let stood = wall_now();
        self.recorder.write(
            Action::Pause,
            frozen,
            stood,
            stood - began,
            cause.requester,
            cause.reason,
        );
        Ok(frozen)
    }

    fn lower(&self, cause: Cause<'_>, frozen: Instant<Virtual>) -> Result<(), TestbedError> {
        let began = wall_now();
        self.testbed.resume()?;
        let ran = wall_now();
        self.recorder.write(
            Action::Resume,
            frozen,
            ran,
            ran - began,
            cause.requester,
            cause.reason,
        );
        Ok(())
    }
}
