//! Validation of frames, before `tokio-modbus` receives them.
//!
//! The library trusts the frames that it receives. It waits for a length of up to 64 KiB. It panics
//! if a coil count exceeds the bytes that were sent. On an invalid quantity it closes the
//! connection, where the standard requires exception 0x03. Frames are therefore validated here, one
//! at a time, and only valid ones are passed to the library.

use tokio_modbus::ExceptionCode;

/// Length of a frame's header in bytes: transaction, protocol 0, length of the rest, and unit.
pub(crate) const HEADER: usize = 7;

/// Error: the stream is malformed from here on, and the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// Returns the length of the first frame in `bytes`; `None` if its header is not complete yet.
pub(crate) fn length(bytes: &[u8]) -> Result<Option<usize>, Broken> {
    let Some(header) = bytes.get(..6) else {
        return Ok(None);
    };
    let rest = usize::from(u16::from_be_bytes([header[4], header[5]]));
    // The rest has at least the unit and the function, and at most the unit and the longest PDU.
    if header[2..4] != [0, 0] || !(2..=1 + MAX_PDU).contains(&rest) {
        return Err(Broken);
    }
    Ok(Some(6 + rest))
}

/// Validates one whole frame. If it is well-formed but must be answered with an exception, returns
/// the exception. In that case the frame's PDU is replaced by a harmless one of the same function,
/// so that the library can send the answer.
pub(crate) fn judge(frame: &mut Vec<u8>) -> Result<Option<ExceptionCode>, Broken> {
    let pdu = &frame[HEADER..];
    let function = pdu[0];
    let word = |at: usize| u16::from_be_bytes([pdu[at], pdu[at + 1]]);
    let fixed = |length: usize| {
        if pdu.len() == length {
            Ok(())
        } else {
            Err(Broken)
        }
    };
    // Checks that the byte count at `at` equals the number of bytes that follow it.
    let counted = |at: usize| match pdu.get(at) {
        Some(count) if pdu.len() == at + 1 + usize::from(*count) => Ok(usize::from(*count)),
        _ => Err(Broken),
    };
    let good = match function {
        1 | 2 => fixed(5).map(|()| (1..=2000).contains(&word(3)))?,
        3 | 4 => fixed(5).map(|()| (1..=125).contains(&word(3)))?,
        5 => fixed(5).map(|()| matches!(word(3), 0 | 0xFF00))?,
        6 => fixed(5).map(|()| true)?,
        15 => {
            let (bytes, coils) = (counted(5)?, usize::from(word(3)));
            (1..=1968).contains(&coils) && bytes == coils.div_ceil(8)
        }
        16 => {
            let (bytes, words) = (counted(5)?, usize::from(word(3)));
            (1..=123).contains(&words) && bytes == 2 * words
        }
        22 => fixed(7).map(|()| true)?,
        23 => {
            let (bytes, words) = (counted(9)?, usize::from(word(7)));
            (1..=125).contains(&word(3)) && (1..=121).contains(&words) && bytes == 2 * words
        }
        0x80.. => return Err(Broken),
        _ => {
            // The library knows some of these functions, and rejects invalid contents. This device
            // supports none of them, so their contents do not matter.
            let idle: &[u8] = if function == 0x2B {
                &[0, 0x0E, 1, 0]
            } else {
                &[0]
            };
            replace(frame, idle, function);
            return Ok(Some(ExceptionCode::IllegalFunction));
        }
    };
    if good {
        return Ok(None);
    }
    let idle: &[u8] = match function {
        15 | 16 => &[0; 6],
        23 => &[0; 10],
        _ => &[0; 5],
    };
    replace(frame, idle, function);
    Ok(Some(ExceptionCode::IllegalDataValue))
}

fn replace(frame: &mut Vec<u8>, pdu: &[u8], function: u8) {
    frame.truncate(HEADER);
    frame.extend_from_slice(pdu);
    frame[HEADER] = function;
    let rest = u16::try_from(1 + pdu.len()).expect("a short PDU");
    frame[4..6].copy_from_slice(&rest.to_be_bytes());
}

/// Maximum length of a PDU in bytes, including the function code.
const MAX_PDU: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio_modbus::{Request, bytes::Bytes};

    fn frame(pdu: &[u8]) -> Vec<u8> {
        let mut frame = vec![0, 1, 0, 0, 0, 0, 9];
        frame.extend_from_slice(pdu);
        frame[4..6].copy_from_slice(&(1 + pdu.len() as u16).to_be_bytes());
        frame
    }

    proptest! {
        /// The library must take every valid frame as a request of the same function, without a
        /// panic.
        #[test]
        fn valid_frames_are_understood_by_the_library(
            function in prop_oneof![0u8..30, Just(0x2B), any::<u8>()],
            rest in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..252),
                // Quantities and byte counts that nearly match.
                (any::<u16>(), 0u16..2100, 0u8..255, 0usize..252).prop_map(|(at, quantity, count, bytes)| {
                    let mut rest = [at.to_be_bytes(), quantity.to_be_bytes()].concat();
                    rest.push(count);
                    rest.resize(5 + bytes.min(247), 0xA5);
                    rest
                }),
            ],
        ) {
            let mut pdu = vec![function];
            pdu.extend(rest);
            let mut frame = frame(&pdu);
            prop_assert_eq!(length(&frame), Ok(Some(frame.len())));
            if let Ok(verdict) = judge(&mut frame) {
                prop_assert_eq!(length(&frame), Ok(Some(frame.len())));
                prop_assert!(verdict.is_some() || frame[HEADER..] == pdu[..]);
                let request = Request::try_from(Bytes::from(frame[HEADER..].to_vec())).unwrap();
                prop_assert_eq!(request.function_code().value(), function);
            }
        }
    }

    #[test]
    fn verdicts_follow_the_standard() {
        let verdict = |pdu: &[u8]| judge(&mut frame(pdu));
        let value = Ok(Some(ExceptionCode::IllegalDataValue));
        assert_eq!(verdict(&[3, 0, 0, 0, 125]), Ok(None));
        assert_eq!(verdict(&[3, 0, 0, 0, 126]), value);
        assert_eq!(verdict(&[4, 0, 0, 0, 0]), value);
        assert_eq!(verdict(&[5, 0, 0, 0xFF, 0]), Ok(None));
        assert_eq!(verdict(&[5, 0, 0, 1, 0]), value);
        assert_eq!(verdict(&[15, 0, 0, 0, 9, 2, 0, 0]), Ok(None));
        assert_eq!(verdict(&[15, 0, 0, 0, 9, 1, 0]), value);
        assert_eq!(verdict(&[16, 0, 0, 0, 1, 2, 0, 7]), Ok(None));
        assert_eq!(verdict(&[16, 0, 0, 0x80, 1, 2, 0, 7]), value);
        assert_eq!(verdict(&[16, 0, 0, 0, 1, 2, 0]), Err(Broken));
        assert_eq!(verdict(&[3, 0, 0, 0, 1, 0]), Err(Broken));
        assert_eq!(verdict(&[0x83, 1]), Err(Broken));
        assert_eq!(
            verdict(&[0x2B, 13, 0]),
            Ok(Some(ExceptionCode::IllegalFunction))
        );
        assert_eq!(verdict(&[7]), Ok(Some(ExceptionCode::IllegalFunction)));
        assert_eq!(length(&[0, 1, 0, 0, 0, 1]), Err(Broken));
        assert_eq!(length(&[0, 1, 0, 0, 0, 255]), Err(Broken));
        assert_eq!(length(&[0, 1, 0, 1, 0, 6]), Err(Broken));
    }
}
