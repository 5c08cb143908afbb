//! Builds the image, which replaces the vDSO in guests, so that `image.rs` can embed it.
//!
//! Cargo has no stable way to build one crate as a free-standing shared object and to embed it in
//! another. This script therefore calls `rustc` to compile the three crates of the image, and links
//! them by our own linker script.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let crates =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    for part in [
        "words/time",
        "machinery/abi",
        "machinery/shim",
        "machinery/guest/image",
    ] {
        println!("cargo:rerun-if-changed={}", crates.join(part).display());
    }
    println!("cargo:rerun-if-changed=build.rs");

    compile(
        &crates.join("words/time/src/lib.rs"),
        "timeloom_time",
        "rlib",
        &[],
        &out,
    );
    compile(
        &crates.join("machinery/abi/src/lib.rs"),
        "timeloom_abi",
        "rlib",
        &["timeloom_time"],
        &out,
    );
    compile(
        &crates.join("machinery/shim/src/lib.rs"),
        "timeloom_shim",
        "staticlib",
        &["timeloom_abi", "timeloom_time"],
        &out,
    );
    link(&out, &crates.join("machinery/guest/image"));
}

/// Returns the target triple and the name of its linker.
fn target() -> (String, &'static str) {
    let target = env::var("TARGET").expect("cargo sets TARGET");
    let processor = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let is_native = env::var("HOST").is_ok_and(|host| host == target);
    let linker = match processor.as_str() {
        "x86_64" | "aarch64" if is_native => "ld",
        "x86_64" => "x86_64-linux-gnu-ld",
        "aarch64" => "aarch64-linux-gnu-ld",
        other => {
            panic!("guests are supported on x86-64 and 64-bit ARM (aarch64) only, not on {other}")
        }
    };
    (processor, linker)
}

fn compile(source: &Path, name: &str, kind: &str, needs: &[&str], out: &Path) {
    let mut rustc = Command::new(env::var_os("RUSTC").expect("cargo sets RUSTC"));
    rustc
        .arg(source)
        .args(["--edition=2024", "--crate-name", name, "--crate-type", kind]);
    rustc.args(["--cfg", "timeloom_image", "--cap-lints=allow", "--target"]);
    rustc.arg(env::var_os("TARGET").expect("cargo sets TARGET"));
    // Unwind tables are needed because the cancellation of a thread unwinds through the handler.
    // The code uses no vector units beyond the baseline, since the image is mapped on every
    // machine.
    rustc.args([
        "-Copt-level=3",
        "-Cpanic=abort",
        "-Crelocation-model=pic",
        "-Cforce-unwind-tables=yes",
        "-Ccodegen-units=1",
        "-Cembed-bitcode=yes",
    ]);
    if kind == "staticlib" {
        rustc.arg("-Clto=fat");
    }
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "aarch64") {
        // If a signal handler of the program interrupts a wait of the image, it finds the image's
        // register values. Go's handler expects its goroutine in x28, whatever code it interrupts.
        // The kernel's vDSO does not use x28 either.
        rustc.arg("-Ctarget-feature=+reserve-x28");
    }
    for need in needs {
        rustc
            .arg("--extern")
            .arg(format!("{need}={}/lib{need}.rlib", out.display()));
    }
    rustc.arg("-L").arg(out).arg("--out-dir").arg(out);
    run(rustc, "compiling a part of the image");
}

fn link(out: &Path, scripts: &Path) {
    let (processor, linker) = target();
    let mut linker = Command::new(linker);
    linker.args([
        "-shared",
        "-soname=linux-vdso.so.1",
        "--hash-style=both",
        "-Bsymbolic",
    ]);
    linker.args([
        "--no-undefined",
        "--gc-sections",
        "--eh-frame-hdr",
        "--build-id=none",
    ]);
    linker.args([
        "-z",
        "max-page-size=4096",
        "-z",
        "noexecstack",
        "--orphan-handling=place",
    ]);
    // All other code is reachable from these roots, or discarded.
    for root in [
        "timeloom_handler",
        "timeloom_intercepted",
        "timeloom_restorer",
        "timeloom_wait",
        "timeloom_be_traced",
        "timeloom_gdb_option",
        "timeloom_vdso_clock_gettime",
    ] {
        linker.arg(format!("--undefined={root}"));
    }
    linker.arg("-T").arg(scripts.join("image.lds"));
    linker.arg(format!(
        "--version-script={}",
        scripts.join(format!("{processor}.map")).display()
    ));
    linker
        .arg(out.join("libtimeloom_shim.a"))
        .arg("-o")
        .arg(out.join("image.so"));
    run(linker, "linking the image");
}

fn run(mut command: Command, what: &str) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{what}: {}: {error}", command.get_program().display()));
    if !output.status.success() {
        panic!(
            "{what} failed:\n{command:?}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
