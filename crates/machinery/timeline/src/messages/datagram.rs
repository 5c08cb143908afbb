//! Encoding of a message and its key as a datagram.

/// Magic number. A datagram begins with it, the version, a zero byte, and the length of the key,
/// big-endian.
const MAGIC: &[u8; 4] = b"TLMD";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 8;

/// Maximum payload of a UDP datagram over IPv4, in bytes.
pub(crate) const MOST_BYTES: usize = 65_507;

/// Encodes a message that is sent under the key `name`.
pub(crate) fn write(name: &str, message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + name.len() + message.len());
    bytes.extend(MAGIC);
    bytes.extend([VERSION, 0]);
    // The length fits, because a key and a prefix have at most `key::MOST_BYTES` each.
    bytes.extend((name.len() as u16).to_be_bytes());
    bytes.extend(name.as_bytes());
    bytes.extend(message);
    bytes
}

/// Decodes the key and the message; `None` if the bytes do not have this form.
pub(crate) fn read(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    if &header[..4] != MAGIC || header[4..6] != [VERSION, 0] {
        return None;
    }
    let length = u16::from_be_bytes([header[6], header[7]]);
    let (name, message) = rest.split_at_checked(length.into())?;
    Some((std::str::from_utf8(name).ok()?, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_decodes_to_the_same_and_a_part_is_refused() {
        let whole = write("run/valve", b"open");
        assert_eq!(read(&whole), Some(("run/valve", &b"open"[..])));
        for cut in 0..HEADER_BYTES + "run/valve".len() {
            assert_eq!(read(&whole[..cut]), None, "{cut} bytes");
        }
        for at in 0..6 {
            let mut bad = whole.clone();
            bad[at] ^= 1;
            assert_eq!(read(&bad), None, "byte {at}");
        }
        let mut no_text = whole;
        no_text[HEADER_BYTES] = 0xFF;
        assert_eq!(read(&no_text), None);
    }
}
