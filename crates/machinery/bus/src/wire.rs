//! Wires, which carry the level of the bus to the testbed and to other machines.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;

use timeloom_agreement::HaltCause;
use timeloom_sys::wall_now;
use timeloom_time::{Dilation, Instant, Virtual};

use crate::record::{HoldRecorder, RecordKind};
use crate::testbed::{Testbed, TestbedError};

/// Requester and reason of the hold whose beginning or end causes an edge.
#[derive(Clone, Copy, Debug)]
pub struct Cause<'a> {
    /// Name of the requester.
    pub requester: &'a str,
    /// Reason that the requester gave.
    pub reason: &'a str,
}

/// One machine's end of the wired-OR line.
///
/// The bus combines the holds of its own machine to one level and drives the wire with it. The wire
/// combines that level with those of the other machines, and commands this machine's testbed. Only
/// the wire knows when the level of the whole *line* changes, so the wire records `pause` and
/// `resume`.
///
/// - [`LocalWire`] has no other machines, so driving it commands the testbed.
/// - [`crate::StandaloneWire`] sets its output pin, as in the paper's Figure 5. It commands the
///   testbed at the edges of its input pins, including those that its own output causes.
/// - [`crate::Udp`] agrees with its peers on an instant that no clock has passed, and returns when
///   all are paused at that instant. [`crate::NetworkedWire`] has such a line beside its pins.
///
/// `raise` and `lower` are called in turn, `raise` first, and never at the same time. Calls may
/// come from any thread. A requester on another machine uses the bus and the wire of that machine,
/// never this one.
pub trait Wire: Send + Sync {
    /// Drives the line high. Returns when everything on the line is paused, with the virtual
    /// instant of the pause. If another machine drives the line already, this is the instant of the
    /// pause that is in force.
    ///
    /// # Errors
    /// Fails if the line cannot be driven or the pause fails. The line is then not driven by this
    /// machine.
    fn raise(&self, cause: Cause<'_>) -> Result<Instant<Virtual>, TestbedError>;

    /// Stops driving the line. The testbed resumes when no machine drives the line any more.
    ///
    /// # Errors
    /// Fails if the testbed could not be resumed. Its state is then unknown.
    fn lower(&self, cause: Cause<'_>, frozen: Instant<Virtual>) -> Result<(), TestbedError>;

    /// Returns the line as one whose clocks stop by themselves; `None` if they do not.
    fn stopping(&self) -> Option<&dyn StoppingWire> {
        None
    }

    /// Returns the line as one over which machines agree on the dilation; `None` if they do not.
    fn agreed(&self) -> Option<&dyn AgreedWire> {
        None
    }
}

/// Line whose clocks stop by themselves at a given instant.
pub trait StoppingWire {
    /// Requests that no clock on the line passes `at` until [`Self::postpone_stop`]. This machine
    /// must hold the present pause, and `at` must be after it. If several machines request a stop,
    /// the earliest counts. At the instant the clocks stop, and go on only when this machine has
    /// replaced its request.
    ///
    /// # Errors
    /// Fails if this machine does not hold the pause, or if `at` is not after it.
    fn stop_at(&self, at: Instant<Virtual>) -> Result<(), TestbedError>;

    /// Replaces the request of [`Self::stop_at`] by one for a later instant, or, with
    /// [`Instant::FAR_FUTURE`], withdraws it. Has an effect from the end of the next pause on.
    fn postpone_stop(&self, to: Instant<Virtual>);
}

/// Line whose machines agree on the dilation.
pub trait AgreedWire {
    /// Requests that everything on the line resumes with this dilation from the present pause,
    /// which this machine must hold. If several machines request one, the greatest counts.
    ///
    /// # Errors
    /// Fails if this machine does not hold the pause, or if the line is not connected yet.
    fn dilate(&self, dilation: Dilation) -> Result<(), TestbedError>;

    /// Waits until the pause at the virtual instant `pause` has ended on this machine, for at most
    /// `most` of wall time. Returns the dilation from its end on; `None` if it has not ended then.
    ///
    /// # Errors
    /// Fails if the run has stopped permanently meanwhile.
    fn wait_for_end_of(
        &self,
        pause: Instant<Virtual>,
        most: Duration,
    ) -> Result<Option<Dilation>, TestbedError>;
}

/// Reason why a run on several machines has stopped permanently.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HaltReason {
    /// The machines could not agree any more, or agreed to stop.
    #[error("{words}")]
    Agreement {
        /// Reason that one of the machines found.
        why: HaltCause,
        /// Text that states the reason, with the names of the hosts.
        words: String,
    },
    /// A line without a network, or its testbed, did not execute a command.
    #[error("{0}")]
    Line(String),
}

impl From<HaltReason> for TestbedError {
    fn from(halted: HaltReason) -> Self {
        Self::new(halted.to_string())
    }
}

/// One machine's end of a line that joins machines, with functions for the beginning and the end of
/// a run.
pub trait MachineWire: Wire {
    /// Waits until virtual time starts.
    ///
    /// # Errors
    /// Fails if the run has stopped permanently before.
    fn wait_for_start(&self) -> Result<(), HaltReason> {
        self.wait_for_start_or(&|| false).map(drop)
    }

    /// Waits until virtual time starts or `give_up` returns true. `give_up` is called several times
    /// a second. Returns false if the wait was given up.
    /// # Errors
    /// Returns an error if the run has stopped permanently before that.
    fn wait_for_start_or(&self, give_up: &dyn Fn() -> bool) -> Result<bool, HaltReason>;

    /// Holds the line from the beginning, so that virtual time does not start before
    /// [`Self::release_start`]. Waits until all machines are present, or `give_up` returns true.
    /// Returns false if the wait was given up; the line is not held then.
    ///
    /// # Errors
    /// Fails if the run has stopped permanently before, or if the line does not connect machines
    /// by a network.
    fn hold_start_or(&self, _give_up: &dyn Fn() -> bool) -> Result<bool, HaltReason> {
        Err(HaltReason::Line(
            "the start of time cannot be held on a line without a network".to_owned(),
        ))
    }

    /// Ends what [`Self::hold_start_or`] has begun: virtual time starts when no machine has a hold.
    fn release_start(&self) {}

    /// Returns the reason if the run has stopped permanently; `None` otherwise.
    fn halted(&self) -> Option<HaltReason>;

    /// Ends this machine's participation in the line.
    fn end(&self);

    /// Returns the other machines that a pause in progress waits for, as far as they are known.
    fn awaited(&self) -> Vec<AwaitedMachine> {
        Vec::new()
    }
}

/// Machine that a pause waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedMachine {
    /// Name of the machine.
    pub name: String,
    /// Reason, as a predicate.
    pub state: &'static str,
}

/// Waits until `over` or `give_up` returns true. `over` is called after each notification of
/// `changed`; `give_up` is polled, because nothing announces a change of its result.
pub(crate) fn wait_or<'a, S>(
    changed: &Condvar,
    mut state: MutexGuard<'a, S>,
    over: impl Fn(&S) -> bool,
    give_up: &dyn Fn() -> bool,
) -> MutexGuard<'a, S> {
    while !over(&state) && !give_up() {
        changed.wait_for(&mut state, LOOK_EVERY);
    }
    state
}

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Wire of a single machine, whose level is that of the whole line.
pub struct LocalWire {
    testbed: Arc<dyn Testbed>,
    recorder: Arc<HoldRecorder>,
    /// Requested stop; [`Instant::FAR_FUTURE`] if there is none.
    stop: Mutex<Instant<Virtual>>,
}

impl LocalWire {
    /// Creates a wire that commands `testbed` only.
    pub fn new(testbed: Arc<dyn Testbed>, recorder: Arc<HoldRecorder>) -> Self {
        Self {
            testbed,
            recorder,
            stop: Mutex::new(Instant::FAR_FUTURE),
        }
    }
}

impl Wire for LocalWire {
    fn raise(&self, cause: Cause<'_>) -> Result<Instant<Virtual>, TestbedError> {
        let began = wall_now();
        let frozen = self.testbed.pause()?;
        let stood = wall_now();
        self.recorder.write(
            RecordKind::Pause,
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
        let until = *self.stop.lock();
        self.testbed.resume(until)?;
        let ran = wall_now();
        self.recorder.write(
            RecordKind::Resume,
            frozen,
            ran,
            ran - began,
            cause.requester,
            cause.reason,
        );
        Ok(())
    }

    fn stopping(&self) -> Option<&dyn StoppingWire> {
        Some(self)
    }
}

impl StoppingWire for LocalWire {
    fn stop_at(&self, at: Instant<Virtual>) -> Result<(), TestbedError> {
        *self.stop.lock() = at;
        Ok(())
    }

    fn postpone_stop(&self, to: Instant<Virtual>) {
        let mut stop = self.stop.lock();
        *stop = to.max(*stop);
    }
}
