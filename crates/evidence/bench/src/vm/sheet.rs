//! The page of `vm --figures`: error, read cost and interval by the number of guests, with
//! what the paper has beside it (QuartzV, Table I and Figures 8 to 15).
//!
//! It measures nothing: it is made of the figures that were printed.

use timeloom_results::report::{Chart, Curve, Part, Sheet};

use super::{
    PAPER_FULLY_VIRTUAL_ERROR_NS, PAPER_FULLY_VIRTUAL_NS, PAPER_NATIVE_ERROR_NS, PAPER_NATIVE_NS,
    PAPER_PARA_VIRTUAL_ERROR_NS, PAPER_PARA_VIRTUAL_NS,
};
use crate::figure::Figure;

/// Who reads, by the beginning of a figure's name, and what the paper has.
struct Reader {
    label: &'static str,
    prefix: &'static str,
    /// Table I: CLOCK_MONOTONIC and the timeline.
    paper_ns: [f64; 4],
    paper_error_ns: f64,
}

const READERS: [Reader; 3] = [
    Reader {
        label: "native",
        prefix: "native",
        paper_ns: PAPER_NATIVE_NS,
        paper_error_ns: PAPER_NATIVE_ERROR_NS,
    },
    Reader {
        label: "para-virtual",
        prefix: "paravirtual",
        paper_ns: PAPER_PARA_VIRTUAL_NS,
        paper_error_ns: PAPER_PARA_VIRTUAL_ERROR_NS,
    },
    Reader {
        label: "fully virtual",
        prefix: "fully_virtual",
        paper_ns: PAPER_FULLY_VIRTUAL_NS,
        paper_error_ns: PAPER_FULLY_VIRTUAL_ERROR_NS,
    },
];

/// What is drawn: the end of a figure's name, and how.
struct Quantity {
    name: &'static str,
    suffix: &'static str,
    heading: &'static str,
    unit: &'static str,
    /// Of the figure's own unit.
    per: f64,
    paper: fn(&Reader) -> Option<f64>,
}

const QUANTITIES: [Quantity; 3] = [
    Quantity {
        name: "vm-error",
        suffix: "_error_ns",
        heading: "Error",
        unit: "error (µs)",
        per: 1e3,
        paper: |reader| Some(reader.paper_error_ns / 1e3),
    },
    Quantity {
        name: "vm-read",
        suffix: "_timeline_over_monotonic",
        heading: "Cost of a reading",
        unit: "timeline ÷ CLOCK_MONOTONIC",
        per: 1.0,
        paper: |reader| Some(reader.paper_ns[3] / reader.paper_ns[2]),
    },
    Quantity {
        name: "vm-interval",
        suffix: "_interval_ns",
        heading: "Interval",
        unit: "length of the interval (µs)",
        per: 1e3,
        paper: |_| None,
    },
];

/// The figure of a reader, and for how many guests at once it is.
fn of<'a>(
    figures: &'a [Figure],
    reader: &Reader,
    quantity: &Quantity,
) -> impl Iterator<Item = (f64, &'a Figure)> {
    let (prefix, suffix) = (reader.prefix, quantity.suffix);
    figures.iter().filter_map(move |figure| {
        let between = figure.metric.strip_prefix(prefix)?.strip_suffix(suffix)?;
        let guests = match between.strip_prefix("_of_") {
            None => between.is_empty().then_some(1),
            Some(number) => number.parse::<u32>().ok(),
        };
        guests.map(|guests| (f64::from(guests), figure))
    })
}

/// The page of a run's figures.
pub(super) fn sheet(figures: &[Figure]) -> Sheet {
    let outside = figures
        .iter()
        .find(|figure| figure.metric == "readings_outside");
    let verdict = outside.map_or_else(String::new, |figure| {
        let readings = figure.context.get("readings").and_then(|it| it.as_u64());
        format!(
            " Of {} readings {} were wrong: true time was outside of the interval.",
            readings.unwrap_or(0),
            figure.value
        )
    });
    Sheet {
        title: "The quality of time in virtual machines".to_owned(),
        lead: format!(
            "One timeline, read natively, by guests from their host's memory (para-virtual), and \
             in a guest that keeps its own by NTP (fully virtual). All guests share one of {} \
             processors, and are emulated: what a reading costs is given over the guest's own \
             CLOCK_MONOTONIC.{verdict}",
            std::thread::available_parallelism().map_or(1, usize::from)
        ),
        parts: vec![
            table(figures),
            Part::Figure {
                charts: QUANTITIES.iter().map(|it| chart(figures, it)).collect(),
                lead: "Error, cost and interval by the number of guests at once.".to_owned(),
                caption: "Medians, with the 5th and 95th percentile. Dots of the paper are its \
                          means (QuartzV, Figure 8 and Table I), which are of one guest on \
                          processors of its own; its Figures 9 to 15 have no numbers in the text. \
                          A native reading has no guests."
                    .to_owned(),
            },
        ],
    }
}

fn table(figures: &[Figure]) -> Part {
    let mut rows = Vec::new();
    for reader in &READERS {
        for (guests, read) in of(figures, reader, &QUANTITIES[1]) {
            let beside = |quantity: &Quantity| {
                let mut found = of(figures, reader, quantity).filter(|(count, _)| *count == guests);
                let found = found.next();
                found.map_or("–".to_owned(), |(_, it)| {
                    format!("{:.1}", it.value / quantity.per)
                })
            };
            let over = Quantity {
                suffix: "_error_over_native",
                per: 1.0,
                ..QUANTITIES[0]
            };
            rows.push(vec![
                reader.label.to_owned(),
                if reader.prefix == "native" {
                    "–".to_owned()
                } else {
                    guests.to_string()
                },
                format!("{:.2}", read.value),
                format!("{:.2}", reader.paper_ns[3] / reader.paper_ns[2]),
                beside(&QUANTITIES[0]),
                format!("{:.1}", reader.paper_error_ns / 1e3),
                beside(&over),
                beside(&QUANTITIES[2]),
            ]);
        }
    }
    let columns = [
        "reader",
        "guests",
        "timeline ÷ CLOCK_MONOTONIC",
        "paper",
        "error (µs)",
        "paper",
        "error ÷ native beside it",
        "interval (µs)",
    ];
    Part::Table {
        heading: "Medians".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
        note: "error: distance of the estimate from true time, where that was known to 20 µs. \
               error ÷ native: a round of readings over native ones just after, then the median."
            .to_owned(),
    }
}

fn chart(figures: &[Figure], quantity: &Quantity) -> Chart {
    let (mut curves, mut bands, mut papers) = (Vec::new(), Vec::new(), Vec::new());
    for reader in &READERS {
        let found: Vec<_> = of(figures, reader, quantity).collect();
        if found.is_empty() {
            continue;
        }
        let value = |(guests, it): &(f64, &Figure)| (*guests, it.value / quantity.per);
        let band =
            |(guests, it): &(f64, &Figure)| (*guests, it.p5 / quantity.per, it.p95 / quantity.per);
        curves.push(Curve {
            label: reader.label.to_owned(),
            points: found.iter().map(value).collect(),
        });
        bands.push(found.iter().map(band).collect());
        if let Some(paper) = (quantity.paper)(reader) {
            papers.push(Curve {
                label: format!("paper, {}", reader.label),
                points: vec![(1.0, paper)],
            });
        }
    }
    curves.extend(papers);
    Chart {
        name: quantity.name.to_owned(),
        title: quantity.heading.to_owned(),
        x_label: "guests at once".to_owned(),
        y_label: quantity.unit.to_owned(),
        curves,
        bands,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Name;

    fn figure(metric: &str, value: f64) -> Figure {
        Figure::new(Name::Vm, metric, "ns", &[value])
    }

    #[test]
    fn figures_are_drawn_where_their_names_say() {
        let figures = [
            figure("native_error_ns", 2_000.0),
            figure("paravirtual_error_ns", 3_000.0),
            figure("paravirtual_of_8_error_ns", 4_000.0),
            figure("paravirtual_of_8_error_over_native", 2.0),
            figure("paravirtual_of_8_timeline_over_monotonic", 1.2),
            figure("readings_outside", 0.0).with("readings", 7),
        ];
        let error = chart(&figures, &QUANTITIES[0]);
        let points = |label: &str| {
            let mut found = error.curves.iter().filter(|curve| curve.label == label);
            found.next().map(|curve| curve.points.clone())
        };
        assert_eq!(points("native"), Some(vec![(1.0, 2.0)]));
        assert_eq!(points("para-virtual"), Some(vec![(1.0, 3.0), (8.0, 4.0)]));
        assert_eq!(points("paper, para-virtual"), Some(vec![(1.0, 26.12)]));
        // Nothing is said of who was not measured.
        assert_eq!(points("fully virtual"), None);
        assert_eq!(points("paper, fully virtual"), None);
        let page = sheet(&figures).render();
        assert!(page.contains("Of 7 readings 0 were wrong"), "{page}");
        assert!(page.contains("<td>para-virtual</td>"), "{page}");
    }
}
