//! Head of the report, with the runs and their outcomes, and its foot.

use super::data::RunData;
use super::figure::key;
use super::markup::{NAME_CHARS, escape, missing, problem, section_head, shortened};
use super::number::duration;
use super::spec::ReportSpec;
use super::verdict;
use crate::{LabelRow, Manifest, format_rfc3339};

/// Appends title, summary and the table of runs.
pub(super) fn header(out: &mut String, spec: &ReportSpec, runs: &[RunData], colours: &[&str]) {
    out.push_str(&format!("<header>\n<h1>{}</h1>\n", escape(&spec.title)));
    out.push_str(&format!(
        "<p class=\"from\">{}</p>\n",
        escape(&origin(runs))
    ));
    verdict::banners(out, runs);
    if !spec.summary.is_empty() {
        out.push_str(&format!(
            "<p class=\"lead\">{}</p>\n",
            escape(&spec.summary)
        ));
    }
    if runs.is_empty() {
        missing(out, "no run was given for this report.");
    } else {
        table(out, runs, colours);
        if let Some(sentence) = not_asked(spec, runs) {
            out.push_str(&format!("<p class=\"from\">{sentence}</p>\n"));
        }
    }
    runs.iter()
        .flat_map(|run| &run.problems)
        .for_each(|sentence| problem(out, sentence));
    out.push_str("</header>\n");
}

/// Appends the notes, and the last line of the page.
pub(super) fn notes(out: &mut String, notes: &[String]) {
    if !notes.is_empty() {
        section_head(out, "Notes");
        notes
            .iter()
            .for_each(|note| out.push_str(&format!("<p>{}</p>\n", escape(note))));
        out.push_str("</section>\n");
    }
    out.push_str(&format!(
        "<footer>Timeloom {}. All instants are seconds of virtual time since the session began unless they say wall \
         time. This file is self-contained: it loads no other files.</footer>\n",
        env!("CARGO_PKG_VERSION")
    ));
}

/// Returns a sentence about the sections that the report lacks because the scenario does not ask
/// for their content; `None` if there are none.
fn not_asked(spec: &ReportSpec, runs: &[RunData]) -> Option<&'static str> {
    let no_checks = runs.iter().all(|run| run.checks.is_empty());
    match (spec.panels.is_empty(), no_checks) {
        (true, true) => Some("The scenario defines no panels and no checks."),
        (true, false) => Some("The scenario names no panel to draw."),
        (false, true) => Some("The scenario defines no checks."),
        (false, false) => None,
    }
}

fn origin(runs: &[RunData]) -> String {
    let manifests: Vec<&Manifest> = runs
        .iter()
        .filter_map(|run| run.manifest.as_ref())
        .collect();
    let Some(first) = manifests.first() else {
        return "No manifest, so date and machine are unknown.".to_owned();
    };
    let started = manifests
        .iter()
        .map(|manifest| manifest.started)
        .min()
        .unwrap_or(first.started);
    let text = format_rfc3339(started);
    // Civil time is shown to the second and without the `T`, for readability.
    format!(
        "Scenario {} · {} {} UTC · Timeloom {} · {} cores, {}",
        first.name,
        &text[..10],
        &text[11..19],
        first.timeloom_version,
        first.machine.cores,
        first.machine.cpu_model
    )
}

fn table(out: &mut String, runs: &[RunData], colours: &[&str]) {
    out.push_str(
        "<table tabindex=\"0\">\n<thead><tr><th>Run</th><th>Outcome</th><th class=\"n\">Seed</th><th class=\"n\">Virtual time</th>\
         <th class=\"n\">Wall time</th><th class=\"n\">Pauses</th><th class=\"n\">Clock stopped</th><th>Attack</th></tr></thead>\n<tbody>\n",
    );
    for (run, colour) in runs.iter().zip(colours) {
        out.push_str("<tr><td class=\"w\">");
        key(out, colour, "", 2.4, &shortened(&run.label, NAME_CHARS));
        out.push_str("</td>");
        match &run.manifest {
            Some(manifest) => out.push_str(&format!(
                "<td class=\"any\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>",
                verdict::outcome(manifest),
                manifest.seed,
                duration(manifest.virtual_duration),
                duration(manifest.wall_duration),
                manifest.pauses,
                duration(manifest.paused_total),
            )),
            None => out.push_str("<td colspan=\"6\" class=\"other\">no manifest</td>"),
        }
        let attacks: Vec<String> = run.labels.iter().take(5).map(LabelRow::title).collect();
        let attacks = if attacks.is_empty() {
            "none".to_owned()
        } else {
            attacks.join(", ")
        };
        out.push_str(&format!(
            "<td class=\"any\">{}</td></tr>\n",
            escape(&attacks)
        ));
    }
    out.push_str("</tbody>\n</table>\n");
}
