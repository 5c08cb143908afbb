//! What `timeloom ptp slave --feed` says of a Sync: one JSON object per datagram.
//!
//! Whoever can write to the socket can say it, so nothing in it is believed to
//! be sound: sizes, ranges and arithmetic are checked here, once.

use serde::Deserialize;
use timeloom_clock::Timeline;
use timeloom_time::{Duration, Instant};

/// A datagram is never longer; ours have about 300 bytes.
pub(super) const MAX_DATAGRAM: usize = 1024;

/// What a datagram comes to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Heard {
    /// Every signature was checked and nothing is wrong.
    Proved(Fact),
    /// A whole Sync, and nobody vouches for it.
    Unproven,
    /// A Sync that never was complete.
    Nothing,
}

/// A Sync that was accepted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fact {
    /// Whose Sync, as the slave names it.
    pub(super) source: String,
    /// By CLOCK_REALTIME.
    pub(super) arrival_ns: i64,
    origin_ns: i64,
    correction_ns: f64,
    path_delay_ns: f64,
    stamp_error_ns: f64,
    unvouched_ns: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "known keys that tell a bound nothing")]
struct Told {
    verdict: Verdict,
    source: String,
    sequence: u16,
    arrival_ns: Option<i64>,
    origin_ns: Option<i64>,
    correction_ns: Option<f64>,
    path_delay_ns: Option<f64>,
    offset_ns: Option<f64>,
    stamp_error_ns: f64,
    unvouched_ns: f64,
    hops: u32,
    failures: u32,
}

#[derive(PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Accepted,
    Unsigned,
    Rejected,
    Incomplete,
}

/// Reads a datagram.
pub(super) fn parse(datagram: &[u8]) -> Result<Heard, &'static str> {
    if datagram.len() > MAX_DATAGRAM {
        return Err("the feed says more than a Sync needs");
    }
    let told: Told = serde_json::from_slice(datagram)
        .map_err(|_| "the feed says something that is no Sync's record")?;
    let (Some(arrival_ns), Some(origin_ns)) = (told.arrival_ns, told.origin_ns) else {
        return Ok(Heard::Nothing);
    };
    // Under the policy `monitor` a Sync is used beside its violations; not here.
    if told.verdict != Verdict::Accepted || told.failures > 0 {
        return Ok(Heard::Unproven);
    }
    let (Some(correction_ns), Some(path_delay_ns)) = (told.correction_ns, told.path_delay_ns)
    else {
        return Err("the feed's Sync was accepted without a correction or a path delay");
    };
    let stated = [told.stamp_error_ns, told.unvouched_ns];
    let measured = [correction_ns, path_delay_ns];
    let is_sane = [arrival_ns, origin_ns]
        .iter()
        .all(|at| (0..LATEST_NS).contains(at))
        // A NaN is in no range.
        && measured.iter().all(|length| (-MOST_NS..MOST_NS).contains(length))
        && stated.iter().all(|length| (0.0..MOST_NS).contains(length));
    if !is_sane {
        return Err("the feed's Sync has lengths or instants out of range");
    }
    Ok(Heard::Proved(Fact {
        source: told.source,
        arrival_ns,
        origin_ns,
        correction_ns,
        path_delay_ns,
        stamp_error_ns: told.stamp_error_ns,
        unvouched_ns: told.unvouched_ns,
    }))
}

impl Fact {
    /// Between which instants the master's clock was when the Sync arrived.
    ///
    /// Its origin, its correction and the delay of the last link are the middle.
    /// Delays are means of both ways: at worst all of one is in this way, or
    /// none. In a correction there are delays of links, too, and which part of
    /// it that is nobody says, so that it counts whole.
    pub(super) fn master(
        &self,
        asymmetry: Option<Duration>,
        stamp_error: Option<Duration>,
    ) -> (Instant<Timeline>, Instant<Timeline>) {
        let middle_ns = self.correction_ns + self.path_delay_ns;
        let asymmetry_ns = asymmetry.map_or_else(
            || self.correction_ns.abs() + self.path_delay_ns.abs(),
            |stated| stated.as_ns() as f64,
        );
        let stamp_ns = stamp_error.map_or(self.stamp_error_ns, |stated| stated.as_ns() as f64);
        let error_ns = asymmetry_ns + stamp_ns + self.unvouched_ns;
        let at = |ns: f64| Instant::from_ns(self.origin_ns) + Duration::from_ns(ns as i64);
        (
            at((middle_ns - error_ns).floor() - ROUNDING_NS),
            at((middle_ns + error_ns).ceil() + ROUNDING_NS),
        )
    }
}

/// In the year 2242, with room above for any length here.
const LATEST_NS: i64 = i64::MAX - (1 << 59);
/// No correction is longer than 39 hours (2^47 ns), and nothing else is.
const MOST_NS: f64 = (1i64 << 47) as f64 + 1.0;
/// Fractions of the stamps themselves, and of 64-bit floats of this size.
const ROUNDING_NS: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As `timeloom ptp slave` writes it; its own test has the same line.
    const ACCEPTED: &str = r#"{"verdict":"accepted","source":"gm-1","sequence":7,"arrival_ns":1000000500,"origin_ns":1000000000,"correction_ns":300.5,"path_delay_ns":100.0,"offset_ns":99.5,"stamp_error_ns":100000.0,"unvouched_ns":4000.0,"hops":0,"failures":0}"#;

    fn fact() -> Fact {
        match parse(ACCEPTED.as_bytes()) {
            Ok(Heard::Proved(fact)) => fact,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_bound_is_the_sum_of_its_parts() {
        let (low, high) = fact().master(None, None);
        // 401 ± (401 + 100 000 + 4 000), outward.
        assert_eq!(low.as_ns(), 1_000_000_000 - 104_000 - 2);
        assert_eq!(high.as_ns(), 1_000_000_000 + 801 + 104_000 + 2);
        let (low, high) = fact().master(Some(Duration::from_ns(50)), Some(Duration::ZERO));
        assert_eq!(low.as_ns(), 1_000_000_000 + 400 - 50 - 4_000 - 2);
        assert_eq!(high.as_ns(), 1_000_000_000 + 401 + 50 + 4_000 + 2);
    }

    #[test]
    fn only_what_is_accepted_without_a_failure_is_proved() {
        for verdict in ["unsigned", "rejected", "incomplete"] {
            let told = ACCEPTED.replace("accepted", verdict);
            assert_eq!(parse(told.as_bytes()), Ok(Heard::Unproven), "{verdict}");
        }
        let failed = ACCEPTED.replace("\"failures\":0", "\"failures\":1");
        assert_eq!(parse(failed.as_bytes()), Ok(Heard::Unproven));
        let half = ACCEPTED
            .replace("accepted", "incomplete")
            .replace("\"origin_ns\":1000000000", "\"origin_ns\":null");
        assert_eq!(parse(half.as_bytes()), Ok(Heard::Nothing));
    }

    #[test]
    fn what_is_not_sound_is_refused() {
        let swapped = |from: &str, to: &str| {
            assert!(ACCEPTED.contains(from), "{from}");
            ACCEPTED.replace(from, to)
        };
        for told in [
            swapped("300.5", "1e300"),
            swapped("300.5", "-1e15"),
            swapped("300.5", "NaN"),
            swapped("300.5", "1e999"),
            swapped("300.5", "null"),
            swapped("100000.0", "-1"),
            swapped("4000.0", "-1"),
            swapped("1000000500", "-1"),
            swapped("1000000500", "9223372036854775807"),
            swapped("1000000500", "9223372036854775808"),
            swapped("\"hops\":0", "\"hops\":0,\"vouched\":true"),
            swapped("\"accepted\"", "\"trusted\""),
            swapped("gm-1", &"x".repeat(MAX_DATAGRAM)),
            swapped("}", "}{}"),
            String::new(),
        ] {
            assert!(parse(told.as_bytes()).is_err(), "{told}");
        }
    }

    proptest! {
        #[test]
        fn anything_is_parsed_and_what_is_proved_can_be_computed_with(
            at in any::<i64>(), length in any::<f64>(), other in any::<f64>(), noise in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let _ = parse(&noise);
            let told = ACCEPTED
                .replace("1000000000", &at.to_string())
                .replace("300.5", &serde_json::to_string(&length).unwrap())
                .replace("4000.0", &serde_json::to_string(&other).unwrap());
            if let Ok(Heard::Proved(fact)) = parse(told.as_bytes()) {
                let (low, high) = fact.master(None, None);
                prop_assert!(low < high);
            }
        }
    }
}
