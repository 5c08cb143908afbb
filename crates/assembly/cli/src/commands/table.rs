//! Text tables in which each column is as wide as its widest cell, for `compare` and `sweep`.

/// Returns the lines of a table, without a newline at the end. Cells that begin with a digit or a
/// sign are aligned to the right.
pub(super) fn text(columns: &[impl AsRef<str>], rows: &[Vec<String>]) -> String {
    let heads: Vec<String> = columns
        .iter()
        .map(|name| name.as_ref().to_owned())
        .collect();
    let lines = || std::iter::once(&heads).chain(rows);
    let width = |place: usize| {
        let cells = lines().filter_map(|row| row.get(place));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let is_number = |cell: &str| cell.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let line = |row: &Vec<String>| {
        let cell = |(cell, &width): (&String, &usize)| match is_number(cell) {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        };
        let cells: Vec<String> = row.iter().zip(&widths).map(cell).collect();
        cells.join("  ").trim_end().to_owned()
    };
    lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_stand_below_each_other() {
        let rows = [
            vec!["a".into(), "1.5".into()],
            vec!["long".into(), "-12".into()],
        ];
        assert_eq!(
            super::text(&["x", "unit"], &rows),
            "x     unit\na      1.5\nlong   -12"
        );
    }
}
