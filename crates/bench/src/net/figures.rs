//! The figures of the paper, measured here: tables (CSV) and plots (SVG).

use std::fmt::Write as _;
use std::path::Path;
use std::time;

use timeloom_time::Duration;

use super::pair::{self, Free, Model};
use super::{errors, raw};
use crate::error::BenchError;

/// Named columns over a common x.
struct Table {
    name: &'static str,
    title: &'static str,
    x: &'static str,
    y: &'static str,
    /// A logarithmic x.
    log: bool,
    columns: Vec<&'static str>,
    rows: Vec<(f64, Vec<f64>)>,
}

/// Measures and writes all figures into `directory`; `say` tells how far it is.
///
/// # Errors
///
/// When something could not be measured or written.
pub fn net_figures(directory: &Path, say: fn(&str)) -> Result<(), BenchError> {
    std::fs::create_dir_all(directory).map_err(BenchError::system(format!(
        "making {}",
        directory.display()
    )))?;
    for make in [conservative, tcp, cbr, mixed, batches, holds, differences] {
        let table = make()?;
        say(&format!("{}: {}", table.name, table.title));
        for (ending, text) in [("csv", table.csv()), ("svg", table.svg())] {
            let path = directory.join(format!("{}.{ending}", table.name));
            std::fs::write(&path, text)
                .map_err(BenchError::system(format!("writing {}", path.display())))?;
        }
    }
    Ok(())
}

const FLOWS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// The cut: the bar of the dumbbell, long enough to be heard of in time.
const BAR: Duration = Duration::from_us(100);
const SPAN: Duration = Duration::from_ms(400);

fn gbps(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 * 8.0 / seconds / 1e9
}

/// Figure 7: engines that wait, for cuts of 1 µs and 1 ms.
fn conservative() -> Result<Table, BenchError> {
    let mut rows = Vec::new();
    for flows in FLOWS {
        let mut row = Vec::new();
        for bar in [Duration::from_us(1), BAR, Duration::from_ms(1)] {
            let simulated = Duration::from_ms(if bar < BAR { 40 } else { 200 });
            let found = pair::conservative(&Model::tcp(flows, bar), simulated, false)?;
            row.push(found.wall_s / simulated.as_s_f64());
        }
        rows.push((f64::from(flows), row));
    }
    Ok(Table {
        name: "figure-07-conservative",
        title: "Two engines that wait: wall time over simulated time",
        x: "TCP flows",
        y: "wall over simulated time",
        log: true,
        columns: vec!["cut 1 us", "cut 100 us", "cut 1 ms"],
        rows,
    })
}

/// Delivered per second of wall time: what a real program would see. Engines
/// that wait cannot go faster than real time when programs live in them.
fn delivered(model: &Model) -> Result<Vec<f64>, BenchError> {
    let waiting = pair::conservative(model, SPAN, false)?;
    let free = pair::free(model, SPAN, &Free::default())?;
    let real = |wall_s: f64| wall_s.max(SPAN.as_s_f64());
    Ok(vec![
        gbps(waiting.delivered, real(waiting.wall_s)),
        gbps(free.common.delivered, real(free.common.wall_s)),
        free.late_fraction(),
    ])
}

const DELIVERED: [&str; 3] = [
    "engines that wait",
    "peering portal",
    "late fraction (peering)",
];

/// Figure 8.
fn tcp() -> Result<Table, BenchError> {
    let rows = FLOWS.iter().map(|flows| {
        let model = Model::tcp(*flows, Duration::from_us(1));
        Ok((f64::from(*flows), delivered(&model)?))
    });
    Ok(Table {
        name: "figure-08-tcp",
        title: "TCP in real time, cut at the 1 us bar",
        x: "TCP flows",
        y: "Gbit/s delivered",
        log: true,
        columns: DELIVERED.to_vec(),
        rows: rows.collect::<Result<_, BenchError>>()?,
    })
}

/// Figure 9: demand against what is delivered, with what raw sockets carry.
fn cbr() -> Result<Table, BenchError> {
    let frames = raw::run(time::Duration::from_millis(500)).unwrap_or(f64::NAN);
    let capacity = frames * 1_000.0 * 8.0 / 1e9;
    let rows = FLOWS.iter().map(|sources| {
        let rate = 150_000_000u64;
        let model = Model::udp(*sources, rate, Duration::from_us(1));
        let demand = f64::from(*sources) * rate as f64 / 1e9;
        let mut row = delivered(&model)?;
        row.insert(0, demand);
        row.push(demand.min(capacity));
        Ok((f64::from(*sources), row))
    });
    let mut columns = vec!["demand"];
    columns.extend(DELIVERED);
    columns.push("raw socket, a call per frame (capacity)");
    Ok(Table {
        name: "figure-09-udp",
        title: "UDP at constant rates in real time",
        x: "sources of 150 Mbit/s",
        y: "Gbit/s delivered",
        log: true,
        columns,
        rows: rows.collect::<Result<_, BenchError>>()?,
    })
}

/// Figure 10.
fn mixed() -> Result<Table, BenchError> {
    let rows = FLOWS.iter().map(|flows| {
        let model = Model {
            sources: *flows,
            source_bps: 50_000_000,
            ..Model::tcp(*flows, Duration::from_us(1))
        };
        Ok((f64::from(*flows), delivered(&model)?))
    });
    Ok(Table {
        name: "figure-10-mixed",
        title: "TCP beside UDP in real time",
        x: "TCP flows, and as many sources of 50 Mbit/s",
        y: "Gbit/s delivered",
        log: true,
        columns: DELIVERED.to_vec(),
        rows: rows.collect::<Result<_, BenchError>>()?,
    })
}

fn cost(model: &Model, how: &Free) -> Result<Vec<f64>, BenchError> {
    let found = pair::free(model, SPAN, how)?;
    let packets: u64 = found.peers.iter().map(|peer| peer.packets_sent).sum();
    let bytes: u64 = found.peers.iter().map(|peer| peer.bytes_sent).sum();
    let cpu: f64 = found.common.cpu_s.iter().sum();
    let packets = packets.max(1) as f64;
    Ok(vec![
        bytes as f64 / packets,
        cpu * 1e6 / packets,
        found.late_fraction() * 100.0,
    ])
}

const COST: [&str; 3] = ["bytes per packet", "us of CPU per packet", "late, per cent"];

/// Batches by size.
fn batches() -> Result<Table, BenchError> {
    let rows = [200, 400, 700, 1_400, 4_000, 9_000, 32_000].map(|bytes| {
        let how = Free {
            bytes,
            ..Free::default()
        };
        Ok((bytes as f64, cost(&Model::tcp(8, BAR), &how)?))
    });
    Ok(Table {
        name: "batch-size",
        title: "Batching at the sender by size, 8 flows",
        x: "bytes of a datagram",
        y: "",
        log: true,
        columns: COST.to_vec(),
        rows: rows.into_iter().collect::<Result<_, BenchError>>()?,
    })
}

/// Batches by time, at both ends.
fn holds() -> Result<Table, BenchError> {
    let rows = [1, 5, 10, 20, 50, 100, 200].map(|us| {
        let hold = Duration::from_us(us);
        let how = Free {
            hold,
            receiver_hold: hold,
            ..Free::default()
        };
        Ok((us as f64, cost(&Model::tcp(8, BAR), &how)?))
    });
    Ok(Table {
        name: "hold-time",
        title: "Holding at sender and receiver, 8 flows, cut of 100 us",
        x: "us held at most",
        y: "",
        log: true,
        columns: COST.to_vec(),
        rows: rows.into_iter().collect::<Result<_, BenchError>>()?,
    })
}

/// How far arrivals are from those of the exact run: the distribution.
fn differences() -> Result<Table, BenchError> {
    let bars = [10, 50, 100, 1_000].map(Duration::from_us);
    let found = bars.map(|bar| errors::compare(bar, SPAN));
    let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
    let percents = [
        1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0,
    ];
    let rows = percents.map(|percent| {
        let at = |found: &errors::Difference| match found.apart_ns[..] {
            [] => f64::NAN,
            ref all => crate::percentile(all, percent) / 1e3,
        };
        (percent, found.iter().map(at).collect())
    });
    for (bar, found) in bars.iter().zip(&found) {
        eprintln!(
            "cut {} us: inversions {:.5}, goodput {:+.4}, late {:.5}, in one run only {:.5}",
            bar.as_ns() / 1_000,
            found.inversions,
            found.goodput,
            found.late,
            found.missing
        );
    }
    Ok(Table {
        name: "arrival-errors",
        title: "Arrivals without synchronisation against the exact run",
        x: "per cent of datagrams",
        y: "us apart, at most",
        log: false,
        columns: vec!["cut 10 us", "cut 50 us", "cut 100 us", "cut 1 ms"],
        rows: rows.into(),
    })
}

impl Table {
    fn csv(&self) -> String {
        let mut text = self.x.replace(',', ";");
        for column in &self.columns {
            let _ = write!(text, ",{}", column.replace(',', ";"));
        }
        for (x, row) in &self.rows {
            let _ = write!(text, "\n{x}");
            for value in row {
                let _ = write!(text, ",{value}");
            }
        }
        text.push('\n');
        text
    }

    fn svg(&self) -> String {
        const COLOURS: [&str; 6] = [
            "#1f5fa8", "#c8501e", "#2e8540", "#7a3e9d", "#8a6d00", "#555555",
        ];
        let place = |x: f64| if self.log { x.ln() } else { x };
        let finite = |value: &f64| value.is_finite();
        let xs: Vec<f64> = self.rows.iter().map(|(x, _)| place(*x)).collect();
        let least = xs.iter().copied().fold(f64::INFINITY, f64::min);
        let most = xs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let values = self.rows.iter().flat_map(|(_, row)| row.iter().copied());
        let top = values.filter(finite).fold(0.0, f64::max).max(1e-9);
        let across = |x: f64| 70.0 + (x - least) / (most - least).max(1e-9) * 400.0;
        let up = |y: f64| 330.0 - y / top * 280.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 390\" font-family=\"sans-serif\" font-size=\"12\">\
             <rect width=\"720\" height=\"390\" fill=\"white\"/><text x=\"70\" y=\"28\" font-size=\"15\">{}</text>\
             <text x=\"270\" y=\"375\" text-anchor=\"middle\">{}</text>\
             <text transform=\"translate(18 190) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            self.title, self.x, self.y
        );
        for step in 0..=4 {
            let y = top * f64::from(step) / 4.0;
            let _ = write!(
                svg,
                "<line x1=\"70\" x2=\"470\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke=\"#dddddd\"/>\
                 <text x=\"62\" y=\"{1:.1}\" text-anchor=\"end\">{y:.3}</text>",
                up(y),
                up(y) + 4.0
            );
        }
        for ((label, _), x) in self.rows.iter().zip(&xs) {
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"348\" text-anchor=\"middle\">{label}</text>",
                across(*x)
            );
        }
        for (column, name) in self.columns.iter().enumerate() {
            let colour = COLOURS[column % COLOURS.len()];
            let points = self
                .rows
                .iter()
                .zip(&xs)
                .map(|((_, row), x)| (*x, row[column]));
            let points = points.filter(|(_, y)| y.is_finite());
            let points: Vec<String> = points
                .map(|(x, y)| format!("{:.1},{:.1}", across(x), up(y)))
                .collect();
            let y = 60 + column * 20;
            let _ = write!(
                svg,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>\
                 <text x=\"485\" y=\"{y}\" fill=\"{colour}\">{name}</text>",
                points.join(" ")
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}
