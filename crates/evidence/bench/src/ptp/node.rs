//! A program of `timeloom ptp` in a laboratory, with a record of what it does.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use timeloom_ptp::{ClockReport, PtpPacket, Stamp};
use timeloom_ptp_io::lab::LabChain;
use timeloom_ptp_io::{DriverCounters, Observer, ProgramControl, ProgramOptions, PtpError};
use timeloom_sys::clock::realtime_ns;
use timeloom_sys::schedule::{SchedulingPolicy, set_policy};
use timeloom_wire::{EthernetFrame, Header, MessageType};

use crate::BenchError;

/// An event in a program.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A Sync or Follow_Up was sent or received; times are in ns of CLOCK_REALTIME.
    Passed {
        kind: MessageType,
        sequence: u16,
        sent: bool,
        octets: usize,
        stamp_ns: i64,
    },
    /// A grandmaster sent a Sync; the time is the start of that iteration of its event loop.
    Begun { sequence: u16, at_ns: i64 },
    /// A slave measured its offset.
    Offset { offset_ns: f64, authenticated: bool },
}

/// Events of a program, and its other results.
pub(super) struct Record {
    pub(super) events: Vec<Event>,
    /// Number of violations by reason. Any violation means that the benchmark itself is broken.
    pub(super) failures: BTreeMap<String, u64>,
    /// True if the program's event loop ran with real-time priority (SCHED_FIFO).
    pub(super) fifo: bool,
}

/// A running program on a thread of its own.
pub(super) struct Node {
    wake: ProgramControl,
    thread: JoinHandle<(bool, Result<DriverCounters, PtpError>)>,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Node {
    /// Opens `program` at `place` of the laboratory, and runs it on a new thread.
    pub(super) fn start(
        stage: &LabChain,
        place: usize,
        program: ProgramOptions,
    ) -> Result<Self, BenchError> {
        let wake = ProgramControl::new().map_err(BenchError::system("opening a socket pair"))?;
        let events = Arc::<Mutex<Vec<Event>>>::default();
        let watcher = Watcher {
            events: events.clone(),
            is_grandmaster: place == 0,
            begun_ns: 0,
        };
        let program = stage
            .open(place, program, wake.clone(), Box::new(watcher))
            .map_err(failed)?;
        let thread = spawn(move || (first_in_line(), program.run()));
        Ok(Self {
            wake,
            thread,
            events,
        })
    }

    /// Ends the program, and returns its record.
    pub(super) fn finish(self) -> Result<Record, BenchError> {
        self.wake.stop();
        let died = |_| BenchError::Worker("a clock's thread died".to_owned());
        let (fifo, counters) = self.thread.join().map_err(died)?;
        let mut events = self.events.lock();
        Ok(Record {
            events: std::mem::take(&mut *events),
            failures: counters.map_err(failed)?.failures,
            fifo,
        })
    }
}

pub(super) fn failed(error: PtpError) -> BenchError {
    BenchError::Worker(error.to_string())
}

/// Records the actions of a program's event loop.
struct Watcher {
    events: Arc<Mutex<Vec<Event>>>,
    is_grandmaster: bool,
    begun_ns: i64,
}

impl Watcher {
    fn push(&self, event: Event) {
        // No other thread locks this mutex before the program has ended.
        let mut events = self.events.lock();
        events.push(event);
    }

    fn passed(&self, message: &[u8], sent: bool, stamp: Stamp) -> Option<MessageType> {
        let (header, _) = Header::parse(message).ok()?;
        let kind = header.message_type;
        if matches!(kind, MessageType::Sync | MessageType::FollowUp) {
            self.push(Event::Passed {
                kind,
                sequence: header.sequence_id,
                sent,
                octets: message.len(),
                stamp_ns: stamp.as_ns(),
            });
        }
        Some(kind)
    }
}

impl Observer for Watcher {
    fn woken(&mut self) {
        self.begun_ns = realtime_ns();
    }

    fn sent(&mut self, _port: u16, packet: &PtpPacket) {
        if let Ok((header, _)) = Header::parse(&packet.bytes)
            && self.is_grandmaster
            && header.message_type == MessageType::Sync
        {
            self.push(Event::Begun {
                sequence: header.sequence_id,
                at_ns: self.begun_ns,
            });
        }
    }

    fn received(&mut self, _port: u16, packet: &PtpPacket, stamp: Option<Stamp>) {
        if let Some(stamp) = stamp {
            self.passed(&packet.bytes, false, stamp);
        }
    }

    fn departed(&mut self, _port: u16, frame: &[u8], stamp: Stamp) {
        let frame = EthernetFrame::parse(frame).ok();
        let Some(message) = frame.and_then(|frame| frame.ptp().ok()) else {
            return;
        };
        let kind = self.passed(message, true, stamp);
        if self.is_grandmaster && kind == Some(MessageType::Sync) {
            sleep(FOLLOW_UP_AFTER);
        }
    }

    fn report(&mut self, report: &ClockReport) {
        if let ClockReport::Offset {
            offset,
            authenticated,
            ..
        } = report
        {
            self.push(Event::Offset {
                offset_ns: offset.as_ns_f64(),
                authenticated: *authenticated,
            });
        }
    }
}

/// Delay between the timestamp of a Sync and the grandmaster's processing, which makes and sends
/// the Follow_Up. In reality each clock is a machine of its own; here the clocks share processors.
/// Without the delay, an unsigned Follow_Up would arrive while the transparent clock still handles
/// the Sync, and a signed one later. In addition, the grandmaster would sign on one processor
/// (perhaps half of the same core) while the transparent clock handles the Sync on the other.
const FOLLOW_UP_AFTER: Duration = Duration::from_millis(1);

/// Gives the calling thread the policy SCHED_FIFO, as is usual for a clock's event thread;
/// otherwise the figures depend on other load. Returns false if that is not permitted.
fn first_in_line() -> bool {
    set_policy(SchedulingPolicy::First(10)).is_ok()
}
