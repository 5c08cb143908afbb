//! `exec`: cost of starting a program in a session, and of reading files that contain times;
//! additional memory of a process in a session, compared with a native one.

use crate::error::BenchError;
use crate::figure::Figure;
use crate::remote::{Environment, Remote, session};
use crate::rounds::Rounds;
use crate::scratch::Scratch;
use crate::stats::median;
use crate::ticks::Scale;
use crate::{Name, Options};

pub(crate) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let scale = Scale::calibrate();
    let scratch = Scratch::new()?;
    let session = session(options)?;
    let mut native = Remote::start(options, &scratch, &Environment::Native)?;
    let mut inside = Remote::start(options, &scratch, &Environment::Inside(&session))?;
    let rounds = Rounds::run(
        options.pick(101, 1001),
        "spawn",
        &mut [&mut native, &mut inside],
        scale,
    )?;
    figure(
        Figure::new(BENCH, "fork_exec_added_ns", "ns", &rounds.differences_ns(0))
            .bar(2e6)
            .with("program", "/bin/true")
            .with("native_ns", median(rounds.base_ns()))
            .with("inside_ns", median(rounds.other_ns(0))),
    );

    for (path, metric) in TIME_FILES {
        let rounds = Rounds::run(
            options.pick(31, 201),
            &format!("read {path} 210"),
            &mut [&mut native, &mut inside],
            scale,
        )?;
        figure(
            Figure::new(BENCH, metric, "ns", rounds.other_ns(0))
                .with("counts", "open, read and close")
                .with("native_ns", median(rounds.base_ns())),
        );
    }

    let mut added = Vec::new();
    let mut proportional = Vec::new();
    for _ in 0..options.pick(9, 31) {
        let native = Remote::start(options, &scratch, &Environment::Native)?;
        let inside = Remote::start(options, &scratch, &Environment::Inside(&session))?;
        let (native, inside) = (memory(native.pid())?, memory(inside.pid())?);
        added.push(inside.resident - native.resident);
        proportional.push(inside.proportional - native.proportional);
    }
    figure(
        Figure::new(BENCH, "resident_added_bytes", "bytes", &added)
            .bar(f64::from(2 << 20))
            .with(
                "counts",
                "Rss of a fresh worker process, shared pages in full",
            )
            .with("proportional_added_bytes", median(&proportional)),
    );
    Ok(())
}

/// Memory of one process, in bytes.
struct Memory {
    /// Resident set size, including all shared pages.
    resident: f64,
    /// Proportional set size, in which each shared page is divided by the number of its users.
    proportional: f64,
}

fn memory(pid: i32) -> Result<Memory, BenchError> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text =
        std::fs::read_to_string(&path).map_err(BenchError::system(format!("reading {path}")))?;
    let bytes = |field: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(field))
            .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<f64>().ok())
            .map(|kib| kib * 1024.0)
            .ok_or_else(|| BenchError::Worker(format!("{path} has no {field}")))
    };
    Ok(Memory {
        resident: bytes("Rss:")?,
        proportional: bytes("Pss:")?,
    })
}

const BENCH: Name = Name::Exec;

/// Files that contain times and that the supervisor serves (with root and FUSE).
const TIME_FILES: [(&str, &str); 2] = [
    ("/proc/uptime", "read_proc_uptime_ns"),
    ("/proc/stat", "read_proc_stat_ns"),
];
