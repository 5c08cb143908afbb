//! Table and charts of agreed pauses.

use timeloom_results::report::{Chart, Curve, Sheet, SheetPart};

use super::paper::{Side, mean_us};
use super::{Cell, QUANTITIES, Quantity};
use crate::stats::median_interval;
use crate::{median, percentile};

pub(super) fn sheet(cells: &[Cell]) -> Sheet {
    let pauses = cells.first().map_or(0, |cell| cell.pauses.len());
    Sheet {
        title: "Pauses that machines agree on".to_owned(),
        lead: format!(
            "Machines take turns to hold all, {pauses} times in each combination. They are \
             processes of one machine with {} processors, and speak over loopback. At every \
             pause all stood at one virtual nanosecond and went on as of one instant: otherwise \
             there is no table.",
            std::thread::available_parallelism().map_or(1, usize::from)
        ),
        parts: vec![
            times(cells),
            slopes(cells),
            clocks(cells),
            SheetPart::Figure {
                charts: vec![
                    chart(cells, QUANTITIES[0], "stop", Side::Pause),
                    chart(cells, QUANTITIES[2], "resume", Side::Resume),
                ],
                lead: "Own stop and own resume by processes on each machine.".to_owned(),
                caption: "Medians with the 95 % interval of the median; dots of the paper are \
                          means of its published logs (Hannon et al., PADS 2019, Figure 7)."
                    .to_owned(),
            },
        ],
    }
}

fn times(cells: &[Cell]) -> SheetPart {
    let mut columns = vec!["machines × processes".to_owned()];
    for quantity in QUANTITIES {
        columns.push(quantity.heading.to_owned());
        if quantity.paper.is_some() {
            columns.push("paper".to_owned());
        }
    }
    let row = |cell: &Cell| {
        let mut row = vec![format!("{} × {}", cell.hosts, cell.processes)];
        for quantity in QUANTITIES {
            row.push(with_interval(&cell.samples(quantity), 1e3));
            if let Some(side) = quantity.paper {
                let theirs = cell.paper(side);
                row.push(theirs.map_or("–".to_owned(), |mean| format!("{mean:.1}")));
            }
        }
        row
    };
    SheetPart::Table {
        heading: "Times (µs): medians, and 95 % intervals of them".to_owned(),
        columns,
        rows: cells.iter().map(row).collect(),
        note: "own stop: a machine's processes stand; from the request on the one that asks, from \
               the agreed instant on the others. all stop: from the request until the hold is \
               granted. own resume: a machine's clock runs and its processes are awake, from the \
               agreed end. all resume: from letting go until the last machine has. all running: \
               until the last process has woken to input that came meanwhile. paper: means of \
               handler times alone, on Banana Pi boards."
            .to_owned(),
    }
}

/// Returns the cost per process, for each number of machines and each quantity.
fn slopes(cells: &[Cell]) -> SheetPart {
    let mut rows = Vec::new();
    let mut hosts: Vec<usize> = cells.iter().map(|cell| cell.hosts).collect();
    hosts.dedup();
    for hosts in hosts {
        let line: Vec<&Cell> = cells.iter().filter(|cell| cell.hosts == hosts).collect();
        if line.len() < 2 {
            continue;
        }
        for quantity in QUANTITIES {
            let fits = fits(&line, quantity);
            let slopes: Vec<f64> = fits.iter().map(|fit| fit.1).collect();
            let starts: Vec<f64> = fits.iter().map(|fit| fit.0).collect();
            let theirs = quantity.paper.and_then(|side| paper_slope(&line, side));
            rows.push(vec![
                format!("{hosts}, {}", quantity.heading),
                with_interval(&starts, 1e3),
                with_interval(&slopes, 1e3),
                theirs.map_or("–".to_owned(), |slope| format!("{slope:.1}")),
            ]);
        }
    }
    let columns = ["machines", "without processes", "each process", "paper"];
    SheetPart::Table {
        heading: "Slope (µs for each process on each machine)".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
        note: "Least squares over the numbers of processes, once for each round of pauses; \
               medians of these fits, and 95 % intervals of the medians."
            .to_owned(),
    }
}

/// Fits a straight line to the pauses of each round. Returns the intercept and slope of each line.
fn fits(line: &[&Cell], quantity: Quantity) -> Vec<(f64, f64)> {
    let counts: Vec<f64> = line.iter().map(|cell| cell.processes as f64).collect();
    let samples: Vec<Vec<f64>> = line.iter().map(|cell| cell.samples(quantity)).collect();
    let rounds = samples.iter().map(Vec::len).min().unwrap_or(0);
    let fit_of = |round: usize| {
        let times: Vec<f64> = samples.iter().map(|samples| samples[round]).collect();
        fit(&counts, &times)
    };
    (0..rounds).map(fit_of).collect()
}

/// Fits a straight line by least squares; returns intercept and slope.
fn fit(xs: &[f64], ys: &[f64]) -> (f64, f64) {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (x, y) = (mean(xs), mean(ys));
    let spread: f64 = xs.iter().map(|one| (one - x).powi(2)).sum();
    let both = xs
        .iter()
        .zip(ys)
        .map(|(one, other)| (one - x) * (other - y));
    let slope = both.sum::<f64>() / spread;
    (y - slope * x, slope)
}

fn paper_slope(line: &[&Cell], side: Side) -> Option<f64> {
    let points = line.iter().filter_map(|cell| {
        let mean = mean_us(side, cell.hosts, cell.processes)?;
        Some((cell.processes as f64, mean))
    });
    let (xs, ys): (Vec<f64>, Vec<f64>) = points.unzip();
    (xs.len() > 1).then(|| fit(&xs, &ys).1)
}

fn clocks(cells: &[Cell]) -> SheetPart {
    let row = |cell: &Cell| {
        let ahead: Vec<f64> = cell.pauses.iter().map(|pause| pause.ahead).collect();
        let off = cell.off();
        let half = off.len() / 2;
        vec![
            format!("{} × {}", cell.hosts, cell.processes),
            with_interval(&ahead, 1e3),
            with_interval(&off[..half.max(1)], 1e3),
            with_interval(&off[half..], 1e3),
            format!("{:.1}", percentile(&off, 100.0) / 1e3),
        ]
    };
    let columns = [
        "machines × processes",
        "ahead",
        "off, first half",
        "off, second half",
        "worst",
    ];
    SheetPart::Table {
        heading: "Clocks (µs): medians, and 95 % intervals of them".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: cells.iter().map(row).collect(),
        note: "ahead: virtual time from the request to the pause, which the asking machine pays. \
               off: how far a clock was off the common line when a pause reached it, the reading \
               of both included; it must not grow with the number of pauses."
            .to_owned(),
    }
}

fn chart(cells: &[Cell], quantity: Quantity, name: &str, side: Side) -> Chart {
    let mut hosts: Vec<usize> = cells.iter().map(|cell| cell.hosts).collect();
    hosts.dedup();
    let (mut curves, mut bands) = (Vec::new(), Vec::new());
    for &hosts in &hosts {
        let line = || cells.iter().filter(|cell| cell.hosts == hosts);
        curves.push(Curve {
            label: format!("machines: {hosts}"),
            points: line()
                .map(|cell| (cell.processes as f64, median(&cell.samples(quantity)) / 1e3))
                .collect(),
        });
        let band = line().map(|cell| {
            let (low, high) = median_interval(&cell.samples(quantity));
            (cell.processes as f64, low / 1e3, high / 1e3)
        });
        bands.push(band.collect());
    }
    for &hosts in &hosts {
        let line = cells.iter().filter(|cell| cell.hosts == hosts);
        let points: Vec<(f64, f64)> = line
            .filter_map(|cell| Some((cell.processes as f64, cell.paper(side)?)))
            .collect();
        if !points.is_empty() {
            curves.push(Curve {
                label: format!("paper, boards: {hosts}"),
                points,
            });
        }
    }
    Chart {
        name: format!("agreed-{name}"),
        title: quantity.heading.to_owned(),
        x_label: "processes on each machine".to_owned(),
        y_label: "time (µs)".to_owned(),
        curves,
        bands,
    }
}

/// Formats the median and its 95 % confidence interval, in units of `unit`, as `median [low,
/// high]`.
fn with_interval(samples: &[f64], unit: f64) -> String {
    let (low, high) = median_interval(samples);
    let (middle, low, high) = (median(samples) / unit, low / unit, high / unit);
    format!("{middle:.1} [{low:.1}, {high:.1}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straight_line_is_found() {
        let xs = [1.0, 2.0, 4.0, 16.0];
        let ys = xs.map(|x| 7.0 + 3.0 * x);
        let (start, slope) = fit(&xs, &ys);
        assert!((start - 7.0).abs() < 1e-9 && (slope - 3.0).abs() < 1e-9);
    }

    /// Stopping 16 processes takes 284.6 µs and stopping one 44.9 µs, on one board; the slope is
    /// about 15.7 µs per process.
    #[test]
    fn the_papers_slope_is_that_of_its_means() {
        let cell = |processes| Cell {
            hosts: 1,
            processes,
            pauses: Vec::new(),
        };
        let (one, sixteen) = (cell(1), cell(16));
        let slope = paper_slope(&[&one, &sixteen], Side::Pause).expect("two points");
        assert!((slope - (284.6 - 44.9) / 15.0).abs() < 1e-9);
    }
}
