//! The state of a run as far as it was read. All of it is bounded: a run directory may contain any
//! number of signals, events, programs and logs.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use timeloom_results::{EventRow, LabelRow, Row, SignalRow};
use timeloom_text::visible;

use super::series::Series;
use super::view::{AttackView, ClockView, EventView, HostView, ProgramView, RunView, seconds};

/// Value with a version, which changes with it.
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
    /// The last events, of `events_seen`.
    pub(super) events: VecDeque<EventView>,
    pub(super) events_seen: u64,
    /// True if something was left out, for its remark.
    left_out: LeftOut,
    /// Reasons why something could not be read, by what it is.
    troubles: BTreeMap<&'static str, String>,
}

#[derive(Debug, Default)]
struct LeftOut {
    signals: bool,
    programs: bool,
    attacks: bool,
}

/// Programs of a run. Each has the number of its last change, so that a page gets those that have
/// changed.
#[derive(Debug, Default)]
pub(super) struct Programs {
    all: Vec<(ProgramView, u64)>,
    /// Places by host and name.
    places: HashMap<(String, String), usize>,
    changes: u64,
}

/// Row of a table as it changes the state. All of its texts are bounded.
#[derive(Debug)]
pub(crate) enum Change {
    Sample {
        /// `None` for a signal whose name is too long.
        signal: Option<String>,
        unit: Arc<str>,
        t_s: f64,
        value: f64,
    },
    Event {
        event: EventView,
        /// State of the program that it is about.
        state: Option<&'static str>,
    },
    Attack(AttackView),
}

/// Row that a page shows.
pub(crate) trait Shown: Row {
    /// Returns what the row changes; `None` for an invalid one.
    fn change(&self) -> Option<Change>;
}

impl Shown for SignalRow {
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

impl Shown for EventRow {
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

impl Shown for LabelRow {
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

    /// Returns the value, if a reader that has `seen` lacks it.
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

    /// Returns the value for a change, which the caller makes.
    fn change(&mut self) -> &mut T {
        self.version += 1;
        &mut self.value
    }
}

impl Programs {
    /// Returns the programs that have changed after change number `seen`, with their places, the
    /// earliest change first; at most [`PROGRAMS_AT_ONCE`]. Sets `seen` to the last of them.
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

    /// Returns true if a page that has `seen` has all.
    pub(super) fn is_all(&self, seen: u64) -> bool {
        seen == self.changes
    }

    /// Sets the state of a program by an event; returns false if there is no room for it.
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
            left_out: LeftOut::default(),
            troubles: BTreeMap::new(),
        }
    }

    pub(super) fn run(&self) -> &Versioned<RunView> {
        &self.run
    }

    /// Sets the properties of the run, with the remarks about what is left out.
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

    /// Applies a row.
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

    /// Adds an event, and what it says about a program.
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

    /// Adds an attack, or its end: a label is written at its start and again at its end.
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

    /// Returns the remarks about what was left out.
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

/// Returns the remark about what is cut.
pub(super) fn first_only(most: usize, what: &str) -> String {
    format!("This page shows the first {most} {what} only.")
}

/// Maximum number of programs in a message to a page.
const PROGRAMS_AT_ONCE: usize = 200;
/// Maximum number of signals that are kept. One takes some 30 KB here, and as much in a page.
const MOST_SIGNALS: usize = 400;
/// Maximum number of events that are kept, and sent to a page that was just opened.
pub(super) const MOST_EVENTS: usize = 1000;
const MOST_PROGRAMS: usize = 1000;
const MOST_ATTACKS: usize = 200;
const MOST_LOGS: usize = 2000;
/// Maximum length of the name of a signal or a log, in bytes.
const LONGEST_NAME: usize = 300;
