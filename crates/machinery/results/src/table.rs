//! Common mechanism of the four tables: named columns of three types.
//!
//! A row is a list of cells. The journal stores a row as one JSON array; the Parquet file stores
//! each cell in its column. The code of both is the same for all tables.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use timeloom_time::{Duration, Instant, Scale};

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Integer, mostly a number of nanoseconds.
    Int,
    /// Finite `f64`.
    Real,
    /// UTF-8 text.
    Text,
}

/// Value of a column in a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Integer.
    Int(i64),
    /// Finite `f64`.
    Real(f64),
    /// Text. The allocation is shared, because the same names occur in every row.
    Text(Arc<str>),
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Real(value) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
        }
    }
}

/// Row of one of the run's tables. Only row types of this crate implement it. The cells are not
/// part of the public interface.
pub trait Row: Sized {
    /// Name of the table, such as `signals` for `signals.parquet`.
    const TABLE: &'static str;
    /// Names and types of the columns, in the order of the public contract.
    #[doc(hidden)]
    const COLUMNS: &'static [(&'static str, ColumnKind)];
    /// Returns the cells of the row, in the order of the columns.
    #[doc(hidden)]
    fn cells(&self) -> Vec<Cell>;
    /// Returns the source of the row: the host, and the name of the source on that host. Empty for
    /// a row without a source that could write without limit.
    #[doc(hidden)]
    fn of(&self) -> Vec<&Arc<str>>;
    /// Creates the row from its cells; `None` if they do not fit the columns.
    #[doc(hidden)]
    fn from_cells(cells: Cells) -> Option<Self>;
}

/// Type of a field that fills one column.
pub(crate) trait Column: Sized {
    const KIND: ColumnKind;
    fn cell(&self) -> Cell;
    /// Converts the next cell; `None` if it does not fit.
    fn take(cells: &mut Cells) -> Option<Self>;
}

impl<S: Scale> Column for Instant<S> {
    const KIND: ColumnKind = ColumnKind::Int;

    fn cell(&self) -> Cell {
        Cell::Int(self.as_ns())
    }

    fn take(cells: &mut Cells) -> Option<Self> {
        cells.int().map(Self::from_ns)
    }
}

impl Column for Duration {
    const KIND: ColumnKind = ColumnKind::Int;

    fn cell(&self) -> Cell {
        Cell::Int(self.as_ns())
    }

    fn take(cells: &mut Cells) -> Option<Self> {
        cells.int().map(Self::from_ns)
    }
}

/// Stores the number as an `i64` with the same bits. A counter never reaches the sign bit.
impl Column for u64 {
    const KIND: ColumnKind = ColumnKind::Int;

    fn cell(&self) -> Cell {
        Cell::Int(*self as i64)
    }

    fn take(cells: &mut Cells) -> Option<Self> {
        cells.int().map(|value| value as u64)
    }
}

impl Column for f64 {
    const KIND: ColumnKind = ColumnKind::Real;

    fn cell(&self) -> Cell {
        Cell::Real(*self)
    }

    fn take(cells: &mut Cells) -> Option<Self> {
        cells.real()
    }
}

impl Column for Arc<str> {
    const KIND: ColumnKind = ColumnKind::Text;

    fn cell(&self) -> Cell {
        Cell::Text(self.clone())
    }

    fn take(cells: &mut Cells) -> Option<Self> {
        cells.text()
    }
}

/// Iterator over a row's cells, which converts each to the type of its column.
#[derive(Debug)]
pub struct Cells(std::vec::IntoIter<Cell>);

impl Cells {
    pub(crate) fn new(cells: Vec<Cell>) -> Self {
        Self(cells.into_iter())
    }

    pub(crate) fn int(&mut self) -> Option<i64> {
        match self.0.next()? {
            Cell::Int(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn real(&mut self) -> Option<f64> {
        match self.0.next()? {
            Cell::Real(value) => Some(value),
            Cell::Int(value) => Some(value as f64),
            Cell::Text(_) => None,
        }
    }

    pub(crate) fn text(&mut self) -> Option<Arc<str>> {
        match self.0.next()? {
            Cell::Text(value) => Some(value),
            _ => None,
        }
    }
}

/// Set of texts that gives equal texts the same allocation, so that a million rows of a few signals
/// hold only a few strings. It is emptied when it exceeds its limit, because the texts of events
/// are all different and must not accumulate.
#[derive(Default)]
pub(crate) struct Interner(std::collections::HashSet<Arc<str>>);

impl Interner {
    pub(crate) fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        if self.0.len() >= INTERNED_TEXTS {
            self.0.clear();
        }
        let fresh: Arc<str> = text.into();
        self.0.insert(fresh.clone());
        fresh
    }
}

const INTERNED_TEXTS: usize = 4096;
