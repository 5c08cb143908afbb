//! One program natively and under the clock.

use std::cell::Cell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::world::{Gate, Program};
use super::{Lines, World};

/// Runs of some programs that shall be alike.
pub(crate) struct Differential {
    /// Each with its leading arguments, e.g. an interpreter and a script.
    pub(crate) programs: Vec<Vec<OsString>>,
    /// How long the waits last, in virtual time.
    pub(crate) wait_ms: u32,
    /// Which cases; all if empty.
    pub(crate) cases: Vec<&'static str>,
    /// How late a wait is, at least, that has the fault which is looked for: one that
    /// counts a pause, so long. Half of it tells the fault from a busy machine.
    pub(crate) fault: Duration,
    /// Just before those in the world were let go, in the last run.
    pub(crate) released: Cell<Option<Instant>>,
}

impl Differential {
    pub(crate) fn of(programs: impl IntoIterator<Item = PathBuf>, wait_ms: u32) -> Self {
        let programs = programs
            .into_iter()
            .map(|program| vec![program.into()])
            .collect();
        Self {
            programs,
            wait_ms,
            cases: Vec::new(),
            fault: PAUSE,
            released: Cell::new(None),
        }
    }

    /// Runs all natively and then, beginning together, in `world`, while
    /// `meanwhile` acts on it; then compares.
    ///
    /// Nothing may differ, and nothing end early. What ended late may be the machine's
    /// doing, which is busy with something else; so that is run again, with pauses twice
    /// as long. A wait that counts a pause is late by the whole of it every time; what a
    /// busy machine adds does not grow with it. What differs in a run in which something
    /// was late may come of that, as a timeout that expired: it, too, is run again.
    pub(crate) fn run(&self, world: &World, meanwhile: impl Fn(&World)) {
        let rates = world.rates();
        for attempt in 1.. {
            let longer = if self.fault == PAUSE {
                1 << (attempt - 1)
            } else {
                1
            };
            world.longer.store(longer, Ordering::Relaxed);
            let differences = self.once(world, &meanwhile);
            if differences.is_empty() {
                return;
            }
            if !may_be_the_machines(&differences) || attempt == ATTEMPTS {
                fail(&differences, world);
            }
            world.set_rates(rates);
        }
    }

    fn once(&self, world: &World, meanwhile: impl Fn(&World)) -> Vec<Difference> {
        let native = self.start(|argv| Program::native(&argv), &Gate::new("native"));
        let guests = self.start(|argv| world.start(argv), &Gate::new("guests"));
        meanwhile(world);
        let fault = self.fault * world.longer.load(Ordering::Relaxed);
        let mut all = Vec::new();
        for (native, guest) in native.into_iter().zip(guests) {
            let (native, guest) = (lines_of(native), lines_of(guest));
            all.extend(differences(&native, &guest, world.dilation(), fault));
        }
        all
    }

    fn start(&self, run: impl Fn(Vec<OsString>) -> Program, gate: &Gate) -> Vec<Program> {
        let mut started: Vec<Program> = self
            .programs
            .iter()
            .map(|program| run(gate.arguments(program, self.wait_ms, &self.cases)))
            .collect();
        started
            .iter_mut()
            .for_each(|program| program.wait_for("ready"));
        self.released.set(Some(Instant::now()));
        gate.open();
        started
    }
}

fn lines_of(program: Program) -> Lines {
    let (text, status) = program.finish();
    assert_eq!(status, 0, "a test program failed:\n{}", text.join("\n"));
    Lines::parse(&text)
}

/// A program of cases, natively, to its end.
pub(crate) fn natively(program: PathBuf, wait_ms: u32) -> Lines {
    let gate = Gate::new("native");
    let mut native = Program::native(&gate.arguments(&[program.into()], wait_ms, &[]));
    native.wait_for("ready");
    gate.open();
    lines_of(native)
}

/// The pause that most tests make.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// How often a comparison is made before lateness counts.
pub(crate) const ATTEMPTS: u32 = 5;

/// What is not alike of a case, in words.
#[derive(Debug)]
pub(crate) enum Difference {
    /// It returned something else, or is not there.
    Wrong(String),
    /// It ended early, which no machine's doing brings about.
    Early(String),
    /// It ended late, and is right otherwise.
    Late(String),
}

impl Difference {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Wrong(text) | Self::Early(text) | Self::Late(text) => text,
        }
    }
}

/// Whether a busy machine may have brought these about: something was late, and nothing early.
pub(crate) fn may_be_the_machines(differences: &[Difference]) -> bool {
    let is_early = |difference: &Difference| matches!(difference, Difference::Early(_));
    let is_late = |difference: &Difference| matches!(difference, Difference::Late(_));
    differences.iter().any(is_late) && !differences.iter().any(is_early)
}

/// Fails with all differences at once.
fn fail(differences: &[Difference], world: &World) -> ! {
    let texts: Vec<&str> = differences.iter().map(Difference::text).collect();
    panic!(
        "{} of the cases differ (dilation now {}):\n{}\nwarnings: {:?}",
        texts.len(),
        world.dilation(),
        texts.join("\n"),
        world.warnings.lock().expect("no panic while held")
    );
}

/// What is not alike, one of each case.
pub(crate) fn differences(
    native: &Lines,
    guest: &Lines,
    dilation: f64,
    fault: Duration,
) -> Vec<Difference> {
    let mut all = Vec::new();
    for (case, expected) in &native.0 {
        let Some(line) = guest.0.get(case) else {
            let text = format!("{case}: not reported under the clock");
            all.push(Difference::Wrong(text));
            continue;
        };
        if line.result() != expected.result() {
            all.push(Difference::Wrong(format!(
                "{case}: natively {}\n  under the clock {}",
                expected.result(),
                line.result()
            )));
            continue;
        }
        if line.text("virtual_ns").is_empty() {
            continue;
        }
        let (want, lasted) = (line.number("want_ns"), line.number("virtual_ns"));
        if lasted < want {
            let text = format!("{case}: ended {} ns early", want - lasted);
            all.push(Difference::Early(text));
        }
        // Both ran at once: what the machine did to one it did to the other.
        let busy = (expected.number("virtual_ns") - expected.number("want_ns")).max(0);
        if lasted > want + slack_ns(busy, dilation, fault) {
            let late_ms = (lasted - want) / 1_000_000;
            all.push(Difference::Late(format!("{case}: ended {late_ms} ms late")));
        }
    }
    all
}

/// What scheduling may add, in virtual time, where it added `busy_ns` natively:
/// when time runs fast, the same wall time is more of it. Less than the fault is late.
fn slack_ns(busy_ns: i64, dilation: f64, fault: Duration) -> i64 {
    let wall_ns = fault.as_nanos() as f64 / 2.0 + 3.0 * busy_ns as f64;
    (wall_ns * (1.0 / dilation).max(1.0)) as i64
}
