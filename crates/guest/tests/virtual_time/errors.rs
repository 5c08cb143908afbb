//! Invalid arguments get the errno they get natively.

use crate::support::{Differential, World, c_program};

#[test]
fn invalid_arguments_get_the_native_errno() {
    let world = World::new("errors", 1.0);
    Differential::of([c_program("errors")], 0).run(&world, |_| ());
}
