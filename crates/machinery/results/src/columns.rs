//! Parquet files with columns that are known only at run time: the table of a sweep, one row per
//! run.
//!
//! The tables of a run have fixed columns; see `parquet_file`.

use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::ResultsError;

/// A column: its name, and a value for each row that has one.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name of the column in the file.
    pub name: String,
    /// Values of the column, one for each row; `None` where a row has no value.
    pub values: Values,
}

/// Values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Numbers.
    Real(Vec<Option<f64>>),
    /// Texts.
    Text(Vec<Option<String>>),
}

/// Encodes a table as a Parquet file. All columns must have the same length. `path` is the path to
/// which the caller will write the file, for error messages.
pub(crate) fn encode_columns(columns: &[Column], path: &Path) -> Result<Vec<u8>, ResultsError> {
    let names: std::collections::BTreeSet<_> = columns.iter().map(|c| &c.name).collect();
    if names.len() < columns.len() {
        return Err(ResultsError::malformed(
            path,
            "two columns have the same name",
        ));
    }
    let mut bytes = Vec::new();
    write(&mut bytes, columns).map_err(|error| ResultsError::malformed(path, error))?;
    Ok(bytes)
}

fn write(file: &mut Vec<u8>, columns: &[Column]) -> Result<(), ParquetError> {
    let properties = WriterProperties::builder()
        .set_created_by(format!("timeloom {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::SNAPPY)
        .build();
    let mut writer =
        SerializedFileWriter::new(file, Arc::new(schema(columns)?), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    let mut columns = columns.iter();
    while let (Some(mut out), Some(column)) = (group.next_column()?, columns.next()) {
        match &column.values {
            Values::Real(values) => {
                let there: Vec<f64> = values.iter().flatten().copied().collect();
                let levels = levels(values);
                out.typed::<DoubleType>()
                    .write_batch(&there, Some(&levels), None)?;
            }
            Values::Text(values) => {
                let bytes = |text: &String| ByteArray::from(text.as_bytes().to_vec());
                let there: Vec<ByteArray> = values.iter().flatten().map(bytes).collect();
                let levels = levels(values);
                out.typed::<ByteArrayType>()
                    .write_batch(&there, Some(&levels), None)?;
            }
        }
        out.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

/// Returns the definition levels of a column: 1 for a present value, 0 for a missing one.
fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values
        .iter()
        .map(|value| i16::from(value.is_some()))
        .collect()
}

/// Returns the schema of the file. It is built, not parsed from text, because a column may have any
/// name.
fn schema(columns: &[Column]) -> Result<Type, ParquetError> {
    let fields = columns.iter().map(|column| {
        let (kind, logical) = match column.values {
            Values::Real(_) => (PhysicalType::DOUBLE, None),
            Values::Text(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let field = Type::primitive_type_builder(&column.name, kind)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical);
        field.build().map(Arc::new)
    });
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder("sweep")
        .with_fields(fields)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    #[test]
    fn values_come_back_and_missing_ones_stay_missing() {
        let path = Path::new("sweep.parquet");
        let column = |name: &str, values| Column {
            name: name.to_owned(),
            values,
        };
        let columns = [
            column("gain; {x}", Values::Real(vec![Some(1.5), None, Some(-2.0)])),
            column(
                "culprit",
                Values::Text(vec![None, Some("ä program".into()), None]),
            ),
        ];
        let bytes = encode_columns(&columns, path).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows: Vec<_> = reader
            .get_row_iter(None)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let real = |row: usize| rows[row].get_double(0).ok();
        assert_eq!([real(0), real(1), real(2)], [Some(1.5), None, Some(-2.0)]);
        assert_eq!(rows[1].get_string(1).unwrap(), "ä program");
        assert!(rows[0].get_string(1).is_err());
        assert_eq!(rows[0].get_column_iter().next().unwrap().0, "gain; {x}");
        let twice = [columns[0].clone(), columns[0].clone()];
        assert!(encode_columns(&twice, path).is_err());
    }
}
