//! Exact runs over MPI: one network, of which each rank simulates a part.
//!
//! ```text
//! mpirun -n 2 timeloom-peering-mpi --shape dumbbell --delay-us 100 --ms 200
//! ```
//!
//! The program first verifies: it compares the digests of all arrivals over ranks, over threads and
//! in one engine, and the exit status is 1 if they differ. With `--rounds N` it then measures the
//! speeds of ranks, threads and one engine in turn, and of engines that do not wait, at the fastest
//! pace that they sustain. The output is JSON lines on standard output.
//!
//! The program is a verification and a benchmark, and the product does not depend on it. A program
//! that needs this transport can copy `exchange.rs`.

mod exchange;
mod network;
mod part;
mod ways;

use std::process::ExitCode;
use std::str::FromStr;

use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use timeloom_net::Owner;
use timeloom_time::Duration;

use network::{Model, Shape};
use part::Whole;

struct Arguments {
    model: Model,
    rounds: u32,
}

const USAGE: &str = "timeloom-peering-mpi [--shape dumbbell|thin|ring] [--seed N] [--flows N] [--delay-us N] [--ms N] [--rounds N]";

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments {
        model: Model {
            shape: Shape::Dumbbell,
            seed: 1,
            flows: 16,
            delay: Duration::from_us(100),
            length: Duration::from_ms(100),
        },
        rounds: 0,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(USAGE)?;
        match &word[..] {
            "--shape" => arguments.model.shape = value.parse()?,
            "--seed" => arguments.model.seed = number(&value)?,
            "--flows" => arguments.model.flows = positive(&value)?.clamp(1, 64) as usize,
            "--delay-us" => arguments.model.delay = Duration::from_us(positive(&value)?),
            "--ms" => arguments.model.length = Duration::from_ms(positive(&value)?),
            "--rounds" => arguments.rounds = number(&value)?,
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(arguments)
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("no number: `{text}`"))
}

fn positive(text: &str) -> Result<i64, String> {
    let value = number::<u32>(text)?;
    if value == 0 {
        return Err(format!("to be above 0: `{text}`"));
    }
    Ok(value.into())
}

fn main() -> ExitCode {
    let Some(universe) = mpi::initialize() else {
        eprintln!("MPI does not start");
        return ExitCode::from(3);
    };
    let ranks = universe.world();
    match arguments().and_then(|arguments| all(&arguments, &ranks)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("rank {}: {error}", ranks.rank());
            // Otherwise the other ranks would wait for this one.
            ranks.abort(2)
        }
    }
}

/// Performs the verification and the measurements; returns true if all digests are equal.
fn all(arguments: &Arguments, ranks: &SimpleCommunicator) -> Result<bool, String> {
    let same = proof(&arguments.model, ranks)?;
    if same && arguments.rounds > 0 {
        speeds(&arguments.model, ranks, arguments.rounds)?;
    }
    Ok(same)
}

fn proof(model: &Model, ranks: &SimpleCommunicator) -> Result<bool, String> {
    let parts = ranks.size() as Owner;
    let Some(over_mpi) = ways::ranks(model, ranks, true)? else {
        return Ok(ways::agree(ranks, true));
    };
    let single = ways::single(model, true)?;
    let threads = ways::threads(model, parts, true)?;
    for (way, whole) in [
        ("one engine", &single),
        ("threads", &threads),
        ("mpi", &over_mpi),
    ] {
        println!(
            r#"{{"shape":"{}","seed":{},"way":"{way}","engines":{},"arrivals":{},"hops":{},"crossed":{},"digest":"{}"}}"#,
            model.shape,
            model.seed,
            if way == "one engine" { 1 } else { parts },
            whole.arrivals,
            whole.hops,
            whole.left,
            whole.digest,
        );
    }
    let same = single.digest == over_mpi.digest && single.digest == threads.digest;
    if !same {
        eprintln!("{model:?}: the digests differ");
    }
    // Comparing empty runs would prove nothing.
    if single.arrivals < 1_000 || parts > 1 && over_mpi.left < 100 {
        return Err("too little happens in this network".to_owned());
    }
    Ok(ways::agree(ranks, same))
}

/// Rates tried for engines that do not wait: simulated time per wall time.
const RATES: [f64; 14] = [
    0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, 14.0,
];

fn speeds(model: &Model, ranks: &SimpleCommunicator, rounds: u32) -> Result<(), String> {
    let parts = ranks.size() as Owner;
    let (mut single, mut threads, mut over_mpi) = (Vec::new(), Vec::new(), Vec::new());
    let mut free = [ways::Carrier::Udp, ways::Carrier::SharedMemory].map(|one| (one, Vec::new()));
    for _ in 0..rounds {
        let Some(whole) = ways::ranks(model, ranks, false)? else {
            continue;
        };
        over_mpi.push(whole);
        threads.push(ways::threads(model, parts, false)?);
        single.push(ways::single(model, false)?);
        for (carrier, found) in &mut free {
            found.extend(fastest(model, parts, *carrier)?);
        }
    }
    if ranks.rank() != 0 {
        return Ok(());
    }
    // Each run consists of its simulated seconds and its result.
    let line = |way: &str, runs: &[(f64, &Whole)], more: &str| {
        let median = |of: &dyn Fn(f64, &Whole) -> f64| {
            median(runs.iter().map(|(length, whole)| of(*length, whole)))
        };
        println!(
            r#"{{"shape":"{}","delay_us":{},"way":"{way}","rounds":{},"simulated_over_wall":{:.3},"hops_per_second":{:.0},"cpu_ns_per_hop":{:.1},"most_cpu_ns_per_hop":{:.1},"goodput_gbps":{:.3}{more}}}"#,
            model.shape,
            model.delay.as_ns() / 1_000,
            runs.len(),
            median(&|length, whole| length / whole.wall_s),
            median(&|_, whole| whole.hops as f64 / whole.wall_s),
            median(&|_, whole| whole.cpu_s * 1e9 / whole.hops as f64),
            median(&|_, whole| whole.most_cpu_s * 1e9 / whole.hops as f64),
            median(&|length, whole| whole.delivered as f64 * 8e-9 / length),
        );
    };
    let windows = |wholes: &[Whole]| {
        let each = wholes
            .iter()
            .map(|whole| whole.wall_s * 1e6 / whole.windows as f64);
        let each = median(each);
        let count = wholes.first().map_or(0, |whole| whole.windows);
        format!(r#","windows":{count},"us_per_window":{each:.2}"#)
    };
    let length = model.length.as_s_f64();
    fn of(length: f64, wholes: &[Whole]) -> Vec<(f64, &Whole)> {
        wholes.iter().map(|whole| (length, whole)).collect()
    }
    line("one engine", &of(length, &single), "");
    line("threads", &of(length, &threads), &windows(&threads));
    line("mpi", &of(length, &over_mpi), &windows(&over_mpi));
    for (carrier, free) in &free {
        let way = match carrier {
            ways::Carrier::Udp => "not waiting",
            ways::Carrier::SharedMemory => "not waiting, shared memory",
        };
        if free.is_empty() {
            println!(
                r#"{{"shape":"{}","delay_us":{},"way":"{way}","rounds":0,"kept":"none of the paces that were tried"}}"#,
                model.shape,
                model.delay.as_ns() / 1_000,
            );
            continue;
        }
        let late = median(free.iter().map(|(_, free)| free.late));
        let kept: Vec<(f64, &Whole)> = free
            .iter()
            .map(|(length, free)| (*length, &free.whole))
            .collect();
        line(way, &kept, &format!(r#","late_fraction":{late:.4}"#));
    }
    Ok(())
}

/// Finds the fastest pace that engines which do not wait sustain; returns its simulated seconds and
/// its result.
fn fastest(
    model: &Model,
    parts: Owner,
    carrier: ways::Carrier,
) -> Result<Option<(f64, ways::Free)>, String> {
    let mut best = None;
    for rate in RATES {
        let found = ways::free(model, parts, rate, carrier)?;
        // The criterion is that of `timeloom bench net`: fewer than one event in ten is more than 1
        // ms late.
        if found.behind <= 0.1 {
            best = Some((model.lengthened(rate).length.as_s_f64(), found));
        }
    }
    Ok(best)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
