//! Table of checks: their assertions and the measured values.

use super::data::RunData;
use super::markup::{NAME_CHARS, escape, section_head, shortened};
use super::number::significant;
use super::verdict;
use crate::MeasuredValue;

/// Appends the section. Appends nothing if no run had checks; the head of the report says so.
pub(super) fn section(out: &mut String, runs: &[RunData]) {
    let all = || runs.iter().flat_map(|run| &run.checks);
    let (count, applied) = (all().count(), all().filter(|check| check.applies).count());
    if count == 0 {
        return;
    }
    section_head(out, "Checks");
    let passed = all().filter(|check| check.applies && check.passed).count();
    let reserve = verdict::reserve(runs);
    let class = match (passed == applied, reserve) {
        (false, _) => "fail",
        (true, Some(_)) => "other",
        (true, None) => "pass",
    };
    let words = match reserve {
        None => "passed".to_owned(),
        Some(why) => format!("passed {why}"),
    };
    out.push_str(&format!(
        "<p><span class=\"verdict-sentence {class}\">{passed} of {applied} {words}</span>{}</p>\n",
        match count - applied {
            0 => ".".to_owned(),
            n => format!("; {n} did not apply."),
        }
    ));
    let several = runs.iter().filter(|run| !run.checks.is_empty()).count() > 1;
    let run_column = if several { "<th>Run</th>" } else { "" };
    out.push_str(&format!(
        "<table tabindex=\"0\">\n<thead><tr><th>Result</th>{run_column}<th>Check</th><th>Condition</th><th class=\"n\">Measured</th><th>Explanation</th></tr></thead>\n<tbody>\n"
    ));
    for run in runs {
        for check in &run.checks {
            let (class, word) = match (check.applies, check.passed) {
                (false, _) => ("other", "– n/a"),
                (true, true) => ("pass", "✓ pass"),
                (true, false) => ("fail", "✗ fail"),
            };
            let run_cell = if several {
                format!(
                    "<td class=\"w\">{}</td>",
                    escape(&shortened(&run.label, NAME_CHARS))
                )
            } else {
                String::new()
            };
            out.push_str(&format!(
                "<tr><td class=\"verdict {class}\">{word}</td>{run_cell}<td class=\"label\">{}</td><td class=\"any\"><code>{}</code></td><td class=\"n\">{}</td><td class=\"any\">{}</td></tr>\n",
                escape(&shortened(&check.name, NAME_CHARS)),
                escape(&check.expression),
                measured(&check.measured),
                escape(&check.explanation),
            ));
        }
    }
    out.push_str("</tbody>\n</table>\n</section>\n");
}

fn measured(value: &MeasuredValue) -> String {
    match value {
        MeasuredValue::Number(number) => significant(*number, 6),
        other => escape(&shortened(&other.to_string(), NAME_CHARS)),
    }
}
