//! `syscall`: cost of a session's filter for system calls that do not carry time, cost of a trapped
//! call, and slow-down of `stat` if dates of files are virtual.

use timeloom_guest::{ClockOptions, FileTimes};

use crate::cores::measuring_core;
use crate::error::BenchError;
use crate::figure::Figure;
use crate::remote::{Environment, Remote, session, session_with};
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
    for worker in [&mut native, &mut inside] {
        worker.ask(&format!("pin {core}"))?;
    }
    let mut measure = |call: &str, count: u32| {
        let command = format!("call {call} {count}");
        let rounds = options.pick(31, 201);
        Rounds::run(rounds, &command, &mut [&mut native, &mut inside], scale)
    };

    for (call, suffix) in UNTOUCHED {
        let rounds = measure(call, 10_500)?;
        let added = Figure::new(
            BENCH,
            format!("untouched{suffix}_added_ns"),
            "ns",
            &rounds.differences_ns(0),
        );
        figure(
            added
                .bar(60.0)
                .with("call", call)
                .with("native_ns", median(rounds.base_ns()))
                .with("inside_ns", median(rounds.other_ns(0))),
        );
    }
    for (call, suffix) in TRAPPED {
        let rounds = measure(call, 2_100)?;
        let cost = Figure::new(
            BENCH,
            format!("trapped{suffix}_ns"),
            "ns",
            rounds.other_ns(0),
        );
        figure(
            cost.with("call", call)
                .with("native_ns", median(rounds.base_ns())),
        );
    }
    let dating = session_with(
        options,
        ClockOptions {
            files: FileTimes::Virtual,
            ..ClockOptions::default()
        },
    )?;
    let mut dated = Remote::start(options, &scratch, &Environment::Inside(&dating))?;
    dated.ask(&format!("pin {core}"))?;
    for (call, suffix) in DATED {
        let command = format!("call {call} 1050");
        let rounds = options.pick(31, 201);
        let rounds = Rounds::run(rounds, &command, &mut [&mut native, &mut dated], scale)?;
        let ratio = Figure::new(
            BENCH,
            format!("file_times_stat{suffix}_over_native"),
            "ratio",
            &rounds.ratios(0),
        );
        figure(
            ratio
                .with("native_ns", median(rounds.base_ns()))
                .with("inside_ns", median(rounds.other_ns(0))),
        );
    }
    Ok(())
}

const BENCH: Name = Name::Syscall;
/// Calls that the filter lets pass, with suffixes of the metric's name.
const UNTOUCHED: [(&str, &str); 3] = [("getppid", ""), ("pread", "_pread"), ("close", "_close")];
/// Calls that are trapped if dates of files are virtual: on a file older than the session, and on
/// one written in the session.
const DATED: [(&str, &str); 2] = [("stat", ""), ("stat_new", "_new")];
/// Calls that are always trapped, with suffixes of the metric's name.
const TRAPPED: [(&str, &str); 2] = [("clock_gettime", ""), ("rt_sigprocmask", "_sigprocmask")];
