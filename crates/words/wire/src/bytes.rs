//! Bounds-checked reading and writing in big-endian order.

use crate::{EmitError, ParseError};

/// Reads big-endian fields from the front of a slice. Running out of bytes is
/// an error, never a panic.
#[derive(Clone, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Starts at the front of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next `count` bytes as a view.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], ParseError> {
        let (head, tail) = self
            .0
            .split_at_checked(count)
            .ok_or(ParseError::Truncated)?;
        self.0 = tail;
        Ok(head)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ParseError> {
        let (head, tail) = self
            .0
            .split_first_chunk::<N>()
            .ok_or(ParseError::Truncated)?;
        self.0 = tail;
        Ok(*head)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, ParseError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Result<u16, ParseError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, ParseError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Four bytes, signed.
    pub fn i32(&mut self) -> Result<i32, ParseError> {
        self.array().map(i32::from_be_bytes)
    }

    /// Six bytes, as timestamps and sequence numbers have them.
    pub fn u48(&mut self) -> Result<u64, ParseError> {
        let [a, b, c, d, e, f] = self.array()?;
        Ok(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// Eight bytes, signed.
    pub fn i64(&mut self) -> Result<i64, ParseError> {
        self.array().map(i64::from_be_bytes)
    }

    /// Returns the unread bytes.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }
}

/// Writes big-endian fields to the front of a slice.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    /// Starts at the front of `buffer`.
    pub const fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, at: 0 }
    }

    /// Copies `bytes`.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), EmitError> {
        let end = self.at.checked_add(bytes.len()).ok_or(EmitError::NoRoom)?;
        let target = self.buffer.get_mut(self.at..end).ok_or(EmitError::NoRoom)?;
        target.copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) -> Result<(), EmitError> {
        self.put(&[value])
    }

    /// Two bytes.
    pub fn u16(&mut self, value: u16) -> Result<(), EmitError> {
        self.put(&value.to_be_bytes())
    }

    /// Four bytes.
    pub fn u32(&mut self, value: u32) -> Result<(), EmitError> {
        self.put(&value.to_be_bytes())
    }

    /// The low six bytes of `value`.
    pub fn u48(&mut self, value: u64) -> Result<(), EmitError> {
        self.put(&value.to_be_bytes()[2..])
    }

    /// Overwrites two bytes already written at `at`, since lengths are known last.
    pub(crate) fn patch_u16(&mut self, at: usize, value: u16) {
        self.buffer[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    /// Bytes written so far.
    pub const fn written(&self) -> usize {
        self.at
    }
}
