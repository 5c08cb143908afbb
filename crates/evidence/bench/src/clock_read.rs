//! `clock-read`: cost of reading a clock in a session, compared with a native process.
//!
//! Three processes on one core read the clock alternately, one batch each: natively through the
//! kernel's vDSO, in a session through Timeloom's image, and natively with libfaketime, which is
//! the usual alternative for shifting a program's clock.

use std::path::PathBuf;

use crate::cores::measuring_core;
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
    let core = measuring_core();

    let mut native = Remote::start(options, &scratch, &Environment::Native)?;
    let mut inside = Remote::start(options, &scratch, &Environment::Inside(&session))?;
    let mut faked = start_faked(options, &scratch)?;
    let mut workers = vec![&mut native, &mut inside];
    workers.extend(&mut faked);
    for worker in &mut workers {
        worker.ask(&format!("pin {core}"))?;
    }

    for (clock, id, suffix) in CLOCKS {
        let command = format!("clock {id} {READS}");
        let rounds = Rounds::run(options.pick(31, 301), &command, &mut workers, scale)?;
        let described = |figure: Figure| {
            figure
                .with("clock", clock)
                .with("reads_per_round", READS)
                .with("core", core)
                .with("vdso_ns", median(rounds.base_ns()))
        };
        let ratio = Figure::new(
            BENCH,
            format!("virtual{suffix}_over_vdso"),
            "ratio",
            &rounds.ratios(0),
        );
        figure(described(ratio.bar(1.10)));
        let absolute = Figure::new(
            BENCH,
            format!("virtual{suffix}_ns"),
            "ns",
            rounds.other_ns(0),
        );
        figure(described(absolute));
        if workers.len() > 2 {
            let ratio = Figure::new(
                BENCH,
                format!("libfaketime{suffix}_over_vdso"),
                "ratio",
                &rounds.ratios(1),
            );
            figure(described(ratio).with("libfaketime_ns", median(rounds.other_ns(1))));
        }
    }
    Ok(())
}

/// Starts a worker with libfaketime. Returns `None`, with a remark for the user, if it is not
/// installed.
pub(crate) fn start_faked(
    options: &Options,
    scratch: &Scratch,
) -> Result<Option<Remote>, BenchError> {
    let Some(library) = libfaketime() else {
        (options.remark)(
            "libfaketime is not installed (Debian: apt install libfaketime); its figures are left out",
        );
        return Ok(None);
    };
    // Variables that `faketime '+1d'` sets.
    let variables = vec![
        ("LD_PRELOAD".into(), library.into()),
        ("FAKETIME".into(), "+1d".into()),
    ];
    Remote::start(options, scratch, &Environment::With(variables)).map(Some)
}

/// Returns the path of the library that the `faketime` command loads; `None` if it is not
/// installed.
fn libfaketime() -> Option<PathBuf> {
    ["/usr/lib", "/usr/lib64", "/usr/local/lib"]
        .into_iter()
        .flat_map(|root| {
            let below = std::fs::read_dir(root).into_iter().flatten().flatten();
            std::iter::once(PathBuf::from(root)).chain(below.map(|entry| entry.path()))
        })
        .map(|directory| directory.join("faketime/libfaketime.so.1"))
        .find(|path| path.exists())
}

const BENCH: Name = Name::ClockRead;
/// Number of reads per worker and round, which take about half a millisecond.
const READS: u32 = 21_000;
/// Clocks to read: name, identifier, and suffix of the metric's name.
const CLOCKS: [(&str, libc::clockid_t, &str); 2] = [
    ("CLOCK_MONOTONIC", libc::CLOCK_MONOTONIC, ""),
    ("CLOCK_REALTIME", libc::CLOCK_REALTIME, "_realtime"),
];
