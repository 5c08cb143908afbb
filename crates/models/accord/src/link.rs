//! What a host knows of its way to one other host.

use timeloom_clock::Timeline;
use timeloom_time::{Duration, Instant};

use crate::datagram::{Datagram, Echo};
use crate::record::Record;

/// The way to one other host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    /// When something came last.
    pub(crate) heard: Option<Instant<Timeline>>,
    /// When something went last.
    pub(crate) sent: Option<Instant<Timeline>>,
    /// The number of the newest datagram that came.
    pub(crate) newest: u64,
    /// The number of the newest datagram that is known to have arrived there.
    pub(crate) acknowledged: u64,
    /// What it said last.
    pub(crate) said: Option<Record>,
    /// It drives the wired line, as it said last.
    pub(crate) drives: bool,
    /// Its record was news and has not been acknowledged yet.
    pub(crate) owes: bool,
    /// What it said when it sent last, and when that came.
    stamp: Option<(Instant<Timeline>, Instant<Timeline>)>,
    /// There and back, no less than was needed lately.
    round_trip: Option<Duration>,
    /// How wrong its timeline may be.
    uncertainty: Duration,
}

impl Link {
    /// Takes a datagram that came; `false` when a newer one came before.
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
                // Up at once, down slowly.
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

    /// How long a message may take, and how far its timeline may be off.
    pub(crate) fn reach(&self) -> Duration {
        let round_trip = self.round_trip.unwrap_or(Duration::from_ms(1));
        Duration::from_ns(round_trip.as_ns().saturating_add(self.uncertainty.as_ns()))
    }

    /// After how long a record that was not acknowledged is sent again.
    pub(crate) fn retry(&self, beat: Duration) -> Duration {
        let twice = self.round_trip.unwrap_or(beat).as_ns().saturating_mul(2);
        Duration::from_ns(twice).clamp(Duration::from_ms(1), beat)
    }
}
