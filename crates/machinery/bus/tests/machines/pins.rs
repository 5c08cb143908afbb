//! Tests of the names of chips and pins.

use std::path::PathBuf;

use timeloom_bus::{GpioPins, NoPins, PinNames};

#[test]
fn names_of_pins() {
    let pins: PinNames = "gpiochip0:17,27,22".parse().expect("names");
    assert_eq!(pins.chip, PathBuf::from("/dev/gpiochip0"));
    assert_eq!(pins.lines, [17, 27, 22]);
    assert_eq!(pins.to_string(), "/dev/gpiochip0:17,27,22");
    let other: PinNames = "/run/chip:0,1,2".parse().expect("names");
    assert_eq!(other.chip, PathBuf::from("/run/chip"));
    let refused = |wrong: &str| wrong.parse::<PinNames>().expect_err(wrong);
    for wrong in [
        "",
        "gpiochip0",
        ":1,2,3",
        "gpiochip0:1,2",
        "gpiochip0:1,2,3,4",
    ] {
        assert_eq!(refused(wrong), NoPins::Form, "{wrong}");
    }
    for wrong in ["gpiochip0:1,1,2", "gpiochip0:1,2,1", "gpiochip0:2,1,1"] {
        assert_eq!(refused(wrong), NoPins::Shared, "{wrong}");
    }
    for wrong in ["gpiochip0:-1,2,3", "gpiochip0:a,b,c"] {
        assert!(matches!(refused(wrong), NoPins::Number(_)), "{wrong}");
    }
}

#[test]
fn a_chip_that_is_not_there_is_said_so() {
    let names: PinNames = "/nowhere/gpiochip7:0,1,2".parse().expect("names");
    let error = GpioPins::open(&names).err().expect("no chip");
    assert!(error.to_string().contains("No such file"), "{error}");
}
