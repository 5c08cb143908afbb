//! Difference between the present state of a run and the state that a page has. A slow page gets
//! one difference that leads to the present state; no differences are queued for it.

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

/// Message to a page. Absent parts have not changed.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Update {
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<ClockView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hosts: Option<Vec<HostView>>,
    /// Programs that have changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    programs: Vec<ProgramUpdate>,
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
    tails: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Serialize)]
struct ProgramUpdate {
    /// Number of the program, in the order of its first event.
    id: usize,
    #[serde(flatten)]
    program: ProgramView,
}

#[derive(Debug, Serialize)]
struct SignalUpdate {
    /// Number of the signal, in the order of its first sample.
    id: usize,
    /// Name and unit; present if the page does not know the signal yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<(String, String)>,
    #[serde(flatten)]
    addition: Addition,
}

/// Events that a page does not have yet.
#[derive(Debug, Serialize)]
struct Events {
    /// Number of all events of the run so far.
    seen: u64,
    /// Newest events, which the page appends.
    added: Vec<EventView>,
}

impl Store {
    /// Returns the difference between the state at `cursor` and the present state, and advances
    /// `cursor`. A large difference is split, so that a page with a slow connection soon shows a
    /// part of it. The second value is false if more follows.
    pub(crate) fn since(&self, cursor: &mut Cursor) -> (Update, bool) {
        let (signals, has_all_signals) = self.signals_since(&mut cursor.signals);
        let program = |(id, program): (usize, &ProgramView)| ProgramUpdate {
            id,
            program: program.clone(),
        };
        let programs = self.programs.since(&mut cursor.programs);
        let update = Update {
            run: self.run().since(&mut cursor.run).cloned(),
            clock: self.clock.since(&mut cursor.clock).cloned().flatten(),
            hosts: self.hosts.since(&mut cursor.hosts).cloned(),
            programs: programs.into_iter().map(program).collect(),
            attacks: self.attacks.since(&mut cursor.attacks).cloned(),
            logs: self.logs.since(&mut cursor.logs).cloned(),
            signals,
            events: self.events_since(&mut cursor.events),
            tails: BTreeMap::new(),
        };
        let is_all = has_all_signals
            && self.programs.is_all(cursor.programs)
            && cursor.events == self.events_seen;
        (update, is_all)
    }

    /// Returns the additions to signals, and true if no further additions follow.
    fn signals_since(&self, places: &mut Vec<Place>) -> (Vec<SignalUpdate>, bool) {
        places.resize(self.signals.len().max(places.len()), Place::default());
        let mut updates = Vec::new();
        let mut points = 0;
        for (id, (series, place)) in self.signals.iter().zip(places).enumerate() {
            if points >= POINTS_AT_ONCE {
                return (updates, false);
            }
            let is_known = place.is_known();
            if let Some(addition) = series.since(place) {
                points += addition.len();
                let name = (!is_known).then(|| (series.name.clone(), series.unit.clone()));
                updates.push(SignalUpdate { id, name, addition });
            }
        }
        (updates, true)
    }

    /// Returns the events after the first `seen` ones, if any; older events may have been dropped.
    fn events_since(&self, seen: &mut u64) -> Option<Events> {
        let dropped = self.events_seen - self.events.len() as u64;
        let skipped = usize::try_from(seen.saturating_sub(dropped)).unwrap_or(usize::MAX);
        let kept = self.events.iter().skip(skipped);
        let added: Vec<EventView> = kept.take(EVENTS_AT_ONCE).cloned().collect();
        if added.is_empty() {
            return None;
        }
        *seen = dropped + (skipped + added.len()) as u64;
        Some(Events {
            seen: self.events_seen,
            added,
        })
    }
}

impl Update {
    /// Returns a message with the last lines of logs.
    pub(crate) fn of_tails(tails: BTreeMap<String, Vec<String>>) -> Self {
        Self {
            tails,
            ..Self::default()
        }
    }

    /// Returns true if the message contains no change.
    pub(crate) fn is_empty(&self) -> bool {
        self.run.is_none()
            && self.clock.is_none()
            && self.hosts.is_none()
            && self.programs.is_empty()
            && self.attacks.is_none()
            && self.logs.is_none()
            && self.signals.is_empty()
            && self.events.is_none()
            && self.tails.is_empty()
    }
}

/// Number of signal points after which a message is split; they take some 500 KB.
const POINTS_AT_ONCE: usize = 20_000;
/// Maximum number of events in a message.
const EVENTS_AT_ONCE: usize = 250;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::store::DisplayedRow;
    use timeloom_results::{EventRow, LabelRow, Manifest, RunDirectory, SignalRow};
    use timeloom_time::Instant;

    fn store() -> Store {
        let manifest = Manifest::begin("tank", 7, Instant::ZERO, b"");
        let place = tempfile::tempdir().expect("a temporary directory");
        let run = RunDirectory::create(place.path().join("tank")).expect("it can be made");
        Store::new(RunView::of("runs/tank", &run, &manifest, false))
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

    fn apply(store: &mut Store, row: &impl DisplayedRow) {
        if let Some(change) = row.change() {
            store.apply(change);
        }
    }

    fn all_since(store: &Store, cursor: &mut Cursor) -> Vec<Update> {
        let mut updates = Vec::new();
        loop {
            let (update, is_all) = store.since(cursor);
            updates.push(update);
            if is_all {
                return updates;
            }
        }
    }

    #[test]
    fn a_slow_page_gets_one_difference_whose_length_does_not_grow() {
        let mut store = store();
        let mut cursor = Cursor::default();
        let (first, is_all) = store.since(&mut cursor);
        assert!(first.run.is_some() && first.signals.is_empty() && is_all);
        assert!(store.since(&mut cursor).0.is_empty(), "nothing is new");
        let mut lengths = Vec::new();
        for _ in 0..3 {
            // A hundred thousand samples and events while the page does not read.
            for number in 0..100_000 {
                apply(&mut store, &sample("level", number));
                apply(&mut store, &event(number, "write", "x"));
            }
            let updates = all_since(&store, &mut cursor);
            assert_eq!(updates.len(), 4, "in portions");
            let events = updates.iter().filter_map(|update| update.events.as_ref());
            assert_eq!(events.map(|events| events.added.len()).sum::<usize>(), 1000);
            let text = serde_json::to_string(&updates).expect("it is plain data");
            lengths.push(text.len());
            assert!(store.since(&mut cursor).0.is_empty());
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
            apply(&mut store, &sample(&format!("signal {number}"), number));
            let mut row = event(number, "start", &"long ".repeat(5000));
            row.source = format!("program {number}").into();
            apply(&mut store, &row);
            apply(
                &mut store,
                &LabelRow {
                    start: Instant::from_ns(number),
                    end: Instant::FAR_FUTURE,
                    technique: "T0814".into(),
                    target: format!("target {number}").into(),
                    attack: "dos".into(),
                },
            );
        }
        assert_eq!(store.signals.len(), 400);
        assert_eq!(store.programs.all().len(), 1000);
        assert_eq!(store.attacks.get().len(), 200);
        assert_eq!(store.events.len(), 1000);
        assert!(store.events.iter().all(|event| event.text.len() < 1100));
        store.set_trouble("events", Some("The events are damaged.".into()));
        store.set_run(store.run().get().clone());
        assert_eq!(store.run().get().remarks.len(), 4, "troubles stay");
        store.set_trouble("events", None);
        assert_eq!(store.run().get().remarks.len(), 3);
        let mut not_finite = sample("signal 1", 1);
        not_finite.value = f64::NAN;
        apply(&mut store, &not_finite);
        let updates = all_since(&store, &mut Cursor::default());
        let text = serde_json::to_string(&updates).expect("plain");
        assert!(!text.contains("null]") && !text.contains("NaN"));
    }

    #[test]
    fn events_tell_the_state_of_programs_and_labels_that_of_attacks() {
        let mut store = store();
        apply(&mut store, &event(0, "start", "python3 plc.py"));
        apply(&mut store, &event(5, "ready", "port 502"));
        let state = |store: &Store| {
            let program = store.programs.all()[0];
            (program.state, program.text.clone())
        };
        assert_eq!(state(&store), ("ready", "python3 plc.py".into()));
        apply(&mut store, &event(9, "end", "exit status 1"));
        assert_eq!(state(&store), ("ended", "exit status 1".into()));
        let mut label = LabelRow {
            start: Instant::from_ns(1_000_000_000),
            end: Instant::FAR_FUTURE,
            technique: "T0830".into(),
            target: "plc".into(),
            attack: "mitm".into(),
        };
        apply(&mut store, &label);
        assert_eq!(store.attacks.get()[0].end_s, None);
        label.end = Instant::from_ns(3_000_000_000);
        apply(&mut store, &label);
        assert_eq!(store.attacks.get().len(), 1);
        assert_eq!(store.attacks.get()[0].end_s, Some(3.0));
    }

    /// A page receives only changed programs: one that starts repeatedly is sent without the
    /// others, and one whose row contains nothing new is not sent.
    #[test]
    fn a_page_gets_the_programs_that_have_changed() {
        let mut store = store();
        for number in 0..300 {
            let mut row = event(number, "start", "python3 plc.py");
            row.source = format!("program {number}").into();
            apply(&mut store, &row);
        }
        let mut cursor = Cursor::default();
        let all = all_since(&store, &mut cursor);
        let told = |update: &Update| update.programs.iter().map(|it| it.id).collect::<Vec<_>>();
        assert_eq!(
            all.iter().flat_map(told).collect::<Vec<_>>(),
            (0..300).collect::<Vec<_>>()
        );
        let mut again = event(7, "start", "python3 plc.py");
        again.source = "program 7".into();
        apply(&mut store, &again);
        let same = store.since(&mut cursor).0;
        assert!(told(&same).is_empty(), "the row says the same");
        again.t_virtual = Instant::from_ns(9_000_000_000);
        apply(&mut store, &again);
        assert_eq!(told(&store.since(&mut cursor).0), [7]);
        let label = LabelRow {
            start: Instant::ZERO,
            end: Instant::FAR_FUTURE,
            technique: "T0814".into(),
            target: "plc".into(),
            attack: "dos".into(),
        };
        apply(&mut store, &label);
        assert!(store.since(&mut cursor).0.attacks.is_some());
        apply(&mut store, &label);
        assert!(store.since(&mut cursor).0.attacks.is_none(), "likewise");
    }

    #[test]
    fn many_signals_come_in_portions_and_each_of_them() {
        let mut store = store();
        for number in 0..400 {
            for signal in 0..200 {
                apply(&mut store, &sample(&format!("signal {signal}"), number));
            }
        }
        let mut cursor = Cursor::default();
        let updates = all_since(&store, &mut cursor);
        assert_eq!(updates.len(), 4);
        let told = updates.iter().flat_map(|update| &update.signals);
        let points = told.map(|it| it.addition.len()).collect::<Vec<_>>();
        assert_eq!(points, [400; 200]);
        apply(&mut store, &sample("signal 150", 400));
        let (next, is_all) = store.since(&mut cursor);
        assert!(is_all && next.signals.len() == 1 && next.signals[0].id == 150);
    }

    #[test]
    fn texts_cannot_reverse_the_writing() {
        let mut store = store();
        let mut row = sample("\u{202e}level", 1);
        row.unit = "m\u{1b}".into();
        apply(&mut store, &row);
        apply(&mut store, &event(1, "trouble", "\u{202e}DETSURTNU"));
        store.set_logs(vec!["plc".into(), "plc\u{202e}".into()]);
        let (update, _) = store.since(&mut Cursor::default());
        let text = serde_json::to_string(&update).expect("plain");
        assert!(!text.contains(['\u{202e}', '\u{1b}']), "{text}");
        assert!(
            text.contains("DETSURTNU") && text.contains("level"),
            "{text}"
        );
        assert_eq!(update.logs, Some(vec!["plc".to_owned()]));
    }
}
