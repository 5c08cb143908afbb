//! The state of a run as far as it was read. All of it is bounded: a run directory may contain any
//! number of signals, events, programs and logs.

use std::collections::{HashMap, VecDeque};

use timeloom_results::{EventRow, LabelRow, SignalRow};
use timeloom_time::Instant;

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
    pub(super) run: Versioned<RunView>,
    pub(super) clock: Versioned<Option<ClockView>>,
    pub(super) hosts: Versioned<Vec<HostView>>,
    pub(super) programs: Versioned<Vec<ProgramView>>,
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
}

#[derive(Debug, Default)]
struct LeftOut {
    signals: bool,
    programs: bool,
    attacks: bool,
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

    /// Returns the value for a change.
    fn change(&mut self) -> &mut T {
        self.version += 1;
        &mut self.value
    }
}

impl Store {
    pub(crate) fn new(run: RunView) -> Self {
        Self {
            run: Versioned::new(run),
            clock: Versioned::new(None),
            hosts: Versioned::new(Vec::new()),
            programs: Versioned::new(Vec::new()),
            attacks: Versioned::new(Vec::new()),
            logs: Versioned::new(Vec::new()),
            signals: Vec::new(),
            by_name: HashMap::new(),
            events: VecDeque::new(),
            events_seen: 0,
            left_out: LeftOut::default(),
        }
    }

    /// Adds a sample. A value that is not finite, which only a prepared file contains, is ignored.
    pub(super) fn add_sample(&mut self, row: &SignalRow) {
        if !row.value.is_finite() {
            return;
        }
        let name = format!("{}.{}", row.source, row.name);
        let place = match self.by_name.get(&name) {
            Some(place) => *place,
            None if self.signals.len() >= MOST_SIGNALS || name.len() > LONGEST_NAME => {
                self.left_out.signals = true;
                return;
            }
            None => {
                let unit: String = row.unit.chars().take(20).collect();
                self.signals.push(Series::new(name.clone(), unit));
                self.by_name.insert(name, self.signals.len() - 1);
                self.signals.len() - 1
            }
        };
        self.signals[place].push(seconds(row.t_virtual.as_ns()), row.value);
    }

    /// Adds an event, and what it says about a program.
    pub(super) fn add_event(&mut self, row: &EventRow) {
        let event = EventView::of(row);
        let state = match &*row.kind {
            "start" => Some("running"),
            "ready" => Some("ready"),
            "end" => Some("ended"),
            _ => None,
        };
        if let Some(state) = state {
            self.set_program(&event, state);
        }
        self.events_seen += 1;
        if self.events.len() >= MOST_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    fn set_program(&mut self, event: &EventView, state: &'static str) {
        let programs = self.programs.change();
        let is_full = programs.len() >= MOST_PROGRAMS;
        let known = programs
            .iter_mut()
            .find(|it| it.host == event.host && it.name == event.source);
        match known {
            Some(program) => {
                program.state = state;
                program.since_s = event.t_s;
                // The command stays while a program that has become ready runs.
                if state != "ready" {
                    program.text.clone_from(&event.text);
                }
            }
            None if is_full => self.left_out.programs = true,
            None => programs.push(ProgramView {
                host: event.host.clone(),
                name: event.source.clone(),
                state,
                since_s: event.t_s,
                text: event.text.clone(),
            }),
        }
    }

    /// Adds an attack, or its end: a label is written at its start and again at its end.
    pub(super) fn add_label(&mut self, row: &LabelRow) {
        let attack = AttackView::of(row);
        let attacks = self.attacks.change();
        let is_full = attacks.len() >= MOST_ATTACKS;
        let same = |it: &&mut AttackView| {
            (&it.name, &it.target) == (&attack.name, &attack.target) && it.start_s == attack.start_s
        };
        match attacks.iter_mut().find(same) {
            Some(known) if row.end != Instant::FAR_FUTURE => known.end_s = attack.end_s,
            Some(_) => {}
            None if is_full => self.left_out.attacks = true,
            None => attacks.push(attack),
        }
    }

    pub(super) fn set_logs(&mut self, mut names: Vec<String>) {
        names.retain(|name| name.len() <= LONGEST_NAME);
        names.truncate(MOST_LOGS);
        self.logs.set(names);
    }

    /// Returns the remarks about what was left out.
    pub(super) fn remarks(&self) -> Vec<String> {
        let limits = [
            (self.left_out.signals, MOST_SIGNALS, "signals"),
            (self.left_out.programs, MOST_PROGRAMS, "programs"),
            (self.left_out.attacks, MOST_ATTACKS, "attacks"),
            (self.logs.value.len() == MOST_LOGS, MOST_LOGS, "logs"),
        ];
        let met = limits.into_iter().filter(|(is_met, ..)| *is_met);
        met.map(|(_, most, what)| format!("This page shows the first {most} {what} only."))
            .collect()
    }
}

/// Maximum number of signals that are kept. One takes some 30 KB here, and as much in a page.
const MOST_SIGNALS: usize = 400;
/// Maximum number of events that are kept, and sent to a page that was just opened.
pub(super) const MOST_EVENTS: usize = 1000;
const MOST_PROGRAMS: usize = 1000;
const MOST_ATTACKS: usize = 200;
const MOST_LOGS: usize = 2000;
/// Maximum length of the name of a signal or a log, in bytes.
const LONGEST_NAME: usize = 300;
