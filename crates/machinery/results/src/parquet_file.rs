//! Parquet files of tables. Each is written once, from its table's journal at the end of the run.
//!
//! This module uses the low-level column writer, because arrow would bring no advantage here. Times
//! are delta-packed, since they rise almost evenly. Texts are dictionary-coded, since the same few
//! names recur. Pages are compressed by snappy. DuckDB, pyarrow and polars read all of that without
//! options.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::table::{Cell, Cells, ColumnKind, Interner, Row};
use crate::tree::{Tree, partial};
use crate::{ResultsError, page_headers};

/// Writer of `PATH`. The content is written to `PATH.partial` first, so that a file at `PATH` is
/// always complete. At most one row group is held in memory.
pub(crate) struct TableWriter {
    tree: Tree,
    name: String,
    writer: SerializedFileWriter<File>,
    columns: Vec<Column>,
}

enum Column {
    Int(Vec<i64>),
    Real(Vec<f64>),
    Text(Vec<ByteArray>),
}

impl TableWriter {
    pub(crate) fn create<R: Row>(tree: &Tree, name: String) -> Result<Self, ResultsError> {
        let file = tree.begin(&partial(&name))?;
        let bad = |error: ParquetError| ResultsError::malformed(&tree.path_of(&name), error);
        let schema = parse_message_type(&message_type::<R>()).map_err(bad)?;
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties::<R>()))
            .map_err(bad)?;
        Ok(Self {
            tree: tree.clone(),
            name,
            writer,
            columns: empty_columns::<R>(),
        })
    }

    pub(crate) fn push(&mut self, row: &impl Row) -> Result<(), ResultsError> {
        for (cell, column) in row.cells().into_iter().zip(&mut self.columns) {
            match (cell, column) {
                (Cell::Int(value), Column::Int(all)) => all.push(value),
                (Cell::Real(value), Column::Real(all)) => all.push(value),
                (Cell::Text(value), Column::Text(all)) => {
                    all.push(ByteArray::from(value.as_bytes().to_vec()))
                }
                (cell, _) => {
                    unreachable!("a row type whose cells do not fit its own columns: {cell:?}")
                }
            }
        }
        if self.buffered_rows() >= ROWS_PER_GROUP {
            self.write_group()?;
        }
        Ok(())
    }

    pub(crate) fn close(mut self) -> Result<(), ResultsError> {
        if self.buffered_rows() > 0 {
            self.write_group()?;
        }
        let partial = partial(&self.name);
        self.writer
            .close()
            .map_err(|error| ResultsError::malformed(&self.tree.path_of(&partial), error))?;
        self.tree.rename(&partial, &self.name)
    }

    fn buffered_rows(&self) -> usize {
        match &self.columns[0] {
            Column::Int(all) => all.len(),
            Column::Real(all) => all.len(),
            Column::Text(all) => all.len(),
        }
    }

    fn write_group(&mut self) -> Result<(), ResultsError> {
        group(&mut self.writer, &mut self.columns)
            .map_err(|error| ResultsError::malformed(&self.tree.path_of(&self.name), error))
    }
}

/// Writes the buffered columns as one row group and empties them.
fn group(
    writer: &mut SerializedFileWriter<File>,
    columns: &mut [Column],
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    let mut columns = columns.iter_mut();
    while let Some(mut out) = group.next_column()? {
        match columns.next() {
            Some(Column::Int(all)) => {
                out.typed::<Int64Type>().write_batch(all, None, None)?;
                all.clear();
            }
            Some(Column::Real(all)) => {
                out.typed::<DoubleType>().write_batch(all, None, None)?;
                all.clear();
            }
            Some(Column::Text(all)) => {
                out.typed::<ByteArrayType>().write_batch(all, None, None)?;
                all.clear();
            }
            None => unreachable!("the schema has the columns of the row type"),
        }
        out.close()?;
    }
    group.close()?;
    Ok(())
}

/// Calls `each` for every row of the file, with a few thousand rows in memory at a time.
pub(crate) fn read<R: Row>(
    file: File,
    path: &Path,
    mut each: impl FnMut(R) -> Result<(), ResultsError>,
) -> Result<(), ResultsError> {
    let length = file.metadata().map_err(ResultsError::io(path))?.len();
    let pages = file.try_clone().map_err(ResultsError::io(path))?;
    let reader = guarded(path, || SerializedFileReader::new(file))?;
    check_rows(reader.metadata(), length).map_err(|why| ResultsError::malformed(path, why))?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let names: Vec<&str> = schema
        .columns()
        .iter()
        .map(|column| column.name())
        .collect();
    // Columns are found by name, so that a later version may add columns at the end.
    let places: Vec<usize> = R::COLUMNS
        .iter()
        .map(|(name, _)| {
            names
                .iter()
                .position(|have| have == name)
                .ok_or_else(|| ResultsError::malformed(path, format!("it has no column `{name}`")))
        })
        .collect::<Result<_, _>>()?;
    let mut interner = Interner::default();
    for index in 0..reader.num_row_groups() {
        let group = guarded(path, || reader.get_row_group(index))?;
        let mut readers = Vec::with_capacity(places.len());
        for &place in &places {
            // This call reads no page yet, and refuses compressions that are not supported.
            readers.push(guarded(path, || group.get_column_reader(place))?);
            page_headers::check(&pages, group.metadata().column(place))
                .map_err(|why| ResultsError::malformed(path, why))?;
        }
        let mut left = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        while left > 0 {
            let rows = left.min(BATCH_ROWS);
            left -= rows;
            let mut columns = Vec::with_capacity(places.len());
            for (reader, &(name, kind)) in readers.iter_mut().zip(R::COLUMNS) {
                let cells = guarded(path, || read_column(reader, rows, kind, &mut interner))?;
                if cells.len() != rows {
                    return Err(ResultsError::malformed(
                        path,
                        format!("column `{name}` is shorter than the others"),
                    ));
                }
                columns.push(cells.into_iter());
            }
            for _ in 0..rows {
                let cells = columns.iter_mut().filter_map(Iterator::next).collect();
                let row = R::from_cells(Cells::new(cells));
                each(row.ok_or_else(|| {
                    ResultsError::malformed(path, "a row does not fit its columns")
                })?)?;
            }
        }
    }
    Ok(())
}

/// Refuses a file that claims more rows than its length allows, because each decoded row takes
/// memory. (A row contains an instant of the machine's clock, which compresses to a few bytes. In
/// synthetic tables a row may take half a byte.)
fn check_rows(metadata: &ParquetMetaData, length: u64) -> Result<(), String> {
    let rows = metadata.row_groups().iter();
    let rows: i128 = rows.map(|group| i128::from(group.num_rows())).sum();
    let most = i128::from(length) * ROWS_PER_BYTE + FEW_ROWS;
    match rows > most {
        true => Err(format!("it claims {rows} rows in {length} bytes")),
        false => Ok(()),
    }
}

/// Reads a part of an untrusted file with the parquet crate. The crate panics on some invalid
/// input; such a panic is converted to an error.
fn guarded<T>(
    path: &Path,
    read: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, ResultsError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(read))
        .map_err(|_| ResultsError::malformed(path, "it is damaged"))?
        .map_err(|error| ResultsError::malformed(path, error))
}

/// Reads the next `rows` values of a column, or fewer at its end.
fn read_column(
    reader: &mut ColumnReader,
    rows: usize,
    kind: ColumnKind,
    interner: &mut Interner,
) -> Result<Vec<Cell>, ParquetError> {
    Ok(match (reader, kind) {
        (ColumnReader::Int64ColumnReader(column), ColumnKind::Int) => {
            values(column, rows)?.into_iter().map(Cell::Int).collect()
        }
        (ColumnReader::DoubleColumnReader(column), ColumnKind::Real) => {
            values(column, rows)?.into_iter().map(Cell::Real).collect()
        }
        (ColumnReader::ByteArrayColumnReader(column), ColumnKind::Text) => {
            let texts = values(column, rows)?;
            if let Some(long) = texts.iter().find(|text| text.len() > TEXT_BYTES) {
                let length = long.len();
                return Err(ParquetError::General(format!("a text has {length} bytes")));
            }
            let text = |bytes: ByteArray| interner.get(&String::from_utf8_lossy(bytes.data()));
            texts.into_iter().map(text).map(Cell::Text).collect()
        }
        _ => {
            return Err(ParquetError::General(format!(
                "a column is not of kind {kind:?}"
            )));
        }
    })
}

fn values<T: DataType>(
    column: &mut ColumnReaderImpl<T>,
    rows: usize,
) -> Result<Vec<T::T>, ParquetError> {
    let mut values = Vec::with_capacity(rows);
    // If another program wrote the column as optional, its definition levels are read as well.
    let mut levels = Vec::new();
    while values.len() < rows {
        let (records, _, _) =
            column.read_records(rows - values.len(), Some(&mut levels), None, &mut values)?;
        if records == 0 {
            break;
        }
    }
    Ok(values)
}

fn message_type<R: Row>() -> String {
    let columns: String = R::COLUMNS
        .iter()
        .map(|(name, kind)| match kind {
            ColumnKind::Int => format!("required int64 {name}; "),
            ColumnKind::Real => format!("required double {name}; "),
            ColumnKind::Text => format!("required binary {name} (STRING); "),
        })
        .collect();
    format!("message {} {{ {columns} }}", R::TABLE)
}

fn properties<R: Row>() -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("timeloom {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::SNAPPY);
    for (name, kind) in R::COLUMNS {
        let column = ColumnPath::from(*name);
        properties = match kind {
            ColumnKind::Int => properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED),
            ColumnKind::Real => properties.set_column_dictionary_enabled(column, false),
            ColumnKind::Text => properties,
        };
    }
    properties.build()
}

fn empty_columns<R: Row>() -> Vec<Column> {
    R::COLUMNS
        .iter()
        .map(|(_, kind)| match kind {
            ColumnKind::Int => Column::Int(Vec::new()),
            ColumnKind::Real => Column::Real(Vec::new()),
            ColumnKind::Text => Column::Text(Vec::new()),
        })
        .collect()
}

const ROWS_PER_GROUP: usize = 65_536;
/// Number of rows decoded at a time.
const BATCH_ROWS: usize = 8_192;
const ROWS_PER_BYTE: i128 = 8;
/// Number of rows that a file of any length may have.
const FEW_ROWS: i128 = 1 << 20;
/// Maximum length of a text in bytes: twice the limit of the journal.
const TEXT_BYTES: usize = 64 * 1024;
