//! Difference between the state of a run and what a page has. A page that was slow gets one
//! difference that leads to the present state: nothing is queued for it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::series::{Addition, Place};
use super::store::Store;
use super::view::{AttackView, ClockView, EventView, HostView, ProgramView, RunView};

/// Position of a page in the state of a run.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    run: u64,
    clock: u64,
    hosts: u64,
    programs: u64,
    attacks: u64,
    logs: u64,
    signals: Vec<Place>,
    events: u64,
}

/// Message to a page. A part that is absent has not changed.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Update {
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<ClockView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hosts: Option<Vec<HostView>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    programs: Option<Vec<ProgramView>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attacks: Option<Vec<AttackView>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logs: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    signals: Vec<SignalUpdate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Events>,
    /// Last lines of the logs that the page has opened, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) tails: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Serialize)]
struct SignalUpdate {
    /// Number of the signal, in the order of its first sample.
    id: usize,
    /// Name and unit, for a page that does not know the signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<(String, String)>,
    #[serde(flatten)]
    addition: Addition,
}

/// Events that a page lacks.
#[derive(Debug, Serialize)]
struct Events {
    /// Number of all events of the run until now.
    seen: u64,
    /// The last of them.
    added: Vec<EventView>,
}

impl Store {
    /// Returns the difference to the present state, and moves `cursor` there.
    pub(crate) fn since(&self, cursor: &mut Cursor) -> Update {
        cursor.signals.resize(
            self.signals.len().max(cursor.signals.len()),
            Place::default(),
        );
        let signals = self.signals.iter().zip(&mut cursor.signals).enumerate();
        let signals = signals.filter_map(|(id, (series, place))| {
            let is_known = place.is_known();
            let addition = series.since(place)?;
            let name = (!is_known).then(|| (series.name.clone(), series.unit.clone()));
            Some(SignalUpdate { id, name, addition })
        });
        Update {
            signals: signals.collect(),
            run: self.run.since(&mut cursor.run).cloned(),
            clock: self.clock.since(&mut cursor.clock).cloned().flatten(),
            hosts: self.hosts.since(&mut cursor.hosts).cloned(),
            programs: self.programs.since(&mut cursor.programs).cloned(),
            attacks: self.attacks.since(&mut cursor.attacks).cloned(),
            logs: self.logs.since(&mut cursor.logs).cloned(),
            events: self.events_since(&mut cursor.events),
            tails: BTreeMap::new(),
        }
    }

    fn events_since(&self, seen: &mut u64) -> Option<Events> {
        let lacking = self.events_seen - *seen;
        if lacking == 0 {
            return None;
        }
        *seen = self.events_seen;
        let lacking = usize::try_from(lacking).unwrap_or(usize::MAX);
        let skipped = self.events.len().saturating_sub(lacking);
        Some(Events {
            seen: self.events_seen,
            added: self.events.iter().skip(skipped).cloned().collect(),
        })
    }
}

impl Update {
    /// Returns true if it says nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.run.is_none()
            && self.clock.is_none()
            && self.hosts.is_none()
            && self.programs.is_none()
            && self.attacks.is_none()
            && self.logs.is_none()
            && self.signals.is_empty()
            && self.events.is_none()
            && self.tails.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeloom_results::{EventRow, LabelRow, Manifest, SignalRow};
    use timeloom_time::Instant;

    fn store() -> Store {
        let manifest = Manifest::begin("tank", 7, Instant::ZERO, b"");
        Store::new(RunView::of("runs/tank", &manifest, false))
    }

    fn sample(name: &str, number: i64) -> SignalRow {
        SignalRow {
            t_virtual: Instant::from_ns(number * 1_000_000),
            t_wall: Instant::ZERO,
            host: "local".into(),
            source: "tank".into(),
            name: name.into(),
            value: number as f64,
            unit: "m".into(),
        }
    }

    fn event(number: i64, kind: &str, text: &str) -> EventRow {
        EventRow {
            t_virtual: Instant::from_ns(number * 1_000_000),
            t_wall: Instant::ZERO,
            host: "plc".into(),
            source: "controller".into(),
            kind: kind.into(),
            text: text.into(),
        }
    }

    #[test]
    fn a_slow_page_gets_one_difference_whose_length_does_not_grow() {
        let mut store = store();
        let mut cursor = Cursor::default();
        let first = store.since(&mut cursor);
        assert!(first.run.is_some() && first.signals.is_empty());
        assert!(store.since(&mut cursor).is_empty(), "nothing is new");
        let mut lengths = Vec::new();
        for _ in 0..3 {
            // A hundred thousand samples and events while the page does not read.
            for number in 0..100_000 {
                store.add_sample(&sample("level", number));
                store.add_event(&event(number, "write", "x"));
            }
            let update = store.since(&mut cursor);
            assert_eq!(
                update.events.as_ref().map(|events| events.added.len()),
                Some(1000)
            );
            let text = serde_json::to_string(&update).expect("it is plain data");
            lengths.push(text.len());
            assert!(store.since(&mut cursor).is_empty());
        }
        assert!(
            lengths.iter().all(|length| *length < 300_000),
            "{lengths:?}"
        );
    }

    #[test]
    fn a_directory_of_any_size_takes_bounded_memory() {
        let mut store = store();
        for number in 0..5000 {
            store.add_sample(&sample(&format!("signal {number}"), number));
            let mut row = event(number, "start", &"long ".repeat(5000));
            row.source = format!("program {number}").into();
            store.add_event(&row);
            store.add_label(&LabelRow {
                start: Instant::from_ns(number),
                end: Instant::FAR_FUTURE,
                technique: "T0814".into(),
                target: format!("target {number}").into(),
                attack: "dos".into(),
            });
        }
        assert_eq!(store.signals.len(), 400);
        assert_eq!(store.programs.get().len(), 1000);
        assert_eq!(store.attacks.get().len(), 200);
        assert_eq!(store.events.len(), 1000);
        assert!(store.events.iter().all(|event| event.text.len() < 1100));
        assert_eq!(store.remarks().len(), 3);
        let mut not_finite = sample("signal 1", 1);
        not_finite.value = f64::NAN;
        store.add_sample(&not_finite);
        let text = serde_json::to_string(&store.since(&mut Cursor::default())).expect("plain");
        assert!(!text.contains("null]") && !text.contains("NaN"));
    }

    #[test]
    fn events_tell_the_state_of_programs_and_labels_that_of_attacks() {
        let mut store = store();
        store.add_event(&event(0, "start", "python3 plc.py"));
        store.add_event(&event(5, "ready", "port 502"));
        let state = |store: &Store| {
            let program = &store.programs.get()[0];
            (program.state, program.text.clone())
        };
        assert_eq!(state(&store), ("ready", "python3 plc.py".into()));
        store.add_event(&event(9, "end", "exit status 1"));
        assert_eq!(state(&store), ("ended", "exit status 1".into()));
        let mut label = LabelRow {
            start: Instant::from_ns(1_000_000_000),
            end: Instant::FAR_FUTURE,
            technique: "T0830".into(),
            target: "plc".into(),
            attack: "mitm".into(),
        };
        store.add_label(&label);
        assert_eq!(store.attacks.get()[0].end_s, None);
        label.end = Instant::from_ns(3_000_000_000);
        store.add_label(&label);
        assert_eq!(store.attacks.get().len(), 1);
        assert_eq!(store.attacks.get()[0].end_s, Some(3.0));
    }
}
