//! Plot as inline SVG: axes, reference levels, attack marks and curves.
//!
//! Coordinates are those of the viewBox (460 × 242). Points of a curve are written in whole tenths,
//! relative to the previous point, which takes a third of the bytes.

use std::fmt::Write;

use super::decimate::decimate;
use super::markup::{escape, shortened};
use super::number::{Range, fixed, ticks};
use super::spec::Reference;

/// Curve of a plot.
pub(super) struct Trace {
    /// Points in data units, decimated, and sorted by x.
    points: Vec<(f64, f64)>,
    /// Band around the curve: x, low and high, sorted by x.
    pub(super) band: Vec<(f64, f64, f64)>,
    pub(super) colour: &'static str,
    pub(super) dash: &'static str,
    pub(super) width: f64,
}

impl Trace {
    /// Creates a curve of those points that are within `x`.
    pub(super) fn new(
        points: impl IntoIterator<Item = (f64, f64)>,
        x: Range,
        colour: &'static str,
    ) -> Self {
        Self {
            points: decimate(points, x, COLUMNS),
            band: Vec::new(),
            colour,
            dash: "",
            width: 1.3,
        }
    }

    /// Returns the range of the values of curve and band.
    pub(super) fn extent(&self) -> Option<Range> {
        let band = self.band.iter().flat_map(|&(_, low, high)| [low, high]);
        Range::of(self.points.iter().map(|(_, y)| *y).chain(band))
    }
}

/// Marked interval of an attack, from its start to its end.
pub(super) struct Mark {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) text: String,
    pub(super) colour: &'static str,
}

/// Content of a plot. For the tick labels, values are divided by `factor`.
pub(super) struct Plot<'a> {
    pub(super) description: String,
    pub(super) x: Range,
    pub(super) y: Range,
    pub(super) x_label: &'a str,
    pub(super) y_label: String,
    pub(super) factor: f64,
    pub(super) references: &'a [Reference],
    pub(super) marks: &'a [Mark],
    pub(super) traces: Vec<Trace>,
}

impl Plot<'_> {
    /// Appends the SVG element.
    pub(super) fn draw(&self, out: &mut String) {
        // Writing to a String cannot fail, so the results are ignored.
        let _ = writeln!(
            out,
            "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(&self.description)
        );
        self.draw_bands(out);
        self.draw_axes(out);
        self.draw_marks(out);
        self.draw_lines(out);
        self.traces
            .iter()
            .for_each(|trace| self.draw_trace_band(trace, out));
        self.traces
            .iter()
            .for_each(|trace| self.draw_trace(trace, out));
        self.draw_reference_labels(out);
        out.push_str("</svg>\n");
    }

    fn px(&self, x: f64) -> f64 {
        LEFT + self.x.part(x).clamp(0.0, 1.0) * (RIGHT - LEFT)
    }

    fn py(&self, y: f64) -> f64 {
        BOTTOM - self.y.part(y).clamp(0.0, 1.0) * (BOTTOM - TOP)
    }

    fn draw_axes(&self, out: &mut String) {
        let scaled = Range {
            low: self.y.low / self.factor,
            high: self.y.high / self.factor,
        };
        let (rows, decimals) = ticks(scaled, 5);
        for tick in rows {
            let y = self.py(tick * self.factor);
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 3.5,
                fixed(tick, decimals)
            );
        }
        let (columns, decimals) = ticks(self.x, 6);
        for tick in columns {
            let x = self.px(tick);
            let _ = writeln!(
                out,
                "<path class=\"axis\" d=\"M{x:.1} {BOTTOM}v4\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                BOTTOM + 15.0,
                fixed(tick, decimals)
            );
        }
        let _ = writeln!(
            out,
            "<path class=\"axis\" d=\"M{LEFT} {BOTTOM}H{RIGHT}\"/>\
             <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text class=\"name\" x=\"0\" y=\"11\">{}</text>",
            (LEFT + RIGHT) / 2.0,
            HEIGHT - 3.0,
            escape(self.x_label),
            escape(&self.y_label)
        );
    }

    fn draw_bands(&self, out: &mut String) {
        for reference in self.references {
            if let Reference::Band { from, to, .. } = reference
                && from.is_finite()
                && to.is_finite()
            {
                let (high, low) = (self.py(from.max(*to)), self.py(from.min(*to)));
                let _ = writeln!(
                    out,
                    "<rect class=\"band\" x=\"{LEFT}\" y=\"{high:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                    RIGHT - LEFT,
                    low - high
                );
            }
        }
    }

    fn draw_lines(&self, out: &mut String) {
        for reference in self.references {
            if let Reference::Line { value, .. } = reference
                && value.is_finite()
            {
                let _ = writeln!(
                    out,
                    "<path class=\"reference\" d=\"M{LEFT} {:.1}H{RIGHT}\"/>",
                    self.py(*value)
                );
            }
        }
    }

    /// Draws the labels of reference levels. They come last, with a white halo, so that curves do
    /// not cover them.
    fn draw_reference_labels(&self, out: &mut String) {
        for reference in self.references {
            let (y, label) = match reference {
                Reference::Line { value, label } if value.is_finite() => {
                    (self.py(*value) - 3.5, label)
                }
                Reference::Band { from, to, label } if from.is_finite() && to.is_finite() => {
                    (self.py(from.min(*to)) - 4.0, label)
                }
                _ => continue,
            };
            let _ = writeln!(
                out,
                "<text class=\"reference-label\" x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>",
                RIGHT - 3.0,
                escape(&shortened(label, 48))
            );
        }
    }

    fn draw_marks(&self, out: &mut String) {
        // The first label is above the plot, where no curve is, unless the label of the axis is in
        // its way. Further labels are placed below each other.
        let mut row = 0u8;
        for mark in self.marks {
            if self.x.part(mark.from) > 1.0 || self.x.part(mark.to) < 0.0 {
                continue;
            }
            let (from, to) = (self.px(mark.from), self.px(mark.to));
            // Near the right end of the plot, the label is to the left of its line.
            let (x, anchor) = if from > LEFT + (RIGHT - LEFT) * 0.7 {
                (from + 1.0, "end")
            } else {
                (from - 1.0, "start")
            };
            let (x, y) = if row == 0 && from > 6.5 * self.y_label.chars().count() as f64 {
                (x, TOP - 4.0)
            } else {
                (
                    x + if anchor == "end" { -5.0 } else { 5.0 },
                    TOP + 9.0 + 11.0 * f64::from(row % 5),
                )
            };
            row = row.wrapping_add(1);
            let _ = writeln!(
                out,
                "<rect x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\" opacity=\"0.06\"/>\
                 <path d=\"M{from:.1} {TOP}V{BOTTOM}\" stroke=\"{colour}\" stroke-width=\"1\" stroke-dasharray=\"4 2.5\"/>\
                 <text class=\"mark\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
                to - from,
                BOTTOM - TOP,
                escape(&shortened(&mark.text, 40)),
                colour = mark.colour,
            );
        }
    }

    /// Draws the band of a curve. Bands are drawn before all curves, so that they hide none.
    fn draw_trace_band(&self, trace: &Trace, out: &mut String) {
        if trace.band.len() < 2 {
            return;
        }
        let forth = trace.band.iter().map(|&(x, low, _)| (x, low));
        let back = trace.band.iter().rev().map(|&(x, _, high)| (x, high));
        let corners = forth.chain(back);
        let corner = |(x, y)| format!("{:.1},{:.1}", self.px(x), self.py(y));
        let corners: Vec<String> = corners.map(corner).collect();
        let _ = writeln!(
            out,
            "<polygon points=\"{}\" fill=\"{}\" opacity=\"0.18\"/>",
            corners.join(" "),
            trace.colour
        );
    }

    fn draw_trace(&self, trace: &Trace, out: &mut String) {
        let tenth = |value: f64| (value * 10.0).round() as i64;
        if let [(x, y)] = trace.points[..] {
            let _ = writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.6\" fill=\"{}\"/>",
                self.px(x),
                self.py(y),
                trace.colour
            );
            return;
        }
        let mut path = String::new();
        let mut last: Option<(i64, i64)> = None;
        for &(x, y) in &trace.points {
            let (x, y) = (tenth(self.px(x)), tenth(self.py(y)));
            let _ = match last {
                None => write!(path, "M{x} {y}l"),
                Some(same) if same == (x, y) => continue,
                // A minus sign separates two numbers as well as a blank does.
                Some((x0, y0)) => {
                    let gap = if path.ends_with('l') || x < x0 {
                        ""
                    } else {
                        " "
                    };
                    write!(
                        path,
                        "{gap}{}{}{}",
                        x - x0,
                        if y < y0 { "" } else { " " },
                        y - y0
                    )
                }
            };
            last = Some((x, y));
        }
        if path.ends_with('l') {
            path.push_str("0 0");
        }
        let dash: Vec<String> = trace
            .dash
            .split_whitespace()
            .filter_map(|d| d.parse::<f64>().ok())
            .map(|d| format!("{:.0}", d * 10.0))
            .collect();
        let _ = writeln!(
            out,
            "<path class=\"trace\" transform=\"scale(.1)\" d=\"{path}\" stroke=\"{}\" stroke-width=\"{:.0}\" stroke-dasharray=\"{}\"/>",
            trace.colour,
            trace.width * 10.0,
            dash.join(" ")
        );
    }
}

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 242.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 452.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 210.0;
/// Number of columns for decimation: about two for each unit of the viewBox, which is finer than
/// the resolution of a screen or printer at the size of the plot.
const COLUMNS: usize = 800;
