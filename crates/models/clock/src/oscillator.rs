//! Oscillators: what they promise, and a model that keeps the promise.

use timeloom_time::Duration;

use crate::RateError;
use crate::noise::Noise;

/// What is stated about an oscillator; every bound rests on it.
///
/// A data sheet gives the first figure. With the other two a timeline may
/// conclude from past observations how fast the oscillator runs *now*, and its
/// bounds grow a hundred times slower; without them it must allow the full
/// error always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OscillatorSpec {
    /// The rate is never further from nominal than this (positive). Chrony's
    /// default of 1 ppm is an estimate; 15 … 100 ppm is what crystals promise.
    pub max_error: RateError,
    /// How the rate may change, when that is stated.
    pub stability: Option<Stability>,
}

/// How fast an oscillator's rate may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stability {
    /// The rate is a slow part plus a fast part; the fast part never exceeds
    /// this (positive): white frequency noise.
    pub jitter: RateError,
    /// The slow part changes by at most this within a second: random walk of
    /// frequency, temperature, ageing.
    pub wander_per_second: RateError,
}

impl OscillatorSpec {
    /// A crystal of which only the data sheet's error is known.
    pub fn crystal(max_error_ppb: i64) -> Self {
        Self {
            max_error: RateError::from_ppb(max_error_ppb),
            stability: None,
        }
    }
}

/// A simulated oscillator: initial error, ageing, white frequency noise, random
/// walk of frequency and a temperature cycle, all kept within its
/// [`OscillatorSpec`].
#[derive(Clone, Debug)]
pub struct Oscillator {
    spec: OscillatorSpec,
    /// The slow part that is not temperature, in ppt.
    slow_ppt: f64,
    temperature: TemperatureCycle,
    elapsed_s: f64,
    noise: Noise,
    /// For an adversary: where the rate goes, +1 or −1.
    direction: Option<f64>,
}

/// A sinusoidal day of temperature through a parabola: an AT-cut crystal loses
/// `0.04 ppm/K²` to either side of its turnover.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TemperatureCycle {
    /// Half of the swing, in kelvin.
    pub swing_k: f64,
    /// Length of the cycle in seconds.
    pub period_s: f64,
    /// Middle of the swing above the turnover temperature, in kelvin.
    pub above_turnover_k: f64,
}

impl TemperatureCycle {
    /// No change at all.
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
    /// An oscillator with an initial error anywhere within `spec`.
    pub fn new(spec: OscillatorSpec, temperature: TemperatureCycle, mut noise: Noise) -> Self {
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

    /// An oscillator that keeps its promise as badly as it can: the slow part
    /// moves at the stated limit, the fast part stands at its limit, and both
    /// turn round every five minutes or so.
    pub fn adversary(spec: OscillatorSpec, noise: Noise) -> Self {
        let steady = TemperatureCycle::STEADY;
        Self {
            direction: Some(1.0),
            ..Self::new(spec, steady, noise)
        }
    }

    /// The mean rate error over the next `length`, which then has passed.
    ///
    /// The slow part moves by a random walk with a step of the square root of
    /// time, cut off at the stated wander together with the temperature's.
    pub fn advance(&mut self, length: Duration) -> RateError {
        let length_s = length.as_s_f64();
        let (jitter, wander) = match self.spec.stability {
            Some(s) => (
                s.jitter.as_ppt() as f64,
                s.wander_per_second.as_ppt() as f64,
            ),
            // Nothing is promised but the total: let it wander visibly.
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
            return RateError::from_ppt(worst as i64);
        }
        let before = self.temperature.error_ppt(self.elapsed_s);
        self.elapsed_s += length_s;
        let warming = self.temperature.error_ppt(self.elapsed_s) - before;
        let walk = self.noise.normal() * wander * 0.3 * length_s.sqrt();
        self.slow_ppt += (warming + walk).clamp(-limit, limit);
        self.slow_ppt = self.slow_ppt.clamp(-max_ppt, max_ppt);
        // A tenth is kept for the slow part, which the model moves in steps.
        let fast = 0.9 * jitter;
        let white = (self.noise.normal() * jitter * 0.3).clamp(-fast, fast);
        RateError::from_ppt((self.slow_ppt + white).clamp(-max_ppt, max_ppt) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_its_promise_and_is_not_still() {
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
        let mut oscillator = Oscillator::new(spec, day, Noise::new(3));
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
