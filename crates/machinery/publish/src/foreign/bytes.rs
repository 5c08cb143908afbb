//! Fixed-width fields at given offsets.

/// Reason why bytes are not of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Too short or too long.
    #[error("{found} bytes instead of {expected}")]
    Length {
        /// Expected length (at least).
        expected: usize,
        /// Actual length.
        found: usize,
    },
    /// A field has an invalid value; its name.
    #[error("the field `{0}` has an impossible value")]
    Field(&'static str),
    /// The writer is in the middle of an update, or never wrote.
    #[error("it is being written or was never written")]
    Updating,
}

/// Returns the `N` bytes at `at`; `bytes` must be that long.
pub(super) fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

/// Stores `field` at `at`.
pub(super) fn put(bytes: &mut [u8], at: usize, field: impl AsRef<[u8]>) {
    let field = field.as_ref();
    bytes[at..at + field.len()].copy_from_slice(field);
}

pub(super) fn at_least(bytes: &[u8], expected: usize) -> Result<(), Malformed> {
    if bytes.len() < expected {
        return Err(Malformed::Length {
            expected,
            found: bytes.len(),
        });
    }
    Ok(())
}

pub(super) fn expect(field: &'static str, right: bool) -> Result<(), Malformed> {
    if right {
        Ok(())
    } else {
        Err(Malformed::Field(field))
    }
}
