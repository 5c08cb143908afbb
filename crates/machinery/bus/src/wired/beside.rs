//! Wired line beside a network: the wire carries the level, and datagrams carry the instants.
//!
//! A line that is high counts as one more hold. Machines that are connected by the wire alone are
//! therefore included, and an edge makes this machine close its clock before a datagram arrives.
//! The instants of pause and resume are agreed over the network, as without a wire. Missing or
//! additional edges are therefore detected, reported and counted, and do not make any clock wrong.

use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use timeloom_time::{Instant, Virtual};

use super::line::{LineEvent, LineFault, LineSettings};
use super::monitor::{LineListener, LineMonitor, NetworkView};
use super::pins::Pins;
use crate::agreed::Udp;
use crate::testbed::TestbedError;
use crate::wire::{AgreedWire, AwaitedMachine, Cause, HaltReason, MachineWire, StoppingWire, Wire};

/// This machine's end of a wired line that has a network beside it.
pub struct NetworkedWire {
    receiver: Arc<LineReceiver>,
    monitor: LineMonitor,
    udp: Udp,
}

/// Function that receives the description of a fault.
pub type FaultCallback = Box<dyn Fn(&str) + Send + Sync>;

struct LineReceiver {
    udp: Udp,
    warn: FaultCallback,
    state: Mutex<Level>,
    faults: AtomicU64,
}

#[derive(Default)]
struct Level {
    high: bool,
    /// Fault because of which the level of the wire is ignored at present.
    fault: Option<LineFault>,
}

impl NetworkedWire {
    /// Starts to listen to the wire. Faults are reported to `warn`.
    ///
    /// # Errors
    /// Fails if the pins cannot be used.
    pub fn start(
        udp: Udp,
        pins: Arc<dyn Pins>,
        settings: LineSettings,
        warn: FaultCallback,
    ) -> io::Result<Self> {
        let receiver = Arc::new(LineReceiver {
            udp: udp.handle(),
            warn,
            state: Mutex::default(),
            faults: AtomicU64::new(0),
        });
        let listener: Arc<dyn LineListener> = Arc::clone(&receiver) as _;
        let monitor = LineMonitor::start(pins, settings, listener)?;
        Ok(Self {
            receiver,
            monitor,
            udp,
        })
    }

    /// Returns the number of faults until now.
    pub fn faults(&self) -> u64 {
        self.receiver.faults.load(Ordering::Relaxed)
    }
}

impl MachineWire for NetworkedWire {
    fn wait_for_start_or(&self, give_up: &dyn Fn() -> bool) -> Result<bool, HaltReason> {
        self.udp.wait_for_start_or(give_up)
    }

    fn hold_start_or(&self, give_up: &dyn Fn() -> bool) -> Result<bool, HaltReason> {
        self.udp.hold_start_or(give_up)
    }

    fn release_start(&self) {
        self.udp.release_start();
    }

    fn halted(&self) -> Option<HaltReason> {
        self.udp.halted()
    }

    fn end(&self) {
        self.monitor.end();
        // If the line cannot be released now, it is released when the pins are closed.
        let _ = self.monitor.drive(false);
        self.udp.end();
    }

    fn awaited(&self) -> Vec<AwaitedMachine> {
        self.udp.awaited()
    }
}

impl Wire for NetworkedWire {
    fn raise(&self, cause: Cause<'_>) -> Result<Instant<Virtual>, TestbedError> {
        // The wire is driven first, because it is faster than the network.
        self.udp.will_drive(true);
        if let Err(error) = self.monitor.drive(true) {
            self.receiver
                .tell(&format!("cannot set the output: {error}"));
        }
        self.udp.raise(cause)
    }

    fn lower(&self, cause: Cause<'_>, frozen: Instant<Virtual>) -> Result<(), TestbedError> {
        if let Err(error) = self.monitor.drive(false) {
            self.receiver
                .tell(&format!("cannot set the output: {error}"));
        }
        self.udp.will_drive(false);
        self.udp.lower(cause, frozen)
    }

    fn stopping(&self) -> Option<&dyn StoppingWire> {
        self.udp.stopping()
    }

    fn agreed(&self) -> Option<&dyn AgreedWire> {
        self.udp.agreed()
    }
}

impl LineReceiver {
    fn lock(&self) -> MutexGuard<'_, Level> {
        self.state.lock()
    }

    fn tell(&self, text: &str) {
        let number = self.faults.fetch_add(1, Ordering::Relaxed) + 1;
        (self.warn)(&format!("the pause line, fault {number}: {text}"));
    }
}

impl LineListener for LineReceiver {
    fn handle_event(&self, event: LineEvent) {
        let mut state = self.lock();
        match event {
            LineEvent::Rose(_) => state.high = true,
            LineEvent::Fell(_) => state.high = false,
            LineEvent::Sound => state.fault = None,
            LineEvent::Fault(fault) if fault.lasts() => state.fault = Some(fault),
            LineEvent::Fault(_) => {}
        }
        let counts = state.high && state.fault.is_none();
        drop(state);
        // This is reported before the wire ceases to count as a hold, because a machine that stops
        // for this fault must not continue first.
        if event == LineEvent::Fault(LineFault::StuckHigh) {
            self.udp.line_is_stuck();
        }
        self.udp.line_is(counts);
        match event {
            LineEvent::Fault(fault) if fault.lasts() => self.tell(&format!(
                "{fault}; its level is ignored until the fault ends"
            )),
            LineEvent::Fault(fault) => self.tell(&fault.to_string()),
            LineEvent::Sound => (self.warn)("the pause line works again"),
            LineEvent::Rose(_) | LineEvent::Fell(_) => {}
        }
    }

    fn broke(&self, error: io::Error) {
        self.udp.line_is(false);
        self.tell(&format!(
            "cannot read the inputs: {error}; only the network is used from now on"
        ));
    }

    fn network_view(&self) -> NetworkView {
        let (others, ended) = self.udp.of_the_line();
        NetworkView { others, ended }
    }
}
