//! The counters that a page's line may start from.

use timeloom_clock::Core;
use timeloom_page::CounterKind;
use timeloom_time::{ClockMap, Counter, Instant, Rate};

/// The counter's ticks as nanoseconds of the core clock: a fixed line, made once
/// when the writer starts, with the counter's nominal rate.
pub type CoreScale = ClockMap<Counter, Core>;

/// What `kind` shows now, ordered after all earlier loads.
#[inline(always)]
pub fn now_ticks(kind: CounterKind) -> u64 {
    match kind {
        #[cfg(target_arch = "x86_64")]
        CounterKind::Tsc => timeloom_page::ticks_ordered(),
        _ => monotonic_ns(),
    }
}

/// The counter kind for its number in a page, when this build can read it.
pub(crate) fn kind_of(number: u32) -> Option<CounterKind> {
    match number {
        1 if cfg!(target_arch = "x86_64") => Some(CounterKind::Tsc),
        2 => Some(CounterKind::Monotonic),
        _ => None,
    }
}

/// The line for a counter that already counts nanoseconds.
pub(crate) fn nanoseconds() -> CoreScale {
    ClockMap::new(Instant::ZERO, Instant::ZERO, Rate::ONE)
}

fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
