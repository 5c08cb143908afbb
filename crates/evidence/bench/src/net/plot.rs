//! Tables with a common x column, as CSV and as SVG plots.

use std::fmt::Write as _;

/// Named columns over a common x column.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    /// True if the x axis is logarithmic.
    pub(super) log: bool,
    pub(super) columns: Vec<&'static str>,
    /// Number of columns at the end that have another unit, such as lateness. They are drawn in a
    /// panel of their own below the others.
    pub(super) beside: usize,
    /// Rows: x and the values of all columns. A value that was not measured is NaN.
    pub(super) rows: Vec<(f64, Vec<f64>)>,
}

const COLOURS: [&str; 7] = [
    "#1f5fa8", "#c8501e", "#2e8540", "#7a3e9d", "#8a6d00", "#555555", "#b3246b",
];
/// Left edge of the panels; the item below is their width.
const LEFT: f64 = 70.0;
/// Maximum number of labels on the x axis.
const LABELS: usize = 14;
const WIDTH: f64 = 400.0;

impl Table {
    pub(super) fn csv(&self) -> String {
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

    pub(super) fn svg(&self) -> String {
        let above = self.columns.len() - self.beside;
        let height = if self.beside > 0 { 510.0 } else { 390.0 };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 740 {height}\" font-family=\"sans-serif\" font-size=\"12\">\
             <rect width=\"740\" height=\"{height}\" fill=\"white\"/><text x=\"{LEFT}\" y=\"28\" font-size=\"15\">{}</text>\
             <text x=\"270\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text transform=\"translate(18 190) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            self.title,
            height - 15.0,
            self.x,
            self.y
        );
        self.panel(&mut svg, 0..above, 50.0..330.0);
        if self.beside > 0 {
            self.panel(&mut svg, above..self.columns.len(), 370.0..450.0);
        }
        let apart = self.rows.len().div_ceil(LABELS);
        for (label, _) in self.rows.iter().rev().step_by(apart) {
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
                self.across(*label),
                height - 42.0
            );
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Draws these columns in a panel between two heights, with a y axis from zero.
    fn panel(
        &self,
        svg: &mut String,
        columns: std::ops::Range<usize>,
        heights: std::ops::Range<f64>,
    ) {
        let values = self.rows.iter().flat_map(|(_, row)| &row[columns.clone()]);
        let values = values.copied().filter(|value| value.is_finite());
        let top = values.fold(0.0, f64::max).max(1e-9);
        let up = |y: f64| heights.end - y / top * (heights.end - heights.start);
        let steps = if columns.start == 0 { 4 } else { 2 };
        for step in 0..=steps {
            let y = top * f64::from(step) / f64::from(steps);
            let _ = write!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{2:.1}\" y2=\"{2:.1}\" stroke=\"#dddddd\"/>\
                 <text x=\"62\" y=\"{3:.1}\" text-anchor=\"end\">{1:.3}</text>",
                LEFT + WIDTH,
                y,
                up(y),
                up(y) + 4.0
            );
        }
        for (place, column) in columns.enumerate() {
            let colour = COLOURS[column % COLOURS.len()];
            let points = self.rows.iter().map(|(x, row)| (*x, row[column]));
            let points = points.filter(|(_, y)| y.is_finite());
            let points: Vec<String> = points
                .map(|(x, y)| format!("{:.1},{:.1}", self.across(x), up(y)))
                .collect();
            let _ = write!(
                svg,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>\
                 <text x=\"485\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
                points.join(" "),
                heights.start + 10.0 + 20.0 * place as f64,
                self.columns[column]
            );
        }
    }

    fn across(&self, x: f64) -> f64 {
        let place = |x: f64| if self.log { x.ln() } else { x };
        let xs = self.rows.iter().map(|(x, _)| place(*x));
        let (least, most) = xs.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| {
            (least.min(x), most.max(x))
        });
        LEFT + (place(x) - least) / (most - least).max(1e-9) * WIDTH
    }
}
