//! Section with the facts from the manifests that are needed to trust or repeat the runs.

use super::data::RunData;
use super::markup::{escape, missing, section_head};
use super::number::duration;
use crate::{Caveat, Manifest, format_rfc3339};

/// Appends the section. A fact that all runs share is stated once.
pub(super) fn section(out: &mut String, runs: &[RunData]) {
    section_head(out, "Provenance");
    let known: Vec<(&str, &Manifest)> = runs
        .iter()
        .filter_map(|run| Some((run.label.as_str(), run.manifest.as_ref()?)))
        .collect();
    if known.is_empty() {
        missing(
            out,
            "no run has a manifest, so versions and hashes are unknown.",
        );
        out.push_str("</section>\n");
        return;
    }
    let facts: [(&str, Fact); 9] = [
        ("Scenario", |m| m.name.clone()),
        ("Scenario SHA-256", |m| m.scenario_sha256.clone()),
        ("Seed", |m| m.seed.to_string()),
        ("Time", time),
        ("Timeloom", |m| m.timeloom_version.clone()),
        ("Kernel", |m| m.kernel.clone()),
        ("Clock source", |m| m.clock_source.clone()),
        ("Machine", |m| {
            format!("{} cores, {}", m.machine.cores, m.machine.cpu_model)
        }),
        ("Started", |m| format_rfc3339(m.started)),
    ];
    out.push_str("<table tabindex=\"0\">\n<tbody>\n");
    for (name, fact) in facts {
        let values = agreed(&known, fact).map(|value| {
            if name.ends_with("256") {
                format!("<span class=\"hash\">{value}</span>")
            } else {
                value
            }
        });
        out.push_str(&format!(
            "<tr><th class=\"w\">{name}</th><td class=\"any\">{}</td></tr>\n",
            values.collect::<Vec<_>>().join("<br/>")
        ));
    }
    out.push_str("</tbody>\n</table>\n");
    degraded(out, &known);
    programs(out, &known);
    inputs(out, &known);
    out.push_str("</section>\n");
}

/// Formats the time mode and, for a stepped run, the wall time spent on grants.
fn time(manifest: &Manifest) -> String {
    let mode = match manifest.time_mode.as_str() {
        "" => "not stated",
        mode => mode,
    };
    match &manifest.grants {
        None => mode.to_owned(),
        Some(grants) => format!(
            "{mode}: {} grants, which took {} of wall time; {} more passed between them",
            grants.count,
            duration(grants.ran),
            duration(grants.waited)
        ),
    }
}

/// Formats a fact: once if all runs agree, otherwise once per run with the run's label.
fn agreed<'a>(
    known: &'a [(&str, &Manifest)],
    fact: Fact,
) -> impl Iterator<Item = String> + use<'a> {
    let first = fact(known[0].1);
    let same = known.iter().all(|(_, manifest)| fact(manifest) == first);
    known
        .iter()
        .take(if same { 1 } else { usize::MAX })
        .map(move |(label, manifest)| {
            let value = escape(&fact(manifest));
            if same {
                value
            } else {
                format!("{}: {value}", escape(label))
            }
        })
}

fn degraded(out: &mut String, known: &[(&str, &Manifest)]) {
    let mut modes: Vec<&Caveat> = known
        .iter()
        .flat_map(|(_, manifest)| &manifest.degraded_modes)
        .collect();
    modes.sort();
    modes.dedup();
    out.push_str("<h3>Degraded modes</h3>\n");
    if modes.is_empty() {
        out.push_str("<p>None: this machine supported everything that the run requires.</p>\n");
        return;
    }
    out.push_str("<ul>\n");
    modes
        .iter()
        .take(LISTED)
        .for_each(|mode| out.push_str(&format!("<li>{}</li>\n", escape(mode))));
    out.push_str("</ul>\n");
}

fn programs(out: &mut String, known: &[(&str, &Manifest)]) {
    let mut programs: Vec<(&str, &str)> = known
        .iter()
        .flat_map(|(_, manifest)| &manifest.programs)
        .map(|program| (program.path.as_str(), program.sha256.as_str()))
        .collect();
    // A path with two hashes is listed twice, because the runs used different files.
    programs.sort_unstable();
    programs.dedup();
    if programs.is_empty() {
        return;
    }
    out.push_str("<h3>Programs</h3>\n<table tabindex=\"0\">\n<thead><tr><th>File</th><th>SHA-256</th></tr></thead>\n<tbody>\n");
    for (path, sha256) in programs.iter().take(LISTED) {
        out.push_str(&format!(
            "<tr><td class=\"any\">{}</td><td class=\"hash\">{}</td></tr>\n",
            escape(path),
            escape(sha256)
        ));
    }
    out.push_str("</tbody>\n</table>\n");
    if programs.len() > LISTED {
        out.push_str(&format!(
            "<p class=\"other\">{} more in the manifests.</p>\n",
            programs.len() - LISTED
        ));
    }
}

/// Appends the scripts, models and data. A file that several runs share is listed once.
fn inputs(out: &mut String, known: &[(&str, &Manifest)]) {
    let all = known.iter().flat_map(|(_, manifest)| &manifest.inputs);
    let mut rows: Vec<(&str, &str, &str)> = all
        .map(|input| {
            let kept = input.kept.as_deref().unwrap_or("not copied");
            (input.path.as_str(), input.sha256.as_str(), kept)
        })
        .collect();
    rows.sort_unstable();
    rows.dedup();
    if rows.is_empty() {
        return;
    }
    out.push_str("<h3>Scripts, models and data</h3>\n<table tabindex=\"0\">\n<thead><tr><th>File</th><th>SHA-256</th><th>Copy in the run directory</th></tr></thead>\n<tbody>\n");
    for (path, sha256, kept) in rows.iter().take(LISTED) {
        out.push_str(&format!(
            "<tr><td class=\"any\">{}</td><td class=\"hash\">{}</td><td class=\"any\">{}</td></tr>\n",
            escape(path),
            escape(sha256),
            escape(kept)
        ));
    }
    out.push_str("</tbody>\n</table>\n");
}

/// Function that formats one fact about a run; `None` if the manifest does not have it.
type Fact = fn(&Manifest) -> String;

const LISTED: usize = 100;
