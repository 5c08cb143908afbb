//! Comparison of the model of the kernel's clocks with a recording of a real kernel.
//!
//! `kernel/trace.txt` contains the answers of Linux (user-mode Linux) to a sequence of some 300
//! calls (`kernel/record.c`, `kernel/record.sh`), with readings of its clocks after each call. The
//! model gets the same calls at the same instants of CLOCK_MONOTONIC_RAW. Every field that the
//! kernel returned must be equal, and the clocks must agree within the precision of the recording.

use timeloom_clock::kernel::{Errno, KernelClock, KernelClockOptions, Timex, modes};
use timeloom_time::Instant;

/// Greatest change of the difference between model and kernel from one line to the next. The
/// kernel's clocks are read one after another in a fixed order, which takes some 17 µs.
const CLOCK_TOLERANCE_NS: i64 = 5_000;

/// Delay of a rate change, in seconds. A rate that changes at the beginning of a second is in force
/// from the kernel's next tick on, which is counted one more tick later (10 ms each at HZ=100). The
/// kernel later compensates for a part of the delay.
const TICKS_OF_DELAY_S: f64 = 0.02;

/// Minimum duration of reading all clocks.
const READING_NS: i64 = 17_000;

struct Line<'a> {
    number: usize,
    words: Vec<&'a str>,
    result: i64,
    errno: i64,
    after: Vec<i64>,
    raw: (i64, i64),
    /// Readings of RAW, REALTIME, MONOTONIC and TAI, and the duration of reading them, in ns.
    clocks: Vec<i64>,
}

fn numbers(text: &str) -> Vec<i64> {
    text.split_ascii_whitespace()
        .map(|word| word.parse().expect("a number"))
        .collect()
}

fn parse(number: usize, text: &str) -> Line<'_> {
    let parts: Vec<&str> = text.split(" | ").collect();
    let outcome = numbers(parts[1]);
    let raw = numbers(parts[3]);
    Line {
        number,
        words: parts[0].split_ascii_whitespace().collect(),
        result: outcome[0],
        errno: outcome[1],
        after: numbers(parts[2]),
        raw: (raw[0], raw[1]),
        clocks: numbers(parts[4]),
    }
}

fn errno(error: Errno) -> i64 {
    match error {
        Errno::Invalid => 22,
        Errno::NotPermitted => 1,
    }
}

#[test]
fn the_model_answers_as_the_kernel_did() {
    let trace = include_str!("kernel/trace.txt");
    let mut lines = trace
        .lines()
        .enumerate()
        .filter(|(_, l)| !l.starts_with('#'));
    let (_, hz) = lines.next().expect("the kernel's HZ");
    let ticks_per_s = hz.strip_prefix("hz ").expect("HZ").parse().expect("HZ");
    // The first command sets the clock, whatever its previous value. Its answer gives the initial
    // value of MONOTONIC for the model.
    let (number, first) = lines.next().expect("the first command");
    let first = parse(number, first);
    let [raw, realtime, monotonic, ..] = first.clocks[..] else {
        panic!("clocks")
    };
    let mut clock = KernelClock::new(&KernelClockOptions {
        raw: Instant::from_ns(raw),
        monotonic: Instant::from_ns(monotonic),
        realtime: Instant::from_ns(realtime),
        tai_s: 0,
        ticks_per_s,
    });
    let mut privileged = true;
    let mut compared = 0;
    // TAI is read that much later than the middle of the readings.
    let mut before = (clock.line().rate().as_f64(), [0i64, 0, -8_704]);
    let mut reading_before = READING_NS;
    let mut slack_ns;
    for (number, text) in lines {
        match text {
            "end" => break,
            "unprivileged" => {
                privileged = false;
                continue;
            }
            _ => {}
        }
        let line = parse(number, text);
        // The instant of a step is known only to within the duration of the call.
        slack_ns = 0;
        let now = Instant::from_ns((line.raw.0 + line.raw.1) / 2);
        match line.words[0] {
            "adjtimex" => {
                slack_ns = check_adjtimex(&mut clock, &line, now, privileged);
            }
            "settime" => {
                // The step removes the previous difference between model and kernel.
                slack_ns = before.1[0].abs();
                slack_ns += check_settime(&mut clock, &line, now, privileged);
            }
            // Only the supervisor knows which clocks exist; the comparison of clock readings below
            // is sufficient here.
            "clock_adjtime" => {}
            other => panic!("line {}: {other}?", line.number + 1),
        }
        let read = Instant::from_ns(line.clocks[0]);
        clock.advance(read);
        let monotonic = clock.line().at(read).as_ns();
        let realtime = monotonic + clock.realtime_ahead().as_ns();
        let tai = monotonic + clock.tai_ahead().as_ns();
        let rate = clock.line().rate().as_f64();
        let seen = [realtime, monotonic, tai];
        let errors = std::array::from_fn(|i| seen[i] - line.clocks[i + 1]);
        let delay_ns = (rate - before.0).abs() * TICKS_OF_DELAY_S * 1e9;
        let tolerance = CLOCK_TOLERANCE_NS
            + slack_ns
            + delay_ns as i64
            + (line.clocks[4] - READING_NS).max(0)
            + (reading_before - READING_NS).max(0);
        reading_before = line.clocks[4];
        for (error, earlier) in errors.iter().zip(before.1) {
            let drifted: i64 = error - earlier;
            assert!(
                drifted.abs() <= tolerance,
                "line {}: {text}\nthe model shows {seen:?}, in all {errors:?} ns off, {drifted} ns more than before, with a tolerance of {tolerance} ns",
                line.number + 1
            );
        }
        before = (rate, errors);
        compared += 1;
    }
    println!(
        "{compared} calls agree; at the end the clocks are {:?} ns apart",
        before.1
    );
    assert!(compared > 280, "the trace is complete");
}

fn check_adjtimex(
    clock: &mut KernelClock,
    line: &Line<'_>,
    now: Instant<timeloom_clock::Core>,
    privileged: bool,
) -> i64 {
    let given = numbers(&line.words[1..].join(" "));
    let mut timex = Timex {
        modes: given[0] as u32,
        offset: given[1],
        freq: given[2],
        maxerror: given[3],
        esterror: given[4],
        status: given[5] as i32,
        constant: given[6],
        time_s: given[7],
        time_part: given[8],
        tick: given[9],
        ..Timex::default()
    };
    let place = format!("line {}: {}", line.number + 1, line.words.join(" "));
    match clock.adjust(now, &mut timex, privileged) {
        Err(error) => assert_eq!((line.result, line.errno), (-1, errno(error)), "{place}"),
        Ok(adjusted) => {
            assert_eq!(line.result, i64::from(adjusted.state), "{place}");
            let mine = [
                timex.offset,
                timex.freq,
                timex.maxerror,
                timex.esterror,
                i64::from(timex.status),
                timex.constant,
                timex.precision,
                timex.tolerance,
                timex.time_s,
            ];
            assert_eq!(mine, line.after[..9], "{place}");
            let rest = [timex.tick, i64::from(timex.tai)];
            assert_eq!(rest, line.after[10..12], "{place}");
        }
    }
    let stepped = given[0] as u32 & modes::SETOFFSET != 0;
    i64::from(stepped) * (line.raw.1 - line.raw.0)
}

fn check_settime(
    clock: &mut KernelClock,
    line: &Line<'_>,
    now: Instant<timeloom_clock::Core>,
    privileged: bool,
) -> i64 {
    let given = numbers(&line.words[1..].join(" "));
    if given[0] != 0 {
        assert_eq!(line.result, -1, "only REALTIME can be set");
        return 0;
    }
    let result = clock.set(now, given[1], given[2], privileged);
    let place = format!("line {}: {}", line.number + 1, line.words.join(" "));
    match result {
        Err(error) => assert_eq!((line.result, line.errno), (-1, errno(error)), "{place}"),
        Ok(()) => {
            assert_eq!(line.result, 0, "{place}");
        }
    }
    line.raw.1 - line.raw.0
}
