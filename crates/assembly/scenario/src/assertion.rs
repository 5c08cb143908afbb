//! Language of checks, and its evaluation:
//!
//! ```text
//! assertion = measure "(" signal ")" relation number [ "from" time ] [ "until" time ]
//! measure   = "min" | "max" | "mean" | "first" | "last"
//! relation  = "<" | "<=" | ">" | ">=" | "==" | "!="
//! ```

use std::fmt;
use std::str::FromStr;

use timeloom_time::Duration;

use crate::words::{ParseWordError, SignalName, parse_duration};

/// Statement about the recorded samples of one signal, such as
/// `min(grid.bus.680.v1) < 2345 from 25 s`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assertion {
    /// Number that is computed from the samples.
    pub measure: Measure,
    /// Signal whose samples are used.
    pub signal: SignalName,
    /// Relation that the measure must have to the bound.
    pub relation: Relation,
    /// Bound, in the signal's unit.
    pub bound: f64,
    /// Virtual time at which the window begins; the window includes it. `None` begins with the run.
    pub from: Option<Duration>,
    /// Virtual time at which the window ends; the window includes it. `None` ends with the run.
    pub until: Option<Duration>,
}

/// Number that is computed from the samples in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// Minimum.
    #[default]
    Min,
    /// Maximum.
    Max,
    /// Arithmetic mean of the samples, with equal weights.
    Mean,
    /// Value of the earliest sample.
    First,
    /// Value of the latest sample.
    Last,
}

/// Relation of the measure to the bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Relation {
    /// `<`
    #[default]
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `==`, without a tolerance
    Equal,
    /// `!=`, without a tolerance
    NotEqual,
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckOutcome {
    /// True if the assertion holds. False if the window has no sample.
    pub passed: bool,
    /// Measure in the signal's unit; `None` if the window has no sample.
    pub measured: Option<f64>,
    /// Explanation of the result in one sentence, for users.
    pub explanation: String,
}

const MEASURES: [(&str, Measure); 5] = [
    ("min", Measure::Min),
    ("max", Measure::Max),
    ("mean", Measure::Mean),
    ("first", Measure::First),
    ("last", Measure::Last),
];

/// Longer operators come first, because shorter ones are prefixes of them.
const RELATIONS: [(&str, Relation); 6] = [
    ("<=", Relation::LessOrEqual),
    (">=", Relation::GreaterOrEqual),
    ("==", Relation::Equal),
    ("!=", Relation::NotEqual),
    ("<", Relation::Less),
    (">", Relation::Greater),
];

impl Relation {
    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Less => value < bound,
            Self::LessOrEqual => value <= bound,
            Self::Greater => value > bound,
            Self::GreaterOrEqual => value >= bound,
            Self::Equal => value == bound,
            Self::NotEqual => value != bound,
        }
    }
}

impl Assertion {
    /// Evaluates the assertion on samples `(t_ns, value)`, where `t_ns` is virtual time in ns since
    /// the beginning of the run. The samples may be in any order. Of samples with the same time,
    /// the one that comes later in the list counts as later. A NaN sample makes the check fail,
    /// because every measure over it is meaningless.
    pub fn evaluate(&self, samples: &[(i64, f64)]) -> CheckOutcome {
        let mut seen = self.begin();
        for (t_ns, value) in samples {
            seen.add(*t_ns, *value);
        }
        self.judge(&seen)
    }

    /// Begins an evaluation to which samples are added one at a time. The result is the same as
    /// that of [`Self::evaluate`].
    pub fn begin(&self) -> SignalSummary {
        SignalSummary {
            from_ns: self.from.map_or(i64::MIN, Duration::as_ns),
            until_ns: self.until.map_or(i64::MAX, Duration::as_ns),
            count: 0,
            first: (i64::MAX, f64::NAN),
            last: (i64::MIN, f64::NAN),
            least: f64::INFINITY,
            greatest: f64::NEG_INFINITY,
            mean: 0.0,
            not_a_number: None,
        }
    }

    /// Evaluates the samples that have been added to `seen` since [`Self::begin`].
    pub fn judge(&self, seen: &SignalSummary) -> CheckOutcome {
        let fail = |explanation| CheckOutcome {
            passed: false,
            measured: None,
            explanation,
        };
        if seen.count == 0 {
            return fail(format!("{} has no sample{}", self.signal, self.window()));
        }
        if let Some((t_ns, value)) = seen.not_a_number {
            let at = Duration::from_ns(t_ns);
            return fail(format!("{} is not a number ({value}) at {at}", self.signal));
        }
        let measured = match self.measure {
            Measure::Min => seen.least,
            Measure::Max => seen.greatest,
            Measure::Mean => seen.mean,
            Measure::First => seen.first.1,
            Measure::Last => seen.last.1,
        };
        let passed = self.relation.holds(measured, self.bound);
        let explanation = format!(
            "{}({}) = {}{}, {} {} {}",
            self.measure,
            self.signal,
            for_people(measured),
            self.window(),
            if passed {
                "as asserted"
            } else {
                "but asserted was"
            },
            self.relation,
            self.bound,
        );
        CheckOutcome {
            passed,
            measured: Some(measured),
            explanation,
        }
    }

    fn window(&self) -> String {
        let part = |word: &str, at: Option<Duration>| {
            at.map_or(String::new(), |at| format!(" {word} {at}"))
        };
        part("from", self.from) + &part("until", self.until)
    }
}

/// Summary of a signal's samples, whose size does not depend on their number.
#[derive(Clone, Debug)]
pub struct SignalSummary {
    from_ns: i64,
    until_ns: i64,
    count: u64,
    first: (i64, f64),
    last: (i64, f64),
    least: f64,
    greatest: f64,
    mean: f64,
    /// Time and value of the earliest NaN sample.
    not_a_number: Option<(i64, f64)>,
}

impl SignalSummary {
    /// Adds a sample if it is in the assertion's window. `t_ns` is virtual time in ns.
    pub fn add(&mut self, t_ns: i64, value: f64) {
        if !(self.from_ns..=self.until_ns).contains(&t_ns) {
            return;
        }
        if value.is_nan() && self.not_a_number.is_none_or(|(at_ns, _)| t_ns < at_ns) {
            self.not_a_number = Some((t_ns, value));
        }
        if self.count == 0 || t_ns < self.first.0 {
            self.first = (t_ns, value);
        }
        if self.count == 0 || t_ns >= self.last.0 {
            self.last = (t_ns, value);
        }
        self.least = self.least.min(value);
        self.greatest = self.greatest.max(value);
        // A running mean does not overflow, and does not lose small values among many.
        self.count += 1;
        let count = self.count as f64;
        self.mean += value / count - self.mean / count;
    }
}

impl FromStr for Assertion {
    type Err = ParseWordError;

    fn from_str(text: &str) -> Result<Self, ParseWordError> {
        let fail = |reason: String| {
            ParseWordError(format!(
                "{reason}; an assertion looks like `min(grid.bus.680.v1) < 2345 from 25 s`"
            ))
        };
        let (measure, rest) = text
            .split_once('(')
            .ok_or_else(|| fail("it must begin with a measure and `(`".to_owned()))?;
        let measure = measure.trim();
        let (_, measure) = MEASURES
            .into_iter()
            .find(|(word, _)| *word == measure)
            .ok_or_else(|| fail(format!("`{measure}` is not min, max, mean, first or last")))?;
        let (signal, rest) = rest
            .split_once(')')
            .ok_or_else(|| fail("the signal must end with `)`".to_owned()))?;
        let signal = signal.trim().parse()?;
        let rest = rest.trim_start();
        let (sign, relation) = RELATIONS
            .into_iter()
            .find(|(sign, _)| rest.starts_with(sign))
            .ok_or_else(|| fail("after the signal comes <, <=, >, >=, == or !=".to_owned()))?;

        let (rest, until) = split_time(&rest[sign.len()..], "until")?;
        let (rest, from) = split_time(rest, "from")?;
        let bound = rest.trim();
        let bound = bound
            .parse::<f64>()
            .ok()
            .filter(|bound| bound.is_finite())
            .ok_or_else(|| fail(format!("`{bound}` is not a number")))?;
        if let (Some(from), Some(until)) = (from, until)
            && until < from
        {
            return Err(ParseWordError(format!(
                "it ends (until {until}) before it begins (from {from})"
            )));
        }
        Ok(Self {
            measure,
            signal,
            relation,
            bound,
            from,
            until,
        })
    }
}

/// Splits a text of the form `… WORD TIME` into the text before the word, and the time.
fn split_time<'t>(
    text: &'t str,
    word: &str,
) -> Result<(&'t str, Option<Duration>), ParseWordError> {
    match text.split_once(word) {
        None => Ok((text, None)),
        Some((before, time)) => Ok((before, Some(parse_duration(time)?))),
    }
}

impl fmt::Display for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            measure,
            signal,
            relation,
            bound,
            ..
        } = self;
        write!(f, "{measure}({signal}) {relation} {bound}{}", self.window())
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = MEASURES
            .iter()
            .find(|(_, measure)| measure == self)
            .map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = RELATIONS
            .iter()
            .find(|(_, relation)| relation == self)
            .map_or("", |(sign, _)| sign);
        f.write_str(sign)
    }
}

/// Formats a value with seven significant digits, without trailing zeros. Further digits of a
/// measured value carry no information.
fn for_people(value: f64) -> String {
    let magnitude = if value == 0.0 {
        0
    } else {
        value.abs().log10().floor() as i32
    };
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..12).contains(&magnitude) {
        return without_zeros(&format!("{value:.*}", (6 - magnitude).max(0) as usize));
    }
    let text = format!("{value:.6e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    format!("{}e{exponent}", without_zeros(digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: [(i64, f64); 4] = [
        (0, 10.0),
        (1_000_000_000, 2.0),
        (2_000_000_000, 6.0),
        (3_000_000_000, 4.0),
    ];

    fn outcome(text: &str) -> CheckOutcome {
        text.parse::<Assertion>().unwrap().evaluate(&SAMPLES)
    }

    #[test]
    fn each_measure_over_its_window() {
        for (text, measured, passed) in [
            ("min(p.s) < 3", 2.0, true),
            ("min(p.s) < 3 from 2 s", 4.0, false),
            ("max(p.s)>=6 from 1 s until 2 s", 6.0, true),
            ("mean(p.s) == 5.5", 5.5, true),
            ("first(p.s) != 10", 10.0, false),
            ("last(p.s) <= 4", 4.0, true),
            ("last(p.s) > 5e0 until 2.5 s", 6.0, true),
        ] {
            let outcome = outcome(text);
            assert_eq!(outcome.measured, Some(measured), "{text}");
            assert_eq!(outcome.passed, passed, "{text}: {}", outcome.explanation);
        }
        assert_eq!(
            outcome("min(p.s) < 3 from 2 s").explanation,
            "min(p.s) = 4 from 2 s, but asserted was < 3"
        );
    }

    #[test]
    fn a_measurement_has_as_many_digits_as_tell_something() {
        for (value, shown) in [
            (0.0, "0"),
            (2.0 / 3.0, "0.6666667"),
            (2_322.655_012_3, "2322.655"),
            (-1_000_000.0, "-1000000"),
            (4.824_924_552_064_67e-6, "4.824925e-6"),
            (1e-9, "1e-9"),
            (1e15, "1e15"),
        ] {
            assert_eq!(for_people(value), shown);
        }
    }

    #[test]
    fn an_assertion_without_samples_does_not_pass() {
        let none = outcome("min(p.s) > 0 from 5 s");
        assert_eq!((none.passed, none.measured), (false, None));
        assert_eq!(none.explanation, "p.s has no sample from 5 s");
        let broken = "max(p.s) > 0".parse::<Assertion>().unwrap();
        assert!(!broken.evaluate(&[(0, 1.0), (1, f64::NAN)]).passed);
    }

    #[test]
    fn mistakes_are_explained() {
        for (text, message) in [
            ("min grid", "it must begin with a measure and `(`"),
            ("med(p.s) < 1", "`med` is not min"),
            ("min(p.s < 1", "the signal must end with `)`"),
            ("min(p) < 1", "is not a signal"),
            ("min(p.s) = 1", "after the signal comes"),
            ("min(p.s) < one", "`one` is not a number"),
            ("min(p.s) < inf", "`inf` is not a number"),
            ("min(p.s) < 1 from 2", "it needs a unit"),
            ("min(p.s) < 1 until 1 s from 2 s", "the unit must be"),
            ("min(p.s) < 1 from 3 s until 2 s", "before it begins"),
        ] {
            let error = text.parse::<Assertion>().unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
