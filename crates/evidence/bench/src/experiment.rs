//! Results of an experiment, for programs and as a page.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use timeloom_results::report::{Sheet, SheetPart};
use timeloom_run::exit::{Failure, note, say};

/// Results of an experiment that repeats a paper's, or compares a model with reality.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// One JSON object per figure, for programs.
    pub rows: Vec<Value>,
    /// Page with tables and charts, for people.
    pub sheet: Sheet,
}

/// Paths of the files that were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFiles {
    /// Path of the page.
    pub page: PathBuf,
    /// Paths of the charts, one file each.
    pub pictures: Vec<PathBuf>,
}

impl Experiment {
    /// Writes `index.html` and one picture per chart into `directory`, which is created if needed.
    ///
    /// # Errors
    /// Fails if a file cannot be written.
    pub fn write(&self, directory: &Path) -> io::Result<WrittenFiles> {
        std::fs::create_dir_all(directory)?;
        let page = directory.join("index.html");
        std::fs::write(&page, self.sheet.render())?;
        let pictures = self.sheet.pictures().into_iter().map(|(name, picture)| {
            let path = directory.join(format!("{name}.svg"));
            std::fs::write(&path, picture).map(|()| path)
        });
        Ok(WrittenFiles {
            page,
            pictures: pictures.collect::<io::Result<_>>()?,
        })
    }

    /// Writes the page into `directory`, prints the rows (if `json` is true) or the tables, and
    /// prints the path of the page to stderr.
    ///
    /// # Errors
    /// Fails if a file cannot be written.
    pub fn deliver(&self, directory: &Path, json: bool) -> Result<(), Failure> {
        let written = self
            .write(directory)
            .map_err(|error| Failure::run(format!("{}: {error}", directory.display())))?;
        self.print(json);
        note!("timeloom: {}", written.page.display());
        Ok(())
    }

    /// Prints the rows if `json` is true, and the tables otherwise.
    pub fn print(&self, json: bool) {
        if json {
            self.rows.iter().for_each(|row| say!("{row}"));
        } else {
            say!("{}", self.text());
        }
    }

    /// Returns the page's tables as plain text.
    pub fn text(&self) -> String {
        let tables = self.sheet.parts.iter().filter_map(|part| match part {
            SheetPart::Table {
                heading,
                columns,
                rows,
                note,
            } => Some(table(heading, columns, rows, note)),
            _ => None,
        });
        tables.collect::<Vec<_>>().join("\n")
    }
}

fn table(heading: &str, columns: &[String], rows: &[Vec<String>], note: &str) -> String {
    let lines: Vec<&[String]> = std::iter::once(columns)
        .chain(rows.iter().map(Vec::as_slice))
        .collect();
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut text = format!("{heading}\n");
    for line in &lines {
        for (column, cell) in line.iter().enumerate() {
            // The first column contains names, the others numbers.
            let pad = " ".repeat(width(column) - cell.chars().count());
            let padded = match column {
                0 => format!("{cell}{pad}"),
                _ => format!("  {pad}{cell}"),
            };
            text.push_str(&padded);
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    if !note.is_empty() {
        text.push_str(note);
        text.push('\n');
    }
    text
}
