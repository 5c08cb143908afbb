//! Fixed-width fields at given offsets of a byte slice.

/// Reason why bytes do not have the expected format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignFormatError {
    /// The bytes are too few or too many.
    #[error("{found} bytes instead of {expected}")]
    Length {
        /// Expected length in bytes; for some formats the minimum.
        expected: usize,
        /// Actual length in bytes.
        found: usize,
    },
    /// The field with this name has an invalid value.
    #[error("the field `{0}` has an impossible value")]
    Field(&'static str),
    /// The writer is in the middle of an update, or has never completed one.
    #[error("it is being written or was never written")]
    Updating,
}

/// Returns the `N` bytes at offset `at`. Panics if `bytes` is shorter.
pub(super) fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

/// Stores `field` at offset `at`. Panics if `bytes` is shorter.
pub(super) fn put(bytes: &mut [u8], at: usize, field: impl AsRef<[u8]>) {
    let field = field.as_ref();
    bytes[at..at + field.len()].copy_from_slice(field);
}

pub(super) fn at_least(bytes: &[u8], expected: usize) -> Result<(), ForeignFormatError> {
    if bytes.len() < expected {
        return Err(ForeignFormatError::Length {
            expected,
            found: bytes.len(),
        });
    }
    Ok(())
}

pub(super) fn expect(field: &'static str, right: bool) -> Result<(), ForeignFormatError> {
    if right {
        Ok(())
    } else {
        Err(ForeignFormatError::Field(field))
    }
}
