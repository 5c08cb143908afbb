//! Command `timeloom compare`: shows the differences between two runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use timeloom_results::{Alignment, Threshold};
use timeloom_run::compare::{COLUMNS, CompareRequest, ComparisonResult, compare, row};
use timeloom_run::exit::{Failure, note, say};

use super::report::failure;
use super::run::shown;
use super::table;

/// Compare two runs: the distance of each signal, and the first difference
///
/// Shows every signal with its range in both runs, the greatest difference and its virtual time,
/// and writes a page that draws both runs in the same charts. Signals are compared over virtual
/// time, whatever the instants at which they were sampled.
///
/// Exit code: 0; 1 if a signal exceeds its threshold, or with --exact if the runs differ anywhere;
/// 2 if a directory is not a run.
#[derive(Args)]
#[command(
    after_help = "Example: timeloom compare runs/old runs/new --threshold 1% --threshold tank.level=0.02"
)]
pub(crate) struct Compare {
    /// Reference run
    first: PathBuf,
    /// Run that is compared with the reference
    second: PathBuf,
    /// Maximum distance of a signal, in its unit or, with %, of its range in the first run; without
    /// a name, of every signal; may be repeated
    #[arg(long, value_name = "[SIGNAL=]VALUE[%]", value_parser = threshold)]
    threshold: Vec<(Option<String>, Threshold)>,
    /// Fail if the runs differ in any signal, event, or instant of a printed line
    #[arg(long)]
    exact: bool,
    /// Keep the value of a signal until the next sample, as for commands and states; by default,
    /// interpolate linearly
    #[arg(long)]
    hold: bool,
    /// Path of the page [default: compare-FIRST-SECOND.html beside the second run]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Compare {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let of_all =
            |(name, threshold): &(Option<String>, Threshold)| name.is_none().then_some(*threshold);
        let all = self.threshold.iter().rev().find_map(of_all);
        let of_one = |(name, threshold)| Some((name?, threshold));
        let of: BTreeMap<String, Threshold> =
            self.threshold.into_iter().filter_map(of_one).collect();
        let found = compare(&CompareRequest {
            first: self.first,
            second: self.second,
            all,
            of,
            alignment: if self.hold {
                Alignment::Hold
            } else {
                Alignment::Linear
            },
            output: self.output,
        })
        .map_err(failure)?;
        for remark in &found.remarks {
            note!("timeloom: {remark}");
        }
        let past = found.past().count();
        let failed = past > 0 || (self.exact && found.difference.difference.is_some());
        if self.json {
            let object = serde_json::json!({
                "passed": !failed,
                "past": found.past().map(|signal| &signal.signal).collect::<Vec<_>>(),
                "signals": found.signals,
                "difference": found.difference.difference,
                "text": found.difference.text,
                "page": found.page,
            });
            say!("{object}");
        } else {
            say!("{}", to_text(&found));
        }
        Ok(ExitCode::from(u8::from(failed)))
    }
}

fn to_text(found: &ComparisonResult) -> String {
    let rows: Vec<Vec<String>> = found.signals.iter().map(row).collect();
    let mut lines = match rows.is_empty() {
        true => vec!["neither run has signals".to_owned()],
        false => vec![table::text(&COLUMNS, &rows)],
    };
    lines.push(match &found.difference.difference {
        Some(difference) => format!("they differ, first in {}", shown(difference)),
        None => {
            "they agree in every signal and event, and in the time of every printed line".into()
        }
    });
    match found.past().count() {
        0 => {}
        1 => lines.push("1 signal is PAST its threshold".to_owned()),
        count => lines.push(format!("{count} signals are PAST their threshold")),
    }
    lines.push(format!("page: {}", found.page.display()));
    lines.join("\n")
}

fn threshold(text: &str) -> Result<(Option<String>, Threshold), Failure> {
    let usage = || Failure::usage("write VALUE or SIGNAL=VALUE, as in `tank.level=0.02` or `1%`");
    let (name, value) = match text.rsplit_once('=') {
        Some((name, value)) if !name.is_empty() => (Some(name.to_owned()), value),
        Some(_) => return Err(usage()),
        None => (None, text),
    };
    let (number, share) = match value.strip_suffix('%') {
        Some(number) => (number, true),
        None => (value, false),
    };
    let number: f64 = number.trim().parse().map_err(|_| usage())?;
    if !number.is_finite() || number < 0.0 {
        return Err(Failure::usage(
            "a threshold must be a number that is not negative",
        ));
    }
    let threshold = match share {
        true => Threshold::Share(number / 100.0),
        false => Threshold::Value(number),
    };
    Ok((name, threshold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_of_one_signal_or_of_all_in_its_unit_or_its_range() {
        let taken = |text: &str| threshold(text).expect(text);
        assert_eq!(taken("0.5"), (None, Threshold::Value(0.5)));
        assert_eq!(taken("1%"), (None, Threshold::Share(0.01)));
        let of = (Some("tank.level".to_owned()), Threshold::Share(0.05));
        assert_eq!(taken("tank.level=5 %"), of);
        for wrong in ["", "x", "tank.level=", "=1", "-1", "nan", "a=inf"] {
            assert!(threshold(wrong).is_err(), "{wrong}");
        }
    }
}
