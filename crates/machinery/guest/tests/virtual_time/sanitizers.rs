//! Tests of programs built with sanitizers. Each sanitizer has its own addresses of shadow memory,
//! and refuses to start if there is an unexpected mapping.

use std::path::PathBuf;
use std::process::Command;

use timeloom_test_support::need;

use crate::support::{Program, World, built, must_run, source};

/// Name of the test program, under `tests/programs`, that is built with each sanitizer.
const PROGRAM: &str = "sanitized";

/// Returns the path of `sanitized.c`, built with `-fsanitize=NAME`.
fn sanitized(compiler: &str, name: &str) -> PathBuf {
    const ALIASES: &str = "-fsanitize-hwaddress-experimental-aliasing";
    let maps_aliases = name == "hwaddress" && cfg!(target_arch = "x86_64");
    built(&format!("{PROGRAM}.{compiler}.{name}"), |output| {
        must_run(
            Command::new(compiler)
                .args(["-g", "-O1", "-pthread"])
                .arg(format!("-fsanitize={name}"))
                .args(maps_aliases.then_some(ALIASES))
                .arg(source(&format!("{PROGRAM}.c")))
                .arg("-o")
                .arg(output),
        );
    })
}

/// Checks that the program prints the same and exits with the same status as natively.
fn is_as_natively(theme: &str, program: &PathBuf) {
    // The program runs with address randomization, and without it, which sanitizers may require:
    // with random addresses of 32 bits some do not start natively.
    for fixed in [true, false] {
        let without_randomization = ["setarch".into(), "-R".into()];
        let mut argv = Vec::new();
        argv.extend(without_randomization.into_iter().filter(|_| fixed));
        argv.push(program.into());
        let native = Program::native(&argv).finish();
        if !fixed && native.1 != 0 {
            continue;
        }
        assert_eq!(native.1, 0, "{program:?}: {native:?}");
        let world = World::new(theme, 2.0);
        let guest = world.start(argv).finish();
        assert_eq!(guest, native, "{program:?}, fixed addresses: {fixed}");
    }
}

#[test]
fn sanitizers_of_gcc_start_beside_the_image() {
    for name in ["thread", "address", "undefined", "leak"] {
        is_as_natively("sanitizers", &sanitized("gcc", name));
    }
}

/// HWAddressSanitizer is Clang's alone. On x86-64, whose processors mostly ignore no bits of an
/// address, it maps its heap several times instead, at addresses that differ in the tag.
#[test]
fn sanitizers_of_clang_start_beside_the_image() {
    need("clang-14", "clang-14");
    for name in ["memory", "thread", "address", "hwaddress"] {
        is_as_natively("sanitizers-clang", &sanitized("clang-14", name));
    }
}

#[test]
fn race_detector_of_go_starts_beside_the_image() {
    need("go", "golang-go");
    let program = built("race.go.race", |output| {
        must_run(
            Command::new("go")
                .envs([("GO111MODULE", "off"), ("CGO_ENABLED", "1")])
                .args(["build", "-race", "-o"])
                .arg(output)
                .arg(source("race.go")),
        );
    });
    is_as_natively("race", &program);
}
