//! Runs of a sweep: one for each combination of values and each seed.

use std::path::Path;

use serde_json::{Value, json};

/// A key of the scenario, and the values that a sweep gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Dotted key, as for `--set`.
    pub key: String,
    /// Values, at least one, as written on the command line.
    pub values: Vec<String>,
}

/// Text that does not define an axis; the error message shows the syntax.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write KEY=VALUE,VALUE…, as in `plant.gain=1,2,3`, not `{0}`")]
pub struct NoAxis(String);

impl Axis {
    /// Parses `KEY=VALUE,VALUE…`. Commas within quotes, brackets or braces do not separate.
    ///
    /// # Errors
    /// Returns an error if there is no key, or an empty value.
    pub fn parse(text: &str) -> Result<Self, NoAxis> {
        let usage = || NoAxis(text.to_owned());
        let (key, values) = text.split_once('=').ok_or_else(usage)?;
        let values = parted(values);
        if key.trim().is_empty() || values.iter().any(String::is_empty) {
            return Err(usage());
        }
        let key = key.trim().to_owned();
        Ok(Self { key, values })
    }
}

fn parted(text: &str) -> Vec<String> {
    let (mut depth, mut quote) = (0_usize, None);
    let mut values = vec![String::new()];
    for c in text.chars() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('[' | '{', None) => depth += 1,
            (']' | '}', None) => depth = depth.saturating_sub(1),
            (',', None) if depth == 0 => {
                values.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = values.last_mut() {
            last.push(c);
        }
    }
    values.iter().map(|value| value.trim().to_owned()).collect()
}

/// One run of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepPoint {
    /// Name of the run's directory below `runs/`: a number, and the values of the varied keys.
    pub name: String,
    /// Values of the varied keys, in the order of the axes: pairs of key and value.
    pub values: Vec<(String, String)>,
    /// Settings that are the same in all runs: pairs of key and value.
    pub fixed: Vec<(String, String)>,
    /// Seed of the run; `None` uses the scenario's seed.
    pub seed: Option<u64>,
}

impl SweepPoint {
    /// Returns the `--set` arguments for `timeloom run`.
    pub fn sets(&self) -> Vec<String> {
        let set = self.fixed.iter().chain(&self.values);
        let set = set.map(|(key, value)| format!("{key}={value}"));
        let seed = self.seed.map(|seed| format!("seed={seed}"));
        set.chain(seed).collect()
    }

    /// Returns the values as one line, such as `gain=2 area=1`; `all` if no key is varied.
    pub fn label(&self) -> String {
        let values = self.values.iter().map(|(key, value)| {
            let short = key.rsplit('.').next().unwrap_or(key);
            format!("{short}={value}")
        });
        let label = values.collect::<Vec<_>>().join(" ");
        if label.is_empty() {
            "all".to_owned()
        } else {
            label
        }
    }
}

/// Returns a point for each combination of values and each of `seeds` seeds. The seed varies
/// fastest, then the last axis. If `seeds` is 0, the runs use the scenario's seed.
pub fn points(axes: &[Axis], seeds: u64) -> Vec<SweepPoint> {
    let (varied, alike): (Vec<&Axis>, Vec<&Axis>) =
        axes.iter().partition(|axis| axis.values.len() > 1);
    let set = |axis: &Axis, value: &String| (axis.key.clone(), value.clone());
    let fixed: Vec<(String, String)> = alike
        .into_iter()
        .flat_map(|axis| axis.values.iter().map(move |value| set(axis, value)))
        .collect();
    let mut combined: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for axis in varied {
        let longer = |values: &Vec<(String, String)>| {
            let with = |value: &String| {
                let mut values = values.clone();
                values.push(set(axis, value));
                values
            };
            axis.values.iter().map(with).collect::<Vec<_>>()
        };
        combined = combined.iter().flat_map(longer).collect();
    }
    let seeds: Vec<Option<u64>> = match seeds {
        0 => vec![None],
        count => (1..=count).map(Some).collect(),
    };
    let mut points = Vec::new();
    for values in combined {
        for &seed in &seeds {
            let mut point = SweepPoint {
                name: String::new(),
                values: values.clone(),
                fixed: fixed.clone(),
                seed,
            };
            point.name = name(points.len() + 1, &point);
            points.push(point);
        }
    }
    points
}

/// Returns the name of a point's directory, of characters that every file system accepts.
fn name(number: usize, point: &SweepPoint) -> String {
    let seed = point.seed.map(|seed| format!("seed={seed}"));
    let label = (!point.values.is_empty()).then(|| point.label());
    let parts = [Some(format!("{number:04}")), label, seed];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join("_");
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() || "=._-".contains(c) => c,
        _ => '-',
    };
    text.chars().map(plain).take(100).collect()
}

/// Returns the definition of a sweep. It is stored in the sweep's directory, so that a different
/// sweep is not continued there.
pub(super) fn definition(scenario: &Path, sha256: &str, points: &[SweepPoint]) -> Value {
    let runs = points
        .iter()
        .map(|point| json!({ "name": point.name, "set": point.sets() }));
    json!({
        "schema": "timeloom/sweep/1",
        "scenario": scenario,
        "scenario_sha256": sha256,
        "runs": runs.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parted_at_commas_outside_of_quotes_and_brackets() {
        let axis = Axis::parse("a.b=1, 2.5,\"x,y\",[1,2],{ k = 1, l = 2 }").unwrap();
        assert_eq!(axis.key, "a.b");
        let expected = ["1", "2.5", "\"x,y\"", "[1,2]", "{ k = 1, l = 2 }"];
        assert_eq!(axis.values, expected);
        for wrong in ["a", "=1", "a=", "a=1,,2"] {
            assert_eq!(Axis::parse(wrong), Err(NoAxis(wrong.to_owned())));
        }
    }

    #[test]
    fn every_combination_comes_with_every_seed() {
        let axes = ["p.gain=1,2", "time.duration=5 s,6 s"].map(|a| Axis::parse(a).unwrap());
        let found = points(&axes, 2);
        assert_eq!(found.len(), 8);
        assert_eq!(found[0].sets(), ["p.gain=1", "time.duration=5 s", "seed=1"]);
        assert_eq!(found[3].sets(), ["p.gain=1", "time.duration=6 s", "seed=2"]);
        assert_eq!(found[7].name, "0008_gain=2-duration=6-s_seed=2");
        let names: std::collections::BTreeSet<_> = found.iter().map(|p| &p.name).collect();
        assert_eq!(names.len(), 8);
        let alike = ["time.mode=skip", "p.gain=1,2"].map(|a| Axis::parse(a).unwrap());
        let found = points(&alike, 0);
        assert_eq!(found[1].sets(), ["time.mode=skip", "p.gain=2"]);
        assert_eq!(
            found[1].label(),
            "gain=2",
            "what is alike in all is no news"
        );
        let [only] = &points(&[], 0)[..] else {
            panic!("one")
        };
        assert_eq!((only.sets().len(), only.label().as_str()), (0, "all"));
    }
}
