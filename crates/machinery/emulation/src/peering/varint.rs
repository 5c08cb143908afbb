//! Variable-length numbers: little-endian base 128 (LEB128), signed ones zigzag.
//!
//! The length of a number is hardly predictable, and a record has several numbers, so a loop over
//! bytes would cost a branch misprediction per number. Numbers of up to 56 bits are therefore
//! spread and gathered in a register without a branch.

use crate::peering::codec::DecodeError;

/// Highest bit of each byte, which states that another byte follows.
const MORE: u64 = 0x8080_8080_8080_8080;

/// Appends a number, seven bits per byte, the lowest bits first.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, value: u64) {
    if value >= 1 << 56 {
        return put_long(out, value);
    }
    let bits = 64 - (value | 1).leading_zeros();
    let length = bits.div_ceil(7);
    let more = MORE & ((1 << (8 * (length - 1))) - 1);
    // All eight bytes are appended and then truncated to the valid length, so that the store has a
    // fixed size.
    let end = out.len() + length as usize;
    out.extend_from_slice(&(spread(value) | more).to_le_bytes());
    out.truncate(end);
}

/// Spreads a number of up to 56 bits to seven bits per byte.
#[inline]
fn spread(value: u64) -> u64 {
    let value = value & 0x0fff_ffff | (value & 0x00ff_ffff_f000_0000) << 4;
    let value = value & 0x0000_3fff_0000_3fff | (value & 0x0fff_c000_0fff_c000) << 2;
    value & 0x007f_007f_007f_007f | (value & 0x3f80_3f80_3f80_3f80) << 1
}

/// Gathers seven bits from each byte to a number.
#[inline]
fn gather(word: u64) -> u64 {
    let word = word & 0x007f_007f_007f_007f | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let word = word & 0x0000_3fff_0000_3fff | (word & 0x3fff_0000_3fff_0000) >> 2;
    word & 0x0fff_ffff | (word & 0x0fff_ffff_0000_0000) >> 4
}

#[cold]
fn put_long(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number.
#[inline]
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, (value << 1 ^ value >> 63) as u64);
}

/// Decodes a number written by [`put`].
///
/// # Errors
///
/// Fails if the bytes end early or the number has more than 64 bits.
#[inline]
pub(crate) fn take(bytes: &mut &[u8]) -> Result<u64, DecodeError> {
    let Some((word, _)) = bytes.split_first_chunk() else {
        return take_slowly(bytes);
    };
    let word = u64::from_le_bytes(*word);
    let ends = !word & MORE;
    if ends == 0 {
        return take_slowly(bytes);
    }
    let last = ends.trailing_zeros();
    *bytes = &bytes[last as usize / 8 + 1..];
    Ok(gather(word & (u64::MAX >> (63 - last))))
}

/// Decodes a number that is long or close to the end of the bytes.
#[cold]
fn take_slowly(bytes: &mut &[u8]) -> Result<u64, DecodeError> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take_byte(bytes)?;
        if shift == 63 && byte > 1 {
            return Err(DecodeError);
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(DecodeError)
}

/// Returns the next byte.
///
/// # Errors
///
/// Fails if there is none.
#[inline]
pub(crate) fn take_byte(bytes: &mut &[u8]) -> Result<u8, DecodeError> {
    let (first, rest) = bytes.split_first().ok_or(DecodeError)?;
    *bytes = rest;
    Ok(*first)
}

/// Decodes a number written by [`put_signed`].
///
/// # Errors
///
/// Fails like [`take`].
#[inline]
pub(crate) fn take_signed(bytes: &mut &[u8]) -> Result<i64, DecodeError> {
    let value = take(bytes)?;
    Ok((value >> 1) as i64 ^ -((value & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns numbers close to each power of two, and the extreme values.
    fn values() -> impl Iterator<Item = u64> {
        let around = |bit: u32| {
            let one = 1u64 << bit;
            [one - 1, one, one + 1, one | 0x5555_5555_5555 & (one - 1)]
        };
        (0..64).flat_map(around).chain([0, u64::MAX])
    }

    #[test]
    fn short_and_long_ways_write_the_same_bytes() {
        for value in values() {
            let (mut fast, mut slow) = (Vec::new(), Vec::new());
            put(&mut fast, value);
            put_long(&mut slow, value);
            assert_eq!(fast, slow, "{value:#x}");
        }
    }

    #[test]
    fn a_written_varint_is_read_at_any_position() {
        for value in values() {
            for behind in 0..10 {
                let mut bytes = Vec::new();
                put(&mut bytes, value);
                let length = bytes.len();
                bytes.extend([0xff; 10].iter().take(behind));
                let mut rest = &bytes[..];
                assert_eq!(take(&mut rest), Ok(value), "{behind} bytes behind");
                assert_eq!(rest.len(), behind, "{value:#x}");
                let mut short = &bytes[..length - 1];
                assert_eq!(take(&mut short), Err(DecodeError), "{value:#x}");
            }
            let mut bytes = Vec::new();
            put_signed(&mut bytes, value as i64);
            assert_eq!(take_signed(&mut &bytes[..]), Ok(value as i64));
        }
    }

    #[test]
    fn a_number_that_does_not_end_is_none() {
        assert_eq!(take(&mut &[0xff; 20][..]), Err(DecodeError));
        let mut too_large = [0xff; 10];
        too_large[9] = 2;
        assert_eq!(take(&mut &too_large[..]), Err(DecodeError));
    }
}
