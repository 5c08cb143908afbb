//! Reads the same time alternately from a timeline, ClockBound 2 and ClockBound 3.
//!
//! `timeloom-bench-peers PAGE SHM0 SHM1 ROUNDS BATCH CORE` prints one line per round: nanoseconds
//! per read of the timeline's interval, of ClockBound 2.0.3's client, and of ClockBound 3's client.
//! `timeloom bench timeline` writes the three files and computes ratios. The program ends if a
//! client rejects its file or returns no valid interval, because it would otherwise measure an
//! error path.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use timeloom_timeline::shm::PageReader;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match measure(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("timeloom-bench-peers: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &[String]) -> Result<(), String> {
    let [page, v2, v3, rounds, batch, core] = arguments else {
        return Err("PAGE SHM0 SHM1 ROUNDS BATCH CORE".to_owned());
    };
    let number = |text: &String| {
        text.parse::<u32>()
            .map_err(|error| format!("{text}: {error}"))
    };
    let (rounds, batch) = (number(rounds)?, number(batch)?);
    pin(number(core)? as usize);
    let ours = PageReader::open_path(page.as_ref()).map_err(|refusal| refusal.to_string())?;
    let mut second = clock_bound_client::ClockBoundClient::new_with_path(v2)
        .map_err(|error| format!("ClockBound 2: {error:?}"))?;
    let mut third = clock_bound::Client::new_with_path(v3)
        .map_err(|error| format!("ClockBound 3: {error:?}"))?;
    let reading = ours.read_ns().map_err(|refusal| refusal.to_string())?;
    let now = second
        .now()
        .map_err(|error| format!("ClockBound 2: {error:?}"))?;
    let later = third
        .now()
        .map_err(|error| format!("ClockBound 3: {error:?}"))?;
    let synchronised = (
        now.clock_status == clock_bound_client::ClockStatus::Synchronized,
        later.clock_status == clock_bound::ClockStatus::Synchronized,
    );
    if !reading.bounded || synchronised != (true, true) {
        return Err(format!("not all are good: {reading:?}, {synchronised:?}"));
    }
    for _ in 0..rounds {
        let interval_ns = per_read_ns(batch, || {
            let _ = black_box(ours.read_ns());
        });
        let second_ns = per_read_ns(batch, || {
            let _ = black_box(second.now());
        });
        let third_ns = per_read_ns(batch, || {
            let _ = black_box(third.now());
        });
        println!("{interval_ns:.3} {second_ns:.3} {third_ns:.3}");
    }
    Ok(())
}

fn per_read_ns(batch: u32, mut read: impl FnMut()) -> f64 {
    let begun = Instant::now();
    for _ in 0..batch {
        read();
    }
    begun.elapsed().as_nanos() as f64 / f64::from(batch)
}

fn pin(core: usize) {
    // SAFETY: plain data, for which zero is a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a local variable; a number out of range is ignored.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: the size passed is that of the set. Failure only makes the figures noisier.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
}
