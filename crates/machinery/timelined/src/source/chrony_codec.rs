//! chrony's command protocol, version 6, as far as this daemon uses it: five requests and their
//! replies. All fields are big endian. The layouts are those of `candm.h` in chrony 4.3.

use timeloom_wire::Reader;

/// Length of every request in bytes. It exceeds the length of every reply, because chronyd does not
/// answer a request that is shorter than its reply.
pub(super) const LENGTH: usize = 104;

const VERSION: u8 = 6;
const IP_ADDRESS: usize = 20;
/// Reference id that chronyd reports when its only reference is its own clock (`local`).
const OWN_CLOCK: u32 = 0x7f7f_0101;

/// Requests to chronyd. Sources are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// State of the system clock.
    Tracking,
    /// Number of sources.
    Count,
    /// State of one source: the time since its last sample.
    SourceData(u32),
    /// Statistics of the samples of one source.
    SourceStats(u32),
    /// Order to drop all measurements. chronyd accepts it by the Unix socket only.
    Reset,
}

impl Question {
    fn command(self) -> u16 {
        match self {
            Self::Tracking => 33,
            Self::Count => 14,
            Self::SourceData(_) => 15,
            Self::SourceStats(_) => 34,
            Self::Reset => 66,
        }
    }

    /// Returns the type that the reply has unless chronyd refuses the request.
    fn reply(self) -> u16 {
        match self {
            Self::Tracking => 5,
            Self::Count => 2,
            Self::SourceData(_) => 3,
            Self::SourceStats(_) => 6,
            Self::Reset => 1,
        }
    }
}

/// State of the system clock, as reported by chronyd.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tracking {
    /// True if chronyd is synchronised to a source other than its own clock.
    pub(super) synchronised: bool,
    /// Instant of the last update, in nanoseconds of UTC since 1970. chronyd reports it too early
    /// by a random value of up to a second.
    pub(super) ref_time_ns: i64,
    /// True time minus the system clock, in seconds.
    pub(super) correction_s: f64,
    /// Round-trip delay to the primary reference, in seconds.
    pub(super) root_delay_s: f64,
    /// Error in addition to half of the round-trip delay, in seconds.
    pub(super) root_dispersion_s: f64,
}

/// Samples of one source that chronyd uses, as in `chronyc sourcestats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SourceStats {
    pub(super) samples: u32,
    /// Time from the first sample to the last, in seconds, rounded to the nearest second.
    pub(super) span_s: u32,
}

/// Reason why a reply is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadReply {
    /// The packet is not a reply to this request.
    Other,
    /// chronyd refuses the request; its reply has this status code.
    Status(u16),
    /// The reply has numbers that no honest chronyd sends.
    Absurd,
}

impl core::fmt::Display for BadReply {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Other => f.write_str("not a reply to the request"),
            Self::Status(status) => write!(f, "chronyd refuses (status {status})"),
            Self::Absurd => f.write_str("chronyd sent inconsistent values"),
        }
    }
}

/// Encodes a request.
pub(super) fn request(question: Question, sequence: u32) -> [u8; LENGTH] {
    let mut packet = [0; LENGTH];
    packet[0] = VERSION;
    packet[1] = 1;
    packet[4..6].copy_from_slice(&question.command().to_be_bytes());
    packet[8..12].copy_from_slice(&sequence.to_be_bytes());
    if let Question::SourceData(source) | Question::SourceStats(source) = question {
        packet[20..24].copy_from_slice(&source.to_be_bytes());
    }
    packet
}

/// Returns the body of the reply to the request with the number `sequence`; `None` if the packet is
/// truncated.
fn body(packet: &[u8], question: Question, sequence: u32) -> Option<Result<Reader<'_>, BadReply>> {
    let mut from = Reader::new(packet);
    let (version, kind) = (from.u8().ok()?, from.u8().ok()?);
    from.take(2).ok()?;
    let (command, reply, status) = (from.u16().ok()?, from.u16().ok()?, from.u16().ok()?);
    from.take(6).ok()?;
    let of = from.u32().ok()?;
    from.take(8).ok()?;
    Some(
        if (version, kind, command, of) != (VERSION, 2, question.command(), sequence) {
            Err(BadReply::Other)
        } else if status != 0 || reply != question.reply() {
            Err(BadReply::Status(status))
        } else {
            Ok(from)
        },
    )
}

/// Decodes the body of a reply with the given function.
fn read<T>(
    packet: &[u8],
    question: Question,
    sequence: u32,
    content: impl FnOnce(Reader<'_>) -> Option<Result<T, BadReply>>,
) -> Result<T, BadReply> {
    let told = body(packet, question, sequence).ok_or(BadReply::Other)??;
    content(told).unwrap_or(Err(BadReply::Other))
}

/// Decodes the reply to [`Question::Tracking`].
///
/// # Errors
/// Fails with [`BadReply`].
pub(super) fn tracking(packet: &[u8], sequence: u32) -> Result<Tracking, BadReply> {
    read(packet, Question::Tracking, sequence, |mut from| {
        let reference = from.u32().ok()?;
        // Address and stratum.
        from.take(IP_ADDRESS + 2).ok()?;
        let leap = from.u16().ok()?;
        let (high, low, ns) = (from.u32().ok()?, from.u32().ok()?, from.u32().ok()?);
        let mut float = || from.u32().ok().map(float);
        let correction_s = float()?;
        for _ in 0..5 {
            float()?; // Last and mean offset, three frequencies.
        }
        let (root_delay_s, root_dispersion_s) = (float()?, float()?);
        float()?;
        // The high half has this value if chronyd runs on a system with 32-bit time.
        let high = if high == 0x7fff_ffff { 0 } else { high };
        let s = i64::from(high) << 32 | i64::from(low);
        let ref_time_ns = s.checked_mul(1_000_000_000)?.checked_add(i64::from(ns))?;
        let sane = correction_s.abs() < 1e9
            && (0.0..1e4).contains(&root_delay_s)
            && (0.0..1e4).contains(&root_dispersion_s);
        Some(if sane {
            Ok(Tracking {
                // Leap status 3 means unsynchronised; an update at 1970 means that there was none.
                synchronised: leap < 3 && ref_time_ns > 0 && reference != OWN_CLOCK,
                ref_time_ns,
                correction_s,
                root_delay_s,
                root_dispersion_s,
            })
        } else {
            Err(BadReply::Absurd)
        })
    })
}

/// Decodes the reply to [`Question::Count`].
///
/// # Errors
/// Fails with [`BadReply`].
pub(super) fn count(packet: &[u8], sequence: u32) -> Result<u32, BadReply> {
    read(packet, Question::Count, sequence, |mut from| {
        from.u32().ok().map(Ok)
    })
}

/// Decodes the reply to [`Question::SourceData`] and returns the whole seconds since the last
/// sample; `u32::MAX` if there was none.
///
/// # Errors
/// Fails with [`BadReply`].
pub(super) fn heard_s(packet: &[u8], sequence: u32) -> Result<u32, BadReply> {
    read(packet, Question::SourceData(0), sequence, |mut from| {
        // Address, poll, stratum, state, mode, flags and reachability.
        from.take(IP_ADDRESS + 6 * 2).ok()?;
        from.u32().ok().map(Ok)
    })
}

/// Decodes the reply to [`Question::SourceStats`].
///
/// # Errors
/// Fails with [`BadReply`].
pub(super) fn source_stats(packet: &[u8], sequence: u32) -> Result<SourceStats, BadReply> {
    read(packet, Question::SourceStats(0), sequence, |mut from| {
        from.take(4 + IP_ADDRESS).ok()?;
        let samples = from.u32().ok()?;
        from.u32().ok()?; // Runs of residuals of one sign.
        let span_s = from.u32().ok()?;
        Some(Ok(SourceStats { samples, span_s }))
    })
}

/// Decodes the reply to [`Question::Reset`].
///
/// # Errors
/// Fails with [`BadReply`].
pub(super) fn is_reset(packet: &[u8], sequence: u32) -> Result<(), BadReply> {
    read(packet, Question::Reset, sequence, |_| Some(Ok(())))
}

/// Decodes chrony's floating-point numbers: 7 bits of signed exponent, 25 of signed coefficient.
fn float(bits: u32) -> f64 {
    let exponent = (bits as i32) >> 25;
    let coefficient = ((bits << 7) as i32) >> 7;
    f64::from(coefficient) * f64::from(exponent - 25).exp2()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Encodes the reply of a chronyd to `request`, with the given body.
    pub(crate) fn reply(request: &[u8], kind: u16, status: u16, body: &[u8]) -> Vec<u8> {
        let mut packet = vec![6, 2, 0, 0];
        packet.extend(&request[4..6]);
        packet.extend(kind.to_be_bytes());
        packet.extend(status.to_be_bytes());
        packet.extend([0; 6]);
        packet.extend(&request[8..12]);
        packet.extend([0; 8]);
        packet.extend(body);
        packet
    }

    /// Encodes the body of a tracking reply. The root delay is 2^-10 s and the root dispersion
    /// 2^-12 s.
    pub(crate) fn statement(
        reference: u32,
        leap: u16,
        ref_time: (u32, u32),
        correction: u32,
    ) -> Vec<u8> {
        let mut body = reference.to_be_bytes().to_vec();
        body.extend([0; 20]);
        body.extend([0, 5]);
        body.extend(leap.to_be_bytes());
        body.extend([0, 0, 0, 0]);
        body.extend(ref_time.0.to_be_bytes());
        body.extend(ref_time.1.to_be_bytes());
        body.extend(correction.to_be_bytes());
        body.extend([0; 20]);
        // Numbers with a coefficient of 2^23.
        let scaled = |exponent: i32| (((exponent as u32) << 25) | 1 << 23).to_be_bytes();
        body.extend(scaled(-8));
        body.extend(scaled(-10));
        body.extend([0; 4]);
        body
    }

    fn told(sequence: u32, reference: u32, leap: u16) -> Vec<u8> {
        let body = statement(reference, leap, (1_700_000_000, 250), 0);
        let packet = reply(&request(Question::Tracking, sequence), 5, 0, &body);
        assert_eq!(packet.len(), LENGTH);
        packet
    }

    #[test]
    fn a_statement_is_read_by_the_letter() {
        let read = tracking(&told(9, 7, 0), 9).unwrap();
        assert!(read.synchronised);
        assert_eq!(read.ref_time_ns, 1_700_000_000_000_000_250);
        assert_eq!(read.root_delay_s, 1.0 / 1024.0);
        assert_eq!(read.root_dispersion_s, 1.0 / 4096.0);
        assert!(!tracking(&told(9, 7, 3), 9).unwrap().synchronised);
        // `local`: the clock is its own reference, and its error is unknown.
        assert!(!tracking(&told(9, OWN_CLOCK, 0), 9).unwrap().synchronised);
        assert_eq!(tracking(&told(9, 7, 0), 8), Err(BadReply::Other));
        let mut refused = told(9, 7, 0);
        refused[9] = 2;
        assert_eq!(tracking(&refused, 9), Err(BadReply::Status(2)));
        let question = request(Question::Tracking, 9);
        assert_eq!(&question[..12], [6, 1, 0, 0, 0, 33, 0, 0, 0, 0, 0, 9]);
    }

    #[test]
    fn source_statistics_are_parsed_exactly() {
        let question = request(Question::SourceStats(3), 9);
        assert_eq!(question[4..6], [0, 34]);
        assert_eq!(question[20..24], [0, 0, 0, 3]);
        let mut body = vec![0; 24];
        for word in [11u32, 4, 130, 0, 0, 0, 0, 0] {
            body.extend(word.to_be_bytes());
        }
        let read = source_stats(&reply(&question, 6, 0, &body), 9);
        let expected = SourceStats {
            samples: 11,
            span_s: 130,
        };
        assert_eq!(read, Ok(expected));

        let question = request(Question::SourceData(3), 9);
        assert_eq!(question[4..6], [0, 15]);
        let mut body = vec![0; 32];
        for word in [77u32, 0, 0, 0] {
            body.extend(word.to_be_bytes());
        }
        assert_eq!(heard_s(&reply(&question, 3, 0, &body), 9), Ok(77));
        let question = request(Question::Count, 9);
        let answer = reply(&question, 2, 0, &2u32.to_be_bytes());
        assert_eq!(count(&answer, 9), Ok(2));
        // The reply to one request is not accepted for another.
        assert_eq!(heard_s(&answer, 9), Err(BadReply::Other));
        let question = request(Question::Reset, 9);
        assert_eq!(question[4..6], [0, 66]);
        assert_eq!(is_reset(&reply(&question, 1, 0, &[]), 9), Ok(()));
        let refused = reply(&question, 1, 2, &[]);
        assert_eq!(is_reset(&refused, 9), Err(BadReply::Status(2)));
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
        fn hostile_replies_do_no_harm(
            noise in prop::collection::vec(any::<u8>(), 0..130),
            from in 20usize..104,
        ) {
            let _ = (tracking(&noise, 0), count(&noise, 0), heard_s(&noise, 0), source_stats(&noise, 0));
            let mut bent = told(9, 7, 0);
            for (byte, with) in bent[from..].iter_mut().zip(&noise) {
                *byte ^= with;
            }
            if let Ok(read) = tracking(&bent, 9) {
                prop_assert!(read.correction_s.is_finite() && read.root_delay_s >= 0.0);
                prop_assert!(read.root_dispersion_s.is_finite());
            }
            prop_assert!(tracking(&bent[..from], 9).is_err());
        }
    }
}
