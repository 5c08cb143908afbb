//! Evaluation of a Sync message reported by `timeloom ptp slave --feed`.
//!
//! Any program that can write to the socket can send such a report, so no value is trusted. This
//! module checks all ranges; later code relies on them. All arithmetic is on exact integers.

use timeloom_clock::TimelineTime;
use timeloom_time::{Duration, Instant};
use timeloom_timeline::protocol::FedSync;
use timeloom_wire::{SyncVerdict, TimeInterval};

/// Result of the evaluation of a Sync report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// Every signature was checked, and the slave found no violation.
    Authenticated(TimedSync),
    /// A complete Sync that is not authenticated.
    Unauthenticated,
    /// Report of a Sync that was never complete, for example because its Follow_Up was lost.
    Incomplete,
}

/// Authenticated Sync, with the values that determine the earliest and latest time of the master's
/// clock at the arrival of the Sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TimedSync {
    /// Sender of the Sync, as named by the slave.
    pub(super) source: String,
    /// Arrival of the Sync by CLOCK_REALTIME, in nanoseconds.
    pub(super) arrival_ns: i64,
    origin_ns: i64,
    correction: TimeInterval,
    path_delay: TimeInterval,
    stamp_error: TimeInterval,
    unvouched: TimeInterval,
}

/// Evaluates a Sync report; fails if a value is out of range.
pub(super) fn judge(sync: FedSync) -> Result<Judged, &'static str> {
    let record = &sync.record;
    let (Some(arrival), Some(origin)) = (record.arrival, record.origin) else {
        return Ok(Judged::Incomplete);
    };
    let (arrival_ns, origin_ns) = (arrival.as_ns(), origin.as_ns());
    // Under the policy `monitor` the slave uses a Sync in spite of violations. The daemon does not.
    if record.verdict != SyncVerdict::Accepted || sync.failures > 0 {
        return Ok(Judged::Unauthenticated);
    }
    let (Some(correction), Some(path_delay)) = (record.correction, record.path_delay) else {
        return Err("the feed's Sync was accepted without a correction or a path delay");
    };
    let is_sane = [arrival_ns, origin_ns]
        .iter()
        .all(|at| (0..LATEST_NS).contains(at))
        && [correction, path_delay, sync.stamp_error, sync.unvouched]
            .iter()
            .all(|length| *length != TimeInterval::TOO_BIG)
        && [sync.stamp_error, sync.unvouched]
            .iter()
            .all(|length| *length >= TimeInterval::ZERO);
    if !is_sane {
        return Err("the feed's Sync has lengths or instants out of range");
    }
    Ok(Judged::Authenticated(TimedSync {
        source: sync.source,
        arrival_ns,
        origin_ns,
        correction,
        path_delay,
        stamp_error: sync.stamp_error,
        unvouched: sync.unvouched,
    }))
}

impl TimedSync {
    /// Returns the earliest and latest time of the master's clock at the arrival of the Sync.
    ///
    /// The middle of the two is the origin timestamp plus the correction and the delay of the last
    /// link. A link delay is the mean of both directions: at worst all of the round trip is in this
    /// direction, or none of it. A correction also contains delays of links, in an unknown
    /// proportion, so all of it counts as possible error.
    pub(super) fn master(
        &self,
        asymmetry: Option<Duration>,
        stamp_error: Option<Duration>,
    ) -> (Instant<TimelineTime>, Instant<TimelineTime>) {
        // In units of 2^-16 ns. These are sums of a few 64-bit numbers, which cannot overflow 128
        // bits.
        let scaled = |length: TimeInterval| i128::from(length.0);
        let stated = |length: Duration| i128::from(length.as_ns()) << 16;
        let (correction, path_delay) = (scaled(self.correction), scaled(self.path_delay));
        let middle = correction + path_delay;
        let error = asymmetry.map_or(correction.abs() + path_delay.abs(), stated)
            + stamp_error.map_or(scaled(self.stamp_error), stated)
            + scaled(self.unvouched);
        let at = |length_ns: i128| {
            let ns = i128::from(self.origin_ns) + length_ns;
            let within = ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
            Instant::from_ns(within as i64)
        };
        // Rounded outward: an arithmetic shift rounds down.
        let earliest_ns = (middle - error) >> 16;
        let latest_ns = -(-(middle + error) >> 16);
        (at(earliest_ns - STAMPS_NS), at(latest_ns + STAMPS_NS))
    }
}

/// Largest origin that is accepted, in the year 2242. Adding any duration used here cannot
/// overflow.
const LATEST_NS: i64 = i64::MAX - (1 << 59);
/// Rounding of the two timestamps to whole nanoseconds.
const STAMPS_NS: i128 = 2;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use timeloom_wire::{Stamp, SyncRecord, Timestamp};

    use super::*;

    fn accepted() -> FedSync {
        let ns = TimeInterval::from_ns;
        FedSync {
            source: "gm-1".to_owned(),
            record: SyncRecord {
                sequence: 7,
                arrival: Some(Stamp::from_ns(1_000_000_500)),
                origin: Some(Timestamp::from_ns(1_000_000_000)),
                correction: Some(TimeInterval((300 << 16) + (1 << 15))),
                path_delay: Some(ns(100)),
                offset: Some(TimeInterval((99 << 16) + (1 << 15))),
                verdict: SyncVerdict::Accepted,
            },
            stamp_error: ns(100_000),
            unvouched: ns(4_000),
            hops: 0,
            failures: 0,
        }
    }

    #[test]
    fn the_bound_is_the_sum_of_its_parts() {
        let Ok(Judged::Authenticated(measured)) = judge(accepted()) else {
            panic!("accepted");
        };
        let (low, high) = measured.master(None, None);
        // 400.5 ± (400.5 + 100 000 + 4 000), rounded outward.
        assert_eq!(low.as_ns(), 1_000_000_000 - 104_000 - 2);
        assert_eq!(high.as_ns(), 1_000_000_000 + 801 + 104_000 + 2);
        let (low, high) = measured.master(Some(Duration::from_ns(50)), Some(Duration::ZERO));
        assert_eq!(low.as_ns(), 1_000_000_000 + 400 - 50 - 4_000 - 2);
        assert_eq!(high.as_ns(), 1_000_000_000 + 401 + 50 + 4_000 + 2);
    }

    #[test]
    fn only_syncs_accepted_without_a_failure_are_authenticated() {
        for verdict in SyncVerdict::ALL {
            let mut sync = accepted();
            sync.record.verdict = verdict;
            let judged = judge(sync);
            let is_authenticated = matches!(judged, Ok(Judged::Authenticated(_)));
            assert_eq!(is_authenticated, verdict == SyncVerdict::Accepted);
            assert!(is_authenticated || judged == Ok(Judged::Unauthenticated));
        }
        let failed = FedSync {
            failures: 1,
            ..accepted()
        };
        assert_eq!(judge(failed), Ok(Judged::Unauthenticated));
        let mut half = accepted();
        half.record.verdict = SyncVerdict::Incomplete;
        half.record.origin = None;
        assert_eq!(judge(half), Ok(Judged::Incomplete));
    }

    #[test]
    fn unsound_syncs_are_refused() {
        let spoilt: [fn(&mut FedSync); 8] = [
            |sync| sync.record.correction = None,
            |sync| sync.record.path_delay = None,
            |sync| sync.record.correction = Some(TimeInterval::TOO_BIG),
            |sync| sync.stamp_error = TimeInterval::TOO_BIG,
            |sync| sync.record.arrival = Some(Stamp::from_ns(-1)),
            |sync| sync.record.origin = Some(Timestamp::from_ns(i64::MAX)),
            |sync| sync.stamp_error = TimeInterval::from_ns(-1),
            |sync| sync.unvouched = TimeInterval::from_ns(-1),
        ];
        for spoil in spoilt {
            let mut sync = accepted();
            spoil(&mut sync);
            assert!(judge(sync.clone()).is_err(), "{sync:?}");
        }
    }

    proptest! {
        #[test]
        fn every_authenticated_sync_gives_an_interval(
            at in any::<i64>(), lengths in any::<[i64; 4]>(), asymmetry in any::<Option<i64>>(),
        ) {
            let [correction, path_delay, stamp_error, unvouched] = lengths.map(TimeInterval);
            let mut sync = FedSync { stamp_error, unvouched, ..accepted() };
            sync.record.origin = Some(Timestamp::from_ns(at));
            sync.record.correction = Some(correction);
            sync.record.path_delay = Some(path_delay);
            if let Ok(Judged::Authenticated(measured)) = judge(sync) {
                let stated = asymmetry.map(|ns| Duration::from_ns(ns.saturating_abs()));
                let (low, high) = measured.master(stated, None);
                prop_assert!(low < high);
            }
        }
    }
}
