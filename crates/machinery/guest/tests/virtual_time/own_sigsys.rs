//! Tests that a program's own SIGSYS behaves as natively, beside the SIGSYS by which calls trap.

use std::os::unix::process::CommandExt;
use std::time::Duration;

use crate::support::command_line::{CommandLine, User};
use crate::support::{Differential, Program, World, c_program, c_program_static};

#[test]
fn a_programs_own_sigsys_is_as_natively() {
    for dilation in [1.0, 5.0, 0.5] {
        let world = World::new("own-sigsys", dilation);
        let programs = [c_program("sigsys"), c_program_static("sigsys")];
        Differential::of(programs, 400).run(&world, |world| {
            world.run_for(Duration::from_millis(100));
            world.pause_for(world.long());
        });
    }
}

/// The supervisor interrupts the program's waits by a SIGSYS, too.
#[test]
fn a_programs_own_sigsys_is_told_from_a_change_of_the_rate() {
    let world = World::new("own-sigsys-rate", 1.0);
    Differential::of([c_program("sigsys")], 1_600).run(&world, |world| {
        for turn in 0..100 {
            let factor = [5.0, 0.5, 1.0, 8.0][turn % 4];
            world.session.dilate(factor).expect("a possible factor");
            std::thread::sleep(Duration::from_millis(3));
        }
        world.session.dilate(1.0).expect("a possible factor");
    });
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_programs_own_sigsys_is_as_natively_where_the_counter_is_emulated() {
    let runs = Differential::of([c_program("sigsys")], 400);
    crate::tsc::as_natively("own-sigsys-tsc", &runs);
}

/// A program inherits that SIGSYS is ignored, although the image handles it.
#[test]
fn a_sigsys_that_is_ignored_at_the_start_stays_ignored() {
    const ASKS: &str = "import signal; print(signal.getsignal(signal.SIGSYS) == signal.SIG_IGN)";
    let line = CommandLine::new("ignored-sigsys", User::Same);
    for (action, says) in [(libc::SIG_IGN, "True\n"), (libc::SIG_DFL, "False\n")] {
        let exec = ["exec", "--name", &line.name, "--", "python3", "-c", ASKS];
        let mut command = line.command(exec);
        let set = move || {
            // SAFETY: the call may be made after a fork, and affects the child alone.
            unsafe { libc::signal(libc::SIGSYS, action) };
            Ok(())
        };
        // SAFETY: the closure only makes that call.
        let output = unsafe { command.pre_exec(set) }.output();
        let output = output.expect("running timeloom");
        assert_eq!(String::from_utf8_lossy(&output.stdout), says, "{output:?}");
    }
    line.assert_nothing_left();
}

/// Prints the cost of calls on signal masks, for information. Checks nothing.
#[test]
#[ignore = "measures; prints"]
fn cost_of_signal_masks() {
    let argv = || vec![c_program("sigsys").into_os_string(), "cost".into()];
    for _ in 0..3 {
        let world = World::new("masks-cost", 1.0);
        let native = Program::native(&argv()).finish();
        let guest = world.start(argv()).finish();
        for (place, (said, _)) in [("outside", native), ("inside", guest)] {
            println!("{place}: {}", said.join(", "));
        }
    }
}
