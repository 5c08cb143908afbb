//! Figures: a measured number with its spread, its bar (the required value) and its context.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::Name;
use crate::stats::{median, percentile};

/// Direction in which a figure becomes better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Lower values are better: costs and latencies.
    Lower,
    /// Higher values are better: throughputs.
    Higher,
}

/// A measured figure. It is serialised as the JSON line that the public contract defines.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Name of the benchmark.
    pub bench: &'static str,
    /// Name of the metric. Without a unit at its end, the metric is a ratio.
    pub metric: String,
    /// Median of the values of all rounds.
    pub value: f64,
    /// Unit of the value: `ratio`, `ns`, `bytes` or `1/s`.
    pub unit: &'static str,
    /// 5th percentile of the values of all rounds.
    pub p5: f64,
    /// 95th percentile of the values of all rounds.
    pub p95: f64,
    /// Number of rounds.
    pub n: usize,
    /// Bar: the value that the figure has to reach; `None` without one.
    pub bar: Option<f64>,
    /// Direction in which the figure improves.
    pub better: Better,
    /// Further information for judging the figure.
    pub context: Map<String, Value>,
}

impl Figure {
    /// Returns a figure for one value per round; lower values are better.
    ///
    /// # Panics
    /// Panics if there are no values.
    pub fn new(
        bench: Name,
        metric: impl Into<String>,
        unit: &'static str,
        samples: &[f64],
    ) -> Self {
        Self {
            bench: bench.as_str(),
            metric: metric.into(),
            value: rounded(median(samples)),
            unit,
            p5: rounded(percentile(samples, 5.0)),
            p95: rounded(percentile(samples, 95.0)),
            n: samples.len(),
            bar: None,
            better: Better::Lower,
            context: Map::new(),
        }
    }

    /// Sets the bar, the value that the figure has to reach.
    #[must_use]
    pub fn bar(mut self, bar: f64) -> Self {
        self.bar = Some(bar);
        self
    }

    /// Adds an entry to the context; fractions are rounded to five significant digits.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        let value = match value.into() {
            Value::Number(number) if number.is_f64() => number
                .as_f64()
                .map_or(Value::Null, |number| rounded(number).into()),
            other => other,
        };
        self.context.insert(key.to_owned(), value);
        self
    }

    /// Returns true if the figure reaches its bar; `None` without a bar.
    pub fn meets_bar(&self) -> Option<bool> {
        self.bar.map(|bar| match self.better {
            Better::Lower => self.value <= bar,
            Better::Higher => self.value >= bar,
        })
    }

    /// Returns the figure as one line of JSON, without a line feed.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("a figure is plain data")
    }

    /// Returns the figure as one row of the table with [`TABLE_HEADER`].
    pub fn row(&self) -> String {
        let bar = self.bar.map_or_else(String::new, |bar| bar.to_string());
        let met = match self.meets_bar() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        // The value of the paper, if any, is shown in the row.
        let paper = self.context.get("paper");
        let paper = paper.map_or_else(String::new, |paper| format!("paper: {paper}"));
        let name = format!("{} {}", self.bench, self.metric);
        let row = format!(
            "{name:<42} {:>12} {:<5} {:>12} {:>12} {:>5} {bar:>9} {met:<6} {paper}",
            self.value, self.unit, self.p5, self.p95, self.n
        );
        row.trim_end().to_owned()
    }
}

/// Header of the table whose rows [`Figure::row`] returns.
pub const TABLE_HEADER: &str = "figure                                           median unit            p5          p95     n       bar met";

/// Rounds to five significant digits, since further digits would be noise. Whole numbers stay
/// whole, whatever their size.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let digits = (4 - value.abs().log10().floor() as i32).max(0);
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        Figure::new(
            Name::ClockRead,
            "virtual_over_vdso",
            "ratio",
            &[1.04, 1.0, 1.09],
        )
        .bar(1.10)
        .with("core", 1)
    }

    #[test]
    fn the_line_is_the_one_of_the_contract() {
        assert_eq!(
            figure().json(),
            r#"{"bench":"clock-read","metric":"virtual_over_vdso","value":1.04,"unit":"ratio","p5":1.004,"p95":1.085,"n":3,"bar":1.1,"better":"lower","context":{"core":1}}"#
        );
    }

    #[test]
    fn a_figure_without_a_bar_has_a_null_one() {
        let line = Figure::new(Name::Pause, "stop_1_idle_ns", "ns", &[5.0]).json();
        assert!(line.contains(r#""bar":null"#), "{line}");
    }

    #[test]
    fn the_table_shows_met_and_missed_bars() {
        assert!(figure().row().ends_with("1.1 met"), "{}", figure().row());
        let missed = figure().bar(1.0);
        assert!(missed.row().ends_with("1 MISSED"), "{}", missed.row());
        let none = Figure {
            bar: None,
            ..figure()
        };
        assert!(none.row().ends_with(" 3"), "{}", none.row());
    }

    #[test]
    fn columns_stand_under_their_names() {
        let row = figure().row();
        let end = |text: &str, word: &str| text.find(word).expect("is there") + word.len();
        assert_eq!(end(TABLE_HEADER, "median"), end(&row, "1.04"));
        assert_eq!(end(TABLE_HEADER, "p95"), end(&row, "1.085"));
        assert_eq!(end(TABLE_HEADER, " bar"), end(&row, "1.1"));
    }

    #[test]
    fn rounding_keeps_five_digits_and_whole_numbers() {
        assert_eq!(rounded(1.234567), 1.2346);
        assert_eq!(rounded(-0.001_234_567), -0.001_234_6);
        assert_eq!(rounded(123_456_789.4), 123_456_789.0);
        assert_eq!(rounded(0.0), 0.0);
    }
}
