//! A host's state of its link to one other host.

use timeloom_clock::Timeline;
use timeloom_time::{Duration, Instant};

use crate::datagram::{Datagram, Echo};
use crate::record::Record;

/// Link to one other host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    /// Time of the last datagram received.
    pub(crate) heard: Option<Instant<Timeline>>,
    /// Time of the last datagram sent.
    pub(crate) sent: Option<Instant<Timeline>>,
    /// Number of the newest datagram received.
    pub(crate) newest: u64,
    /// Number of the newest datagram known to have arrived there.
    pub(crate) acknowledged: u64,
    /// Last record received.
    pub(crate) said: Option<Record>,
    /// The peer drives the wired line, by its last datagram.
    pub(crate) drives: bool,
    /// The last record was new and has not been acknowledged yet.
    pub(crate) owes: bool,
    /// Stamp of the last datagram, and its time of arrival.
    stamp: Option<(Instant<Timeline>, Instant<Timeline>)>,
    /// Round-trip time, no less than recently measured.
    round_trip: Option<Duration>,
    /// Error bound of the peer's timeline.
    uncertainty: Duration,
}

impl Link {
    /// Processes a received datagram; returns `false` if a newer one came before.
    pub(crate) fn take(&mut self, datagram: &Datagram, now: Instant<Timeline>) -> bool {
        if datagram.number <= self.newest {
            return false;
        }
        self.newest = datagram.number;
        self.owes |= self.said != Some(datagram.record) || self.drives != datagram.drives;
        self.drives = datagram.drives;
        self.said = Some(datagram.record);
        self.acknowledged = self.acknowledged.max(datagram.acknowledges);
        self.heard = Some(now);
        self.stamp = Some((datagram.stamp, now));
        self.uncertainty = datagram.uncertainty;
        if let Some(echo) = datagram.echo {
            let took = now - echo.stamp - echo.kept;
            if !took.is_negative() {
                // Rises at once, falls slowly.
                let slow = self.round_trip.map_or(took, |old| {
                    Duration::from_ns(old.as_ns() / 8 * 7 + took.as_ns() / 8)
                });
                self.round_trip = Some(slow.max(took));
            }
        }
        true
    }

    pub(crate) fn echo(&self, now: Instant<Timeline>) -> Option<Echo> {
        self.stamp.map(|(stamp, came)| Echo {
            stamp,
            kept: now - came,
        })
    }

    /// Returns the round-trip time plus the error bound of the peer's timeline.
    pub(crate) fn reach(&self) -> Duration {
        let round_trip = self.round_trip.unwrap_or(Duration::from_ms(1));
        Duration::from_ns(round_trip.as_ns().saturating_add(self.uncertainty.as_ns()))
    }

    /// Returns the retransmission timeout of a record that was not acknowledged.
    pub(crate) fn retry(&self, beat: Duration) -> Duration {
        let twice = self.round_trip.unwrap_or(beat).as_ns().saturating_mul(2);
        Duration::from_ns(twice).clamp(Duration::from_ms(1), beat)
    }
}
