//! Effects of the machine on figures in real time: the wake-up latency of a thread with the highest
//! priority, and the processor time that the hypervisor takes.

use std::time::Duration;

use timeloom_sys::schedule::sleep_exactly;

use super::BENCH;
use super::model::go_first;
use crate::figure::Figure;

/// Measurement of the processor time that the hypervisor gave to other virtual machines (steal
/// time).
pub(super) struct Stolen {
    from: Option<[u64; 2]>,
}

impl Stolen {
    pub(super) fn start() -> Self {
        Self { from: counts() }
    }

    /// Returns the fraction of steal time since the start; NaN if the kernel does not report it.
    pub(super) fn fraction(&self) -> f64 {
        match (self.from, counts()) {
            (Some(from), Some(to)) => (to[0] - from[0]) as f64 / (to[1] - from[1]).max(1) as f64,
            _ => f64::NAN,
        }
    }
}

/// Measurement of the processor time that this machine uses.
pub(super) struct Work {
    began: std::time::Instant,
    from: Option<u64>,
}

impl Work {
    pub(super) fn start() -> Self {
        Self {
            began: std::time::Instant::now(),
            from: at_work(),
        }
    }

    /// Returns the mean number of busy processors; NaN if the kernel does not report it.
    pub(super) fn processors(&self) -> f64 {
        let (Some(from), Some(to)) = (self.from, at_work()) else {
            return f64::NAN;
        };
        // The counters of proc_stat(5) are in hundredths of a second.
        (to - from) as f64 / 100.0 / self.began.elapsed().as_secs_f64()
    }
}

/// Returns the ticks in which processors were neither idle, nor waiting for a disk, nor stolen.
fn at_work() -> Option<u64> {
    let ticks = ticks()?;
    Some(ticks.iter().sum::<u64>() - ticks.get(3)? - ticks.get(4)? - ticks.get(7)?)
}

/// Returns the stolen ticks and all ticks of all processors (proc_stat(5)).
fn counts() -> Option<[u64; 2]> {
    let ticks = ticks()?;
    Some([*ticks.get(7)?, ticks.iter().sum()])
}

fn ticks() -> Option<Vec<u64>> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks = line.split_ascii_whitespace().map(|word| word.parse().ok());
    // The last two fields, guest time, are already included in the first two.
    ticks.take(8).collect()
}

/// Measures the wake-up latency of a SCHED_FIFO thread after sleeps of 1 ms. An engine that sleeps
/// cannot be better.
pub(super) fn wakes(group: &str, count: u32, figure: &mut dyn FnMut(Figure)) {
    let sleep = Duration::from_millis(1);
    let measure = move || -> Vec<f64> {
        go_first();
        sleep_exactly();
        let late = (0..count).map(|_| {
            let began = std::time::Instant::now();
            std::thread::sleep(sleep);
            (began.elapsed() - sleep).as_nanos() as f64
        });
        late.collect()
    };
    let thread = std::thread::spawn(measure);
    let late = thread.join().expect("measuring does not panic");
    let metric = format!("machine_wakes_late_before_{group}_ns");
    figure(
        Figure::new(BENCH, metric, "ns", &late)
            .with("p99_ns", crate::percentile(&late, 99.0))
            .with("worst_ns", crate::percentile(&late, 100.0))
            .with(
                "what",
                "a thread under SCHED_FIFO that sleeps for 1 ms and does nothing else",
            ),
    );
}
