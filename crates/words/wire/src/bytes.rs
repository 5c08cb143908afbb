//! Bounds-checked reading and writing in big-endian order.

use crate::{EmitError, ParseError};

/// Reads big-endian fields from the front of a slice. If the slice has too few bytes, every method
/// returns an error; none panics.
#[derive(Clone, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Returns a reader at the front of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Reads the next `count` bytes and returns them as a view.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], ParseError> {
        let (head, tail) = self
            .0
            .split_at_checked(count)
            .ok_or(ParseError::Truncated)?;
        self.0 = tail;
        Ok(head)
    }

    /// Reads the next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ParseError> {
        let (head, tail) = self
            .0
            .split_first_chunk::<N>()
            .ok_or(ParseError::Truncated)?;
        self.0 = tail;
        Ok(*head)
    }

    /// Reads one byte.
    pub fn u8(&mut self) -> Result<u8, ParseError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Reads a 16-bit unsigned number.
    pub fn u16(&mut self) -> Result<u16, ParseError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads a 32-bit unsigned number.
    pub fn u32(&mut self) -> Result<u32, ParseError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a 32-bit signed number.
    pub fn i32(&mut self) -> Result<i32, ParseError> {
        self.array().map(i32::from_be_bytes)
    }

    /// Reads a 48-bit unsigned number, the format of seconds in timestamps and of long sequence
    /// numbers.
    pub fn u48(&mut self) -> Result<u64, ParseError> {
        let [a, b, c, d, e, f] = self.array()?;
        Ok(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// Reads a 64-bit signed number.
    pub fn i64(&mut self) -> Result<i64, ParseError> {
        self.array().map(i64::from_be_bytes)
    }

    /// Returns the unread bytes.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }
}

/// Writes big-endian fields to the front of a slice. If the slice is too short, every method
/// returns an error.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    /// Returns a writer at the front of `buffer`.
    pub const fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, at: 0 }
    }

    /// Writes `bytes` unchanged.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), EmitError> {
        let end = self.at.checked_add(bytes.len()).ok_or(EmitError::NoRoom)?;
        let target = self.buffer.get_mut(self.at..end).ok_or(EmitError::NoRoom)?;
        target.copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }

    /// Writes one byte.
    pub fn u8(&mut self, value: u8) -> Result<(), EmitError> {
        self.put(&[value])
    }

    /// Writes a 16-bit unsigned number.
    pub fn u16(&mut self, value: u16) -> Result<(), EmitError> {
        self.put(&value.to_be_bytes())
    }

    /// Writes a 32-bit unsigned number.
    pub fn u32(&mut self, value: u32) -> Result<(), EmitError> {
        self.put(&value.to_be_bytes())
    }

    /// Writes the low 48 bits of `value`.
    pub fn u48(&mut self, value: u64) -> Result<(), EmitError> {
        self.put(&value.to_be_bytes()[2..])
    }

    /// Overwrites two bytes at offset `at`, which have been written already: the value of a length
    /// field is known only at the end.
    pub(crate) fn patch_u16(&mut self, at: usize, value: u16) {
        self.buffer[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    /// Returns the number of bytes written so far.
    pub const fn written(&self) -> usize {
        self.at
    }
}
