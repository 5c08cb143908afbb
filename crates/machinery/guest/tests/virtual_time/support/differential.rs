//! The same program natively and under the clock.

use std::ffi::OsString;
use std::path::PathBuf;

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
        }
    }

    /// Runs all natively and then, beginning together, in `world`, while
    /// `meanwhile` acts on it; then compares.
    pub(crate) fn run(&self, world: &World, meanwhile: impl FnOnce(&World)) {
        let native = self.start(|argv| Program::native(&argv), &Gate::new("native"));
        let guests = self.start(|argv| world.start(argv), &world.gate);
        meanwhile(world);
        let mut complaints = Vec::new();
        let dilation = world.dilation();
        for (native, guest) in native.into_iter().zip(guests) {
            let (native, guest) = (lines_of(native), lines_of(guest));
            complaints.extend(differences(&native, &guest, dilation));
        }
        check(&complaints, world);
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

/// Fails with all complaints at once.
fn check(complaints: &[String], world: &World) {
    assert!(
        complaints.is_empty(),
        "{} of the cases differ (dilation now {}):\n{}\nwarnings: {:?}",
        complaints.len(),
        world.dilation(),
        complaints.join("\n"),
        world.warnings.lock().expect("no panic while held")
    );
}

/// What is not alike, one text per case.
pub(crate) fn differences(native: &Lines, guest: &Lines, dilation: f64) -> Vec<String> {
    let mut complaints = Vec::new();
    for (case, expected) in &native.0 {
        let Some(line) = guest.0.get(case) else {
            complaints.push(format!("{case}: not reported under the clock"));
            continue;
        };
        if line.result() != expected.result() {
            complaints.push(format!(
                "{case}: natively {}\n  under the clock {}",
                expected.result(),
                line.result()
            ));
            continue;
        }
        if line.text("virtual_ns").is_empty() {
            continue;
        }
        let (want, lasted) = (line.number("want_ns"), line.number("virtual_ns"));
        if lasted < want {
            complaints.push(format!("{case}: ended {} ns early", want - lasted));
        }
        // Both ran at once: what the machine did to one it did to the other.
        let busy = (expected.number("virtual_ns") - expected.number("want_ns")).max(0);
        if lasted > want + slack_ns(busy, dilation) {
            complaints.push(format!(
                "{case}: ended {} ms late",
                (lasted - want) / 1_000_000
            ));
        }
    }
    complaints
}

/// What scheduling may add, in virtual time, where it added `busy_ns` natively:
/// when time runs fast, the same wall time is more of it. On a machine that is
/// not overloaded less than the pause of a second that the tests make, so that a
/// wait which counts the pause is noticed.
fn slack_ns(busy_ns: i64, dilation: f64) -> i64 {
    let wall_ns = 400e6 + 3.0 * busy_ns as f64;
    (wall_ns * (1.0 / dilation).max(1.0)) as i64
}
