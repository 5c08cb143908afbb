//! State that a host keeps about its link to one other host (the peer).

use timeloom_clock::TimelineTime;
use timeloom_time::{Duration, Instant};

use crate::datagram::{Datagram, Echo};
use crate::record::HostRecord;

/// Link to one peer. Times are readings of the local host's timeline, unless stated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    /// Arrival time of the last datagram from the peer.
    pub(crate) heard: Option<Instant<TimelineTime>>,
    /// Time at which the last datagram was sent to the peer.
    pub(crate) sent: Option<Instant<TimelineTime>>,
    /// Number of the newest datagram from the peer.
    pub(crate) newest: u64,
    /// Number of the newest datagram that the peer has acknowledged.
    pub(crate) acknowledged: u64,
    /// Record in the newest datagram from the peer.
    pub(crate) said: Option<HostRecord>,
    /// The peer drives the wired line, according to its newest datagram.
    pub(crate) drives: bool,
    /// The peer's last record was new, and this host has not acknowledged it yet.
    pub(crate) owes: bool,
    /// Stamp of the newest datagram by the peer's timeline, and the time of its arrival here.
    stamp: Option<(Instant<TimelineTime>, Instant<TimelineTime>)>,
    /// Estimate of the round-trip time: rises to each greater measurement at once, and falls
    /// slowly.
    round_trip: Option<Duration>,
    /// Error bound of the peer's timeline, as the peer reported it.
    uncertainty: Duration,
}

impl Link {
    /// Processes a received datagram; returns false if a newer datagram has arrived before.
    pub(crate) fn take(&mut self, datagram: &Datagram, now: Instant<TimelineTime>) -> bool {
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
                // The estimate rises at once and falls slowly.
                let slow = self.round_trip.map_or(took, |old| {
                    Duration::from_ns(old.as_ns() / 8 * 7 + took.as_ns() / 8)
                });
                self.round_trip = Some(slow.max(took));
            }
        }
        true
    }

    pub(crate) fn echo(&self, now: Instant<TimelineTime>) -> Option<Echo> {
        self.stamp.map(|(stamp, came)| Echo {
            stamp,
            kept: now - came,
        })
    }

    /// Returns the estimated round-trip time plus the error bound of the peer's timeline.
    pub(crate) fn reach(&self) -> Duration {
        let round_trip = self.round_trip.unwrap_or(Duration::from_ms(1));
        Duration::from_ns(round_trip.as_ns().saturating_add(self.uncertainty.as_ns()))
    }

    /// Returns the retransmission timeout of an unacknowledged record; at most `beat`.
    pub(crate) fn retry(&self, beat: Duration) -> Duration {
        let twice = self.round_trip.unwrap_or(beat).as_ns().saturating_mul(2);
        Duration::from_ns(twice).clamp(Duration::from_ms(1), beat)
    }
}
