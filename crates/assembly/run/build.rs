//! Collects the Python package, which runs put before the interpreters that lack it.
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where"));
    let package = here.join("../../../python/timeloom").canonicalize()?;
    println!("cargo::rerun-if-changed={}", package.display());
    let mut modules: Vec<PathBuf> = fs::read_dir(&package)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<_>>()?;
    modules.retain(|path| path.extension().is_some_and(|kind| kind == "py"));
    modules.sort();
    let mut text = String::from("&[\n");
    for path in &modules {
        println!("cargo::rerun-if-changed={}", path.display());
        let name = path.file_name().expect("a file").to_string_lossy();
        writeln!(text, "    ({name:?}, include_str!({path:?})),").expect("a string takes all");
    }
    text.push(']');
    let out = env::var_os("OUT_DIR").expect("cargo says where");
    fs::write(Path::new(&out).join("package.rs"), text)
}
