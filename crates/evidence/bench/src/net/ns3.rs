//! The dumbbell in ns-3: compiled if ns-3 is installed, and skipped otherwise.

use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde::Deserialize;
use timeloom_sys::command::inherit;

use super::model::{Outcome, Shape};
use crate::error::BenchError;
use crate::scratch::Scratch;

const SOURCE: &str = include_str!("../../peers/ns3_dumbbell.cc");
const LIBRARIES: [&str; 6] = [
    "core",
    "network",
    "internet",
    "point-to-point",
    "applications",
    "traffic-control",
];

/// The compiled model of the dumbbell.
pub(super) struct Ns3(Program);

/// A program for ns-3 that was compiled here.
pub(super) struct Program {
    program: PathBuf,
    _scratch: Scratch,
}

#[derive(Deserialize)]
struct NsRun {
    hops: u64,
    cpu_s: f64,
    wall_s: f64,
    goodput_bps: Vec<f64>,
}

impl Program {
    /// Compiles the program. The inner error is the reason for which this machine cannot compile
    /// it.
    pub(super) fn compile(
        name: &str,
        text: &str,
        libraries: &[&str],
    ) -> Result<Result<Self, String>, BenchError> {
        let scratch = Scratch::new()?;
        let source = scratch.path().join(format!("{name}.cc"));
        let program = scratch.path().join(name);
        std::fs::write(&source, text)
            .map_err(BenchError::system(format!("writing {}", source.display())))?;
        let mut compiler = Command::new("g++");
        compiler.arg("-O2").arg("-o").arg(&program).arg(&source);
        // Debian's ns-3 libraries need symbols of GSL, whose development files are not installed.
        compiler.arg("-Wl,--allow-shlib-undefined");
        compiler.args(libraries.iter().map(|name| format!("-lns3-{name}")));
        let output = match compiler.output() {
            Ok(output) => output,
            Err(error) => return Ok(Err(format!("g++: {error}"))),
        };
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let first = text.lines().find(|line| line.contains("error"));
            let why = first.unwrap_or("g++ failed").to_owned();
            return Ok(Err(format!("{why} (libns3-dev is needed)")));
        }
        Ok(Ok(Self {
            program,
            _scratch: scratch,
        }))
    }

    /// Starts the program, which inherits these file descriptors, and waits until it reports that
    /// it is ready.
    pub(super) fn start_with(
        &self,
        arguments: &[String],
        descriptors: impl IntoIterator<Item = OwnedFd>,
    ) -> Result<Child, BenchError> {
        let mut command = Command::new(&self.program);
        command.args(arguments).stdout(Stdio::piped());
        for descriptor in descriptors {
            inherit(&mut command, descriptor);
        }
        let mut child = command
            .spawn()
            .map_err(BenchError::system("running ns-3"))?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output)
                .read_line(&mut line)
                .map_err(BenchError::system("hearing from ns-3"))?;
        }
        if line.trim() != "ready" {
            let _ = child.kill();
            let _ = child.wait();
            return Err(BenchError::Worker(format!("ns-3 answered `{line}`")));
        }
        Ok(child)
    }
}

impl Ns3 {
    /// Compiles the model. The inner error is the reason for which this machine cannot compile it.
    pub(super) fn compile() -> Result<Result<Self, String>, BenchError> {
        let compiled = Program::compile("dumbbell", SOURCE, &LIBRARIES)?;
        Ok(compiled.map(Self))
    }

    /// Runs the model once with this shape.
    pub(super) fn run(&self, shape: &Shape) -> Result<Outcome, BenchError> {
        let output = Command::new(&self.0.program)
            .arg(format!("--flows={}", shape.flows))
            .arg(format!("--hosts={}", shape.hosts))
            .arg(format!("--warm={}", shape.warm.as_s_f64()))
            .arg(format!("--window={}", shape.window.as_s_f64()))
            .output()
            .map_err(BenchError::system("running ns-3"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line: NsRun = serde_json::from_str(text.trim()).map_err(|error| {
            let said = String::from_utf8_lossy(&output.stderr);
            BenchError::Worker(format!("ns-3 answered `{}` ({error}) {said}", text.trim()))
        })?;
        Ok(Outcome {
            hops: line.hops,
            cpu_s: line.cpu_s,
            wall_s: line.wall_s,
            goodput_bps: line.goodput_bps,
        })
    }
}
