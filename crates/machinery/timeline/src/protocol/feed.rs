//! Reports that a PTP slave sends to a timeline's daemon, one JSON object per datagram and Sync
//! message.
//!
//! The daemon creates a datagram socket for its source of type `ptp`, and `timeloom ptp slave
//! --feed` sends to it (`docs/ptp.md` lists the fields). Both programs use the definition in this
//! module.
//!
//! Decoding checks only the form. Any program that can write to the socket can send any values, so
//! the reader has to judge them.

use serde::{Deserialize, Serialize};
use timeloom_wire::{Stamp, SyncRecord, TimeInterval, Timestamp};

use crate::protocol::Nanoseconds;

/// Maximum length of a datagram in bytes. The datagrams of `timeloom ptp slave` have about 300
/// bytes.
pub const MOST_FEED_BYTES: usize = 1024;

/// Maximum length of a master's name in bytes. Longer names are truncated.
pub const MOST_NAME_BYTES: usize = 128;

/// Sync message as judged by the slave, and the error bounds that the slave promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FedSync {
    /// Name of the master that sent the Sync, as given by the slave.
    pub source: String,
    /// Measurement and verdict of the slave. The arrival is a reading of CLOCK_REALTIME.
    pub record: SyncRecord,
    /// Maximum deviation of one message's delay from the measured delay that the slave would not
    /// detect.
    pub stamp_error: TimeInterval,
    /// Largest part of the correction that no hop has to guarantee, under the slave's policy.
    pub unvouched: TimeInterval,
    /// Number of hops that guarantee a part of the correction.
    pub hops: u32,
    /// Number of violations that the slave found in this Sync.
    pub failures: u32,
}

/// Reason why a datagram is not a valid report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// The datagram is longer than [`MOST_FEED_BYTES`].
    #[error("the feed's datagram is longer than a record of a Sync")]
    TooLong,
    /// The datagram is not one JSON object with exactly the fields of a [`FedSync`].
    #[error("the feed's datagram is not a record of a Sync")]
    Malformed,
    /// The origin is before the epoch or beyond the range of nanoseconds, which no message can
    /// carry.
    #[error("the origin of the feed's Sync is outside the range of a PTP message")]
    Origin,
}

/// JSON form of a [`FedSync`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    verdict: String,
    source: String,
    sequence: u16,
    arrival_ns: Option<i64>,
    origin_ns: Option<i64>,
    correction_ns: Option<Nanoseconds>,
    path_delay_ns: Option<Nanoseconds>,
    offset_ns: Option<Nanoseconds>,
    stamp_error_ns: Nanoseconds,
    unvouched_ns: Nanoseconds,
    hops: u32,
    failures: u32,
}

impl FedSync {
    /// Encodes the datagram. A name longer than [`MOST_NAME_BYTES`] is truncated.
    pub fn encode(&self) -> Vec<u8> {
        let record = &self.record;
        let cut = self.source.floor_char_boundary(MOST_NAME_BYTES);
        let text = Text {
            verdict: record.verdict.to_string(),
            source: self.source[..cut].to_owned(),
            sequence: record.sequence,
            arrival_ns: record.arrival.map(Stamp::as_ns),
            origin_ns: record.origin.map(Timestamp::as_ns),
            correction_ns: record.correction.map(Nanoseconds),
            path_delay_ns: record.path_delay.map(Nanoseconds),
            offset_ns: record.offset.map(Nanoseconds),
            stamp_error_ns: Nanoseconds(self.stamp_error),
            unvouched_ns: Nanoseconds(self.unvouched),
            hops: self.hops,
            failures: self.failures,
        };
        serde_json::to_vec(&text).expect("plain data with text keys")
    }

    /// Decodes a datagram.
    ///
    /// # Errors
    /// Fails if the datagram is too long, has another form, or has an invalid instant.
    pub fn decode(datagram: &[u8]) -> Result<Self, FeedError> {
        if datagram.len() > MOST_FEED_BYTES {
            return Err(FeedError::TooLong);
        }
        let text: Text = serde_json::from_slice(datagram).map_err(|_| FeedError::Malformed)?;
        let exact = |length: Option<Nanoseconds>| length.map(|length| length.0);
        Ok(Self {
            source: text.source,
            record: SyncRecord {
                sequence: text.sequence,
                arrival: text.arrival_ns.map(Stamp::from_ns),
                origin: text.origin_ns.map(origin).transpose()?,
                correction: exact(text.correction_ns),
                path_delay: exact(text.path_delay_ns),
                offset: exact(text.offset_ns),
                verdict: text.verdict.parse().map_err(|_| FeedError::Malformed)?,
            },
            stamp_error: text.stamp_error_ns.0,
            unvouched: text.unvouched_ns.0,
            hops: text.hops,
            failures: text.failures,
        })
    }
}

/// Converts an origin timestamp; fails if encoding the result would not give the same value.
fn origin(ns: i64) -> Result<Timestamp, FeedError> {
    let at = Timestamp::from_ns(ns);
    if at.as_ns() == ns {
        Ok(at)
    } else {
        Err(FeedError::Origin)
    }
}

#[cfg(test)]
mod tests {
    use proptest::option;
    use proptest::prelude::*;

    use timeloom_wire::SyncVerdict;

    use super::*;

    /// Largest number of nanoseconds that a timestamp converts without saturation.
    const LAST_WHOLE_NS: i64 = 9_223_372_036_000_000_000 - 1;

    fn length() -> impl Strategy<Value = TimeInterval> {
        any::<i64>().prop_map(TimeInterval)
    }

    fn fed_sync() -> impl Strategy<Value = FedSync> {
        let instants = (option::of(any::<i64>()), option::of(0..=LAST_WHOLE_NS));
        let measured = [
            option::of(length()),
            option::of(length()),
            option::of(length()),
        ];
        let counts = (any::<u16>(), any::<u32>(), any::<u32>());
        (
            prop::sample::select(&SyncVerdict::ALL[..]),
            "\\PC{0,32}",
            instants,
            measured,
            [length(), length()],
            counts,
        )
            .prop_map(
                |(verdict, source, instants, measured, stated, counts)| FedSync {
                    source,
                    record: SyncRecord {
                        sequence: counts.0,
                        arrival: instants.0.map(Stamp::from_ns),
                        origin: instants.1.map(Timestamp::from_ns),
                        correction: measured[0],
                        path_delay: measured[1],
                        offset: measured[2],
                        verdict,
                    },
                    stamp_error: stated[0],
                    unvouched: stated[1],
                    hops: counts.1,
                    failures: counts.2,
                },
            )
    }

    proptest! {
        #[test]
        fn encoded_syncs_decode_to_the_last_bit(sync in fed_sync()) {
            let datagram = sync.encode();
            prop_assert!(datagram.len() <= MOST_FEED_BYTES);
            prop_assert_eq!(FedSync::decode(&datagram), Ok(sync));
        }

        #[test]
        fn noise_is_refused_and_breaks_nothing(noise in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(FedSync::decode(&noise).is_err());
        }
    }

    #[test]
    fn a_datagram_looks_as_documented() {
        let text = r#"{"verdict":"accepted","source":"gm-1","sequence":7,"arrival_ns":1000000500,"origin_ns":1000000000,"correction_ns":300.5,"path_delay_ns":100.0,"offset_ns":99.5,"stamp_error_ns":100000.0,"unvouched_ns":4000.0,"hops":0,"failures":0}"#;
        let sync = FedSync::decode(text.as_bytes()).unwrap();
        assert_eq!(
            sync.record.correction,
            Some(TimeInterval((300 << 16) + (1 << 15)))
        );
        assert_eq!(String::from_utf8(sync.encode()).unwrap(), text);
        for (from, to) in [
            ("300.5", "1e300"),
            ("300.5", "NaN"),
            ("300.5", "\"300.5\""),
            ("300.5", "300.3"),
            ("300.5", "-1000000000000000.0"),
            ("1000000500", "9223372036854775808"),
            ("\"hops\":0", "\"hops\":0,\"vouched\":true"),
            ("\"accepted\"", "\"trusted\""),
            ("}", "}{}"),
        ] {
            assert!(text.contains(from), "{from}");
            let other = text.replace(from, to);
            let decoded = FedSync::decode(other.as_bytes());
            assert_eq!(decoded, Err(FeedError::Malformed), "{other}");
        }
        for origin in ["-1", "9223372036000000000"] {
            let other = text.replace(
                "\"origin_ns\":1000000000",
                &format!("\"origin_ns\":{origin}"),
            );
            assert_eq!(FedSync::decode(other.as_bytes()), Err(FeedError::Origin));
        }
        let long = text.replace("gm-1", &"x".repeat(MOST_FEED_BYTES));
        assert_eq!(FedSync::decode(long.as_bytes()), Err(FeedError::TooLong));
    }
}
