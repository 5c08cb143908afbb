//! Sizes of files and memory.

use std::fmt;
use std::str::FromStr;

use super::ParseWordError;

/// Size in bytes; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size {
    bytes: u64,
}

/// Units with their values in bytes, the largest first. They are binary, as is usual for disks.
const UNITS: [(&str, u64); 5] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

impl Size {
    /// Returns a size of `bytes` bytes. Returns `None` for 0, with which nothing would be kept.
    pub const fn from_bytes(bytes: u64) -> Option<Self> {
        if bytes == 0 {
            None
        } else {
            Some(Self { bytes })
        }
    }

    /// Returns a size of `mib` mebibytes, which must not be 0.
    pub(crate) const fn from_mib(mib: u64) -> Self {
        Self { bytes: mib << 20 }
    }

    /// Returns the size in bytes, which is at least 1.
    pub const fn as_bytes(self) -> u64 {
        self.bytes
    }
}

impl FromStr for Size {
    type Err = ParseWordError;

    /// Parses a whole number and a unit, with an optional blank between them.
    fn from_str(text: &str) -> Result<Self, ParseWordError> {
        let parse = || {
            let (number, factor) = UNITS.iter().find_map(|(unit, factor)| {
                Some((text.trim().strip_suffix(unit)?.trim(), factor))
            })?;
            let plain = number.bytes().all(|byte| byte.is_ascii_digit());
            let number: u64 = plain.then(|| number.parse().ok())??;
            number.checked_mul(*factor).and_then(Self::from_bytes)
        };
        parse().ok_or_else(|| {
            ParseWordError(format!(
                "`{text}` is not a size: write a whole number, at least 1, and B, KiB, MiB, GiB or TiB, as in `256 MiB`"
            ))
        })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = UNITS
            .into_iter()
            .find(|(_, factor)| self.bytes.is_multiple_of(*factor))
            .unwrap_or(("B", 1));
        write!(f, "{} {unit}", self.bytes / factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_back_as_they_are_written() {
        for (text, bytes) in [
            ("1 B", 1),
            ("1500 B", 1500),
            ("3 KiB", 3072),
            ("2 TiB", 2 << 40),
        ] {
            let size: Size = text.parse().expect(text);
            assert_eq!((size.as_bytes(), size.to_string().as_str()), (bytes, text));
        }
        for text in [
            "",
            "1",
            "0 B",
            "-1 KiB",
            "1.5 GiB",
            "1 MB",
            "99999999999 TiB",
            "+1 B",
        ] {
            text.parse::<Size>().expect_err(text);
        }
    }
}
