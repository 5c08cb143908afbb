//! Adjustment of the clock from samples: offset, check for jumps, servo.

use timeloom_time::Duration;
use timeloom_wire::{PortIdentity, TimeInterval, Timestamp};

use super::super::OrdinaryConfig;
use super::matching::Arrived;
use crate::outbox::Outbox;
use crate::security::DelayWatch;
use crate::{ClockReport, DriverAction, PiServo, ServoOutput, Stamp};

/// Measurement of one Sync, complete with its Follow_Up.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Sample {
    pub(super) sequence: u16,
    pub(super) arrived: Stamp,
    pub(super) origin: Timestamp,
    pub(super) correction: TimeInterval,
    /// Arrival − (origin + corrections): the offset plus the delay of the last link.
    pub(in super::super) forward: TimeInterval,
    pub(super) authenticated: bool,
    /// Arrival − origin, without corrections. It is a `Duration`, because the offset of a clock
    /// that starts in 1970 exceeds the 39 hours of a `TimeInterval`.
    apart: Duration,
}

impl Sample {
    /// Returns a sample; `None` if the correction exceeds the range of its field.
    pub(super) fn new(
        origin: Timestamp,
        correction: TimeInterval,
        sync: &Arrived,
        authenticated: bool,
    ) -> Option<Self> {
        if correction == TimeInterval::TOO_BIG {
            return None;
        }
        let apart = sync.stamp - Stamp::from_ns(origin.as_ns());
        Some(Self {
            sequence: sync.sequence,
            arrived: sync.stamp,
            origin,
            correction,
            forward: TimeInterval::from_ns(apart.as_ns()) - correction,
            authenticated,
            apart,
        })
    }

    /// Converts the arrival to the master's timescale, which is ahead of this clock's by `ahead`.
    pub(in super::super) fn move_by(&mut self, ahead: Duration) {
        self.forward += TimeInterval::from_ns(ahead.as_ns());
        self.apart += ahead;
    }
}

/// Result of adjusting the clock by a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Steered {
    /// True if an offset was measured. Before the first large step there is none.
    pub(super) measured: bool,
    /// True if the arrival deviates too far from the clock's own prediction.
    pub(super) jumped: bool,
    /// True if the clock was stepped, which invalidates earlier measurements.
    pub(super) stepped: bool,
}

/// The servo, with a check for jumps of the arrival time.
#[derive(Debug)]
pub(super) struct Steering {
    servo: PiServo,
    watch: DelayWatch,
    interval: Duration,
}

/// Returns the check for jumps. For a clock that is not adjusted, it allows for drift.
fn watch(config: &OrdinaryConfig) -> DelayWatch {
    if config.free_running {
        DelayWatch::drifting(config.jump_bound)
    } else {
        DelayWatch::new(config.jump_bound)
    }
}

/// Offset in ns above which the clock is set before the servo starts.
const DAY_NS: u64 = 86_400_000_000_000;

impl Steering {
    pub(super) fn new(config: &OrdinaryConfig) -> Self {
        let servo = PiServo::new(Duration::MAX);
        Self {
            servo: if config.software_stamps {
                servo.for_software_stamps()
            } else {
                servo
            },
            watch: watch(config),
            interval: config.profile.sync_interval(),
        }
    }

    /// Adjusts the clock by `sample`. If `holds_over` is true, a jump is not followed.
    pub(super) fn discipline(
        &mut self,
        sample: &Sample,
        delay: TimeInterval,
        master: PortIdentity,
        holds_over: bool,
        config: &OrdinaryConfig,
        out: &mut Outbox,
    ) -> Steered {
        if sample.apart.as_ns().unsigned_abs() > DAY_NS && !config.free_running {
            out.push(DriverAction::Step(-sample.apart));
            return Steered {
                measured: false,
                jumped: false,
                stepped: true,
            };
        }
        let offset = sample.forward - delay;
        out.report(ClockReport::Offset {
            master,
            sequence: sample.sequence,
            offset,
            delay,
            authenticated: sample.authenticated,
        });
        let jumped = sample.authenticated && self.watch.sample(offset, sample.arrived).is_some();
        let mut steered = Steered {
            measured: true,
            jumped,
            stepped: false,
        };
        if config.free_running || (jumped && holds_over) {
            return steered;
        }
        match self.servo.sample(offset, sample.arrived, self.interval) {
            ServoOutput::Wait => {}
            ServoOutput::Frequency(ppb) => out.push(DriverAction::Frequency(ppb)),
            ServoOutput::Step(length, ppb) => {
                self.watch = watch(config);
                out.push(DriverAction::Frequency(ppb));
                out.push(DriverAction::Step(length));
                steered.stepped = true;
            }
        }
        steered
    }
}
