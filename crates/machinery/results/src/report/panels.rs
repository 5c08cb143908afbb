//! Figure of panels: the chosen signals of every run over virtual time.

use timeloom_time::Instant;

use super::data::{RunData, seconds};
use super::figure::{Numbering, key, letter};
use super::markup::{NAME_CHARS, escape, missing, section_head, shortened};
use super::number::{Range, prefix};
use super::plot::{Mark, Plot, Trace};
use super::spec::{Panel, Reference, ReportSpec};
use super::style::{colour, dash};

/// Appends all panels as one figure, two to a row, on one time axis. Appends nothing without
/// panels.
pub(super) fn section(
    out: &mut String,
    figures: &mut Numbering,
    spec: &ReportSpec,
    runs: &[RunData],
    colours: &[&'static str],
) {
    if spec.panels.is_empty() {
        return;
    }
    section_head(out, "Signals");
    let end_s = runs
        .iter()
        .filter_map(RunData::end_s)
        .reduce(f64::max)
        .unwrap_or(1.0);
    let x = Range {
        low: 0.0,
        high: end_s,
    };
    let marks = attack_marks(runs, colours, end_s);
    figures.begin(out);
    if runs.len() > 1 {
        out.push_str("<div class=\"keys\">");
        runs.iter().zip(colours).for_each(|(run, colour)| {
            key(out, colour, "", 2.4, &shortened(&run.label, NAME_CHARS))
        });
        out.push_str("</div>\n");
    }
    out.push_str("<div class=\"grid2\">\n");
    for (row, pair) in spec.panels.chunks(2).enumerate() {
        // If one of two panels in a row has a legend, the other reserves the same height, so that
        // the plots are equally high.
        let any_legend = pair.iter().any(|panel| panel.signals.len() > 1);
        for (column, panel) in pair.iter().enumerate() {
            draw(
                out,
                panel,
                &letter(2 * row + column),
                runs,
                colours,
                x,
                &marks,
                any_legend,
            );
        }
    }
    out.push_str("</div>\n");
    let lead = if runs.len() > 1 {
        "All runs overlaid."
    } else {
        "The run."
    };
    let mut text = titles(&spec.panels);
    if runs.len() > 1 {
        text.push_str(" The first run is drawn broader, so that both show where runs coincide.");
    }
    if !marks.is_empty() {
        text.push_str(" Dashed vertical lines mark the onset of an attack; the tinted area shows its duration.");
    }
    figures.end(out, lead, &text);
    out.push_str("</section>\n");
}

/// Returns the attacks of all runs as marks. An attack that several runs share is marked once.
pub(super) fn attack_marks(runs: &[RunData], colours: &[&'static str], end_s: f64) -> Vec<Mark> {
    let mut seen = Vec::new();
    let mut marks = Vec::new();
    for (run, colour) in runs.iter().zip(colours) {
        for label in &run.labels {
            let id = (label.start, label.end, label.attack.clone());
            if seen.contains(&id) || marks.len() >= MARKS {
                continue;
            }
            seen.push(id);
            let end = if label.end == Instant::FAR_FUTURE {
                end_s
            } else {
                seconds(label.end)
            };
            marks.push(Mark {
                from: seconds(label.start),
                to: end,
                text: format!("{} {}", label.attack, label.technique)
                    .trim()
                    .to_owned(),
                colour,
            });
        }
    }
    marks
}

#[expect(
    clippy::too_many_arguments,
    reason = "one call, all of it shared by the panels of the figure"
)]
fn draw(
    out: &mut String,
    panel: &Panel,
    letter: &str,
    runs: &[RunData],
    colours: &[&'static str],
    x: Range,
    marks: &[Mark],
    any_legend: bool,
) {
    out.push_str(&format!(
        "<div class=\"panel\">\n<h3>{letter} {}</h3>\n",
        escape(&panel.title)
    ));
    // If there is a single run, its signals can use all colours.
    let style = |run: usize, signal: usize| {
        if runs.len() > 1 {
            (colours[run], dash(signal))
        } else {
            (colour(signal), "")
        }
    };
    let mut traces = Vec::new();
    let mut absent = Vec::new();
    let mut unit = panel.unit.clone();
    for (r, run) in runs.iter().enumerate() {
        for (s, signal) in panel.signals.iter().enumerate() {
            let Some(series) = run.signal(&signal.name) else {
                absent.push(format!("signal {} in run “{}”.", signal.name, run.label));
                continue;
            };
            if unit.is_empty() {
                unit = series.unit.to_string();
            }
            let (colour, dash) = style(r, s);
            let mut trace = Trace::new(
                series.samples.iter().map(|(t, v)| (seconds(*t), *v)),
                x,
                colour,
            );
            trace.dash = dash;
            // The first run is drawn wider, so that its edges remain visible where the runs agree.
            trace.width = if runs.len() > 1 && r == 0 { 2.6 } else { 1.1 };
            traces.push(trace);
        }
    }
    if any_legend {
        out.push_str("<div class=\"keys\">");
        for (s, signal) in panel
            .signals
            .iter()
            .enumerate()
            .filter(|_| panel.signals.len() > 1)
        {
            let legend = if signal.legend.is_empty() {
                &signal.name
            } else {
                &signal.legend
            };
            let (colour, dash) = if runs.len() > 1 {
                ("#3e454d", dash(s))
            } else {
                (colour(s), "")
            };
            key(out, colour, dash, 1.8, &shortened(legend, NAME_CHARS));
        }
        out.push_str("</div>\n");
    }
    let y = Range::of(
        traces
            .iter()
            .filter_map(Trace::extent)
            .flat_map(ends)
            .chain(levels(&panel.references)),
    );
    if let (Some(y), false) = (y, traces.is_empty()) {
        let (factor, prefix) = prefix(&unit, y);
        Plot {
            description: format!("{} over virtual time, {} curves", panel.title, traces.len()),
            x,
            y: y.padded(0.07),
            x_label: "Virtual time (s)",
            y_label: axis_name(&panel.y_label, &format!("{prefix}{unit}")),
            factor,
            references: &panel.references,
            marks,
            traces,
        }
        .draw(out);
    }
    absent.iter().for_each(|sentence| missing(out, sentence));
    out.push_str("</div>\n");
}

/// Formats the label of an axis, such as `Voltage (V)`. The unit `1` of a dimensionless quantity is
/// omitted, as in the SI.
pub(super) fn axis_name(name: &str, unit: &str) -> String {
    match (name, unit) {
        ("", "1") => "Number".to_owned(),
        (_, "" | "1") => name.to_owned(),
        ("", _) => unit.to_owned(),
        _ => format!("{name} ({unit})"),
    }
}

fn ends(range: Range) -> [f64; 2] {
    [range.low, range.high]
}

fn levels(references: &[Reference]) -> impl Iterator<Item = f64> {
    references.iter().flat_map(|reference| match reference {
        Reference::Line { value, .. } => [*value, *value],
        Reference::Band { from, to, .. } => [*from, *to],
    })
}

fn titles(panels: &[Panel]) -> String {
    let titles: Vec<String> = panels
        .iter()
        .enumerate()
        .map(|(index, panel)| format!("{} {}", letter(index), panel.title))
        .collect();
    format!("{}.", titles.join("; "))
}

/// Maximum number of marks in a plot. More would hide the curves.
const MARKS: usize = 12;

#[cfg(test)]
mod tests {
    use super::axis_name;

    #[test]
    fn an_axis_is_named_by_quantity_and_unit() {
        let names = [
            (("Voltage", "V"), "Voltage (V)"),
            (("", "V"), "V"),
            (("Violations", "1"), "Violations"),
            (("", "1"), "Number"),
            (("", ""), ""),
        ];
        for ((name, unit), shown) in names {
            assert_eq!(axis_name(name, unit), shown);
        }
    }
}
