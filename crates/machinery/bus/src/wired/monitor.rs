//! Thread that listens to a wired line, and the handle that drives the line.

use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration as StdDuration;

use timeloom_sys::wall_now;

use super::line::{LineEvent, LineSettings, LineState};
use super::pins::Pins;

/// State of the wire as known by the network beside it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NetworkView {
    /// True if another machine reports that it drives the wire; `None` without a network.
    pub(super) others: Option<bool>,
    /// Present if a pause has ended since the last call; true if the wire was driven for that
    /// pause.
    pub(super) ended: Option<bool>,
}

/// Receiver of a line's events. Its functions are called in the listening thread.
pub(super) trait LineListener: Send + Sync + 'static {
    /// Handles one event of the line.
    fn handle_event(&self, event: LineEvent);

    /// Handles a failure of the pins. No more events follow.
    fn broke(&self, error: io::Error);

    /// Returns the reports of the network beside the wire.
    fn network_view(&self) -> NetworkView {
        NetworkView::default()
    }
}

/// Drives a line and listens to it, until the value is dropped.
pub(super) struct LineMonitor(Arc<Shared>);

struct Shared {
    pins: Arc<dyn Pins>,
    line: Mutex<LineState>,
    ended: AtomicBool,
}

impl LineMonitor {
    /// Starts a thread that reports the line's events to `receiver`.
    pub(super) fn start(
        pins: Arc<dyn Pins>,
        settings: LineSettings,
        receiver: Arc<dyn LineListener>,
    ) -> io::Result<Self> {
        let line = LineState::new(settings, pins.levels()?, wall_now());
        let shared = Arc::new(Shared {
            pins,
            line: Mutex::new(line),
            ended: AtomicBool::new(false),
        });
        let its = Arc::clone(&shared);
        thread::Builder::new()
            .name("bus-line".to_owned())
            .spawn(move || {
                while !its.ended.load(Ordering::SeqCst) {
                    if let Err(error) = its.turn(&*receiver) {
                        return receiver.broke(error);
                    }
                }
            })?;
        Ok(Self(shared))
    }

    /// Drives the line high, or releases it.
    pub(super) fn drive(&self, high: bool) -> io::Result<()> {
        self.0.lock().drive(high, wall_now());
        self.0.pins.drive(high)
    }

    /// Ends the listening thread.
    pub(super) fn end(&self) {
        self.0.ended.store(true, Ordering::SeqCst);
    }
}

impl Drop for LineMonitor {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, LineState> {
        self.line.lock()
    }

    fn turn(&self, receiver: &dyn LineListener) -> io::Result<()> {
        let due = self.lock().next_wake();
        let left = (due - wall_now()).as_ns().clamp(0, LONGEST_NS);
        match self.pins.next_edge(StdDuration::from_nanos(left as u64))? {
            Some(edge) => self.lock().edge(edge),
            // A reading is conclusive only if no edge is left unread.
            None if wall_now() >= due => {
                let view = receiver.network_view();
                // The edges of a pause that has ended by now may have arrived meanwhile.
                while let Some(edge) = self.pins.next_edge(StdDuration::ZERO)? {
                    self.lock().edge(edge);
                }
                let levels = self.pins.levels()?;
                let mut line = self.lock();
                if let Some(others) = view.others {
                    line.others_drive(others);
                }
                if let Some(driven) = view.ended {
                    line.pause_ended(driven);
                }
                line.look(levels, wall_now());
            }
            None => {}
        }
        loop {
            let event = self.lock().poll_event();
            match event {
                Some(event) => receiver.handle_event(event),
                None => return Ok(()),
            }
        }
    }
}

/// Longest wait for an edge, in nanoseconds. If this machine begins or stops driving the line, the
/// next reading may be due sooner.
const LONGEST_NS: i64 = 10_000_000;
