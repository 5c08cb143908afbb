//! Section about the simulated network: its topology with load and loss, and the traffic of each
//! link and flow.

use std::collections::BTreeMap;

use super::data::{NetworkData, RunData, Total, seconds};
use super::figure::{Numbering, key, letter};
use super::markup::{NAME_CHARS, escape, missing, section_head, shortened};
use super::number::{Range, fixed, prefix, significant};
use super::outline::outlines;
use super::plot::{Mark, Plot, Trace};
use super::style::colour;
use super::{map, panels};
use crate::{NodeKind, Sample, Topology};

/// Appends the section; appends nothing if no run has a simulated network.
pub(super) fn section(
    out: &mut String,
    figures: &mut Numbering,
    runs: &[RunData],
    colours: &[&'static str],
) {
    let Some((index, run)) = (runs.iter().enumerate()).find(|(_, run)| run.network.is_some())
    else {
        return;
    };
    let Some(data) = &run.network else { return };
    section_head(out, "The simulated network");
    out.push_str(&format!("<p>{}</p>\n", escape(&counted(&data.topology))));
    let links = summaries(data);
    figures.begin(out);
    map::draw(out, &data.topology, &links);
    figures.end(
        out,
        "Topology with load and loss.",
        "The broader a line, the greater the mean load of the link in its busier direction; a link that lost \
         packets is drawn in vermilion. Boxes are switches, circles routers, bold names real hosts. Simulated hosts \
         at one node are drawn as one symbol.",
    );
    let end_s = run.end_s().unwrap_or(1.0);
    let marks = panels::attack_marks(std::slice::from_ref(run), &colours[index..], end_s);
    curves(out, figures, data, &links, end_s, &marks);
    tables(out, data, &links);
    out.push_str("</section>\n");
}

/// Statistics of a link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkSummary {
    /// Mean load as a fraction; `peak_load` is the maximum.
    pub(super) load: f64,
    pub(super) peak_load: f64,
    /// Mean share of packets lost; `peak_loss` is the maximum.
    pub(super) loss: f64,
    pub(super) peak_loss: f64,
    pub(super) throughput_bps: f64,
    pub(super) delay_s: f64,
    pub(super) queue: f64,
}

/// Returns the statistics by link index; `None` for links that were not recorded.
fn summaries(data: &NetworkData) -> Vec<Option<LinkSummary>> {
    let of = |link: &str, quantity: &str| {
        let name = format!("link.{link}.{quantity}");
        data.totals.get(&name).copied().unwrap_or_default()
    };
    let links = data.topology.links.iter();
    let links = links.map(|link| {
        let load = of(&link.name, "load");
        (load.count > 0).then(|| LinkSummary {
            load: load.mean,
            peak_load: load.peak,
            loss: of(&link.name, "loss").mean,
            peak_loss: of(&link.name, "loss").peak,
            throughput_bps: of(&link.name, "throughput").mean,
            delay_s: of(&link.name, "delay").mean,
            queue: of(&link.name, "queue").peak,
        })
    });
    links.collect()
}

fn counted(topology: &Topology) -> String {
    let count = |kind| {
        topology
            .nodes
            .iter()
            .filter(|node| node.kind == kind)
            .count()
    };
    let unseen = topology.links.iter().filter(|link| !link.recorded).count();
    let counts = [
        (count(NodeKind::Real), "real host"),
        (count(NodeKind::Host), "simulated host"),
        (count(NodeKind::Switch), "switch"),
        (count(NodeKind::Router), "router"),
        (topology.links.len(), "link"),
        (topology.flows.len(), "simulated flow"),
    ];
    let some = counts.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = some.map(|(count, what)| plural(*count, what)).collect();
    let mut text = format!("{}.", words.join(", "));
    if unseen > 0 {
        text.push_str(&format!(
            " Not recorded: {}. Links named by a check or panel are always recorded.",
            plural(unseen, "link")
        ));
    }
    text
}

fn curves(
    out: &mut String,
    figures: &mut Numbering,
    data: &NetworkData,
    links: &[Option<LinkSummary>],
    end_s: f64,
    marks: &[Mark],
) {
    let mut busiest: Vec<(usize, LinkSummary)> = (links.iter().enumerate())
        .filter_map(|(index, link)| Some((index, (*link)?)))
        .collect();
    busiest.sort_by(|(_, a), (_, b)| {
        let worst = |it: &LinkSummary| it.peak_loss.max(it.peak_load);
        worst(b).total_cmp(&worst(a))
    });
    let names: Vec<&str> = (busiest.iter().take(MOST_CURVES))
        .map(|(index, _)| data.topology.links[*index].name.as_str())
        .collect();
    let flows: Vec<&str> = (data.topology.flows.iter().take(MOST_CURVES))
        .map(|flow| flow.name.as_str())
        .collect();
    let all = [
        ("link", &names, "throughput", "Throughput of links", "bit/s"),
        ("link", &names, "queue", "Queues of links", "packets"),
        ("link", &names, "loss", "Loss on links", "share"),
        ("link", &names, "delay", "Delay of links", "s"),
        ("flow", &flows, "throughput", "Throughput of flows", "bit/s"),
        ("flow", &flows, "delay", "Delay of flows", "s"),
    ];
    let drawn = all.iter().filter(|(_, names, ..)| !names.is_empty());
    if drawn.clone().next().is_none() {
        missing(out, "no signals of its links and flows were recorded.");
        return;
    }
    let of_all = drawn.clone().flat_map(|(kind, names, quantity, ..)| {
        let name = move |name: &&str| format!("{kind}.{name}.{quantity}");
        names.iter().map(name)
    });
    let wanted: Vec<String> = of_all
        .filter(|name| data.totals.contains_key(name))
        .map(|name| format!("net.{name}"))
        .collect();
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    let series = match outlines(&data.directory, &wanted) {
        Ok(series) => series,
        Err(error) => return missing(out, &format!("its links and flows: {error}.")),
    };
    figures.begin(out);
    out.push_str("<div class=\"grid2\">\n");
    let mut titles = Vec::new();
    for (place, (kind, names, quantity, title, unit)) in drawn.enumerate() {
        titles.push(format!("{} {title}", letter(place)));
        let curves: Vec<(&str, &[Sample])> = (names.iter())
            .filter_map(|name| {
                let selector = format!("net.{kind}.{name}.{quantity}");
                let found = series.iter().find(|series| series.selector == selector)?;
                Some((*name, found.samples.as_slice()))
            })
            .collect();
        let heading = format!("{} {title}", letter(place));
        plot(out, &heading, unit, &curves, end_s, marks);
    }
    out.push_str("</div>\n");
    figures.end(
        out,
        "Links and flows over virtual time.",
        &format!(
            "{}. Drawn are the {} links with the greatest load or loss, each in the direction in which it is worse.",
            titles.join("; "),
            names.len()
        ),
    );
}

fn plot(
    out: &mut String,
    heading: &str,
    unit: &str,
    curves: &[(&str, &[Sample])],
    end_s: f64,
    marks: &[Mark],
) {
    let x = Range {
        low: 0.0,
        high: end_s,
    };
    out.push_str(&format!(
        "<div class=\"panel\">\n<h3>{}</h3>\n",
        escape(heading)
    ));
    out.push_str("<div class=\"keys\">");
    for (index, (name, _)) in curves.iter().enumerate() {
        key(out, colour(index), "", 1.8, &shortened(name, NAME_CHARS));
    }
    out.push_str("</div>\n");
    let traces: Vec<Trace> = (curves.iter().enumerate())
        .map(|(index, (_, samples))| {
            let points = samples.iter().map(|(at, value)| (seconds(*at), *value));
            Trace::new(points, x, colour(index))
        })
        .collect();
    let extents = traces.iter().filter_map(Trace::extent);
    let y = Range::of(
        extents
            .flat_map(|range| [range.low, range.high])
            .chain([0.0]),
    );
    match y {
        Some(y) if !traces.is_empty() => {
            let (factor, prefix) = match unit {
                "s" => of_seconds(y.high),
                unit => prefix(unit, y),
            };
            Plot {
                description: format!("{heading} over virtual time, {} curves", traces.len()),
                x,
                y: y.padded(0.07),
                x_label: "Virtual time (s)",
                y_label: format!("{prefix}{unit}"),
                factor,
                references: &[],
                marks,
                traces,
            }
            .draw(out);
        }
        _ => missing(out, "nothing of it was recorded."),
    }
    out.push_str("</div>\n");
}

fn tables(out: &mut String, data: &NetworkData, links: &[Option<LinkSummary>]) {
    let recorded = links.iter().flatten().count();
    let busy =
        |index: &usize| links[*index].is_some_and(|it| it.peak_load > 0.0 || it.peak_loss > 0.0);
    let mut order: Vec<usize> = (0..links.len()).filter(busy).collect();
    order.sort_by(|a, b| {
        let load = |index: &usize| links[*index].map_or(0.0, |link| link.load);
        load(b).total_cmp(&load(a))
    });
    out.push_str(
        "<h3>Links by load</h3>\n<table tabindex=\"0\">\n<thead><tr><th>Link</th><th class=\"n\">Rate</th><th class=\"n\">Mean throughput</th>\
         <th class=\"n\">Mean load</th><th class=\"n\">Greatest load</th><th class=\"n\">Mean loss</th><th class=\"n\">Greatest loss</th>\
         <th class=\"n\">Mean delay</th><th class=\"n\">Longest queue</th></tr></thead>\n<tbody>\n",
    );
    for index in order.iter().take(MOST_ROWS) {
        let Some(link) = links[*index] else { continue };
        let about = &data.topology.links[*index];
        out.push_str(&format!(
            "<tr><td class=\"label\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
            escape(&shortened(&about.name, NAME_CHARS)),
            with_prefix(about.rate_bps as f64, "bit/s"),
            with_prefix(link.throughput_bps, "bit/s"),
            percent(link.load),
            percent(link.peak_load),
            percent(link.loss),
            percent(link.peak_loss),
            with_prefix(link.delay_s, "s"),
            fixed(link.queue, 0),
        ));
    }
    out.push_str("</tbody>\n</table>\n");
    let (idle, shown) = (recorded - order.len(), order.len().min(MOST_ROWS));
    let rest = [
        (order.len() - shown, "carried less"),
        (idle, "carried nothing"),
    ];
    for (count, what) in rest.into_iter().filter(|(count, _)| *count > 0) {
        let links = plural(count, "link");
        out.push_str(&format!("<p class=\"other\">{links} {what}.</p>\n"));
    }
    if data.topology.flows.is_empty() {
        return;
    }
    out.push_str(
        "<h3>Simulated flows</h3>\n<table tabindex=\"0\">\n<thead><tr><th>Flow</th><th>From</th><th>To</th><th>Kind</th>\
         <th class=\"n\">Mean throughput</th><th class=\"n\">Mean loss</th><th class=\"n\">Mean delay</th></tr></thead>\n<tbody>\n",
    );
    for flow in data.topology.flows.iter().take(MOST_ROWS) {
        let of = |quantity: &str| {
            let total = data.totals.get(&format!("flow.{}.{quantity}", flow.name));
            total.map(|total| total.mean)
        };
        let shown = |value: Option<f64>, unit: &str| {
            value.map_or("–".to_owned(), |value| with_prefix(value, unit))
        };
        out.push_str(&format!(
            "<tr><td class=\"label\">{}</td><td class=\"label\">{}</td><td class=\"label\">{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
            escape(&shortened(&flow.name, NAME_CHARS)),
            escape(&shortened(&flow.from, NAME_CHARS)),
            escape(&shortened(&flow.to, NAME_CHARS)),
            escape(&flow.kind),
            shown(of("throughput"), "bit/s"),
            of("loss").map_or("–".to_owned(), percent),
            shown(of("delay"), "s"),
        ));
    }
    out.push_str("</tbody>\n</table>\n");
}

impl NetworkData {
    /// Reads the recorded signals of the network, if there is one.
    pub(super) fn load(
        directory: &crate::RunDirectory,
    ) -> Result<Option<Self>, crate::ResultsError> {
        let Some(topology) = directory.topology()? else {
            return Ok(None);
        };
        let mut totals: BTreeMap<String, Total> = BTreeMap::new();
        directory.for_each(|row: crate::SignalRow| {
            if &*row.source == "net" {
                match totals.get_mut(&*row.name) {
                    Some(total) => total.add(row.value),
                    None => totals
                        .entry(row.name.to_string())
                        .or_default()
                        .add(row.value),
                }
            }
            Ok(())
        })?;
        Ok(Some(Self {
            topology,
            totals,
            directory: directory.clone(),
        }))
    }
}

/// Formats a count with its noun, such as `1 switch` or `2 switches`.
fn plural(count: usize, what: &str) -> String {
    let ending = match count {
        1 => "",
        _ if what.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{count} {what}{ending}")
}

/// Formats a value with a prefix of its unit, such as `12.3 Mbit/s`.
fn with_prefix(value: f64, unit: &str) -> String {
    let range = Range {
        low: 0.0,
        high: value,
    };
    let (factor, prefix) = match unit {
        "s" => of_seconds(value),
        unit => prefix(unit, range),
    };
    format!("{} {prefix}{unit}", significant(value / factor, 3))
}

/// Returns the factor and the unit in which delays up to `greatest_s` seconds are shown.
fn of_seconds(greatest_s: f64) -> (f64, &'static str) {
    match greatest_s {
        s if s >= 1.0 || s <= 0.0 => (1.0, ""),
        s if s >= 1e-3 => (1e-3, "m"),
        s if s >= 1e-6 => (1e-6, "µ"),
        s if s >= 1e-9 => (1e-9, "n"),
        _ => (1e-12, "p"),
    }
}

/// Formats a fraction as per cent.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", significant(share * 100.0, 2))
}

/// Maximum number of curves in one plot. More would be illegible.
const MOST_CURVES: usize = 5;
const MOST_ROWS: usize = 20;
