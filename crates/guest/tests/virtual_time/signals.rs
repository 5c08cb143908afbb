//! Signals of a program's own: EINTR exactly where it comes natively, jumps out
//! of waits, masks, signal stacks, cancellation. All with a pause before the
//! signal, which the program must not notice.

use std::time::Duration;

use crate::support::{Differential, World, c_program, c_program_static};

fn as_natively(program: &'static str) {
    let world = World::new(program, 1.0);
    let programs = [c_program(program), c_program_static(program)];
    Differential::of(programs, 200).run(&world, |world| {
        world.run_for(Duration::from_millis(100));
        world.pause_for(Duration::from_secs(1));
    });
}

#[test]
fn a_handler_interrupts_a_wait_as_natively() {
    as_natively("signals");
}

#[test]
fn blocked_signals_and_own_sigsys_handlers_do_no_harm() {
    as_natively("masks");
}

#[test]
fn a_thread_cancelled_in_a_wait_runs_its_cleanup_handlers() {
    as_natively("cancel");
}
