//! Checks of the sizes that page headers of a Parquet file state. They precede the decoding,
//! because the decoder reserves as much memory as a header states, and a page of a hundred bytes
//! may claim two gigabytes.
//!
//! A header is a struct in Thrift's compact protocol. The fields that the decoder uses are read as
//! the decoder reads them, by their numbers alone. All others are skipped by their types.

use std::fs::File;
use std::os::unix::fs::FileExt;

use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;

/// Checks the headers of all pages of a column of one row group.
///
/// # Errors
/// Returns the reason if no valid writer makes such a page.
pub(crate) fn check(file: &File, column: &ColumnChunkMetaData) -> Result<(), String> {
    let begin = column.dictionary_page_offset();
    let begin = begin.unwrap_or(column.data_page_offset());
    let (mut at, mut left) = match (
        u64::try_from(begin),
        u64::try_from(column.compressed_size()),
    ) {
        (Ok(begin), Ok(length)) => (begin, length),
        _ => return Err("a column lies before the file".to_owned()),
    };
    while left > 0 {
        let (header, length) = header_at(file, at, left)?;
        let taken = header.check(column.compression())? + length;
        left = left
            .checked_sub(taken)
            .ok_or("a page is longer than its column")?;
        at += taken;
    }
    Ok(())
}

/// Reads the header of the page at offset `at`, which has `left` bytes at most. Returns the header
/// and its length.
fn header_at(file: &File, at: u64, left: u64) -> Result<(Header, u64), String> {
    for most in [SHORT_HEADER, LONG_HEADER] {
        let mut bytes = vec![0; left.min(most as u64) as usize];
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read_at(&mut bytes[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) => return Err(error.to_string()),
            }
        }
        let mut reader = Compact {
            bytes: &bytes[..filled],
            at: 0,
        };
        if let Some(header) = Header::read(&mut reader) {
            return Ok((header, reader.at as u64));
        }
    }
    Err("the header of a page is damaged".to_owned())
}

/// Fields of a page's header that determine how much memory the decoder reserves.
#[derive(Debug, Default, PartialEq, Eq)]
struct Header {
    uncompressed: i64,
    compressed: i64,
    /// Number of values and encoding of a data page.
    data: Option<(i64, i64)>,
    /// Number of values of a dictionary page.
    dictionary: Option<i64>,
}

impl Header {
    fn read(reader: &mut Compact<'_>) -> Option<Self> {
        let mut header = Self::default();
        reader.each_field(0, |reader, id, kind| {
            match id {
                2 => header.uncompressed = reader.integer()?,
                3 => header.compressed = reader.integer()?,
                1 | 4 => drop(reader.integer()?),
                5 => {
                    let fields = reader.numbers(4)?;
                    header.data = Some((fields[0], fields[1]));
                }
                6 => drop(reader.numbers(0)?),
                7 => header.dictionary = Some(reader.numbers(2)?[0]),
                8 => {
                    let fields = reader.numbers(6)?;
                    header.data = Some((fields[0], fields[3]));
                }
                _ => reader.skip(kind, 1)?,
            }
            Some(())
        })?;
        Some(header)
    }

    /// Checks the header. Returns the length of the page's content in the file, in bytes.
    fn check(&self, compression: Compression) -> Result<u64, String> {
        let Self {
            uncompressed,
            compressed,
            ..
        } = *self;
        let length = u64::try_from(compressed).map_err(|_| "a page of negative length")?;
        let most = match self.dictionary {
            Some(_) => DICTIONARY_BYTES,
            None => PAGE_BYTES,
        };
        // Snappy encodes at most 64 copied bytes in three bytes, so content grows by less than a
        // factor of 32.
        let possible = match compression {
            Compression::UNCOMPRESSED => compressed,
            _ => compressed.saturating_mul(32).saturating_add(64),
        };
        if !(0..=most.min(possible)).contains(&uncompressed) {
            return Err(format!(
                "a page of {compressed} bytes claims to hold {uncompressed}"
            ));
        }
        if let Some(values) = self.dictionary
            && !(0..=uncompressed.min(DICTIONARY_VALUES)).contains(&values)
        {
            return Err(format!("a dictionary claims {values} values"));
        }
        if let Some((values, encoding)) = self.data
            && (values < 0 || !ENCODINGS.contains(&encoding))
        {
            return Err(format!(
                "a page has {values} values in encoding {encoding}, which is not read here"
            ));
        }
        Ok(length)
    }
}

/// Reader of Thrift's compact protocol.
struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Compact<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn integer(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn advance(&mut self, count: u64) -> Option<()> {
        let end = self.at.checked_add(usize::try_from(count).ok()?)?;
        self.at = end;
        (end <= self.bytes.len()).then_some(())
    }

    /// Reads a struct and calls `each` with the number and type of each field; `each` reads the
    /// field.
    fn each_field(
        &mut self,
        depth: u32,
        mut each: impl FnMut(&mut Self, i64, u8) -> Option<()>,
    ) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        let mut id = 0_i64;
        loop {
            let head = self.byte()?;
            let kind = head & 0x0f;
            if kind == STOP {
                return Some(());
            }
            id = match head >> 4 {
                0 => self.integer()?,
                step => id + i64::from(step),
            };
            each(self, id, kind)?;
        }
    }

    /// Reads a struct whose first `count` fields are integers, and returns them. A missing field is
    /// 0.
    fn numbers(&mut self, count: i64) -> Option<[i64; 6]> {
        let mut numbers = [0; 6];
        self.each_field(1, |reader, id, kind| {
            if (1..=count).contains(&id) {
                numbers[(id - 1) as usize] = reader.integer()?;
                return Some(());
            }
            reader.skip(kind, 2)
        })?;
        Some(numbers)
    }

    fn skip(&mut self, kind: u8, depth: u32) -> Option<()> {
        match kind {
            // In a struct, the value of a boolean field is part of the field's header.
            1 | 2 => Some(()),
            3 => self.advance(1),
            4..=6 => self.unsigned().map(drop),
            7 => self.advance(8),
            8 => {
                let length = self.unsigned()?;
                self.advance(length)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.unsigned()?,
                    count => u64::from(count),
                };
                (0..count).try_for_each(|_| self.skip_element(head & 0x0f, depth + 1))
            }
            11 => {
                let count = self.unsigned()?;
                if count == 0 {
                    return Some(());
                }
                let kinds = self.byte()?;
                (0..count).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth + 1)?;
                    self.skip_element(kinds & 0x0f, depth + 1)
                })
            }
            12 => self.each_field(depth, |reader, _, kind| reader.skip(kind, depth + 1)),
            13 => self.advance(16),
            _ => None,
        }
    }

    /// Skips an element of a list. In a list, a boolean takes a byte of its own.
    fn skip_element(&mut self, kind: u8, depth: u32) -> Option<()> {
        match kind {
            _ if depth > DEEPEST => None,
            1 | 2 => self.advance(1),
            kind => self.skip(kind, depth),
        }
    }
}

const STOP: u8 = 0;
const DEEPEST: u32 = 32;
/// Number of bytes that are read first. A header has about thirty bytes, or more if it contains
/// statistics of long texts.
const SHORT_HEADER: usize = 4 * 1024;
const LONG_HEADER: usize = 512 * 1024;

/// Maximum decoded size of a data page, in bytes. Writers end a page at 1 MiB; a thousand values of
/// 32 KiB may exceed that.
const PAGE_BYTES: i64 = 64 << 20;
/// Maximum decoded size of a dictionary, in bytes. Writers end a dictionary at 1 MiB.
const DICTIONARY_BYTES: i64 = 16 << 20;
const DICTIONARY_VALUES: i64 = 1 << 20;
/// Accepted encodings: PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED, DELTA_BINARY_PACKED,
/// RLE_DICTIONARY, BYTE_STREAM_SPLIT. Decoders of the other encodings reserve memory for as many
/// lengths as the page's content claims.
const ENCODINGS: [i64; 7] = [0, 2, 3, 4, 5, 8, 9];

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the header of a data page: type 0, the given sizes, 100 values in encoding 0, and
    /// levels in encoding 3.
    fn data(uncompressed: u8, compressed: u8) -> Vec<u8> {
        let sizes = [0x15, 0, 0x15, 2 * uncompressed, 0x15, 2 * compressed];
        let page = [0x2c, 0x15, 0xc8, 1, 0x15, 0, 0x15, 6, 0x15, 6, 0];
        [&sizes[..], &page, &[0]].concat()
    }

    fn read(bytes: &[u8]) -> Option<Header> {
        Header::read(&mut Compact { bytes, at: 0 })
    }

    #[test]
    fn a_header_is_read() {
        let expected = Header {
            uncompressed: 60,
            compressed: 50,
            data: Some((100, 0)),
            dictionary: None,
        };
        assert_eq!(read(&data(60, 50)), Some(expected));
        let bytes = data(60, 50);
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length]), None, "{length}");
        }
    }

    #[test]
    fn page_headers_beyond_the_limits_of_a_writer_are_refused() {
        let check = |header: Header| header.check(Compression::SNAPPY);
        let page = |uncompressed, compressed| Header {
            uncompressed,
            compressed,
            data: Some((1, 0)),
            dictionary: None,
        };
        assert_eq!(check(page(3200, 100)), Ok(100));
        for (uncompressed, compressed) in [(i64::from(i32::MAX), 100), (-1, 1), (1, -1)] {
            assert!(check(page(uncompressed, compressed)).is_err());
        }
        let dictionary = |values| Header {
            data: None,
            dictionary: Some(values),
            ..page(100, 100)
        };
        assert_eq!(check(dictionary(25)), Ok(100));
        assert!(check(dictionary(i64::from(i32::MAX))).is_err());
        let mut lengths = page(100, 100);
        lengths.data = Some((1, 6));
        assert!(check(lengths).is_err());
    }
}
