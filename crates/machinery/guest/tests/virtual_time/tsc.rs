//! Tests that the emulated time-stamp counter follows the clock, and that the programs' own SIGSEGV
//! behaves as natively.

use std::time::Duration;

use timeloom_guest::{ClockOptions, Tsc};

use crate::support::languages::scripts;
use crate::support::{Differential, Program, World, c_program, c_program_static};

fn emulating(theme: &str, dilation: f64) -> World {
    let clock = ClockOptions {
        dilation,
        tsc: Tsc::Emulate,
        ..ClockOptions::default()
    };
    World::with_clock(theme, clock)
}

#[test]
fn the_counter_and_faults_are_as_natively() {
    for dilation in [1.0, 5.0, 0.5] {
        let world = emulating("tsc", dilation);
        let programs = [c_program("tsc"), c_program_static("tsc")];
        Differential::of(programs, 400).run(&world, |world| {
            world.run_for(Duration::from_millis(200));
            world.pause_for(world.long());
        });
    }
}

/// Each read returns more than the one before: through pauses, changes of the rate, and with a
/// clock so slow that a tick takes as long as a read.
#[test]
fn the_counter_never_stands_or_goes_back() {
    let world = emulating("tsc-storm", 1.0);
    let factors = [5.0, 0.5, 20_000.0, 1.0, 20.0];
    let mut runs = Differential::of([c_program("tsc")], 500);
    runs.cases = vec!["increases"];
    runs.run(&world, |world| {
        for turn in 0..150 {
            world.pause_for(Duration::from_micros(700 * (turn % 3)));
            let factor = factors[turn as usize % factors.len()];
            world.session.dilate(factor).expect("a possible factor");
            std::thread::sleep(Duration::from_micros(1_500));
        }
        world.session.dilate(1.0).expect("a possible factor");
    });
}

/// Programs that know the counter's frequency (from the processor or the kernel) compute right
/// times.
#[test]
fn the_counter_has_the_frequency_of_the_machines() {
    let khz = |program: Program| {
        let (lines, status) = program.finish();
        assert_eq!(status, 0, "{lines:?}");
        let khz = lines[0].strip_prefix("khz=").expect("the frequency");
        khz.parse::<f64>().expect("a number")
    };
    let argv = || vec![c_program("tsc").into_os_string(), "rate".into()];
    let native = khz(Program::native(&argv()));
    for dilation in [1.0, 3.0] {
        let shown = khz(emulating("tsc-rate", dilation).start(argv()));
        assert!(
            (shown / native - 1.0).abs() < 0.001,
            "{shown} kHz at dilation {dilation}, natively {native} kHz"
        );
    }
}

/// All other behaviour is the same as without the emulation.
#[test]
fn other_programs_do_not_notice() {
    let c = ["waits", "masks", "signals", "cancel", "clocks"].map(c_program);
    as_natively("tsc-others", &Differential::of(c, 400));
}

#[test]
fn scripts_do_not_notice() {
    let runs = Differential {
        programs: scripts(),
        ..Differential::of([], 500)
    };
    as_natively("tsc-scripts", &runs);
}

pub(crate) fn as_natively(theme: &str, runs: &Differential) {
    runs.run(&emulating(theme, 1.0), |world| {
        world.run_for(Duration::from_millis(100));
        world.pause_for(world.long());
    });
}

/// Prints the cost of counter reads, for information. Checks nothing.
#[test]
#[ignore = "measures; prints"]
fn cost_of_counter_reads() {
    let argv = || vec![c_program("tsc").into_os_string(), "cost".into()];
    for _ in 0..3 {
        for (where_, program) in [
            ("outside", Program::native(&argv())),
            ("native", World::new("tsc-cost", 1.0).start(argv())),
            ("emulate", emulating("tsc-cost", 1.0).start(argv())),
        ] {
            println!("{where_}: {}", program.finish().0.join(", "));
        }
    }
}
