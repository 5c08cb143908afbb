//! Wired line without a network, as in the paper: each machine pauses at the edge that it detects.
//!
//! The machines agree on nothing. A machine's clock stops some time after the edge, when its thread
//! runs. The kernel's timestamp of the edge tells how long this delay was, and the clock continues
//! later than the releasing edge by the same delay. The clock is therefore stopped for exactly as
//! long as the line was high according to the timestamps, and the delays of the paper's handlers do
//! not add up. The virtual instant of a pause differs between machines by these delays.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::io;
use std::sync::Arc;

use timeloom_time::{Dilation, Duration, Instant, Virtual, Wall};

use super::line::{LineEvent, LineFault, LineSettings};
use super::monitor::{LineListener, LineMonitor};
use super::pins::Pins;
use crate::agreed::{AgreedTestbed, LocalResumption};
use crate::testbed::TestbedError;
use crate::wire::{Cause, HaltReason, MachineWire, Wire, wait_or};

/// This machine's end of a wired line without a network.
pub struct StandaloneWire {
    shared: Arc<Shared>,
    monitor: LineMonitor,
}

struct Shared {
    testbed: Arc<dyn AgreedTestbed>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    drives: bool,
    high: bool,
    /// Virtual instant of the pause, and the delay of the stop after the edge; `None` while the
    /// clock runs.
    stands: Option<(Instant<Virtual>, Duration)>,
    /// Wall time from which on the line is low although this machine drives it.
    fell: Option<Instant<Wall>>,
    /// Time for which the line was low while this machine was paused. The other machines ran during
    /// this time.
    owed: Duration,
    /// Virtual time and wall time at which the clock last continued.
    runs: Option<(Instant<Virtual>, Instant<Wall>)>,
    failed: Option<String>,
}

impl State {
    fn halted(&self) -> Option<HaltReason> {
        self.failed.clone().map(HaltReason::Line)
    }
}

impl StandaloneWire {
    /// Pauses the testbed at virtual time zero, and drives the line until [`Self::let_go`]. Virtual
    /// time begins on all machines when the last one has released the line.
    ///
    /// # Errors
    /// Fails if the pins cannot be used, or if `testbed` cannot be paused.
    pub fn start(
        pins: Arc<dyn Pins>,
        settings: LineSettings,
        testbed: Arc<dyn AgreedTestbed>,
    ) -> io::Result<Self> {
        testbed.stand(Instant::ZERO).map_err(io::Error::other)?;
        let shared = Arc::new(Shared {
            testbed,
            state: Mutex::new(State {
                drives: true,
                stands: Some((Instant::ZERO, Duration::ZERO)),
                ..State::default()
            }),
            changed: Condvar::new(),
        });
        let receiver: Arc<dyn LineListener> = Arc::clone(&shared) as _;
        let monitor = LineMonitor::start(pins, settings, receiver)?;
        monitor.drive(true)?;
        Ok(Self { shared, monitor })
    }

    /// Releases the line for the first time, so that virtual time may begin.
    ///
    /// # Errors
    /// Fails if the output cannot be set.
    pub fn let_go(&self) -> io::Result<()> {
        self.shared.lets_go();
        self.monitor.drive(false)
    }
}

impl MachineWire for StandaloneWire {
    fn wait_for_start_or(&self, give_up: &dyn Fn() -> bool) -> Result<bool, HaltReason> {
        let over = |state: &State| state.runs.is_some() || state.failed.is_some();
        let shared = &self.shared;
        let state = wait_or(&shared.changed, shared.lock(), over, give_up);
        state.halted().map_or(Ok(over(&state)), Err)
    }

    fn halted(&self) -> Option<HaltReason> {
        self.shared.lock().halted()
    }

    fn end(&self) {
        self.monitor.end();
        // If the line cannot be released now, it is released when the pins are closed.
        let _ = self.monitor.drive(false);
    }
}

impl Wire for StandaloneWire {
    /// Drives the line, and returns when this machine is paused. The state of the other machines is
    /// unknown.
    fn raise(&self, _: Cause<'_>) -> Result<Instant<Virtual>, TestbedError> {
        self.shared.lock().drives = true;
        if let Err(error) = self.monitor.drive(true) {
            // This machine must not hold the line after a failure. The holds of others end when
            // they release the line.
            self.shared.lets_go();
            let _ = self.monitor.drive(false);
            return Err(failed(error));
        }
        let state = self
            .shared
            .wait(|state| (state.high && state.stands.is_some()) || state.failed.is_some());
        match (state.halted(), state.stands) {
            (Some(halted), _) => Err(halted.into()),
            (None, Some((at, _))) => Ok(at),
            (None, None) => unreachable!("waited for one of both"),
        }
    }

    fn lower(&self, _: Cause<'_>, _: Instant<Virtual>) -> Result<(), TestbedError> {
        self.shared.lets_go();
        self.monitor.drive(false).map_err(failed)
    }
}

fn failed(error: io::Error) -> TestbedError {
    TestbedError::new(format!("the output of the line: {error}"))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn wait(&self, over: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        self.changed.wait_while(&mut state, |state| !over(state));
        state
    }

    fn lets_go(&self) {
        let mut state = self.lock();
        state.drives = false;
        // The line has fallen before, while this machine had a hold, so no machine drives it any
        // more.
        if let Some(fell) = state.fell.take() {
            self.resume(&mut state, fell);
        }
    }

    fn stand(&self, state: &mut State, edge: Instant<Wall>) {
        let stand = || {
            self.testbed.hold_alone()?;
            let at = self.testbed.close(Duration::ZERO, None)?;
            self.testbed.stand(at)?;
            Ok::<_, TestbedError>(at)
        };
        match stand() {
            Ok(at) => {
                // Wall time at which the clock would have reached that instant by itself.
                let there = state.runs.map(|(from, since)| since + (at - from));
                let after = there.map_or(Duration::ZERO, |there| there - edge);
                state.stands = Some((at, after));
            }
            Err(error) => self.fail(state, error.to_string()),
        }
    }

    fn resume(&self, state: &mut State, edge: Instant<Wall>) {
        let Some((at, after)) = state.stands.take() else {
            return;
        };
        let since = edge + after - std::mem::take(&mut state.owed);
        state.runs = Some((at, since));
        let resumption = LocalResumption {
            from: at,
            at: since,
            dilation: Dilation::ONE,
            until: Instant::FAR_FUTURE,
        };
        if let Err(error) = self.testbed.resume(resumption) {
            self.fail(state, error.to_string());
        }
    }

    fn fail(&self, state: &mut State, why: String) {
        if state.failed.is_none() {
            self.testbed.halt();
            state.failed = Some(why);
        }
    }
}

impl LineListener for Shared {
    fn handle_event(&self, event: LineEvent) {
        let mut state = self.lock();
        if state.failed.is_some() {
            return;
        }
        match event {
            LineEvent::Rose(at) => {
                state.high = true;
                if state.stands.is_none() {
                    self.stand(&mut state, at);
                } else if let Some(fell) = state.fell.take() {
                    // The other machines ran while the line was low.
                    state.owed += at - fell;
                }
            }
            LineEvent::Fell(at) => {
                state.high = false;
                match state.drives {
                    true => state.fell = Some(at),
                    false => self.resume(&mut state, at),
                }
            }
            // A hold may last long, and it is unknown which machine drives the line.
            LineEvent::Fault(LineFault::StuckHigh) | LineEvent::Sound => {}
            LineEvent::Fault(fault) => {
                let why = format!(
                    "{fault}: without a network the length of the others' pauses is unknown, and \
                     this clock is invalid from now on"
                );
                self.fail(&mut state, why);
            }
        }
        self.changed.notify_all();
    }

    fn broke(&self, error: io::Error) {
        let mut state = self.lock();
        self.fail(&mut state, format!("the inputs of the line: {error}"));
        self.changed.notify_all();
    }
}
