//! Deviations between the runs of a proof, and the conclusion drawn from them.
//!
//! A sentence states the conclusion. A proof is never claimed if runs are missing or ended early,
//! nor if the experiment would have looked the same without virtual time.

use super::data::seconds;
use super::markup::{NAME_CHARS, escape, shortened};
use super::number::{fixed, significant};
use super::spec::Proof;
use crate::{Deviation, Sample, Series, deviation_aligned, share_within};

/// Deviation of a run from the first run of its group.
struct Comparison<'a> {
    label: &'a str,
    reference: &'a str,
    apart: Option<Deviation>,
    /// Share (0 … 1) of the common time for which the deviation is within the tolerance.
    share: f64,
    /// Virtual seconds that both runs cover.
    common_s: f64,
    /// Virtual seconds that at least one of the runs covers.
    covered_s: f64,
}

impl Comparison<'_> {
    /// Returns true if both runs cover the whole experiment.
    fn is_whole(&self) -> bool {
        self.apart.is_some() && self.common_s >= WHOLE_PART * self.covered_s
    }

    fn coincides(&self, wanted: f64) -> bool {
        self.apart.is_some() && self.share >= wanted
    }
}

/// Appends the conclusion and the table of deviations.
pub(super) fn paragraphs(
    out: &mut String,
    proof: &Proof,
    unit: &str,
    with: &[(&str, Series)],
    without: &[(&str, Series)],
) {
    let (on, off) = (compare(with, proof), compare(without, proof));
    let complete = with.len() == proof.with_virtual_time.len()
        && without.len() == proof.without_virtual_time.len();
    let (class, sentence) = verdict(&on, &off, complete, proof.share);
    out.push_str(&format!(
        "<p class=\"verdict-sentence {class}\">{sentence}</p>\n"
    ));
    table(out, proof, unit, &on, &off);
}

fn compare<'a>(group: &'a [(&'a str, Series)], proof: &Proof) -> Vec<Comparison<'a>> {
    let Some(((reference, base), others)) = group.split_first() else {
        return Vec::new();
    };
    let ends = |series: &Series| match (series.samples.first(), series.samples.last()) {
        (Some(first), Some(last)) => (seconds(first.0), seconds(last.0)),
        _ => (0.0, 0.0),
    };
    let (base_from, base_to) = ends(base);
    others
        .iter()
        .map(|(label, series)| {
            let (from, to) = ends(series);
            let (a, b) = (
                after(&base.samples, proof.from_s),
                after(&series.samples, proof.from_s),
            );
            Comparison {
                label,
                reference,
                apart: deviation_aligned(a, b, proof.alignment),
                share: share_within(a, b, proof.alignment, proof.tolerance).unwrap_or(0.0),
                common_s: (to.min(base_to) - from.max(base_from)).max(0.0),
                covered_s: to.max(base_to) - from.min(base_from),
            }
        })
        .collect()
}

/// Returns the samples at or after `from_s` seconds of virtual time.
fn after(samples: &[Sample], from_s: f64) -> &[Sample] {
    &samples[samples.partition_point(|(t, _)| seconds(*t) < from_s)..]
}

/// Returns the conclusion of the comparison, as a CSS class and a sentence. In real time a run may
/// end early or late; that also counts as a deviation.
fn verdict(
    on: &[Comparison],
    off: &[Comparison],
    complete: bool,
    share: f64,
) -> (&'static str, &'static str) {
    let apart = |c: &Comparison| !c.coincides(share);
    let inconclusive =
        !complete || on.is_empty() || off.is_empty() || !on.iter().all(Comparison::is_whole);
    if on.iter().any(|c| c.apart.is_some() && apart(c)) {
        (
            "fail",
            "✗ Under virtual time the runs do not coincide within the tolerance: virtual time does not work correctly here.",
        )
    } else if inconclusive {
        (
            "other",
            "– Runs are missing or too short: this is no proof either way.",
        )
    } else if off.iter().any(apart) {
        (
            "pass",
            "✓ Under virtual time all runs coincide within the tolerance; without it they do not. \
             This is the proof that virtual time works.",
        )
    } else {
        (
            "other",
            "– The runs coincide with and without virtual time: this experiment does not depend on the \
             solver's speed, so it proves nothing.",
        )
    }
}

fn table(out: &mut String, proof: &Proof, unit: &str, on: &[Comparison], off: &[Comparison]) {
    let unit = escape(unit);
    out.push_str(&format!(
        "<p>Deviation of <code>{}</code> from the first run of its group, over the virtual time that both cover{}. Two \
         runs coincide when they are within {} {unit} for at least {} % of it.</p>\n<table tabindex=\"0\">\n<thead><tr><th>Virtual time</th><th>Run</th><th>Reference</th>\
         <th class=\"n\">Greatest ({unit})</th><th class=\"n\">at (s)</th><th class=\"n\">RMS ({unit})</th>\
         <th class=\"n\">Within tolerance (%)</th><th class=\"n\">Common (s)</th><th>Coincide</th></tr></thead>\n<tbody>\n",
        escape(&proof.signal),
        if proof.from_s > 0.0 {
            format!(
                ", from {} s on, when the programs have started up",
                significant(proof.from_s, 3)
            )
        } else {
            String::new()
        },
        significant(proof.tolerance, 3),
        significant(100.0 * proof.share, 3),
    ));
    for (word, group, wanted) in [("on", on, true), ("off", off, false)] {
        for comparison in group {
            out.push_str(&format!(
                "<tr><td>{word}</td><td>{}</td><td>{}</td>{}</tr>\n",
                escape(&shortened(comparison.label, NAME_CHARS)),
                escape(&shortened(comparison.reference, NAME_CHARS)),
                cells(comparison, proof.share, wanted)
            ));
        }
    }
    out.push_str("</tbody>\n</table>\n");
}

/// Formats the figures of a comparison and the verdict. In real time the curves are expected to
/// deviate, so a deviation there is not marked as a failure.
fn cells(comparison: &Comparison, share: f64, wanted: bool) -> String {
    let Some(apart) = comparison.apart else {
        return "<td colspan=\"6\" class=\"other\">no common virtual time</td>".to_owned();
    };
    let (class, word) = match (comparison.coincides(share), wanted) {
        (true, true) => ("pass", "✓ yes"),
        (false, true) => ("fail", "✗ no"),
        (true, false) => ("other", "yes"),
        (false, false) => ("other", "no, as expected"),
    };
    format!(
        "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{}</td><td class=\"n\">{} of {}</td><td class=\"verdict {class}\">{word}</td>",
        significant(apart.max_abs, 3),
        fixed(apart.at_ns as f64 / 1e9, 3),
        significant(apart.rms, 3),
        fixed(100.0 * comparison.share, 1),
        fixed(comparison.common_s, 1),
        fixed(comparison.covered_s, 1),
    )
}

/// Minimum share of the covered time that both runs must cover. Runs of the same length may differ
/// by their last exchange.
const WHOLE_PART: f64 = 0.98;

#[cfg(test)]
mod tests {
    use super::*;
    use timeloom_time::Instant;

    fn group(runs: &[(i64, f64)]) -> Vec<(&'static str, Series)> {
        let series = |&(end_s, value): &(i64, f64)| Series {
            samples: (0..=end_s)
                .map(|s| (Instant::from_ns(s * 1_000_000_000), value))
                .collect(),
            ..Series::default()
        };
        runs.iter().map(|run| ("run", series(run))).collect()
    }

    #[test]
    fn a_proof_is_claimed_only_when_it_is_one() {
        let proof = Proof {
            tolerance: 0.5,
            ..Proof::default()
        };
        let class = |on: &[(i64, f64)], off: &[(i64, f64)], complete| {
            let (on, off) = (group(on), group(off));
            verdict(
                &compare(&on, &proof),
                &compare(&off, &proof),
                complete,
                proof.share,
            )
            .0
        };
        let (same, apart) = ([(90, 1.0), (90, 1.4)], [(90, 1.0), (90, 9.0)]);
        assert_eq!(class(&same, &apart, true), "pass");
        assert_eq!(class(&same, &apart, false), "other", "a run is missing");
        assert_eq!(
            class(&[(90, 1.0), (3, 1.0)], &apart, true),
            "other",
            "a run died"
        );
        assert_eq!(class(&same, &same, true), "other", "nothing was at stake");
        assert_eq!(
            class(&same[..1], &apart, true),
            "other",
            "nothing to compare with"
        );
        assert_eq!(class(&apart, &apart, false), "fail");
    }
}
