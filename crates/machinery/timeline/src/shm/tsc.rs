//! The processor's time-stamp counter, as a counter for RVEC and for pages.

use timeloom_clock::counter::CycleCounter;
use timeloom_time::{Instant, Rate};

use crate::shm::counter::CoreScale;

/// The x86 time-stamp counter. If Linux uses it as its clock source, it has one rate in all power
/// states of the cores, so a clock of RVEC over it is a single segment.
#[derive(Clone, Copy, Debug)]
pub struct TscClock {
    _proof: (),
}

/// Reason why the time-stamp counter is not usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TscError {
    /// The kernel uses another clock source, which has this name. It is not enough that the counter
    /// is *available*, because the kernel may have found it unstable.
    #[error("the kernel's clock source is {0}, not the time-stamp counter")]
    NotTrusted(String),
    /// The counter could not be compared with the kernel's clock, because the machine was too busy
    /// or the counter is uneven.
    #[error("the time-stamp counter cannot be compared with the clock")]
    Uneven,
}

impl TscClock {
    /// Returns the counter, if the kernel uses it as its clock source now.
    ///
    /// # Errors
    /// Fails with [`TscError::NotTrusted`].
    pub fn trusted() -> Result<Self, TscError> {
        let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let source = std::fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_owned();
        // The clock sources of KVM and Hyper-V are this counter with a scale, but the hypervisor
        // may change that scale, so the raw counter is not usable.
        if source == "tsc" {
            Ok(Self { _proof: () })
        } else {
            Err(TscError::NotTrusted(source))
        }
    }

    /// Measures the counter's rate over 40 ms of CLOCK_MONOTONIC_RAW, and returns it as a map to a
    /// core clock whose zero is now.
    ///
    /// The uncertainty of the two samples bounds the error of the rate. If it is 10 ppm or more,
    /// the measurement is repeated. The error belongs to the error that the oscillator's
    /// specification states. All writers of a host should share one map, because the map defines
    /// the core clock.
    ///
    /// # Errors
    /// Fails with [`TscError::Uneven`] if several attempts have too large an error.
    pub fn calibrate(&self) -> Result<CoreScale, TscError> {
        for _ in 0..8 {
            let before = look();
            std::thread::sleep(core::time::Duration::from_millis(40));
            let after = look();
            let (ticks, ns) = (after.ticks - before.ticks, after.raw_ns - before.raw_ns);
            let unsure = (before.unsure + after.unsure) as f64 / ticks as f64;
            if unsure < 10e-6 {
                let rate = Rate::from_ratio(ns, ticks).ok_or(TscError::Uneven)?;
                return Ok(CoreScale::new(
                    Instant::from_ticks(after.ticks),
                    Instant::ZERO,
                    rate,
                ));
            }
        }
        Err(TscError::Uneven)
    }
}

impl CycleCounter for TscClock {
    fn width_bits(&self) -> u32 {
        64
    }

    fn cycles(&self) -> u64 {
        timeloom_abi::ticks_ordered()
    }
}

/// Reading of the kernel's clock between two readings of the counter.
struct Look {
    ticks: u64,
    raw_ns: u64,
    unsure: u64,
}

/// Returns the sample with the shortest interval of many.
fn look() -> Look {
    let once = || {
        let first = timeloom_abi::ticks_ordered();
        let raw = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicRaw);
        let unsure = timeloom_abi::ticks_ordered().saturating_sub(first);
        let raw_ns = raw.tv_sec as u64 * 1_000_000_000 + raw.tv_nsec as u64;
        Look {
            ticks: first + unsure / 2,
            raw_ns,
            unsure,
        }
    };
    (0..50)
        .map(|_| once())
        .min_by_key(|look| look.unsure)
        .unwrap_or_else(once)
}

#[cfg(test)]
mod tests {
    use super::*;
    use timeloom_clock::counter::{CoreClock, Frequency};

    #[test]
    fn rvec_over_the_counter_increases_and_agrees_with_the_kernel() {
        let tsc = TscClock::trusted().expect("`scripts/exclusions` excludes this test otherwise");
        let scale = tsc.calibrate().unwrap();
        let hz = (1e9 / scale.rate.as_f64()).round() as u64;
        let mut clock = CoreClock::new(&tsc, Frequency::from_hz(hz).unwrap());
        // Reads the clock's age between two readings of the kernel's clock.
        let between = |clock: &mut CoreClock| (look().raw_ns, clock.read(&tsc).age, look().raw_ns);
        let first = between(&mut clock);
        let mut last = first.1;
        for _ in 0..100_000 {
            let now = clock.read(&tsc).age;
            assert!(now > last, "{now:?} after {last:?}");
            last = now;
        }
        std::thread::sleep(core::time::Duration::from_millis(50));
        let second = between(&mut clock);
        let age_ns = (second.1 - first.1).as_duration().as_ns();
        let (least_ns, most_ns) = ((second.0 - first.2) as i64, (second.2 - first.0) as i64);
        // The error of the rate is below 100 ppm, and that of a sample is a few microseconds.
        let slack_ns = most_ns / 10_000 + 100_000;
        assert!(
            (least_ns - slack_ns..=most_ns + slack_ns).contains(&age_ns),
            "{age_ns} ns where the kernel counts {least_ns} to {most_ns}"
        );
    }
}
