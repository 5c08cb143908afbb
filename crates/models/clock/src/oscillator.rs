//! Specification of an oscillator, and a simulated oscillator that stays within its specification.

use timeloom_time::Duration;
use timeloom_time::convert::saturating_i64;

use crate::RateError;
use timeloom_random::Random;

/// Specification of an oscillator. Every error bound depends on it.
///
/// A data sheet states the maximum error. With the two limits of `stability` a timeline can infer
/// the oscillator's *current* rate from past observations, and its bounds grow a hundred times
/// slower. Without them, the timeline must always allow for the full error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OscillatorSpec {
    /// Maximum deviation of the rate from nominal (positive). Chrony's default of 1 ppm is an
    /// estimate; data sheets of quartz oscillators state 15 … 100 ppm.
    pub max_error: RateError,
    /// Limits on changes of the rate; `None` if they are not stated.
    pub stability: Option<Stability>,
}

/// Limits on changes of an oscillator's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stability {
    /// Maximum of the rate's fast part (positive), such as white frequency noise. The rate is the
    /// sum of a slow and a fast part.
    pub jitter: RateError,
    /// Maximum change of the rate's slow part within a second, by random walk of frequency,
    /// temperature and ageing.
    pub wander_per_second: RateError,
}

impl OscillatorSpec {
    /// Returns the specification of an oscillator of which only the maximum error is known, in
    /// parts per 10^9.
    pub fn crystal(max_error_ppb: i64) -> Self {
        Self {
            max_error: RateError::from_ppb(max_error_ppb),
            stability: None,
        }
    }
}

/// Simulated oscillator with an initial error, ageing, white frequency noise, random walk of
/// frequency and a temperature cycle. All of these stay within its [`OscillatorSpec`].
#[derive(Clone, Debug)]
pub struct Oscillator {
    spec: OscillatorSpec,
    /// Slow part of the rate error without the effect of temperature, in parts per 10^12.
    slow_ppt: f64,
    temperature: TemperatureCycle,
    elapsed_s: f64,
    noise: Random,
    /// Direction in which an adversary changes the rate, +1 or −1; `None` for a random oscillator.
    direction: Option<f64>,
}

/// Effect of a sinusoidal temperature on the frequency. An AT-cut crystal is slower by `0.04
/// ppm/K²` on both sides of its turnover temperature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TemperatureCycle {
    /// Half of the difference between highest and lowest temperature, in kelvin.
    pub swing_k: f64,
    /// Length of a temperature cycle, in seconds.
    pub period_s: f64,
    /// Mean temperature minus turnover temperature, in kelvin.
    pub above_turnover_k: f64,
}

impl TemperatureCycle {
    /// Constant temperature, at the turnover.
    pub const STEADY: Self = Self {
        swing_k: 0.0,
        period_s: 1.0,
        above_turnover_k: 0.0,
    };

    pub(crate) fn error_ppt(&self, at_s: f64) -> f64 {
        let phase = core::f64::consts::TAU * at_s / self.period_s;
        let kelvin = self.above_turnover_k + self.swing_k * phase.sin();
        // 0.04 ppm = 40,000 ppt.
        -40_000.0 * kelvin * kelvin
    }
}

impl Oscillator {
    /// Returns an oscillator with a random initial error within `spec`.
    pub fn new(spec: OscillatorSpec, temperature: TemperatureCycle, mut noise: Random) -> Self {
        let max_ppt = spec.max_error.as_ppt() as f64;
        let slow_ppt = (noise.unit() * 2.0 - 1.0) * max_ppt * 0.9;
        Self {
            spec,
            slow_ppt,
            temperature,
            elapsed_s: 0.0,
            noise,
            direction: None,
        }
    }

    /// Returns a worst-case oscillator within `spec`. Its slow part moves at the stated limit, its
    /// fast part stays at its limit, and both change direction about every five minutes.
    pub fn adversary(spec: OscillatorSpec, noise: Random) -> Self {
        let steady = TemperatureCycle::STEADY;
        Self {
            direction: Some(1.0),
            ..Self::new(spec, steady, noise)
        }
    }

    /// Advances by `length` and returns the mean rate error over that time.
    ///
    /// The slow part is a random walk whose step is proportional to the square root of time. The
    /// walk and the temperature together stay within the stated wander.
    pub fn advance(&mut self, length: Duration) -> RateError {
        let length_s = length.as_s_f64();
        let (jitter, wander) = match self.spec.stability {
            Some(s) => (
                s.jitter.as_ppt() as f64,
                s.wander_per_second.as_ppt() as f64,
            ),
            // Only the total error is specified, so choose a clearly visible wander.
            None => (1_000.0, 500.0),
        };
        let limit = wander * length_s;
        let max_ppt = self.spec.max_error.as_ppt() as f64;
        if let Some(direction) = &mut self.direction {
            if self.noise.chance(length_s / 300.0) {
                *direction = -*direction;
            }
            let direction = *direction;
            self.slow_ppt = (self.slow_ppt + direction * limit).clamp(-max_ppt, max_ppt);
            let worst = (self.slow_ppt + 0.9 * direction * jitter).clamp(-max_ppt, max_ppt);
            return RateError::from_ppt(saturating_i64(worst));
        }
        let before = self.temperature.error_ppt(self.elapsed_s);
        self.elapsed_s += length_s;
        let warming = self.temperature.error_ppt(self.elapsed_s) - before;
        let walk = self.noise.normal() * wander * 0.3 * length_s.sqrt();
        self.slow_ppt += (warming + walk).clamp(-limit, limit);
        self.slow_ppt = self.slow_ppt.clamp(-max_ppt, max_ppt);
        // The fast part uses nine tenths; the rest is reserved for the slow part, which moves in
        // steps.
        let fast = 0.9 * jitter;
        let white = (self.noise.normal() * jitter * 0.3).clamp(-fast, fast);
        RateError::from_ppt(saturating_i64(
            (self.slow_ppt + white).clamp(-max_ppt, max_ppt),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_oscillator_wanders_within_its_stated_bounds() {
        let spec = OscillatorSpec {
            max_error: RateError::from_ppb(20_000),
            stability: Some(Stability {
                jitter: RateError::from_ppb(5),
                wander_per_second: RateError::from_ppb(1),
            }),
        };
        let day = TemperatureCycle {
            swing_k: 5.0,
            period_s: 3600.0,
            above_turnover_k: 3.0,
        };
        let mut oscillator = Oscillator::new(spec, day, Random::new(3, 0));
        let rates: Vec<i64> = (0..10_000)
            .map(|_| oscillator.advance(Duration::from_s(1)).as_ppt())
            .collect();
        assert!(rates.iter().all(|ppt| ppt.abs() <= 20_000_000));
        assert!(
            rates
                .windows(2)
                .all(|w| (w[1] - w[0]).abs() <= 1_000 + 2 * 5_000)
        );
        let (low, high) = (rates.iter().min().unwrap(), rates.iter().max().unwrap());
        assert!(high - low > 20_000, "{low} … {high}");
    }
}
