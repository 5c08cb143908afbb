//! Tests that invalid arguments give the native errno.

use crate::support::{Differential, Program, World, c_program};

#[test]
fn invalid_arguments_get_the_native_errno() {
    let world = World::new("errors", 1.0);
    Differential::of([c_program("errors")], 0).run(&world, |_| ());
}

/// A file that is not a hardware clock is refused natively and in a session. (The machine of
/// `scripts/test-phc` has a hardware clock.)
#[test]
fn a_file_that_is_no_hardware_clock_is_refused_as_natively() {
    let argv = [c_program("phc").into()];
    let native = Program::native(&argv).finish();
    assert_eq!(native, (vec!["failed=0".to_owned()], 0));
    let world = World::new("no-phc", 5.0);
    assert_eq!(world.start(argv).finish(), native);
}
