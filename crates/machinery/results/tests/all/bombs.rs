//! Small files that would decode to gigabytes must be rejected before memory is reserved.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use timeloom_results::{LabelRow, RunDirectory};

const SCHEMA: &str = "message labels { required int64 start_ns; required int64 end_ns; \
    required binary technique (STRING); required binary target (STRING); \
    required binary attack (STRING); }";

/// Writes a table of identical labels in one row group.
fn write(path: &Path, rows: usize, text: &str, dictionary: bool) {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(dictionary)
        .set_dictionary_page_size_limit(usize::MAX)
        .build();
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let text = ByteArray::from(text.as_bytes().to_vec());
    let mut place = 0;
    while let Some(mut column) = group.next_column().unwrap() {
        for batch in [100_000; 1_000].iter().scan(rows, |left, most| {
            let batch = (*left).min(*most);
            *left -= batch;
            (batch > 0).then_some(batch)
        }) {
            match place {
                0 | 1 => column
                    .typed::<Int64Type>()
                    .write_batch(&vec![5; batch], None, None),
                _ => column.typed::<ByteArrayType>().write_batch(
                    &vec![text.clone(); batch],
                    None,
                    None,
                ),
            }
            .unwrap();
        }
        column.close().unwrap();
        place += 1;
    }
    group.close().unwrap();
    writer.close().unwrap();
}

/// Reads a run whose table of labels was written by `make`; returns the number of rows or the
/// error.
fn read(make: impl FnOnce(&Path)) -> Result<u64, String> {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("run");
    let run = RunDirectory::create(&path).unwrap();
    run.recorder().unwrap().finish().unwrap();
    let table = path.join("labels.parquet");
    make(&table);
    let length = fs::metadata(&table).unwrap().len();
    assert!(length < 8 << 20, "{length} bytes are not small");
    let mut rows = 0;
    let read = run.for_each(|_: LabelRow| {
        rows += 1;
        Ok(())
    });
    read.map(|()| rows).map_err(|error| error.to_string())
}

#[test]
fn rows_that_compress_to_nothing_are_refused_by_their_number() {
    assert_eq!(read(|path| write(path, 100_000, "x", true)), Ok(100_000));
    let refused = read(|path| write(path, 2_000_000, "x", true)).unwrap_err();
    for word in ["labels.parquet", "claims 2000000 rows"] {
        assert!(refused.contains(word), "{refused}");
    }
}

/// The decompressed length in the page headers is modified.
#[test]
fn a_page_that_claims_to_become_much_is_refused_by_its_header() {
    let inflated = |path: &Path| {
        write(path, 200_000, "some text", false);
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let column = reader.metadata().row_group(0).column(2).clone();
        let at = column.data_page_offset() as usize;
        let mut bytes = fs::read(path).unwrap();
        // Header of a field, its type, and the header of the next field; then follows the length in
        // three bytes.
        assert_eq!(bytes[at..at + 3], [0x15, 0, 0x15]);
        let length = &mut bytes[at + 3..at + 6];
        assert!(length[1] & 0x80 != 0 && length[2] & 0x80 == 0, "{length:?}");
        length.copy_from_slice(&[0xfe, 0xff, 0x7f]);
        fs::write(path, bytes).unwrap();
    };
    let refused = read(inflated).unwrap_err();
    for word in ["labels.parquet", "claims to hold 1048575"] {
        assert!(refused.contains(word), "{refused}");
    }
}

#[test]
fn a_text_that_is_longer_than_any_is_refused() {
    let text = |length| "x".repeat(length);
    assert_eq!(read(|path| write(path, 3, &text(40_000), true)), Ok(3));
    let refused = read(|path| write(path, 3, &text(100_000), true)).unwrap_err();
    assert!(refused.contains("100000 bytes"), "{refused}");
}

/// Tables of other programs, with pages and row groups of other sizes, must be read.
#[test]
fn a_table_of_another_writer_is_read() {
    let names = |path: &Path| {
        let properties = WriterProperties::builder()
            .set_data_page_row_count_limit(100)
            .set_compression(Compression::UNCOMPRESSED)
            .build();
        let schema = SCHEMA.replace("required", "optional");
        let schema = Arc::new(parse_message_type(&schema).unwrap());
        let file = File::create(path).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
        for _ in 0..3 {
            let mut group = writer.next_row_group().unwrap();
            let texts: Vec<ByteArray> = (0..20_000)
                .map(|row| ByteArray::from(format!("text {row}").into_bytes()))
                .collect();
            let levels = vec![1; texts.len()];
            let mut place = 0;
            while let Some(mut column) = group.next_column().unwrap() {
                match place {
                    0 | 1 => {
                        let instants: Vec<i64> = (0..20_000).collect();
                        let column = column.typed::<Int64Type>();
                        column.write_batch(&instants, Some(&levels), None)
                    }
                    _ => {
                        let column = column.typed::<ByteArrayType>();
                        column.write_batch(&texts, Some(&levels), None)
                    }
                }
                .unwrap();
                column.close().unwrap();
                place += 1;
            }
            group.close().unwrap();
        }
        writer.close().unwrap();
    };
    assert_eq!(read(names), Ok(60_000));
}
