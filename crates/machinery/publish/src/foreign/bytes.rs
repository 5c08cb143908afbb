//! Fixed-width fields at given places.

use core::fmt;

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Too short or too long.
    Length {
        /// How long it should be (at least).
        expected: usize,
        /// How long it is.
        found: usize,
    },
    /// A field has a value that it cannot have; its name.
    Field(&'static str),
    /// The writer is in the middle of an update, or never wrote.
    Updating,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { expected, found } => write!(f, "{found} bytes instead of {expected}"),
            Self::Field(name) => write!(f, "the field `{name}` has an impossible value"),
            Self::Updating => f.write_str("it is being written or was never written"),
        }
    }
}

impl std::error::Error for Malformed {}

/// The `N` bytes at `at`; `bytes` must be that long.
pub(super) fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

/// Puts `field` at `at`.
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
