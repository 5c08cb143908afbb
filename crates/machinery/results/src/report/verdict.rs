//! Banners above all figures, with the facts that matter most: that a run failed and for what
//! reason, or that its results are not to be trusted.

use super::data::RunData;
use super::markup::{NAME_CHARS, escape, shortened};
use super::number::fixed;
use crate::{Manifest, Outcome, RunFailure};

/// Appends a banner for each problem of a run; appends nothing if there is none.
pub(super) fn banners(out: &mut String, runs: &[RunData]) {
    let several = runs.len() > 1;
    for run in runs {
        let Some(manifest) = &run.manifest else {
            continue;
        };
        let of = if several {
            format!(" ({})", shortened(&run.label, NAME_CHARS))
        } else {
            String::new()
        };
        for why in &manifest.untrusted {
            banner(
                out,
                "untrusted",
                &format!("Not to be trusted{of}."),
                why,
                &[],
            );
        }
        match (manifest.outcome, &manifest.failure) {
            (Outcome::Failed, Some(failure)) => {
                let lead = format!("Failed at {} s of virtual time{of}.", at_s(failure));
                banner(out, "failed", &lead, &failure.to_string(), &failure.log);
            }
            (Outcome::Failed | Outcome::Interrupted, _) => {
                let lead = match manifest.outcome {
                    Outcome::Failed => format!("Failed{of}."),
                    _ => format!("Stopped before its end{of}."),
                };
                let why = manifest.culprit.as_deref().unwrap_or_default();
                banner(out, "failed", &lead, why, &[]);
            }
            (Outcome::Done | Outcome::Running, _) => {}
        }
    }
}

/// Formats the outcome for the table of runs.
pub(super) fn outcome(manifest: &Manifest) -> String {
    let (class, word) = match manifest.outcome {
        Outcome::Done if !manifest.untrusted.is_empty() => ("fail", "✗ not to be trusted"),
        Outcome::Done => ("pass", "✓ done"),
        Outcome::Failed => ("fail", "✗ failed"),
        Outcome::Interrupted => ("fail", "✗ interrupted"),
        Outcome::Running => ("other", "not ended"),
    };
    let culprit = manifest
        .culprit
        .as_ref()
        .map(|text| format!("<br/>{}", escape(text)))
        .unwrap_or_default();
    format!("<span class=\"verdict {class}\">{word}</span>{culprit}")
}

/// Returns the reason why a passed check proves nothing, or not everything; `None` if all runs are
/// sound.
pub(super) fn reserve(runs: &[RunData]) -> Option<&'static str> {
    let judged = runs.iter().filter(|run| !run.checks.is_empty());
    let manifests: Vec<&Manifest> = judged.filter_map(|run| run.manifest.as_ref()).collect();
    if manifests.iter().any(|it| !it.untrusted.is_empty()) {
        return Some("in an untrusted run: the results are not meaningful");
    }
    let ended_early = |it: &&Manifest| it.failure.is_some() || it.outcome == Outcome::Interrupted;
    let early = manifests.iter().any(ended_early);
    early.then_some("until the run ended early")
}

fn banner(out: &mut String, class: &str, lead: &str, text: &str, log: &[String]) {
    out.push_str(&format!(
        "<div class=\"banner {class}\" role=\"alert\"><p><strong>{}</strong> {}</p>\n",
        escape(lead),
        escape(text)
    ));
    if !log.is_empty() {
        let lines: Vec<String> = log.iter().map(|line| escape(line)).collect();
        out.push_str(&format!(
            "<p>Its log ends:</p>\n<pre tabindex=\"0\">{}</pre>\n",
            lines.join("\n")
        ));
    }
    out.push_str("</div>\n");
}

fn at_s(failure: &RunFailure) -> String {
    fixed(super::data::seconds(failure.at), 3)
}
