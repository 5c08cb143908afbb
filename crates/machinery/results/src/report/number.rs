//! Formatting of numbers: axis ticks, units and durations.

use timeloom_time::Duration;

/// Interval of an axis; `low` is less than `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Range {
    /// Returns the range of the finite values; `None` if there are none.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        values
            .into_iter()
            .filter(|v| v.is_finite())
            .fold(None, |range: Option<Self>, v| {
                Some(match range {
                    None => Self { low: v, high: v },
                    Some(Self { low, high }) => Self {
                        low: low.min(v),
                        high: high.max(v),
                    },
                })
            })
    }

    /// Returns the range extended by `part` of its length, so that no curve touches the frame. A
    /// range of a single value is extended at both ends.
    pub(super) fn padded(self, part: f64) -> Self {
        let length = self.high - self.low;
        let pad = if length > 0.0 {
            length * part
        } else {
            (self.low.abs() * 0.01).max(0.5)
        };
        Self {
            low: self.low - pad,
            high: self.high + pad,
        }
    }

    /// Returns the relative position of a value: 0 at `low`, 1 at `high`.
    pub(super) fn part(self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }
}

/// Returns about `count` ticks at round numbers within the range, and the number of decimals needed
/// to distinguish them.
pub(super) fn ticks(range: Range, count: usize) -> (Vec<f64>, usize) {
    let rough = (range.high - range.low) / count.max(1) as f64;
    if !rough.is_finite() || rough <= 0.0 {
        return (Vec::new(), 0);
    }
    let power = rough.log10().floor();
    let base = 10f64.powf(power);
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|m| m * base)
        .into_iter()
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(base);
    let decimals = (-(step * 1.000_001).log10().floor()).clamp(0.0, 9.0) as usize;
    let first = (range.low / step).ceil() as i64;
    let last = (range.high / step).floor() as i64;
    // Ticks are multiples of the step, because adding the step repeatedly would accumulate errors.
    let last = last.min(first.saturating_add(50));
    ((first..=last).map(|i| i as f64 * step).collect(), decimals)
}

/// Formats a value with `decimals` decimals and a typographic minus sign. From five digits on,
/// thousands are separated, as in the SI brochure.
pub(super) fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text
        .split_once('.')
        .map_or((text.as_str(), None), |(w, f)| (w, Some(f)));
    let mut out = String::new();
    if value < 0.0 && text.bytes().any(|b| (b'1'..=b'9').contains(&b)) {
        out.push('−');
    }
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && whole.len() > 4 && (whole.len() - i) % 3 == 0 {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// Formats a value with about `digits` significant digits. Very small values are written as powers.
pub(super) fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return "–".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    if !(-4..=14).contains(&magnitude) {
        let mantissa = value / 10f64.powi(magnitude);
        return format!(
            "{}·10<sup>{}</sup>",
            fixed(mantissa, digits.saturating_sub(1).min(2)),
            fixed(f64::from(magnitude), 0)
        );
    }
    fixed(value, (digits as i32 - 1 - magnitude).max(0) as usize)
}

/// Formats a duration with three significant digits: `282 µs`, `1.20 s`.
pub(super) fn duration(length: Duration) -> String {
    let ns = length.as_ns();
    let (unit, name) = match ns.unsigned_abs() {
        0 => return "0".to_owned(),
        n if n < 1_000 => (1.0, "ns"),
        n if n < 1_000_000 => (1e3, "µs"),
        n if n < 1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{}\u{a0}{name}", significant(ns as f64 / unit, 3))
}

/// Returns a factor and a unit prefix that keep the numbers of an axis short. Units that take no
/// prefix, such as `kW` and `%`, are left unchanged.
pub(super) fn prefix(unit: &str, range: Range) -> (f64, &'static str) {
    let greatest = range.low.abs().max(range.high.abs());
    if ![
        "V", "A", "W", "VA", "var", "Wh", "Hz", "Pa", "N", "J", "bit/s",
    ]
    .contains(&unit)
    {
        return (1.0, "");
    }
    match greatest {
        g if g >= 1e9 => (1e9, "G"),
        g if g >= 1e6 => (1e6, "M"),
        g if g >= 1e4 => (1e3, "k"),
        g if g < 1e-3 && g > 0.0 => (1e-6, "µ"),
        g if g < 1.0 && g > 0.0 => (1e-3, "m"),
        _ => (1.0, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(
            ticks(
                Range {
                    low: 0.0,
                    high: 90.0
                },
                5
            ),
            (vec![0.0, 20.0, 40.0, 60.0, 80.0], 0)
        );
        assert_eq!(
            ticks(
                Range {
                    low: 2294.0,
                    high: 2394.0
                },
                5
            )
            .0,
            [2300.0, 2320.0, 2340.0, 2360.0, 2380.0]
        );
        let (few, decimals) = ticks(
            Range {
                low: -0.012,
                high: 0.031,
            },
            5,
        );
        assert_eq!(
            (few.iter().map(|t| fixed(*t, decimals)).collect::<Vec<_>>()),
            ["−0.01", "0.00", "0.01", "0.02", "0.03"]
        );
        assert!(
            ticks(
                Range {
                    low: 1.0,
                    high: 1.0
                },
                5
            )
            .0
            .is_empty()
        );
        assert!(
            ticks(
                Range {
                    low: f64::MIN,
                    high: f64::MAX
                },
                5
            )
            .0
            .is_empty()
        );
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(fixed(-1_234_567.0, 1), "−1\u{202f}234\u{202f}567.0");
        assert_eq!(fixed(-0.001, 1), "0.0");
        assert_eq!(significant(0.012_345, 3), "0.0123");
        assert_eq!(significant(3e-9, 3), "3.00·10<sup>−9</sup>");
        assert_eq!(duration(Duration::from_ns(282_400)), "282\u{a0}µs");
        assert_eq!(duration(Duration::from_ms(90_000)), "90.0\u{a0}s");
    }
}
