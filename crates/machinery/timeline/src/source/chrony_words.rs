//! chrony's command protocol, version 6, as far as it is needed: one request
//! (tracking) and its reply. Big endian.

use timeloom_wire::Reader;

/// Both ways; a shorter request gets no answer.
pub(super) const LENGTH: usize = 104;

const VERSION: u8 = 6;
const REQUEST_TRACKING: u16 = 33;
const REPLY_TRACKING: u16 = 5;

/// What chronyd says of the system clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tracking {
    /// Whether it is in step with a source.
    pub(super) synchronised: bool,
    /// Its last update, in nanoseconds of UTC since 1970.
    pub(super) ref_time_ns: i64,
    /// True time less what the system clock shows, in seconds.
    pub(super) correction_s: f64,
    /// Round trip to the primary reference, in seconds.
    pub(super) root_delay_s: f64,
    /// Error beyond that, in seconds.
    pub(super) root_dispersion_s: f64,
}

/// Why a reply tells nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadReply {
    /// Not a reply to this request.
    Other,
    /// chronyd refuses; its status.
    Status(u16),
    /// Numbers that no honest chronyd sends.
    Absurd,
}

impl core::fmt::Display for BadReply {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Other => f.write_str("no reply to what was asked"),
            Self::Status(status) => write!(f, "chronyd refuses (status {status})"),
            Self::Absurd => f.write_str("chronyd's numbers make no sense"),
        }
    }
}

/// A request for tracking.
pub(super) fn request(sequence: u32) -> [u8; LENGTH] {
    let mut packet = [0; LENGTH];
    packet[0] = VERSION;
    packet[1] = 1;
    packet[4..6].copy_from_slice(&REQUEST_TRACKING.to_be_bytes());
    packet[8..12].copy_from_slice(&sequence.to_be_bytes());
    packet
}

/// Reads a reply to the request with this number.
///
/// # Errors
/// [`BadReply`].
pub(super) fn parse(packet: &[u8], sequence: u32) -> Result<Tracking, BadReply> {
    let read = |packet| -> Option<Result<Tracking, BadReply>> {
        let mut from = Reader::new(packet);
        let (version, kind) = (from.u8().ok()?, from.u8().ok()?);
        from.take(2).ok()?;
        let (command, reply, status) = (from.u16().ok()?, from.u16().ok()?, from.u16().ok()?);
        from.take(6).ok()?;
        let of = from.u32().ok()?;
        from.take(8).ok()?;
        if (version, kind, command, of) != (VERSION, 2, REQUEST_TRACKING, sequence) {
            return Some(Err(BadReply::Other));
        }
        if status != 0 || reply != REPLY_TRACKING {
            return Some(Err(BadReply::Status(status)));
        }
        // Reference's id, address and its family, stratum.
        from.take(4 + 16 + 2 + 2 + 2).ok()?;
        let leap = from.u16().ok()?;
        let (high, low, ns) = (from.u32().ok()?, from.u32().ok()?, from.u32().ok()?);
        let mut float = || from.u32().ok().map(float);
        let correction_s = float()?;
        for _ in 0..5 {
            float()?; // Last and mean offset, three frequencies.
        }
        let (root_delay_s, root_dispersion_s) = (float()?, float()?);
        float()?;
        // The high half has this value where chronyd's clock has 32 bits only.
        let high = if high == 0x7fff_ffff { 0 } else { high };
        let s = i64::from(high) << 32 | i64::from(low);
        let ref_time_ns = s.checked_mul(1_000_000_000)?.checked_add(i64::from(ns))?;
        let sane = correction_s.abs() < 1e9
            && (0.0..1e4).contains(&root_delay_s)
            && (0.0..1e4).contains(&root_dispersion_s);
        Some(if sane {
            Ok(Tracking {
                // 3 is "alarm"; an update at 1970 is none.
                synchronised: leap < 3 && ref_time_ns > 0,
                ref_time_ns,
                correction_s,
                root_delay_s,
                root_dispersion_s,
            })
        } else {
            Err(BadReply::Absurd)
        })
    };
    read(packet).unwrap_or(Err(BadReply::Other))
}

/// chrony's floating-point numbers: 7 bits of signed exponent, 25 of signed
/// coefficient.
fn float(bits: u32) -> f64 {
    let exponent = (bits as i32) >> 25;
    let coefficient = ((bits << 7) as i32) >> 7;
    f64::from(coefficient) * f64::from(exponent - 25).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A reply, put together field by field.
    fn reply(sequence: u32, leap: u16, correction: u32) -> Vec<u8> {
        let mut packet = vec![6, 2, 0, 0, 0, 33, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0];
        packet.extend(sequence.to_be_bytes());
        packet.extend([0; 8]);
        packet.extend([0; 22]);
        packet.extend([0; 2]);
        packet.extend([0, 5]); // padding, stratum
        packet.truncate(52);
        packet.extend([0, 5]);
        packet.extend(leap.to_be_bytes());
        packet.extend([0, 0, 0, 0]);
        packet.extend(1_700_000_000u32.to_be_bytes());
        packet.extend(250u32.to_be_bytes());
        packet.extend(correction.to_be_bytes());
        packet.extend([0; 20]);
        // 2^-10 and 2^-12 s, with a coefficient of 2^23.
        let scaled = |exponent: i32| (((exponent as u32) << 25) | 1 << 23).to_be_bytes();
        packet.extend(scaled(-8));
        packet.extend(scaled(-10));
        packet.extend([0; 4]);
        assert_eq!(packet.len(), LENGTH);
        packet
    }

    #[test]
    fn a_reply_is_read_by_the_letter() {
        let tracking = parse(&reply(9, 0, 0), 9).unwrap();
        assert!(tracking.synchronised);
        assert_eq!(tracking.ref_time_ns, 1_700_000_000_000_000_250);
        assert_eq!(tracking.root_delay_s, 1.0 / 1024.0);
        assert_eq!(tracking.root_dispersion_s, 1.0 / 4096.0);
        assert!(!parse(&reply(9, 3, 0), 9).unwrap().synchronised);
        assert_eq!(parse(&reply(9, 0, 0), 8), Err(BadReply::Other));
        let mut refused = reply(9, 0, 0);
        refused[9] = 2;
        assert_eq!(parse(&refused, 9), Err(BadReply::Status(2)));
        assert_eq!(&request(9)[..12], [6, 1, 0, 0, 0, 33, 0, 0, 0, 0, 0, 9]);
    }

    #[test]
    fn numbers_have_a_sign_in_both_parts() {
        assert_eq!(float(0), 0.0);
        assert_eq!(float(1 << 25 | 1 << 23), 0.5);
        assert_eq!(float(1 << 25 | (0x1ff_ffff & -(1i32 << 23) as u32)), -0.5);
        assert_eq!(float((-3i32 as u32) << 25 | 1 << 23), 0.25 / 8.0);
    }

    proptest! {
        #[test]
        fn hostile_replies_do_no_harm(noise in prop::collection::vec(any::<u8>(), 0..130), from in 20usize..104) {
            let _ = parse(&noise, 0);
            let mut bent = reply(9, 0, 0);
            for (byte, with) in bent[from..].iter_mut().zip(&noise) {
                *byte ^= with;
            }
            if let Ok(tracking) = parse(&bent, 9) {
                prop_assert!(tracking.correction_s.is_finite() && tracking.root_delay_s >= 0.0);
                prop_assert!(tracking.root_dispersion_s.is_finite());
            }
            prop_assert!(parse(&bent[..from], 9).is_err());
        }
    }
}
