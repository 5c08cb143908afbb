//! Programs built with sanitizers, each of which has shadow memory at addresses of its own and
//! refuses to start beside a mapping that it does not expect.

use std::path::PathBuf;
use std::process::Command;

use timeloom_testing::need;

use crate::support::{Program, World, built, must_run, source};

/// Of it, under `tests/programs`, the programs here are built.
const PROGRAM: &str = "sanitized";

/// `sanitized.c`, built with `-fsanitize=NAME`.
fn sanitized(compiler: &str, name: &str) -> PathBuf {
    built(&format!("{PROGRAM}.{compiler}.{name}"), |output| {
        must_run(
            Command::new(compiler)
                .args(["-g", "-O1", "-pthread"])
                .arg(format!("-fsanitize={name}"))
                .arg(source(&format!("{PROGRAM}.c")))
                .arg("-o")
                .arg(output),
        );
    })
}

/// Prints the same in a session, and ends with the same status.
fn is_as_natively(theme: &str, program: &PathBuf) {
    // As sanitizers ask for it: at random addresses of 32 bits some do not start natively.
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

/// On 64-bit ARM another one is built by Clang alone.
#[test]
fn sanitizers_of_clang_start_beside_the_image() {
    need("clang-14", "clang-14");
    let more = cfg!(target_arch = "aarch64").then_some("hwaddress");
    for name in ["memory", "thread", "address"].into_iter().chain(more) {
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
