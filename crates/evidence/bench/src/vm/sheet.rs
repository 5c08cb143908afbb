//! Page of `vm --figures`: error, read cost and interval by the number of guests, with the paper's
//! values (QuartzV, Table I and Figures 8 to 15).
//!
//! This file measures nothing: the page is made from the figures of a run.

use timeloom_results::report::{Chart, Curve, Sheet, SheetPart};

use super::hungry::Hunger;
use super::{FULLY_VIRTUAL, NATIVE, PARA_VIRTUAL, Paper};
use crate::figure::Figure;

/// A kind of reader: prefix of its figures' names, and the paper's values.
struct Reader {
    label: &'static str,
    prefix: &'static str,
    paper: Paper,
    /// The paper's statements about the error with neighbours that compute, receive, send, receive
    /// within a limit, and send within a limit, relative to the error without neighbours (section
    /// V-D).
    beside: [&'static str; 5],
}

const READERS: [Reader; 3] = [
    Reader {
        label: "native",
        prefix: "native",
        paper: NATIVE,
        beside: ["–"; 5],
    },
    Reader {
        label: "para-virtual",
        prefix: "paravirtual",
        paper: PARA_VIRTUAL,
        beside: [
            "no significant change",
            "some 1.2",
            "some 1.2",
            "not significant",
            "not significant",
        ],
    },
    Reader {
        label: "fully virtual",
        prefix: "fully_virtual",
        paper: FULLY_VIRTUAL,
        beside: [
            "above 5 in overload",
            "some 1.8 to 4",
            "ten times that of receiving",
            "not significant",
            "not significant",
        ],
    },
];

/// A quantity to draw: suffix of the figures' names, and how it is presented.
struct Quantity {
    name: &'static str,
    suffix: &'static str,
    heading: &'static str,
    unit: &'static str,
    /// Divisor that converts the figure's unit to the unit of the chart.
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
        paper: |reader| Some(reader.paper.error_ns / 1e3),
    },
    Quantity {
        name: "vm-read",
        suffix: "_timeline_over_monotonic",
        heading: "Cost of a reading",
        unit: "timeline ÷ CLOCK_MONOTONIC",
        per: 1.0,
        paper: |reader| Some(reader.paper.read_ns[3] / reader.paper.read_ns[2]),
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

/// Returns the figure of a reader together with the number of simultaneous guests.
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

/// Returns the page for the figures of a run.
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
            SheetPart::Figure {
                charts: QUANTITIES.iter().map(|it| chart(figures, it)).collect(),
                lead: "Error, cost and interval by the number of guests at once.".to_owned(),
                caption: "Medians, with the 5th and 95th percentile. Dots of the paper are its \
                          means (QuartzV, Figure 8 and Table I), which are of one guest on \
                          processors of its own; the plots of its Figures 9 to 15 have no numbers \
                          in the text. A native reading has no guests."
                    .to_owned(),
            },
            SheetPart::Figure {
                charts: READERS
                    .iter()
                    .filter_map(|it| spread(figures, it))
                    .collect(),
                lead: "How errors are spread (the paper's Figures 8 to 10).".to_owned(),
                caption: "So much of the readings has an error of no more than that; the dashed \
                          lines are half the median interval before and after. The paper's curve \
                          is a normal one of the mean and the deviation that it states."
                    .to_owned(),
            },
            SheetPart::Figure {
                charts: crowds(figures),
                lead: "Beside hungry neighbours (the paper's Figures 11 to 14).".to_owned(),
                caption: "One guest reads, and so many others compute, receive or send by TCP \
                          without an end, or within a limit of 16 Mbit/s each, on the one \
                          processor that all guests share: it is over-committed from the first \
                          one on. Zero neighbours is the guest \
                          beside others that are idle or not there."
                    .to_owned(),
            },
            beside(figures),
        ],
    }
}

fn table(figures: &[Figure]) -> SheetPart {
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
                format!("{:.2}", reader.paper.read_ns[3] / reader.paper.read_ns[2]),
                beside(&QUANTITIES[0]),
                format!("{:.1}", reader.paper.error_ns / 1e3),
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
    SheetPart::Table {
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

/// Draws the distribution of the errors, with the ends of the interval.
fn spread(figures: &[Figure], reader: &Reader) -> Option<Chart> {
    let error = named(figures, &format!("{}_error_ns", reader.prefix))?;
    let errors: Vec<f64> = error
        .context
        .get("percentiles")?
        .as_array()?
        .iter()
        .filter_map(|it| it.as_f64())
        .collect();
    let share = |place: usize| place as f64 / errors.len().saturating_sub(1).max(1) as f64;
    let mut curves = vec![Curve {
        label: reader.label.to_owned(),
        points: errors
            .iter()
            .enumerate()
            .map(|(at, ns)| (ns / 1e3, share(at)))
            .collect(),
    }];
    if let Some(interval) = named(figures, &format!("{}_interval_ns", reader.prefix)) {
        let half_us = interval.value / 2e3;
        for (label, end_us) in [("earliest", -half_us), ("latest", half_us)] {
            curves.push(Curve {
                label: label.to_owned(),
                points: vec![(end_us, 0.0), (end_us, 1.0)],
            });
        }
    }
    curves.push(Curve {
        label: "paper".to_owned(),
        points: NORMAL
            .map(|(deviations, share)| {
                let ns = reader.paper.error_ns + deviations * reader.paper.error_spread_ns;
                (ns / 1e3, share)
            })
            .to_vec(),
    });
    Some(Chart {
        name: format!("vm-spread-{}", reader.prefix.replace('_', "-")),
        title: format!("Errors, {}", reader.label),
        x_label: "error (µs)".to_owned(),
        y_label: "share of readings".to_owned(),
        curves,
        bands: Vec::new(),
    })
}

/// Normal distribution: deviations from the mean in standard deviations, and the fraction below
/// them.
const NORMAL: [(f64, f64); 9] = [
    (-2.0, 0.023),
    (-1.5, 0.067),
    (-1.0, 0.159),
    (-0.5, 0.309),
    (0.0, 0.5),
    (0.5, 0.691),
    (1.0, 0.841),
    (1.5, 0.933),
    (2.0, 0.977),
];

/// Draws error and interval by the number of greedy neighbours, for the readers in a guest.
fn crowds(figures: &[Figure]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for reader in &READERS[1..] {
        for quantity in [&QUANTITIES[0], &QUANTITIES[2]] {
            let curves: Vec<Curve> = Hunger::ALL
                .into_iter()
                .filter_map(|hunger| {
                    let points: Vec<_> = crowd(figures, reader, quantity, hunger)
                        .map(|(number, it)| (f64::from(number), it.value / quantity.per))
                        .collect();
                    (points.len() > 1).then(|| Curve {
                        label: hunger.to_string(),
                        points,
                    })
                })
                .collect();
            if !curves.is_empty() {
                charts.push(Chart {
                    name: format!(
                        "{}-beside-{}",
                        quantity.name,
                        reader.prefix.replace('_', "-")
                    ),
                    title: format!("{}, {}", quantity.heading, reader.label),
                    x_label: "hungry neighbours".to_owned(),
                    y_label: quantity.unit.to_owned(),
                    curves,
                    bands: Vec::new(),
                });
            }
        }
    }
    charts
}

/// Returns a reader's figures by the number of neighbours with one kind of load, from zero on.
fn crowd<'a>(
    figures: &'a [Figure],
    reader: &Reader,
    quantity: &Quantity,
    hunger: Hunger,
) -> impl Iterator<Item = (u32, &'a Figure)> {
    let (prefix, suffix) = (reader.prefix, quantity.suffix);
    figures.iter().filter_map(move |figure| {
        let between = figure.metric.strip_prefix(prefix)?.strip_suffix(suffix)?;
        if between.is_empty() {
            return Some((0, figure));
        }
        let (number, kind) = between.strip_prefix("_beside_")?.split_once('_')?;
        (kind == hunger.to_string()).then_some((number.parse().ok()?, figure))
    })
}

fn named<'a>(figures: &'a [Figure], metric: &str) -> Option<&'a Figure> {
    figures.iter().find(|figure| figure.metric == metric)
}

/// Compares the errors with and without greedy neighbours.
fn beside(figures: &[Figure]) -> SheetPart {
    let mut rows = Vec::new();
    for reader in &READERS[1..] {
        for (hunger, paper) in Hunger::ALL.into_iter().zip(reader.beside) {
            let of = |quantity| crowd(figures, reader, quantity, hunger);
            let alone = |quantity| of(quantity).find(|(number, _)| *number == 0);
            for (number, error) in of(&QUANTITIES[0]).filter(|(number, _)| *number > 0) {
                let over = |quantity, figure: &Figure| {
                    let alone = alone(quantity).map(|(_, it)| figure.value / it.value);
                    alone.map_or("–".to_owned(), |ratio| format!("{ratio:.1}"))
                };
                let interval = of(&QUANTITIES[2]).find(|(other, _)| *other == number);
                let traffic = format!(
                    "{}_beside_{number}_{hunger}_traffic_mbit_per_s",
                    reader.prefix
                );
                let traffic = named(figures, &traffic);
                rows.push(vec![
                    reader.label.to_owned(),
                    hunger.to_string(),
                    number.to_string(),
                    traffic.map_or("–".to_owned(), |it| format!("{:.0}", it.value)),
                    format!("{:.1}", error.value / 1e3),
                    over(&QUANTITIES[0], error),
                    paper.to_owned(),
                    interval.map_or("–".to_owned(), |(_, it)| format!("{:.1}", it.value / 1e3)),
                    interval.map_or("–".to_owned(), |(_, it)| over(&QUANTITIES[2], it)),
                ]);
            }
        }
    }
    let columns = [
        "reader",
        "neighbours hungry for",
        "how many",
        "Mbit/s",
        "error (µs)",
        "÷ without",
        "paper, ÷ without",
        "interval (µs)",
        "÷ without",
    ];
    SheetPart::Table {
        heading: "Beside hungry neighbours".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
        note: "Medians. The paper's are what its text says, of up to 8 machines on as many \
               processors (computing) and of up to 5 on a network of 100 Mbit/s."
            .to_owned(),
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
        // Readers that were not measured are left out.
        assert_eq!(points("fully virtual"), None);
        assert_eq!(points("paper, fully virtual"), None);
        let page = sheet(&figures).render();
        assert!(page.contains("Of 7 readings 0 were wrong"), "{page}");
        assert!(page.contains("<td>para-virtual</td>"), "{page}");
    }

    #[test]
    fn neighbours_are_drawn_by_their_number_from_none_on() {
        let figures = [
            figure("paravirtual_error_ns", 3_000.0).with("percentiles", vec![-9e3, 1e3, 9e3]),
            figure("paravirtual_interval_ns", 100_000.0),
            figure("paravirtual_beside_1_send_error_ns", 6_000.0),
            figure("paravirtual_beside_3_send_error_ns", 9_000.0),
            figure("paravirtual_beside_3_send_traffic_mbit_per_s", 80.0),
            figure("paravirtual_of_2_error_ns", 1.0),
        ];
        let [error] = &crowds(&figures)[..] else {
            panic!("one chart: nothing else was measured");
        };
        assert_eq!(error.curves.len(), 1);
        assert_eq!(error.curves[0].points, [(0.0, 3.0), (1.0, 6.0), (3.0, 9.0)]);
        let drawn = spread(&figures, &READERS[1]).unwrap();
        assert_eq!(
            drawn.curves[0].points,
            [(-9.0, 0.0), (1.0, 0.5), (9.0, 1.0)]
        );
        assert_eq!(drawn.curves[1].points, [(-50.0, 0.0), (-50.0, 1.0)]);
        let SheetPart::Table { rows, .. } = beside(&figures) else {
            unreachable!()
        };
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1][1..6], ["send", "3", "80", "9.0", "3.0"]);
    }
}
