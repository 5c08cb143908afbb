//! Comparison of a program's native run with its run in a session.

use std::cell::Cell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::world::{Gate, Program};
use super::{Lines, World};

/// Programs whose native runs and runs in a session must be equal.
pub(crate) struct Differential {
    /// Programs, each with its leading arguments, such as an interpreter and a script.
    pub(crate) programs: Vec<Vec<OsString>>,
    /// Duration of the waits, in milliseconds of virtual time.
    pub(crate) wait_ms: u32,
    /// Names of the cases to run; all cases if empty.
    pub(crate) cases: Vec<&'static str>,
    /// Minimum lateness of a wait that has the fault for which the test looks. If the fault is that
    /// a wait counts a pause, this is the length of the pause. Half of it distinguishes the fault
    /// from a busy machine.
    pub(crate) fault: Duration,
    /// Instant just before the programs in the world were released, in the last run.
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

    /// Runs all programs natively, and then, beginning together, in `world`, while `meanwhile` acts
    /// on it. Compares the two runs.
    ///
    /// Nothing may differ, and no case may end early. A late end may be caused by other load on the
    /// machine, so such a case is run again, with pauses twice as long. A wait that counts a pause
    /// is late by the whole pause every time, while the delay by a busy machine does not grow with
    /// it. In a run in which a case was late, another difference may be a consequence, such as a
    /// timeout that expired, so that case is run again too.
    /// expired: it, too, is run again.
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

/// Runs a program of cases natively until it ends. Returns its lines.
pub(crate) fn natively(program: PathBuf, wait_ms: u32) -> Lines {
    let gate = Gate::new("native");
    let mut native = Program::native(&gate.arguments(&[program.into()], wait_ms, &[]));
    native.wait_for("ready");
    gate.open();
    lines_of(native)
}

/// Length of the pause that most tests make.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// Number of comparisons after which lateness counts as a failure.
pub(crate) const ATTEMPTS: u32 = 5;

/// Difference between a case's two runs, as text.
#[derive(Debug)]
pub(crate) enum Difference {
    /// The case returned another result, or is missing.
    Wrong(String),
    /// The case ended early, which load cannot cause.
    Early(String),
    /// The case ended late, and is right otherwise.
    Late(String),
}

impl Difference {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Wrong(text) | Self::Early(text) | Self::Late(text) => text,
        }
    }
}

/// Returns true if a busy machine may have caused these differences: some case was late, and none
/// early.
pub(crate) fn may_be_the_machines(differences: &[Difference]) -> bool {
    let is_early = |difference: &Difference| matches!(difference, Difference::Early(_));
    let is_late = |difference: &Difference| matches!(difference, Difference::Late(_));
    differences.iter().any(is_late) && !differences.iter().any(is_early)
}

/// Panics with a list of all differences.
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

/// Returns the differences between two runs, at most one for each case.
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
        // Both programs ran at the same time, so the load delayed both alike.
        let busy = (expected.number("virtual_ns") - expected.number("want_ns")).max(0);
        if lasted > want + slack_ns(busy, dilation, fault) {
            let late_ms = (lasted - want) / 1_000_000;
            all.push(Difference::Late(format!("{case}: ended {late_ms} ms late")));
        }
    }
    all
}

/// Returns the tolerance for scheduling delays in nanoseconds of virtual time. `busy_ns` is the
/// delay of the native run. When virtual time runs fast, the same wall time is more virtual time.
/// The result is always less than the fault's lateness.
fn slack_ns(busy_ns: i64, dilation: f64, fault: Duration) -> i64 {
    let wall_ns = fault.as_nanos() as f64 / 2.0 + 3.0 * busy_ns as f64;
    (wall_ns * (1.0 / dilation).max(1.0)) as i64
}
