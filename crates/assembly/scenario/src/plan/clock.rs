//! Clock of a host: its deviation from true (virtual) time.

use std::path::PathBuf;

use timeloom_clock::RateError;
use timeloom_clock::counter::GovernorPolicy;
use timeloom_time::Duration;

use crate::table::table;
use crate::words::CoreFrequency;

table! {
/// Clock of a host or of its network card, which may be wrong. Programs of the host may steer and
/// set it. Without this table, the host's clock shows true time until a program sets it.
#[noun = "a clock"]
#[schema = "HostClock"]
pub struct ClockSpec {
    /// Initial offset from true time of CLOCK_REALTIME, or of the card's clock; positive means ahead.
    pub offset: Duration = Duration::ZERO,
    /// Initial frequency error of the oscillator, as in `50 ppm`; positive means fast.
    pub frequency: RateError = RateError::default(),
    /// Change of the frequency error per day, by ageing.
    pub drift_per_day: RateError = RateError::default(),
    /// Standard deviation of a random step of the frequency, made once per second (random walk of
    /// frequency).
    pub wander: RateError = RateError::default(),
    /// Standard deviation of the frequency from one second to the next (white noise of frequency).
    pub jitter: RateError = RateError::default(),
    /// Effect of temperature on the frequency; if left out, none.
    pub temperature: Option<Temperature>,
    /// Core driven by the oscillator, for a host whose kernel counts the cycles of a core with a
    /// changing frequency. If left out, the kernel counts the oscillator.
    pub cycles: Option<Cycles>,
}
}

table! {
/// Core whose cycles a host counts and converts to time, as the RVEC clock does. Exactly one of
/// `trace`, `governor` and `cpufreq` determines its frequency; with `cpufreq`, it follows a
/// processor of this machine.
#[noun = "a core whose cycles are counted"]
pub struct Cycles {
    /// File of frequency changes, one per line, such as `1.5 s 800 MHz`; the first is at `0 s`.
    pub trace: Option<PathBuf>,
    /// cpufreq directory of the processor of this machine that the core follows, such as
    /// `/sys/devices/system/cpu/cpu0/cpufreq`.
    pub cpufreq: Option<PathBuf>,
    /// Governor that chooses the frequency.
    pub governor: Option<GovernorPolicy>,
    /// Frequencies that the governor can choose, in ascending order.
    pub frequencies: Vec<CoreFrequency> = Vec::new(),
    /// Fraction of time with heavy load, from 0 to 1, for the governor.
    pub load: f64 = 0.5,
    /// Mean duration of a phase in which the load is constant.
    pub burst: Duration = Duration::from_s(1),
    /// Interval at which the governor samples the load. With `cpufreq`, interval at which the
    /// frequency is read, by the machine's own clock.
    pub sampling: Duration = Duration::from_ms(10),
    /// Duration of a frequency change. The old frequency is in effect during half of it.
    pub switch: Duration = Duration::from_us(50),
}
}

table! {
/// Sinusoidal temperature cycle. The frequency depends on the temperature like that of an AT-cut
/// crystal: by a parabola of 0.04 ppm/K² about the turnover temperature. `frequency` is the
/// frequency error at the mean temperature, which a run begins with.
#[noun = "a temperature"]
pub struct Temperature {
    /// Half of the temperature range, in kelvin.
    pub swing_k: f64,
    /// Duration of one temperature cycle.
    pub period: Duration,
    /// Mean temperature minus turnover temperature, in kelvin.
    pub above_turnover_k: f64 = 0.0,
}
}

/// Names of the recorded signals of a clock, in `HOST.clock.NAME`. They are: its true error in
/// seconds; its true frequency error in ppm; two error bounds in seconds, as the host's daemon has
/// told the kernel; for a clock that counts cycles, its largest possible lag behind the oscillator
/// in seconds; and for a core that follows a processor of this machine, the frequency in hertz.
pub const CLOCK_SIGNALS: [&str; 6] = [
    "clock.offset",
    "clock.frequency",
    "clock.esterror",
    "clock.maxerror",
    "clock.missing",
    "clock.core",
];

/// Names of the recorded signals of a network card's clock, in `HOST.card.NAME`: its true error in
/// seconds, and its true frequency error in ppm.
pub const CARD_SIGNALS: [&str; 2] = ["card.offset", "card.frequency"];
