//! Conversion of events to rows of the results.

use parking_lot::Mutex;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use timeloom_bus::{HoldRecord, RecordKind, Sink};
use timeloom_guest::{ChangeKind, Clock, HostChange, HostTimeState};
use timeloom_plant::PlantSample;
use timeloom_results::{ClockAction, ClockRow, EventRow, LabelRow, Recorder, SignalRow};
use timeloom_scenario::{Attack, NETWORK};
use timeloom_time::{Duration, Instant, Virtual};
use tracing::debug;

use crate::agreed::AgreedPause;
use crate::node::NodeName;
use crate::spoofing::Spoofed;
use crate::verdict::Reporter;

/// Writes rows of the results for all threads. A failed write (disk full) ends the run, because
/// results with unnoticed gaps would be worse than none.
#[derive(Clone)]
pub(crate) struct RunRecorder {
    recorder: Arc<Recorder>,
    clock: Arc<Clock>,
    reporter: Reporter,
    /// Name of this node, for columns that distinguish machines.
    node: NodeName,
    /// Time of the last flush for a reader.
    flushed: Arc<Mutex<Option<std::time::Instant>>>,
}

/// Shortest interval between two flushes for readers.
const FLUSH_EVERY: std::time::Duration = std::time::Duration::from_millis(200);

/// Contribution to the results from another thread or process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Note {
    /// Measurement of a host's clock. The value is transferred as the bits of an `f64`, since JSON
    /// would round it.
    HostSample {
        host: String,
        at_ns: i64,
        name: String,
        value_bits: u64,
        unit: String,
    },
    /// Event in the simulated network.
    Event {
        at_ns: i64,
        source: String,
        kind: String,
        text: String,
    },
}

impl RunRecorder {
    pub(crate) fn new(
        recorder: Arc<Recorder>,
        clock: Arc<Clock>,
        reporter: Reporter,
        node: NodeName,
    ) -> Self {
        Self {
            recorder,
            clock,
            reporter,
            node,
            flushed: Arc::default(),
        }
    }

    /// Records an event of this node at the current instant.
    pub(crate) fn own_event(&self, source: &str, kind: &str, text: &str) {
        self.event(self.node.as_str(), source, kind, text);
    }

    /// Records an event of a host at the current instant.
    pub(crate) fn event(&self, host: &str, source: &str, kind: &str, text: &str) {
        debug!(
            host,
            source,
            kind,
            text,
            virtual_ns = self.clock.now().as_ns(),
            "event"
        );
        self.check(self.recorder.event(&EventRow {
            t_virtual: self.clock.now(),
            t_wall: self.clock.wall(),
            host: host.into(),
            source: source.into(),
            kind: kind.into(),
            text: text.into(),
        }));
    }

    /// Records a failure of a plant or device at `at`, or at the current instant if `at` is `None`.
    /// If `ends` is true, the failure ends the run.
    pub(crate) fn trouble(
        &self,
        source: &str,
        at: Option<Instant<Virtual>>,
        text: &str,
        ends: bool,
    ) {
        let at = at.unwrap_or_else(|| self.clock.now());
        self.event_at(at, source, "trouble", text);
        if ends {
            self.reporter.failed_at(at, source, text);
        }
    }

    /// Records an event on `host` whose instant `at` is in the past.
    pub(crate) fn host_event(
        &self,
        host: &Arc<str>,
        at: Instant<Virtual>,
        source: &str,
        kind: &str,
        text: &str,
    ) {
        self.check(self.recorder.event(&EventRow {
            t_virtual: at,
            t_wall: self.clock.wall(),
            host: Arc::clone(host),
            source: source.into(),
            kind: kind.into(),
            text: text.into(),
        }));
    }

    /// Records an event of the simulated network at `at`.
    pub(crate) fn event_at(&self, at: Instant<Virtual>, source: &str, kind: &str, text: &str) {
        debug!(source, kind, text, virtual_ns = at.as_ns(), "event");
        self.check(self.recorder.event(&EventRow {
            t_virtual: at,
            t_wall: self.clock.wall(),
            host: self.node.to_row(),
            source: source.into(),
            kind: kind.into(),
            text: text.into(),
        }));
    }

    /// Records that a frame with a forged sender passed on `link`.
    pub(crate) fn spoofed(&self, at: Instant<Virtual>, link: &str, spoofed: &Spoofed) {
        self.check(self.recorder.event(&EventRow {
            t_virtual: at,
            t_wall: self.clock.wall(),
            host: spoofed.by.as_str().into(),
            source: link.into(),
            kind: "spoofed".into(),
            text: spoofed.text.as_str().into(),
        }));
    }

    /// Records a sample of a plant's signal.
    pub(crate) fn sample(&self, plant: &Arc<str>, sample: &PlantSample<'_>) {
        self.check(self.recorder.signal(&SignalRow {
            t_virtual: sample.t,
            t_wall: self.clock.wall(),
            host: self.node.to_row(),
            source: Arc::clone(plant),
            name: sample.signal.into(),
            value: sample.value,
            unit: sample.unit.into(),
        }));
    }

    /// Records a measurement of the simulated network.
    pub(crate) fn network_sample(
        &self,
        at: Instant<Virtual>,
        name: &Arc<str>,
        value: f64,
        unit: &str,
    ) {
        self.check(self.recorder.signal(&SignalRow {
            t_virtual: at,
            t_wall: self.clock.wall(),
            host: self.node.to_row(),
            source: NETWORK.into(),
            name: Arc::clone(name),
            value,
            unit: unit.into(),
        }));
    }

    /// Records a measurement of a host's clock.
    pub(crate) fn host_sample(
        &self,
        host: &Arc<str>,
        at: Instant<timeloom_time::Virtual>,
        name: &str,
        value: f64,
        unit: &str,
    ) {
        self.check(self.recorder.signal(&SignalRow {
            t_virtual: at,
            t_wall: self.clock.wall(),
            host: Arc::clone(host),
            source: Arc::clone(host),
            name: name.into(),
            value,
            unit: unit.into(),
        }));
    }

    /// Records a note from another thread or process.
    pub(crate) fn note(&self, note: &Note) {
        match note {
            Note::HostSample {
                host,
                at_ns,
                name,
                value_bits,
                unit,
            } => {
                let (host, at) = (Arc::from(host.as_str()), Instant::from_ns(*at_ns));
                self.host_sample(&host, at, name, f64::from_bits(*value_bits), unit);
            }
            Note::Event {
                at_ns,
                source,
                kind,
                text,
            } => self.event_at(Instant::from_ns(*at_ns), source, kind, text),
        }
    }

    /// Returns a callback that records individual pauses, resumptions and dilations of hosts. The
    /// callback may outlive the clock.
    pub(crate) fn host_sink(&self) -> impl Fn(&HostChange) + Send + Sync + 'static {
        let (recorder, reporter) = (Arc::clone(&self.recorder), self.reporter.clone());
        move |change| {
            let written = recorder
                .event(&EventRow {
                    t_virtual: change.at,
                    t_wall: change.wall,
                    host: change.host.host.name().into(),
                    source: "timeloom".into(),
                    kind: kind_of(change.kind).into(),
                    text: told(&change.host).into(),
                })
                .and_then(|()| recorder.signal(&behind(&change.host, change.at, change.wall)));
            if let Err(error) = written {
                reporter.failed("results", error.to_string());
            }
        }
    }

    /// Records how far each host's time is behind the session's, for the hosts where the two
    /// differ.
    pub(crate) fn host_times(&self, at: Instant<timeloom_time::Virtual>) {
        let (_, times) = self.clock.host_times();
        let off = |time: &&HostTimeState| {
            time.held || time.dilation != 1.0 || time.behind != Duration::ZERO
        };
        for time in times.iter().filter(off) {
            self.check(self.recorder.signal(&behind(time, at, self.clock.wall())));
        }
    }

    /// Records an attack from `start` to `end`. A later record of the same attack replaces this one.
    pub(crate) fn label(
        &self,
        attack: &Attack,
        start: Instant<timeloom_time::Virtual>,
        end: Instant<timeloom_time::Virtual>,
    ) {
        self.check(self.recorder.label(&LabelRow {
            start,
            end,
            technique: attack.technique.join(" ").into(),
            target: attack.target.join(" ").into(),
            attack: attack.id.as_str().into(),
        }));
    }

    /// Records that the clock was started, or stopped for good.
    pub(crate) fn clock_edge(&self, action: ClockAction) {
        let reason = action.as_str().to_owned();
        self.check(self.recorder.clock(&ClockRow {
            seq: 0,
            t_virtual: self.clock.now(),
            t_wall: self.clock.wall(),
            host: self.node.to_row(),
            action,
            requester: "timeloom".into(),
            reason: reason.into(),
            duration: Duration::ZERO,
        }));
    }

    /// Records the end of a pause that was agreed on with other machines. The first such pause
    /// precedes the start of time.
    pub(crate) fn agreed_pause(&self, pause: &AgreedPause) {
        let row = |action: ClockAction, t_wall| ClockRow {
            seq: pause.number,
            t_virtual: pause.at,
            t_wall,
            host: self.node.to_row(),
            reason: action.as_str().into(),
            action,
            requester: "agents".into(),
            duration: Duration::ZERO,
        };
        if pause.number == 0 {
            return self.check(self.recorder.clock(&row(ClockAction::Start, pause.resumed)));
        }
        let edges = [
            ("stop", pause.stood.unwrap_or(pause.resumed)),
            ("go", pause.resumed),
        ];
        for (edge, at) in edges {
            self.check(
                self.recorder
                    .clock(&row(ClockAction::Other(edge.into()), at)),
            );
        }
        if pause.changed {
            let text = format!("dilation {} from now on, on all agents", pause.dilation);
            self.event_at(pause.at, "clock", "dilated", &text);
        }
        let ahead = pause.ahead.filter(|_| pause.asked);
        let deviation = pause.deviation.map(|(deviation, _)| deviation);
        let signals = [
            ("pause.ahead", ahead),
            ("pause.deviation", deviation),
            ("pause.timeline_error", pause.timeline_error),
            ("pause.late", Some(pause.late)),
        ];
        for (name, length) in signals {
            if let Some(length) = length {
                self.host_sample(&self.node.to_row(), pause.at, name, length.as_s_f64(), "s");
            }
        }
    }

    /// Passes all rows to their files, for readers of the run directory. Threads that record wait
    /// for it, so that it is done for all readers together, and not more often than every
    /// [`FLUSH_EVERY`].
    pub(crate) fn flush(&self) {
        let mut flushed = self.flushed.lock();
        if flushed.is_some_and(|at| at.elapsed() < FLUSH_EVERY) {
            return;
        }
        *flushed = Some(std::time::Instant::now());
        // An error here must not change the run: the next row meets and reports it.
        let _ = self.recorder.flush();
    }

    /// Makes the run fail because results cannot be stored.
    pub(crate) fn failed(&self, what: &str) {
        self.reporter.failed("results", what);
    }

    fn check(&self, result: Result<(), timeloom_results::ResultsError>) {
        if let Err(error) = result {
            self.reporter.failed("results", error.to_string());
        }
    }
}

fn kind_of(change: ChangeKind) -> &'static str {
    match change {
        ChangeKind::Pause => "paused",
        ChangeKind::Resume => "resumed",
        ChangeKind::Dilate => "dilated",
        ChangeKind::Skip => "skipped",
    }
}

fn told(time: &HostTimeState) -> String {
    let lived = Duration::from_ns(time.lived.as_ns());
    format!(
        "at {lived} of its own time, {} behind the session, dilation {}",
        time.behind, time.dilation
    )
}

fn behind(
    time: &HostTimeState,
    t_virtual: Instant<timeloom_time::Virtual>,
    t_wall: Instant<timeloom_time::Wall>,
) -> SignalRow {
    let host: Arc<str> = time.host.name().into();
    SignalRow {
        t_virtual,
        t_wall,
        source: Arc::clone(&host),
        host,
        name: "clock.behind".into(),
        value: time.behind.as_s_f64(),
        unit: "s".into(),
    }
}

/// Converts the bus's records to rows of `clock.parquet`. The bus records edges of the wire and
/// holds of participants; a row describes the pause of one participant, from its request to its
/// release.
pub(crate) struct ClockSink(pub(crate) RunRecorder);

impl Sink for ClockSink {
    fn record(&mut self, record: HoldRecord) {
        let action = match record.action {
            RecordKind::Hold => ClockAction::Pause,
            RecordKind::Release => ClockAction::Resume,
            RecordKind::Pause => ClockAction::Other("stop".into()),
            RecordKind::Resume => ClockAction::Other("go".into()),
        };
        let run_recorder = &self.0;
        run_recorder.check(run_recorder.recorder.clock(&ClockRow {
            seq: record.seq,
            t_virtual: record.t_virtual,
            t_wall: record.t_wall,
            host: record.host.as_str().into(),
            action,
            requester: record.requester.as_str().into(),
            reason: record.reason.as_str().into(),
            duration: if record.duration.is_negative() {
                Duration::ZERO
            } else {
                record.duration
            },
        }));
    }
}
