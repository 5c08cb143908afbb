//! Page of charts and tables that is not about a run directory, such as a repeated experiment of a
//! paper or a benchmark. The style is that of the report.

use super::figure::{Numbering, key, letter};
use super::markup::escape;
use super::number::Range;
use super::plot::{Plot, Trace};
use super::style;

/// Content of a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    /// Heading.
    pub title: String,
    /// Paragraph under the heading.
    pub lead: String,
    /// Further content, in order.
    pub parts: Vec<SheetPart>,
}

/// Part of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum SheetPart {
    /// Heading with paragraphs.
    Text {
        /// Heading.
        heading: String,
        /// Paragraphs.
        paragraphs: Vec<String>,
    },
    /// Charts beside each other, with a common caption.
    Figure {
        /// Charts, two to a row.
        charts: Vec<Chart>,
        /// Bold beginning of the caption.
        lead: String,
        /// Rest of the caption.
        caption: String,
    },
    /// Table under a heading.
    Table {
        /// Heading.
        heading: String,
        /// Names of the columns. Columns whose cells begin with a digit or a sign are
        /// right-aligned.
        columns: Vec<String>,
        /// Cells, row by row.
        rows: Vec<Vec<String>>,
        /// Sentence below the table.
        note: String,
    },
}

/// Chart: curves over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Name of the chart's file, without an extension.
    pub name: String,
    /// Heading.
    pub title: String,
    /// Label of the horizontal axis, with unit.
    pub x_label: String,
    /// Label of the vertical axis, with unit.
    pub y_label: String,
    /// Curves.
    pub curves: Vec<Curve>,
    /// Bands around the curves with the same index: x, low and high, sorted by x. There may be
    /// fewer bands than curves, and mostly there is none.
    pub bands: Vec<Vec<(f64, f64, f64)>>,
}

/// Curve of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Text in the legend.
    pub label: String,
    /// Points sorted by x. Values that are not finite are left out.
    pub points: Vec<(f64, f64)>,
}

impl Sheet {
    /// Renders the page as an HTML document that needs no network and no script.
    pub fn render(&self) -> String {
        let mut body = format!("<h1>{}</h1>\n", escape(&self.title));
        body.push_str(&format!("<p class=\"lead\">{}</p>\n", escape(&self.lead)));
        let mut figures = Numbering::default();
        for part in &self.parts {
            match part {
                SheetPart::Text {
                    heading,
                    paragraphs,
                } => {
                    body.push_str(&format!("<h2>{}</h2>\n", escape(heading)));
                    for text in paragraphs {
                        body.push_str(&format!("<p>{}</p>\n", escape(text)));
                    }
                }
                SheetPart::Figure {
                    charts,
                    lead,
                    caption,
                } => {
                    figures.begin(&mut body);
                    body.push_str("<div class=\"grid2\">\n");
                    for (index, chart) in charts.iter().enumerate() {
                        let place = if charts.len() > 1 {
                            letter(index) + " "
                        } else {
                            String::new()
                        };
                        chart.panel(&place, &mut body);
                    }
                    body.push_str("</div>\n");
                    figures.end(&mut body, lead, caption);
                }
                SheetPart::Table {
                    heading,
                    columns,
                    rows,
                    note,
                } => table(&mut body, heading, columns, rows, note),
            }
        }
        super::document(&self.title, &body)
    }

    /// Returns every chart as a separate picture: its name and its SVG text.
    pub fn pictures(&self) -> Vec<(String, String)> {
        let charts = self.parts.iter().flat_map(|part| match part {
            SheetPart::Figure { charts, .. } => charts.as_slice(),
            _ => &[],
        });
        charts
            .map(|chart| (chart.name.clone(), chart.picture()))
            .collect()
    }
}

impl Chart {
    fn panel(&self, place: &str, out: &mut String) {
        out.push_str(&format!(
            "<div class=\"panel\">\n<h3>{}{}</h3>\n<div class=\"keys\">",
            escape(place),
            escape(&self.title)
        ));
        for (index, curve) in self.curves.iter().enumerate() {
            key(
                out,
                style::colour(index),
                style::dash(index),
                1.6,
                &curve.label,
            );
        }
        out.push_str("</div>\n");
        self.draw(out);
        out.push_str("</div>\n");
    }

    fn draw(&self, out: &mut String) {
        let over = |axis: fn(&(f64, f64)) -> f64| {
            let points = self.curves.iter().flat_map(|curve| &curve.points);
            let edges = self.bands.iter().flatten();
            let edges = edges.flat_map(|&(x, low, high)| [(x, low), (x, high)]);
            let values = points.copied().chain(edges).map(|point| axis(&point));
            Range::of(values).unwrap_or(Range {
                low: 0.0,
                high: 1.0,
            })
        };
        let x = over(|point| point.0);
        let x = if x.low < x.high { x } else { x.padded(0.0) };
        let traces = self.curves.iter().enumerate().map(|(index, curve)| {
            let mut trace = Trace::new(curve.points.iter().copied(), x, style::colour(index));
            trace.dash = style::dash(index);
            trace.width = 1.6;
            if let Some(band) = self.bands.get(index) {
                trace.band.clone_from(band);
            }
            trace
        });
        Plot {
            description: format!("{}: {} over {}", self.title, self.y_label, self.x_label),
            x,
            y: over(|point| point.1).padded(0.05),
            x_label: &self.x_label,
            y_label: self.y_label.clone(),
            factor: 1.0,
            references: &[],
            marks: &[],
            traces: traces.collect(),
        }
        .draw(out);
    }

    fn picture(&self) -> String {
        let mut drawn = String::new();
        self.draw(&mut drawn);
        let rules: String = style::SHEET
            .lines()
            .filter(|line| line.starts_with(":root") || line.starts_with("svg"))
            .flat_map(|line| [line, "\n"])
            .collect();
        drawn
            .replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1)
            .replacen(
                ">\n",
                &format!(
                    ">\n<title>{}</title>\n<style>{rules}</style>\n",
                    escape(&self.title)
                ),
                1,
            )
    }
}

fn table(out: &mut String, heading: &str, columns: &[String], rows: &[Vec<String>], note: &str) {
    let is_number = |cell: &String| {
        let first = cell.chars().next();
        first.is_some_and(|c| c.is_ascii_digit() || "+-−±".contains(c))
    };
    let class = |column: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(column));
        match cells.any(is_number) {
            true => " class=\"n\"",
            false => "",
        }
    };
    out.push_str(&format!(
        "<h2>{}</h2>\n<table tabindex=\"0\">\n<thead><tr>",
        escape(heading)
    ));
    for (index, name) in columns.iter().enumerate() {
        out.push_str(&format!("<th{}>{}</th>", class(index), escape(name)));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            out.push_str(&format!("<td{}>{}</td>", class(index), escape(cell)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str(&format!("</tbody>\n</table>\n<p>{}</p>\n", escape(note)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheet_is_well_formed_and_says_everything() {
        let chart = Chart {
            name: "wrap".into(),
            title: "A <wrap>".into(),
            x_label: "true time (s)".into(),
            y_label: "shown (s)".into(),
            curves: vec![
                Curve {
                    label: "raw & alone".into(),
                    points: vec![(0.0, 0.0), (1.0, 1.0), (2.0, 0.1)],
                },
                Curve {
                    label: "nothing".into(),
                    points: vec![],
                },
            ],
            bands: vec![vec![(0.0, -1.0, 0.5), (2.0, 0.0, 3.0)]],
        };
        let sheet = Sheet {
            title: "Title".into(),
            lead: "Lead.".into(),
            parts: vec![
                SheetPart::Figure {
                    charts: vec![chart],
                    lead: "Lead of it.".into(),
                    caption: "Caption.".into(),
                },
                SheetPart::Table {
                    heading: "Costs".into(),
                    columns: vec!["clock".into(), "ns".into()],
                    rows: vec![vec!["RVEC".into(), "4.1".into()]],
                    note: "Note.".into(),
                },
            ],
        };
        let page = sheet.render();
        let body = page
            .split_once("<main>")
            .unwrap()
            .1
            .split_once("</main>")
            .unwrap()
            .0;
        roxmltree::Document::parse(&format!("<main>{body}</main>")).unwrap();
        assert!(page.contains("A &lt;wrap&gt;") && page.contains("<td class=\"n\">4.1</td>"));
        let [(name, picture)] = &sheet.pictures()[..] else {
            panic!("one picture");
        };
        assert_eq!(name, "wrap");
        let picture = roxmltree::Document::parse(picture).unwrap();
        let path = |node: &roxmltree::Node<'_, '_>| node.attribute("class") == Some("trace");
        assert_eq!(picture.descendants().filter(path).count(), 2);
        let band = |node: &roxmltree::Node<'_, '_>| node.has_tag_name("polygon");
        let band = picture.descendants().find(band).expect("the band");
        assert_eq!(band.attribute("points").unwrap().split(' ').count(), 4);
    }
}
