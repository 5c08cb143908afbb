//! Envelope of a message: the time of sending, the instant to act if there is one, and the payload.

use crate::{Interval, Stamp, Status, TimelineId};
use timeloom_clock::TimelineTime;
use timeloom_time::Instant;

/// Number of bytes before the payload.
pub const HEADER_BYTES: usize = 56;

const MAGIC: &[u8; 4] = b"TLMS";
const VERSION: u8 = 1;
/// Flag: the ends of the interval are present. They are 0 otherwise.
const BOUNDED: u8 = 1;
/// Flag: the instant to act is present. It is 0 otherwise.
const ACT_AT: u8 = 2;

/// Message as transmitted. It borrows its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'b> {
    /// Reading of the timeline by the sender, when it sent the message.
    pub sent: Stamp,
    /// Instant at which receivers are to act on the message; `None` if there is none.
    pub act_at: Option<Instant<TimelineTime>>,
    /// Content of the message.
    pub payload: &'b [u8],
}

/// Reason why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedEnvelope {
    /// This number of bytes is less than a header has.
    #[error("{0} bytes are too few for a message")]
    Short(usize),
    /// The bytes have another magic number or version.
    #[error("another kind or version of message")]
    Other,
    /// The status with this number is invalid, or does not permit the interval that is present.
    #[error("{0} is not a status of such a stamp")]
    Status(u8),
    /// The ends of the interval are not in order.
    #[error("an interval must satisfy earliest <= estimate <= latest")]
    Ends,
}

impl<'b> Envelope<'b> {
    /// Encodes magic number, version, flags, status and a zero byte; the timeline's id, high half
    /// first; the earliest, the estimate, the latest and the instant to act, in nanoseconds; and
    /// the payload. All numbers are big-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let interval = self.sent.interval();
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let flags = flag(interval.is_some(), BOUNDED) | flag(self.act_at.is_some(), ACT_AT);
        let TimelineId(id) = self.sent.timeline();
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.payload.len());
        bytes.extend(MAGIC);
        bytes.extend([VERSION, flags, self.sent.status() as u8, 0]);
        bytes.extend(id.to_be_bytes());
        let ends = interval.map(|it| [it.earliest(), it.estimate(), it.latest()]);
        let zero = Instant::from_ns(0);
        let act_at = self.act_at.unwrap_or(zero);
        for instant in ends.unwrap_or([zero; 3]).into_iter().chain([act_at]) {
            bytes.extend(instant.as_ns().to_be_bytes());
        }
        bytes.extend(self.payload);
        bytes
    }

    /// Decodes a message.
    ///
    /// # Errors
    /// Fails if the bytes are not a message.
    pub fn from_bytes(bytes: &'b [u8]) -> Result<Self, MalformedEnvelope> {
        let Some((header, payload)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(MalformedEnvelope::Short(bytes.len()));
        };
        let [flags, status] = [header[5], header[6]];
        if &header[..4] != MAGIC || header[4] != VERSION || flags & !(BOUNDED | ACT_AT) != 0 {
            return Err(MalformedEnvelope::Other);
        }
        let number = |at: usize| header[at..].first_chunk().copied().unwrap_or_default();
        let instant = |at: usize| Instant::from_ns(i64::from_be_bytes(number(at)));
        let half = |at: usize| u128::from(u64::from_be_bytes(number(at)));
        let id = TimelineId(half(8) << 64 | half(16));
        let known = Status::from_number(status).ok_or(MalformedEnvelope::Status(status))?;
        let sent = match flags & BOUNDED != 0 {
            false => Stamp::void(id, known),
            true if !known.may_have_interval() => return Err(MalformedEnvelope::Status(status)),
            true => Stamp::new(id, known, interval(instant(24), instant(32), instant(40))?),
        };
        Ok(Self {
            sent,
            act_at: (flags & ACT_AT != 0).then(|| instant(48)),
            payload,
        })
    }
}

/// Builds the interval with these ends. An interval of centuries is refused, because its lengths do
/// not fit the type.
fn interval(
    earliest: Instant<TimelineTime>,
    estimate: Instant<TimelineTime>,
    latest: Instant<TimelineTime>,
) -> Result<Interval<TimelineTime>, MalformedEnvelope> {
    let length = |from: Instant<TimelineTime>, to: Instant<TimelineTime>| {
        to.as_ns().checked_sub(from.as_ns())
    };
    let (below, above) = (length(earliest, estimate), length(estimate, latest));
    match (below, above) {
        (Some(0..), Some(0..)) => {
            let (below, above) = (estimate - earliest, latest - estimate);
            Ok(Interval::around(estimate, below, above))
        }
        _ => Err(MalformedEnvelope::Ends),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use timeloom_time::Duration;

    use super::*;

    fn stamp(status: Status, estimate_ns: i64, below_ns: i64, above_ns: i64) -> Stamp {
        let estimate = Instant::from_ns(estimate_ns);
        let lengths = [below_ns, above_ns].map(Duration::from_ns);
        Stamp::new(
            TimelineId(5 << 64 | 7),
            status,
            Interval::around(estimate, lengths[0], lengths[1]),
        )
    }

    /// Compares with bytes that the Python implementation wrote that preceded this crate.
    #[test]
    fn the_bytes_are_those_of_version_1() {
        let sent = stamp(Status::Ok, 2, 1, 1);
        let envelope = Envelope {
            sent,
            act_at: Some(Instant::from_ns(4)),
            payload: b"x",
        };
        let bytes = envelope.to_bytes();
        assert_eq!(&bytes[..8], b"TLMS\x01\x03\x01\x00");
        let numbers: Vec<i64> = bytes[8..56]
            .chunks(8)
            .map(|it| i64::from_be_bytes(it.try_into().expect("eight bytes")))
            .collect();
        assert_eq!(numbers, [5, 7, 1, 2, 3, 4]);
        assert_eq!(Envelope::from_bytes(&bytes), Ok(envelope));
    }

    #[test]
    fn malformed_messages_are_refused() {
        let sent = stamp(Status::Ok, 2, 1, 1);
        let envelope = Envelope {
            sent,
            act_at: None,
            payload: b"",
        };
        let good = envelope.to_bytes();
        assert_eq!(
            Envelope::from_bytes(&good[..55]),
            Err(MalformedEnvelope::Short(55))
        );
        let with = |at: usize, byte: u8| {
            let mut bad = good.clone();
            bad[at] = byte;
            Envelope::from_bytes(&bad).map(|it| it.sent)
        };
        assert_eq!(with(0, b'X'), Err(MalformedEnvelope::Other));
        assert_eq!(with(4, 2), Err(MalformedEnvelope::Other));
        assert_eq!(with(5, 4), Err(MalformedEnvelope::Other));
        assert_eq!(with(6, 99), Err(MalformedEnvelope::Status(99)));
        let disrupted = Status::Disrupted as u8;
        assert_eq!(
            with(6, disrupted),
            Err(MalformedEnvelope::Status(disrupted))
        );
        assert_eq!(
            with(24, 1),
            Err(MalformedEnvelope::Ends),
            "the earliest is the latest"
        );
        assert_eq!(
            with(24, 0x80),
            Err(MalformedEnvelope::Ends),
            "centuries before"
        );
    }

    proptest! {
        #[test]
        fn an_envelope_decodes_to_the_same(
            estimate_ns in any::<i64>(),
            below_ns in 0..i64::MAX,
            above_ns in 0..i64::MAX,
            act_at in proptest::option::of(any::<i64>()),
            payload in proptest::collection::vec(any::<u8>(), 0..40),
            bounded: bool,
        ) {
            let (below_ns, above_ns) = (
                below_ns.min(estimate_ns.saturating_sub(i64::MIN)),
                above_ns.min(i64::MAX.saturating_sub(estimate_ns)),
            );
            let sent = match bounded {
                true => stamp(Status::SourceLost, estimate_ns, below_ns, above_ns),
                false => Stamp::void(TimelineId(u128::MAX), Status::DaemonDead),
            };
            let act_at = act_at.map(Instant::from_ns);
            let envelope = Envelope { sent, act_at, payload: &payload };
            let bytes = envelope.to_bytes();
            prop_assert_eq!(Envelope::from_bytes(&bytes), Ok(envelope));
        }

        #[test]
        fn any_bytes_are_refused_or_written_back_the_same(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..90),
            ours: bool,
        ) {
            if ours && bytes.len() >= 8 {
                bytes[..4].copy_from_slice(MAGIC);
                bytes[4] = VERSION;
                bytes[5] &= BOUNDED | ACT_AT;
                bytes[6] %= 6;
            }
            if let Ok(envelope) = Envelope::from_bytes(&bytes) {
                let again = envelope.to_bytes();
                prop_assert_eq!(Envelope::from_bytes(&again), Ok(envelope));
                prop_assert_eq!(&again[HEADER_BYTES..], &bytes[HEADER_BYTES..]);
            }
        }
    }
}
