//! State of a run as read so far. Its memory is bounded, although a run directory may contain any
//! number of signals, events, programs and logs.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use timeloom_results::{EventRow, LabelRow, Row, SignalRow};
use timeloom_text::visible;

use super::series::Series;
use super::view::{AttackView, ClockView, EventView, HostView, ProgramView, RunView, seconds};

/// Value with a version, which increases with each change.
#[derive(Debug)]
pub(crate) struct Versioned<T> {
    value: T,
    version: u64,
}

/// State of a run.
#[derive(Debug)]
pub(crate) struct Store {
    run: Versioned<RunView>,
    pub(super) clock: Versioned<Option<ClockView>>,
    pub(super) hosts: Versioned<Vec<HostView>>,
    pub(super) programs: Programs,
    pub(super) attacks: Versioned<Vec<AttackView>>,
    /// Names of the logs.
    pub(super) logs: Versioned<Vec<String>>,
    pub(super) signals: Vec<Series>,
    by_name: HashMap<String, usize>,
    /// The most recent events.
    pub(super) events: VecDeque<EventView>,
    /// Number of all events of the run so far.
    pub(super) events_seen: u64,
    /// Kinds of content that were left out, for the remarks.
    left_out: OmittedRows,
    /// Reasons why parts of the run could not be read, by part.
    troubles: BTreeMap<&'static str, String>,
}

#[derive(Debug, Default)]
struct OmittedRows {
    signals: bool,
    programs: bool,
    attacks: bool,
}

/// Programs of a run, each with the number of its last change. A page receives only the programs
/// that have changed.
#[derive(Debug, Default)]
pub(super) struct Programs {
    all: Vec<(ProgramView, u64)>,
    /// Indices of the programs, by host and name.
    places: HashMap<(String, String), usize>,
    changes: u64,
}

/// Change of the state by one row of a table. The lengths of all texts are bounded.
#[derive(Debug)]
pub(crate) enum Change {
    Sample {
        /// Name of the signal; `None` if the name is too long.
        signal: Option<String>,
        unit: Arc<str>,
        t_s: f64,
        value: f64,
    },
    Event {
        event: EventView,
        /// New state of the program that the event concerns, if any.
        state: Option<&'static str>,
    },
    Attack(AttackView),
}

/// Type of table row that pages show.
pub(crate) trait DisplayedRow: Row {
    /// Returns the change that the row makes; `None` for an invalid row.
    fn change(&self) -> Option<Change>;
}

impl DisplayedRow for SignalRow {
    fn change(&self) -> Option<Change> {
        // Only a prepared file contains a value that is not finite.
        let is_short = self.source.len() + self.name.len() < LONGEST_NAME;
        self.value.is_finite().then(|| Change::Sample {
            signal: is_short.then(|| format!("{}.{}", self.source, self.name)),
            unit: match self.unit.char_indices().nth(20) {
                Some((end, _)) => self.unit[..end].into(),
                None => Arc::clone(&self.unit),
            },
            t_s: seconds(self.t_virtual.as_ns()),
            value: self.value,
        })
    }
}

impl DisplayedRow for EventRow {
    fn change(&self) -> Option<Change> {
        Some(Change::Event {
            event: EventView::of(self),
            state: match &*self.kind {
                "start" => Some("running"),
                "ready" => Some("ready"),
                "end" => Some("ended"),
                _ => None,
            },
        })
    }
}

impl DisplayedRow for LabelRow {
    fn change(&self) -> Option<Change> {
        Some(Change::Attack(AttackView::of(self)))
    }
}

impl<T: PartialEq> Versioned<T> {
    fn new(value: T) -> Self {
        Self { value, version: 1 }
    }

    pub(super) fn set(&mut self, value: T) {
        if self.value != value {
            self.value = value;
            self.version += 1;
        }
    }

    /// Returns the value if it is newer than version `seen`, and updates `seen`.
    pub(super) fn since(&self, seen: &mut u64) -> Option<&T> {
        let is_new = *seen != self.version;
        *seen = self.version;
        is_new.then_some(&self.value)
    }
}

impl<T> Versioned<T> {
    pub(super) fn get(&self) -> &T {
        &self.value
    }

    /// Increases the version, and returns the value for modification.
    fn change(&mut self) -> &mut T {
        self.version += 1;
        &mut self.value
    }
}

impl Programs {
    /// Returns the programs that have changed after change number `seen`, with their indices, the
    /// earliest change first; at most [`PROGRAMS_AT_ONCE`]. Sets `seen` to the number of the last
    /// returned change.
    pub(super) fn since(&self, seen: &mut u64) -> Vec<(usize, &ProgramView)> {
        if *seen == self.changes {
            return Vec::new();
        }
        let all = self.all.iter().enumerate();
        let mut changed: Vec<_> = all.filter(|(_, (_, change))| *change > *seen).collect();
        changed.sort_unstable_by_key(|(_, (_, change))| *change);
        changed.truncate(PROGRAMS_AT_ONCE);
        *seen = changed
            .last()
            .map_or(self.changes, |(_, (_, change))| *change);
        let changed = changed.into_iter();
        changed
            .map(|(place, (program, _))| (place, program))
            .collect()
    }

    /// Returns true if there is no change after number `seen`.
    pub(super) fn is_all(&self, seen: u64) -> bool {
        seen == self.changes
    }

    /// Sets the state of the program that an event concerns. Returns false if there is no room for
    /// another program.
    fn set(&mut self, event: &EventView, state: &'static str) -> bool {
        let key = (event.host.clone(), event.source.clone());
        let mut program = ProgramView {
            host: event.host.clone(),
            name: event.source.clone(),
            state,
            since_s: event.t_s,
            text: event.text.clone(),
        };
        match self.places.get(&key) {
            Some(place) => {
                let (known, change) = &mut self.all[*place];
                // The command stays while a program that has become ready runs.
                if state == "ready" {
                    program.text.clone_from(&known.text);
                }
                if *known != program {
                    *known = program;
                    self.changes += 1;
                    *change = self.changes;
                }
            }
            None if self.all.len() >= MOST_PROGRAMS => return false,
            None => {
                self.changes += 1;
                self.places.insert(key, self.all.len());
                self.all.push((program, self.changes));
            }
        }
        true
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> Vec<&ProgramView> {
        self.all.iter().map(|(program, _)| program).collect()
    }
}

impl Store {
    pub(crate) fn new(run: RunView) -> Self {
        Self {
            run: Versioned::new(run),
            clock: Versioned::new(None),
            hosts: Versioned::new(Vec::new()),
            programs: Programs::default(),
            attacks: Versioned::new(Vec::new()),
            logs: Versioned::new(Vec::new()),
            signals: Vec::new(),
            by_name: HashMap::new(),
            events: VecDeque::new(),
            events_seen: 0,
            left_out: OmittedRows::default(),
            troubles: BTreeMap::new(),
        }
    }

    pub(super) fn run(&self) -> &Versioned<RunView> {
        &self.run
    }

    /// Sets the properties of the run, and adds the remarks about left-out content.
    pub(super) fn set_run(&mut self, mut run: RunView) {
        run.remarks = self.remarks();
        self.run.set(run);
    }

    /// Sets or removes the reason why a part could not be read.
    pub(super) fn set_trouble(&mut self, part: &'static str, trouble: Option<String>) {
        if trouble.as_ref() == self.troubles.get(part) {
            return;
        }
        match trouble {
            Some(trouble) => self.troubles.insert(part, trouble),
            None => self.troubles.remove(part),
        };
        self.set_run(self.run.get().clone());
    }

    /// Applies the change of one row.
    pub(super) fn apply(&mut self, change: Change) {
        match change {
            Change::Sample {
                signal,
                unit,
                t_s,
                value,
            } => match signal {
                Some(signal) => self.add_sample(signal, &unit, t_s, value),
                None => self.left_out.signals = true,
            },
            Change::Event { event, state } => self.add_event(event, state),
            Change::Attack(attack) => self.add_attack(attack),
        }
    }

    fn add_sample(&mut self, name: String, unit: &str, t_s: f64, value: f64) {
        let place = match self.by_name.get(&name) {
            Some(place) => *place,
            None if self.signals.len() >= MOST_SIGNALS => {
                self.left_out.signals = true;
                return;
            }
            None => {
                let shown = visible(&name).into_owned();
                let series = Series::new(shown, visible(unit).into_owned());
                self.signals.push(series);
                self.by_name.insert(name, self.signals.len() - 1);
                self.signals.len() - 1
            }
        };
        self.signals[place].push(t_s, value);
    }

    /// Adds an event, and applies `state` to the program that the event concerns.
    fn add_event(&mut self, event: EventView, state: Option<&'static str>) {
        if let Some(state) = state {
            self.left_out.programs |= !self.programs.set(&event, state);
        }
        self.events_seen += 1;
        if self.events.len() >= MOST_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Adds an attack, or its end. A label is written at the start of an attack and again at its
    /// end.
    fn add_attack(&mut self, attack: AttackView) {
        let same = |it: &AttackView| {
            (&it.name, &it.target) == (&attack.name, &attack.target) && it.start_s == attack.start_s
        };
        let attacks = self.attacks.get();
        match attacks.iter().position(same) {
            Some(place) => {
                let end_s = attack.end_s.or(attacks[place].end_s);
                if end_s != attacks[place].end_s {
                    self.attacks.change()[place].end_s = end_s;
                }
            }
            None if attacks.len() >= MOST_ATTACKS => self.left_out.attacks = true,
            None => self.attacks.change().push(attack),
        }
    }

    pub(super) fn set_logs(&mut self, mut names: Vec<String>) {
        // A page asks for a log by the name that it shows. Only prepared names have characters that
        // `visible` replaces.
        names.retain(|name| name.len() <= LONGEST_NAME && visible(name) == *name);
        names.truncate(MOST_LOGS);
        self.logs.set(names);
    }

    /// Returns the remarks about left-out content.
    fn remarks(&self) -> Vec<String> {
        let limits = [
            (self.left_out.signals, MOST_SIGNALS, "signals"),
            (self.left_out.programs, MOST_PROGRAMS, "programs"),
            (self.left_out.attacks, MOST_ATTACKS, "attacks"),
            (self.logs.value.len() == MOST_LOGS, MOST_LOGS, "logs"),
        ];
        let met = limits.into_iter().filter(|(is_met, ..)| *is_met);
        let limits = met.map(|(_, most, what)| first_only(most, what));
        limits.chain(self.troubles.values().cloned()).collect()
    }
}

/// Returns the remark that only the first `most` objects of a kind are shown.
pub(super) fn first_only(most: usize, what: &str) -> String {
    format!("This page shows the first {most} {what} only.")
}

/// Maximum number of programs in a message to a page.
const PROGRAMS_AT_ONCE: usize = 200;
/// Maximum number of signals that are kept. A signal takes some 30 KB of memory here, and the same
/// in a page.
const MOST_SIGNALS: usize = 400;
/// Maximum number of events that are kept. A new page receives all of them.
pub(super) const MOST_EVENTS: usize = 1000;
const MOST_PROGRAMS: usize = 1000;
const MOST_ATTACKS: usize = 200;
const MOST_LOGS: usize = 2000;
/// Maximum length of the name of a signal or a log, in bytes.
const LONGEST_NAME: usize = 300;
