//! Compilation of the test programs, once per run of the tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

/// Returns the path of `tests/programs/NAME.c`, built and linked dynamically.
pub(crate) fn c_program(name: &str) -> PathBuf {
    built(&format!("{name}.dynamic"), |output| gcc(name, &[], output))
}

/// Returns the path of `tests/programs/NAME.c`, built and linked statically.
pub(crate) fn c_program_static(name: &str) -> PathBuf {
    built(&format!("{name}.static"), |output| {
        gcc(name, &["-static"], output)
    })
}

/// Returns the path of `tests/programs/NAME.c`, built so that its cleanup handlers are run by
/// unwinding the stack, like destructors in C++, and not by jumping.
pub(crate) fn c_program_unwinding(name: &str) -> PathBuf {
    built(&format!("{name}.unwinding"), |output| {
        gcc(name, &["-fexceptions"], output)
    })
}

/// Runs `build` for `name` unless that was already done. Tests that need the same program at the
/// same time wait for each other. Returns the path of the program.
pub(crate) fn built(name: &str, build: impl FnOnce(&Path)) -> PathBuf {
    if let Some(program) = ready(name) {
        return program;
    }
    static DONE: Mutex<BTreeMap<String, Arc<OnceLock<PathBuf>>>> = Mutex::new(BTreeMap::new());
    let slot = Arc::clone(
        DONE.lock()
            .unwrap_or_else(|e| e.into_inner())
            .entry(name.into())
            .or_default(),
    );
    slot.get_or_init(|| {
        let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // The file is built under another name first: a concurrent test run may be executing the
        // old file.
        let fresh = output.with_file_name(format!("{name}.{}.new", std::process::id()));
        build(&fresh);
        // The old file is kept if nothing has changed: programs find themselves by the name of
        // their file.
        let same = std::fs::read(&output)
            .is_ok_and(|old| std::fs::read(&fresh).is_ok_and(|new| new == old));
        if same {
            std::fs::remove_file(&fresh).expect("removing a test program");
        } else {
            std::fs::rename(&fresh, &output).expect("renaming a test program");
        }
        output
    })
    .clone()
}

/// Returns the path of a prebuilt program, if there are prebuilt programs. Where there is no
/// compiler (`make test-aarch64`), they are in a directory, with their sources.
///
/// # Panics
/// Panics if there is such a directory, but the program is not in it.
pub(crate) fn ready(name: &str) -> Option<PathBuf> {
    let program = Path::new(&std::env::var_os("TIMELOOM_TEST_PROGRAMS")?).join(name);
    assert!(program.exists(), "{} is not there", program.display());
    Some(program)
}

/// Returns the path of a source file in `tests/programs`.
pub(crate) fn source(file: &str) -> PathBuf {
    if let Some(ready) = ready(file) {
        return ready;
    }
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(file)
}

/// Runs a build command to its end.
///
/// # Panics
/// Panics with the command's output if the command is missing or fails.
pub(crate) fn must_run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| {
        panic!(
            "{} is needed to build the test programs: {error}",
            command.get_program().display()
        )
    });
    assert!(
        output.status.success(),
        "{command:?} failed:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn gcc(name: &str, options: &[&str], output: &Path) {
    must_run(
        Command::new("gcc")
            .args(["-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread"])
            .args(options)
            .arg(source(&format!("{name}.c")))
            .arg("-o")
            .arg(output),
    );
}
