//! The best master clock algorithm (IEEE 1588-2008, 9.3).

use std::cmp::Ordering;

use timeloom_wire::message::Announce;
use timeloom_wire::{ClockIdentity, ClockQuality, PortIdentity};

/// Data set by which the algorithm compares two clocks (figures 27 and 28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dataset {
    /// Compared first; the lower value is better.
    pub priority1: u8,
    /// Class, accuracy and variance of the grandmaster's clock, compared after `priority1`.
    pub quality: ClockQuality,
    /// Compared after the quality and before the identity; the lower value is better.
    pub priority2: u8,
    /// Identity of the grandmaster.
    pub grandmaster: ClockIdentity,
    /// Number of boundary clocks between the grandmaster and the receiver.
    pub steps_removed: u16,
    /// Port that sent the Announce.
    pub sender: PortIdentity,
    /// Port that received the Announce.
    pub receiver: PortIdentity,
}

impl Dataset {
    /// Creates a data set from an Announce of `sender` received by `receiver`.
    pub const fn from_announce(
        announce: &Announce,
        sender: PortIdentity,
        receiver: PortIdentity,
    ) -> Self {
        Self {
            priority1: announce.grandmaster_priority1,
            quality: announce.grandmaster_quality,
            priority2: announce.grandmaster_priority2,
            grandmaster: announce.grandmaster,
            steps_removed: announce.steps_removed,
            sender,
            receiver,
        }
    }

    /// Compares two data sets; `Less` means that `self` is better. Data sets of different
    /// grandmasters are compared by quality, those of the same grandmaster by the path to it.
    pub fn compare(&self, other: &Self) -> Ordering {
        if self.grandmaster != other.grandmaster {
            let key = |d: &Self| (d.priority1, d.quality, d.priority2, d.grandmaster);
            return key(self).cmp(&key(other));
        }
        self.steps_removed
            .cmp(&other.steps_removed)
            .then(self.sender.cmp(&other.sender))
            .then(self.receiver.port.cmp(&other.receiver.port))
    }
}

/// State that the algorithm recommends for an ordinary clock (figure 26, for one port).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// Keep listening: there is no master to follow, and this clock cannot be one.
    Listen,
    /// Become master.
    Master,
    /// Follow this master.
    Slave(Dataset),
    /// Be neither master nor slave: this clock has class 1 to 127, and a better clock of such a
    /// class is master.
    Passive,
}

impl Preference {
    /// Decides the state from this clock's own data set and the best data set of other clocks.
    pub fn decide(own: &Dataset, best: Option<&Dataset>, slave_only: bool) -> Self {
        match best {
            None if slave_only => Self::Listen,
            None => Self::Master,
            Some(best) if slave_only => Self::Slave(*best),
            Some(best) => match (own.compare(best), own.quality.class) {
                (Ordering::Less, _) => Self::Master,
                (_, 1..=127) => Self::Passive,
                _ => Self::Slave(*best),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(priority1: u8, class: u8, last: u8) -> Dataset {
        let grandmaster = ClockIdentity([0, 0, 0, 0, 0, 0, 0, last]);
        Dataset {
            priority1,
            quality: ClockQuality {
                class,
                ..ClockQuality::default()
            },
            priority2: 128,
            grandmaster,
            steps_removed: 0,
            sender: PortIdentity {
                clock: grandmaster,
                port: 1,
            },
            receiver: PortIdentity::default(),
        }
    }

    #[test]
    fn the_words_are_compared_in_their_order() {
        let ordered = [
            clock(1, 248, 9),
            clock(2, 6, 8),
            clock(2, 7, 1),
            clock(2, 7, 2),
        ];
        for pair in ordered.windows(2) {
            assert_eq!(pair[0].compare(&pair[1]), Ordering::Less);
            assert_eq!(pair[1].compare(&pair[0]), Ordering::Greater);
        }
        let far = Dataset {
            steps_removed: 3,
            ..ordered[0]
        };
        assert_eq!(ordered[0].compare(&far), Ordering::Less);
    }

    #[test]
    fn decisions_are_those_of_figure_26() {
        let (good, bad) = (clock(1, 248, 1), clock(2, 248, 2));
        assert_eq!(
            Preference::decide(&good, Some(&bad), false),
            Preference::Master
        );
        assert_eq!(
            Preference::decide(&bad, Some(&good), false),
            Preference::Slave(good)
        );
        assert_eq!(
            Preference::decide(&clock(2, 6, 3), Some(&good), false),
            Preference::Passive
        );
        assert_eq!(Preference::decide(&good, None, true), Preference::Listen);
        assert_eq!(
            Preference::decide(&good, Some(&bad), true),
            Preference::Slave(bad)
        );
    }
}
