//! Combination of the sources' answers to the segment for readers.

use timeloom_time::{ClockMap, Duration, Instant};

use super::{Action, Estimator};
use crate::quality::Status;
use crate::timeline::{Bound, Disturbance, LocalNow, Segment, agree};
use crate::{Core, RateError};

impl Estimator {
    /// Carries the bounds of all sources to the core-clock instant `at`.
    pub(super) fn carry_to(&mut self, at: Instant<Core>) {
        let rates = self.rates.until(at);
        let oldest = at - self.config.time_to_live;
        for source in &mut self.sources {
            source.bound = source
                .bound
                .filter(|_| source.heard >= oldest)
                .map(|bound| bound.carried_to(at, rates));
        }
        self.combined = self.combined.map(|bound| bound.carried_to(at, rates));
    }

    pub(super) fn combine(&mut self, now: LocalNow, at: Instant<Core>) {
        let bounds: Vec<Bound> = self
            .sources
            .iter()
            .filter_map(|source| source.bound)
            .collect();
        if bounds.len() <= self.config.tolerated_liars {
            return; // All of these could be liars.
        }
        let Some(agreed) = agree(&bounds, self.config.tolerated_liars) else {
            return self.handle_disturbance(now, Disturbance::SourcesDisagree);
        };
        let combined = match self.combined {
            Some(before) => before.intersection(&agreed),
            None => Some(agreed),
        };
        let horizon = self.config.time_to_live;
        let observed =
            combined.and_then(|bound| Some((bound, self.rates.observe(&bound, horizon)?)));
        let Some((bound, rates)) = observed else {
            return self.handle_disturbance(now, Disturbance::Contradiction);
        };
        let first = self.combined.is_none();
        self.combined = Some(bound);
        self.publish(now, at, &bound, rates, first);
    }

    fn publish(
        &mut self,
        now: LocalNow,
        at: Instant<Core>,
        bound: &Bound,
        rates: (RateError, RateError),
        first: bool,
    ) {
        let steering = if first {
            self.servo.start(bound, rates)
        } else {
            let since = at - self.segment.origin.core;
            let predicted = self.segment.map.at(at);
            let next = self.interval();
            let steering = self.servo.steer(predicted, bound, rates, (since, next));
            self.statistics.add(steering.offset);
            steering
        };
        let none = RateError::ZERO;
        let mut segment = Segment {
            status: Status::Ok,
            origin: LocalNow { core: at, ..now },
            map: ClockMap::new(at, steering.estimate, steering.rate.to_rate()),
            below: steering.estimate - bound.earliest,
            above: bound.latest - steering.estimate,
            below_growth: (steering.rate - rates.0).max(none),
            above_growth: (rates.1 - steering.rate).max(none),
            resolution: self.config.resolution,
            void_after: at + self.config.time_to_live,
            alive_until: now.core + self.config.alive_for,
            ..self.segment
        };
        // The witness was read together with `now`, slightly later than `at`.
        segment.origin.witness = now.witness.map(|witness| witness - (now.core - at));
        self.segment = segment;
        let interval = self.interval();
        let three = Duration::from_ns(interval.as_ns().saturating_mul(3));
        self.segment.fresh_until = at + self.config.fresh_for.max(three);
        self.note_achievable();
        self.history.push(self.segment);
        self.actions.push_back(Action::Publish(self.segment));
        self.hurry();
        self.tell_bindings(&now);
    }

    pub(super) fn publish_void(&mut self, now: LocalNow, status: Status) {
        self.segment = Segment::void(self.config.timeline, status, now, self.config.watch);
        self.actions.push_back(Action::Publish(self.segment));
        self.tell_bindings(&now);
    }

    /// Moves the next queries forward, if a more demanding binding or a wider segment requires it.
    pub(super) fn hurry(&mut self) {
        let latest = self.seen.core + self.interval();
        for source in &mut self.sources {
            source.next_poll = source.next_poll.min(latest);
        }
    }
}
